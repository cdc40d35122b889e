"""Blobs of a read: the descriptions at and below a field, and the location of the bytes.

Source: docs/format/file.md, "Blobs".
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.encode.blobs import (
    DEDICATED,
    EXTERNAL,
    INLINE,
    MANAGED,
    MANAGED_ELSEWHERE,
    PACKED_KIND,
)
from alance.format.numbers import as_mask, as_numbers, bitmap, lists_of, to_arrow, validity_of
from alance.format.plans import ByteRange
from alance.format.types import nested_type
from alance.ops.blobs.files import blob_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alance.base.arrays import UInt64s
    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

    Member: TypeAlias = Callable[[Field, pa.Field, pa.Array], pa.Field]


class ObjectPath(NamedTuple):
    """An object that rows name by its path below the table's folder or a base path."""

    kind: int
    base_id: int  # 0 for the table's folder
    path: str


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """Location of the bytes of a blob; `num_bytes` is -1 for a whole object of unknown size."""

    location: str
    start: int
    num_bytes: int

    def part(self, start: int, stop: int) -> ByteRange:
        """Return the range of a part of the blob."""
        return ByteRange(self.location, self.start + start, self.start + stop)

    @property
    def whole(self) -> ByteRange:
        """Range of the whole blob."""
        return self.part(0, self.num_bytes)


@dataclass(frozen=True, slots=True)
class External:
    """An object, or a part of one, that a row names.

    Attributes:
        uri: URI, or path relative to `base_id`.
        base_id: id of a base path; 0 for an absolute URI or, if `MANAGED`, for the table's folder.
        kind: `EXTERNAL`, or `MANAGED` or `MANAGED_ELSEWHERE` for objects that the table owns.
    """

    uri: str
    position: int
    size: int
    base_id: int
    kind: int = EXTERNAL


async def places_of(
    snapshot: Snapshot, field: Field, descriptions: pa.Array, fragments: UInt64s
) -> list[BlobPlace | None]:
    """Return the location of the bytes of each description; None for a null.

    Cost: a HEAD for each whole object that rows name.

    Args:
        field: field of the blobs, at any depth.
        fragments: id of the fragment of each row; shape (n,).
    """
    described_blobs = await snapshot.engine.pool.run(
        lambda: described(snapshot, field, descriptions, fragments)
    )
    places = [
        _located(snapshot, blob) if isinstance(blob, External) else blob for blob in described_blobs
    ]
    unknown = {place.location for place in places if place is not None and place.num_bytes < 0}
    if not unknown:
        return places
    names = sorted(unknown)
    sizes = await asyncio.gather(*(snapshot.engine.scheduler.size(name) for name in names))
    size_of = dict(zip(names, sizes, strict=True))
    return [
        replace(place, num_bytes=size_of[place.location])
        if place is not None and place.num_bytes < 0
        else place
        for place in places
    ]


def described(
    snapshot: Snapshot,
    field: Field,
    descriptions: pa.Array,
    fragments: UInt64s,
    *,
    keep_managed: bool = False,
) -> list[BlobPlace | External | None]:
    """Parse descriptions of blobs; the result is None for a null. CPU work.

    Args:
        keep_managed: True to return references, not locations, for objects that the table owns.

    Raises:
        CorruptFileError: a blob ends after its file.
        UnsupportedError: the kind of a blob is not known here.
    """
    columns = [_numbers(descriptions, "position"), _numbers(descriptions, "size")]
    if field.is_blob_v2:
        columns += [_numbers(descriptions, "kind"), _numbers(descriptions, "blob_id")]
        uris = descriptions.field(4)
    valid = as_mask(descriptions.is_valid()).tolist()
    handles = {number: snapshot.handle(number) for number in sorted({*fragments.tolist()})}
    described_blobs: list[BlobPlace | External | None] = []
    for row, (fragment, *numbers) in enumerate(zip(fragments.tolist(), *columns, strict=True)):
        if not valid[row]:
            described_blobs.append(None)
            continue
        position, size, kind, blob_id = numbers if field.is_blob_v2 else (*numbers, INLINE, 0)
        if kind == EXTERNAL:
            described_blobs.append(External(uris[row].as_py(), position, size, blob_id))
        elif kind in (MANAGED, MANAGED_ELSEWHERE):
            base_id = (
                blob_id
                if kind == MANAGED_ELSEWHERE
                else _root_of(snapshot, handles[fragment], field)
            )
            path = uris[row].as_py()
            location = snapshot.table.managed(snapshot.manifest, path, base_id)
            if keep_managed:
                kind = MANAGED if base_id is None else MANAGED_ELSEWHERE
                described_blobs.append(External(path, position, size, base_id or 0, kind))
                continue
            described_blobs.append(BlobPlace(location, position, size))
        else:
            described_blobs.append(_place(handles[fragment], field, position, size, kind, blob_id))
    return described_blobs


def named_objects(
    snapshot: Snapshot,
    field: Field,
    descriptions: pa.Array,
    fragments: UInt64s,
    *,
    with_external: bool,
) -> dict[int, dict[ObjectPath, str]]:
    """Return the locations of blob objects that the table owns, by fragment. CPU work.

    Args:
        with_external: True to include objects below base paths that the table does not own.

    Raises:
        CorruptFileError: a base path is not in the manifest, or a path leaves its base.
    """
    if not field.is_blob_v2:
        return {}
    kinds = as_numbers(descriptions.field("kind").fill_null(INLINE))
    kinds = np.where(as_mask(descriptions.is_valid()), kinds, INLINE)
    named = (kinds == MANAGED) | (kinds == MANAGED_ELSEWHERE)
    if with_external:
        named |= (kinds == EXTERNAL) & (as_numbers(descriptions.field("blob_id").fill_null(0)) > 0)
    rows = np.flatnonzero(named)
    columns = [pa.array(fragments[rows]), pa.array(kinds[rows])]
    columns += [descriptions.field(name).take(to_arrow(rows)) for name in ("blob_id", "blob_uri")]
    names = ["fragment", "kind", "base", "path"]
    objects_of: dict[int, dict[ObjectPath, str]] = {}
    for row in pa.table(columns, names).group_by(names).aggregate([]).to_pylist():
        fragment, base, kind, path = (row[name] for name in ("fragment", "base", "kind", "path"))
        root = _root_of(snapshot, snapshot.handle(fragment), field) if kind == MANAGED else base
        location = snapshot.table.managed(snapshot.manifest, path, root)
        name = ObjectPath(kind, 0 if kind == MANAGED else base, path)
        objects_of.setdefault(fragment, {})[name] = location
    return objects_of


def ends_of(
    snapshot: Snapshot, field: Field, descriptions: pa.Array, fragments: UInt64s
) -> dict[str, int]:
    """Return the end of the last blob in each file and object of the table, by location. CPU work.

    Empty blobs, and objects that the table does not own, are skipped.

    Raises:
        CorruptFileError: the kind of a blob does not exist; or see `named_objects`.
    """
    size = as_numbers(descriptions.field("size").fill_null(0)).astype(np.uint64)
    start = as_numbers(descriptions.field("position").fill_null(0)).astype(np.uint64)
    ends = np.where(start > ~size, ~np.uint64(0), start + size)  # saturates at 64 bits
    kinds = np.full(len(size), INLINE, np.uint8)
    ids, uris = pa.array(np.zeros(len(size), np.uint32)), pa.nulls(len(size), pa.string())
    if field.is_blob_v2:
        kinds = as_numbers(descriptions.field("kind").fill_null(INLINE))
        ids, uris = descriptions.field("blob_id"), descriptions.field("blob_uri")
    rows = np.flatnonzero(as_mask(descriptions.is_valid()) & (size > 0) & (kinds != EXTERNAL))
    columns = [pa.array(fragments[rows]), pa.array(kinds[rows])]
    columns += [array.take(to_arrow(rows)) for array in (ids, uris)]
    names = ["fragment", "kind", "id", "path"]
    blobs = pa.table([*columns, pa.array(ends[rows])], [*names, "end"])
    ends_by: dict[str, int] = {}
    for blob in blobs.group_by(names).aggregate([("end", "max")]).to_pylist():
        handle, kind = snapshot.handle(blob["fragment"]), blob["kind"]
        location = handle.source_of(field.id).location
        if kind in (PACKED_KIND, DEDICATED):
            location = blob_path(location, blob["id"])
        elif kind in (MANAGED, MANAGED_ELSEWHERE):
            root = _root_of(snapshot, handle, field) if kind == MANAGED else blob["id"]
            location = snapshot.table.managed(snapshot.manifest, blob["path"], root)
        elif kind != INLINE:
            raise CorruptFileError(f"blob of kind {kind} in {location}: there is no such kind")
        ends_by[location] = max(blob["end_max"], ends_by.get(location, 0))
    return ends_by


def _numbers(descriptions: pa.Array, name: str) -> list[int]:
    numbers: list[int] = as_numbers(descriptions.field(name).fill_null(0)).tolist()
    return numbers


def _place(
    handle: FragmentHandle, field: Field, position: int, size: int, kind: int, blob_id: int
) -> BlobPlace:
    source = handle.source_of(field.id)
    if kind == INLINE:
        if position + size > source.file_bytes:
            raise CorruptFileError(
                f"blob of {size} bytes at {position} in {source.location}: "
                f"the file has {source.file_bytes}"
            )
        return BlobPlace(source.location, position, size)
    if kind in (PACKED_KIND, DEDICATED):
        return BlobPlace(blob_path(source.location, blob_id), position, size)
    raise UnsupportedError(f"blob of kind {kind} in {source.location}: not known to this alance")


def _root_of(snapshot: Snapshot, handle: FragmentHandle, field: Field) -> int | None:
    """Return the base path id of the table that wrote a field's file; None for this table itself.

    In a shallow clone, the files of the cloned table have a base path.
    """
    for file in handle.fragment.files:
        if field.id in file.columns and file.base_id is not None:
            base = snapshot.manifest.base_paths.get(file.base_id)
            return file.base_id if base is not None and base.is_dataset_root else None
    return None


def _located(snapshot: Snapshot, blob: External) -> BlobPlace:
    location = snapshot.external_location(blob.uri, blob.base_id)
    return BlobPlace(location, blob.position, blob.size or -1)


STRUCTURES: Final = ("struct", "list", "list.struct", "large_list", "large_list.struct")


def has_blobs(field: Field) -> bool:
    """True if the field or any of its descendants is a blob."""
    return any(below.is_blob_v1 or below.is_blob_v2 for below in field.walk())


def fields_with_blobs(schema: Schema) -> Sequence[Field]:
    """Return the columns that are blobs or contain blobs; memoized."""
    return schema.remember(
        fields_with_blobs,
        lambda: [
            field
            for field in schema.fields
            if (field.metadata or field.children) and has_blobs(field)
        ],
    )


def check_structure(field: Field) -> None:
    """Check that `leaves_of` and `rebuilt` find all blobs of a field.

    Raises:
        UnsupportedError: a blob is inside a type other than structs and lists.
    """
    if field.is_blob_v1 or field.is_blob_v2 or not has_blobs(field):
        return
    if field.logical_type not in STRUCTURES:
        raise UnsupportedError(
            f"column {field.name!r}: blobs in {field.logical_type} are neither moved nor given as "
            "bytes by this alance"
        )
    for child in field.children:
        check_structure(child)


def with_leaves(field: Field, leaf: Callable[[Field], pa.Field]) -> pa.Field:
    """Return the Arrow field of a read, with `leaf` applied to each blob in it."""
    if field.is_blob_v1 or field.is_blob_v2:
        return leaf(field)
    if not has_blobs(field):
        return field.to_arrow()
    children = [with_leaves(child, leaf) for child in field.children]
    return field.to_arrow().with_type(nested_type(field.logical_type, children))


def leaves_of(
    field: Field, array: pa.Array, owners: UInt64s
) -> Iterator[tuple[Field, pa.Array, UInt64s]]:
    """Yield the blob fields at and below a field; each with its descriptions and their owners.

    Args:
        owners: owner of each row, such as its fragment; shape (n,).
    """
    if field.is_blob_v1 or field.is_blob_v2:
        yield field, array, owners
    elif not has_blobs(field):
        return
    elif pa.types.is_struct(array.type):
        for number, child in enumerate(field.children):
            yield from leaves_of(child, array.field(number), owners)
    else:
        offsets, items = lists_of(array)
        yield from leaves_of(field.children[0], items, np.repeat(owners, np.diff(offsets)))


def _with_type(_: Field, was: pa.Field, now: pa.Array) -> pa.Field:
    return was.with_type(now.type)


def rebuilt(
    field: Field, array: pa.Array, arrays: Iterator[pa.Array], member: Member = _with_type
) -> pa.Array:
    """Replace the descriptions in an array by other arrays.

    Args:
        arrays: the other arrays, in the order of `leaves_of`.
        member: returns the Arrow field of a child that has blobs, from its old field and new array.
    """
    if field.is_blob_v1 or field.is_blob_v2:
        return next(arrays)
    if not has_blobs(field):
        return array
    valid = validity_of(array)
    arrow = array.type
    if pa.types.is_struct(arrow):
        children = [
            rebuilt(child, array.field(number), arrays, member)
            for number, child in enumerate(field.children)
        ]
        fields = [
            member(child, was, now) if has_blobs(child) else was
            for child, was, now in zip(field.children, arrow, children, strict=True)
        ]
        return pa.Array.from_buffers(
            pa.struct(fields), len(array), [bitmap(valid)], children=children
        )
    offsets, items = lists_of(array)
    items = rebuilt(field.children[0], items, arrays, member)
    item = member(field.children[0], arrow.value_field, items)
    large = pa.types.is_large_list(arrow)
    ends = pa.py_buffer(offsets.astype(np.int64 if large else np.int32))
    list_type = pa.large_list(item) if large else pa.list_(item)
    return pa.Array.from_buffers(list_type, len(array), [bitmap(valid), ends], children=[items])

"""Blob columns whose rows move to other files: payloads are copied, what URIs name stays there.

A batch of descriptions becomes one of what writers take: bytes of version 1, structs of bytes or
URIs of version 2; also inside of structs and lists.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import UnsupportedError
from alance.format.encode.blob import uri_array
from alance.format.layouts.arrays import bitmap
from alance.format.numbers import as_mask, as_numbers, to_arrow
from alance.format.plans import ByteRange
from alance.ops.blob_places import BlobPlace, External, described
from alance.ops.projection import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    import numpy.typing as npt

    from alance.format.field import Field
    from alance.ops.snapshot import Snapshot

    Mask = npt.NDArray[np.bool_]
    U64 = npt.NDArray[np.uint64]

BLOB_BYTES: Final = 32 << 20  # of the rows of a batch that are read at once, one row at least

STRUCTURES: Final = ("struct", "list", "list.struct", "large_list", "large_list.struct")
MOVED: Final = pa.struct(
    [
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("base_id", pa.uint32()),
    ]
)


def moved_blobs(snapshot: Snapshot, columns: Sequence[str]) -> list[str]:
    """The columns that are blobs or have some inside.

    Raises:
        UnsupportedError: inside of something else than structs and lists.
    """
    found = []
    for one in snapshot.schema.fields:
        if one.name in columns and _has_blobs(one):
            _check(one)
            found.append(one.name)
    return found


async def with_payloads(
    snapshot: Snapshot,
    batches: AsyncGenerator[pa.RecordBatch, None],
    names: Sequence[str],
    *,
    keep_address: bool,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The batches with what blobs hold, cut so that the bytes of each fit in memory.

    Cost: the payloads, coalesced, all of a batch at once.

    Args:
        batches: with the column `_rowaddr`.
        names: as of `moved_blobs`.
        keep_address: leave `_rowaddr` in the output.
    """
    fields = [snapshot.schema.field(name) for name in names]
    run = snapshot.engine.pool.run
    async with aclosing(batches):
        async for batch in batches:
            for part in await run(partial(_pieces, batch, fields)):
                yield await _filled(snapshot, part, fields, keep_address=keep_address)


async def _filled(
    snapshot: Snapshot, batch: pa.RecordBatch, fields: Sequence[Field], *, keep_address: bool
) -> pa.RecordBatch:
    fragments = as_numbers(batch.column(ROW_ADDRESS)) >> np.uint64(32)
    run = snapshot.engine.pool.run

    def find() -> tuple[list[_Leaf], list[ByteRange]]:
        leaves = [
            _Leaf(one, array, described(snapshot, one, array, rows))
            for field in fields
            for one, array, rows in _leaves(field, batch.column(field.name), fragments)
        ]
        return leaves, [one for leaf in leaves for one in leaf.ranges()]

    leaves, ranges = await run(find)
    read = await snapshot.engine.scheduler.read(ranges, reason="blobs", bulk=True)

    def build() -> pa.RecordBatch:
        made = batch
        contents, arrays = iter(read), iter(leaves)
        for field in fields:
            index = made.schema.get_field_index(field.name)
            array = _rebuilt(field, made.column(index), arrays, contents)
            made = made.set_column(index, field.logical_arrow().with_type(array.type), array)
        return made if keep_address else made.drop_columns([ROW_ADDRESS])

    return await run(build)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """The descriptions of a blob field in a batch, and what they say."""

    field: Field
    array: pa.Array
    places: Sequence[BlobPlace | External | None]

    def ranges(self) -> Iterator[ByteRange]:
        """Where the payloads are, of those that are not empty and not elsewhere."""
        for one in self.places:
            if isinstance(one, BlobPlace) and one.num_bytes:
                yield ByteRange(one.location, one.start, one.start + one.num_bytes)

    def rows(self, contents: Iterator[memoryview]) -> pa.Array:
        """What a writer takes.

        Args:
            contents: of all `ranges`.
        """
        parts = [
            next(contents) if isinstance(one, BlobPlace) and one.num_bytes else b""
            for one in self.places
        ]
        valid = np.array([one is not None for one in self.places], np.bool_)
        if self.field.is_blob_v1:
            return binary_array(parts, valid)
        elsewhere = {row: one for row, one in enumerate(self.places) if isinstance(one, External)}
        named = np.zeros(len(parts), np.bool_)
        named[list(elsewhere)] = True
        ranged = named & np.array(
            [isinstance(one, External) and one.size > 0 for one in self.places], np.bool_
        )
        columns = {
            name: np.array([getattr(one, name) for one in elsewhere.values()], dtype)
            for name, dtype in (
                ("position", np.uint64),
                ("size", np.uint64),
                ("base_id", np.uint32),
            )
        }
        children = [binary_array(parts, valid & ~named)]
        uris = uri_array(len(parts), {row: one.uri for row, one in elsewhere.items()})
        children.append(with_validity(uris, named))
        for name, values in columns.items():
            spread = np.zeros(len(parts), values.dtype)
            spread[named] = values
            children.append(to_arrow(spread, named if name == "base_id" else ranged))
        return pa.Array.from_buffers(MOVED, len(parts), [bitmap(valid)], children=children)


def binary_array(parts: Sequence[bytes | memoryview], valid: Mask | None) -> pa.Array:
    """Byte strings as one large binary array."""
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(one) for one in parts], out=ends[1:])
    buffers = [bitmap(valid), pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_binary(), len(parts), buffers)


def with_validity(array: pa.Array, valid: Mask) -> pa.Array:
    """Strings of which some are null."""
    return pa.Array.from_buffers(array.type, len(array), [bitmap(valid), *array.buffers()[1:]])


def _has_blobs(field: Field) -> bool:
    return any(one.is_blob_v1 or one.is_blob_v2 for one in field.walk())


def _check(field: Field) -> None:
    if field.is_blob_v1 or field.is_blob_v2 or not _has_blobs(field):
        return
    if field.logical_type not in STRUCTURES:
        raise UnsupportedError(
            f"column {field.name!r}: rows with blobs in {field.logical_type} are not moved by "
            "this alance"
        )
    for child in field.children:
        _check(child)


def _leaves(field: Field, array: pa.Array, fragments: U64) -> Iterator[tuple[Field, pa.Array, U64]]:
    """The arrays of descriptions at and below a field, with the fragment of each slot."""
    if field.is_blob_v1 or field.is_blob_v2:
        yield field, array, fragments
    elif not _has_blobs(field):
        return
    elif pa.types.is_struct(array.type):
        for number, child in enumerate(field.children):
            yield from _leaves(child, array.field(number), fragments)
    else:
        offsets, items = _items(array)
        yield from _leaves(field.children[0], items, np.repeat(fragments, np.diff(offsets)))


def _rebuilt(
    field: Field, array: pa.Array, leaves: Iterator[_Leaf], contents: Iterator[memoryview]
) -> pa.Array:
    """An array with rows for writers in place of descriptions."""
    if field.is_blob_v1 or field.is_blob_v2:
        return next(leaves).rows(contents)
    if not _has_blobs(field):
        return array
    valid = as_mask(array.is_valid()) if array.null_count else None
    arrow = array.type
    if pa.types.is_struct(arrow):
        children = [
            _rebuilt(child, array.field(number), leaves, contents)
            for number, child in enumerate(field.children)
        ]
        fields = [one.with_type(child.type) for one, child in zip(arrow, children, strict=True)]
        return pa.Array.from_buffers(
            pa.struct(fields), len(array), [bitmap(valid)], children=children
        )
    offsets, items = _items(array)
    items = _rebuilt(field.children[0], items, leaves, contents)
    item = arrow.value_field.with_type(items.type)
    large = pa.types.is_large_list(arrow)
    ends = pa.py_buffer(offsets.astype(np.int64 if large else np.int32))
    made = pa.large_list(item) if large else pa.list_(item)
    return pa.Array.from_buffers(made, len(array), [bitmap(valid), ends], children=[items])


def _items(array: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The offsets of lists, from 0 on, and the items that they span."""
    offsets = as_numbers(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)


def _pieces(batch: pa.RecordBatch, fields: Sequence[Field]) -> list[pa.RecordBatch]:
    """The batch in pieces whose payloads fit in memory together."""
    num_bytes = np.zeros(batch.num_rows, np.int64)
    rows = np.arange(batch.num_rows, dtype=np.uint64)
    for field in fields:
        for _, array, owners in _leaves(field, batch.column(field.name), rows):
            sizes = as_numbers(array.field("size").fill_null(0)).astype(np.int64)
            np.add.at(num_bytes, owners.astype(np.int64), sizes)
    groups = np.cumsum(num_bytes) // BLOB_BYTES
    starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
    stops = [*starts[1:], batch.num_rows]
    return [batch.slice(start, stop - start) for start, stop in zip(starts, stops, strict=True)]

"""Blob columns of rows that are moved to other files: payloads are copied, URIs are retained.

Descriptions are converted to input of the writer: bytes for version 1, structs of bytes or URIs for
version 2; also inside structs and lists.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.encode.blobs import INLINE, MANAGED, MANAGED_ELSEWHERE, uri_array
from alance.format.numbers import as_numbers, bitmap, storage_of, text_array, to_arrow, validity_of
from alance.ops.blobs.places import (
    BlobPlace,
    External,
    check_structure,
    described,
    fields_with_blobs,
    leaves_of,
    rebuilt,
    with_leaves,
)
from alance.ops.version.projection import ROW_ADDRESS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from alance.base.arrays import Mask
    from alance.format.field import Field
    from alance.format.plans import ByteRange
    from alance.ops.version.snapshot import Snapshot

# Approximate payload bytes that are read at once; at least one row is read.
MOVED_BLOBS_BYTES: Final = 32 << 20

MOVED_BLOB_TYPE: Final = pa.struct(
    [
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("base_id", pa.uint32()),
        ("kind", pa.uint8()),
    ]
)


def moved_blobs(snapshot: Snapshot, columns: Sequence[str]) -> list[str]:
    """Return the columns that are blobs or contain blobs.

    Raises:
        UnsupportedError: blobs are inside types other than structs and lists.
    """
    names = []
    for field in fields_with_blobs(snapshot.schema):
        if field.name in columns:
            check_structure(field)
            names.append(field.name)
    return names


async def with_payloads(
    snapshot: Snapshot,
    batches: AsyncGenerator[pa.RecordBatch, None],
    names: Sequence[str],
    *,
    keep_address: bool,
    keep_managed: bool = False,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the batches with the payloads of their blobs, split so that payloads fit in memory.

    Cost: GETs of the payloads, coalesced, all of a batch in one round.

    Args:
        batches: batches with the column `_rowaddr`.
        names: result of `moved_blobs`.
        keep_address: True to keep `_rowaddr` in the output.
        keep_managed: True to keep references to objects that the table owns instead of copying
            them.
    """
    fields = [snapshot.schema.field(name) for name in names]
    run = snapshot.engine.pool.run
    async with aclosing(batches):
        async for batch in batches:
            for part in await run(partial(_pieces, batch, fields, keep_managed=keep_managed)):
                yield await _filled(
                    snapshot, part, fields, keep_address=keep_address, keep_managed=keep_managed
                )


async def _filled(
    snapshot: Snapshot,
    batch: pa.RecordBatch,
    fields: Sequence[Field],
    *,
    keep_address: bool,
    keep_managed: bool,
) -> pa.RecordBatch:
    fragments = as_numbers(batch.column(ROW_ADDRESS)) >> np.uint64(32)
    run = snapshot.engine.pool.run

    def find() -> tuple[list[_BlobLeaf], list[ByteRange]]:
        leaves = [
            _BlobLeaf(
                leaf_field,
                described(snapshot, leaf_field, array, rows, keep_managed=keep_managed),
            )
            for field in fields
            for leaf_field, array, rows in leaves_of(field, batch.column(field.name), fragments)
        ]
        return leaves, [byte_range for leaf in leaves for byte_range in leaf.ranges()]

    leaves, ranges = await run(find)
    read = await snapshot.engine.scheduler.read(ranges, reason="blobs", bulk=True)

    def build() -> pa.RecordBatch:
        moved = batch
        contents = iter(read)
        arrays = (leaf.rows(contents) for leaf in leaves)
        for field in fields:
            index = moved.schema.get_field_index(field.name)
            array = rebuilt(field, moved.column(index), arrays)
            moved = moved.set_column(index, field.logical_arrow().with_type(array.type), array)
        return moved if keep_address else moved.drop_columns([ROW_ADDRESS])

    return await run(build)


@dataclass(frozen=True, slots=True)
class _BlobLeaf:
    """Blob field of a batch, with the parsed descriptions of its rows."""

    field: Field
    places: Sequence[BlobPlace | External | None]

    def ranges(self) -> Iterator[ByteRange]:
        """Yield the byte ranges of payloads, without external ones."""
        return (place.whole for place in self.places if isinstance(place, BlobPlace))

    def rows(self, contents: Iterator[memoryview]) -> pa.Array:
        """Convert the rows to the input of a writer.

        Args:
            contents: payloads of all `ranges`.
        """
        parts = [next(contents) if isinstance(place, BlobPlace) else b"" for place in self.places]
        valid = np.array([place is not None for place in self.places], np.bool_)
        if self.field.is_blob_v1:
            return text_array(parts, pa.large_binary(), valid)
        elsewhere = {
            row: place for row, place in enumerate(self.places) if isinstance(place, External)
        }
        named = np.zeros(len(parts), np.bool_)
        named[list(elsewhere)] = True
        ranged = named & np.array(
            [isinstance(place, External) and place.size > 0 for place in self.places], np.bool_
        )
        columns = {
            name: np.array([getattr(place, name) for place in elsewhere.values()], dtype)
            for name, dtype in (
                ("position", np.uint64),
                ("size", np.uint64),
                ("base_id", np.uint32),
                ("kind", np.uint8),
            )
        }
        children = [text_array(parts, pa.large_binary(), valid & ~named)]
        uris = uri_array(len(parts), {row: place.uri for row, place in elsewhere.items()})
        children.append(with_validity(uris, named))
        for name, values in columns.items():
            spread = np.zeros(len(parts), values.dtype)
            spread[named] = values
            children.append(to_arrow(spread, named if name in ("base_id", "kind") else ranged))
        return pa.Array.from_buffers(
            MOVED_BLOB_TYPE, len(parts), [bitmap(valid)], children=children
        )


def moved_type(field: Field) -> pa.DataType:
    """Return the type of a column of `with_payloads`."""

    def leaf(blob: Field) -> pa.Field:
        return pa.field(
            blob.name, pa.large_binary() if blob.is_blob_v1 else MOVED_BLOB_TYPE, blob.nullable
        )

    return with_leaves(field, leaf).type


def as_moved(field: Field, array: pa.Array) -> pa.Array:
    """Convert user data to the type of `with_payloads`. CPU work.

    Raises:
        InvalidInputError: the data has another type.
    """
    owners = np.zeros(len(array), np.uint64)
    try:
        arrays = [
            values.cast(pa.large_binary())
            if leaf.is_blob_v1
            else _as_moved(leaf, storage_of(values))
            for leaf, values, _ in leaves_of(field, storage_of(array), owners)
        ]
        return rebuilt(field, storage_of(array), iter(arrays)).cast(moved_type(field))
    except (pa.ArrowException, AttributeError) as error:
        raise InvalidInputError(
            f"column {field.name!r}: {array.type} where {field.logical_arrow().type} is expected"
        ) from error


def _as_moved(field: Field, array: pa.Array) -> pa.Array:
    if not pa.types.is_struct(array.type):
        members = {"data": array}
    else:
        members = {child.name: array.field(number) for number, child in enumerate(array.type)}
        if not set(members) <= set(MOVED_BLOB_TYPE.names):
            raise InvalidInputError(
                f"field {field.name!r}: a struct of {list(members)} where blobs are expected"
            )
    children = [
        members[child.name].cast(child.type)
        if child.name in members
        else pa.nulls(len(array), child.type)
        for child in MOVED_BLOB_TYPE
    ]
    return pa.Array.from_buffers(
        MOVED_BLOB_TYPE, len(array), [bitmap(validity_of(array))], children=children
    )


def with_validity(array: pa.Array, valid: Mask) -> pa.Array:
    """Return strings with some values set to null."""
    return pa.Array.from_buffers(array.type, len(array), [bitmap(valid), *array.buffers()[1:]])


def _pieces(
    batch: pa.RecordBatch, fields: Sequence[Field], *, keep_managed: bool
) -> list[pa.RecordBatch]:
    """Split the batch into slices whose payloads fit in memory together."""
    num_bytes = np.zeros(batch.num_rows, np.int64)
    rows = np.arange(batch.num_rows, dtype=np.uint64)
    for field in fields:
        for leaf, array, owners in leaves_of(field, batch.column(field.name), rows):
            sizes = as_numbers(array.field("size").fill_null(0)).astype(np.int64)
            if keep_managed and leaf.is_blob_v2:
                kinds = as_numbers(array.field("kind").fill_null(INLINE))
                sizes[(kinds == MANAGED) | (kinds == MANAGED_ELSEWHERE)] = 0
            np.add.at(num_bytes, owners.astype(np.int64), sizes)
    groups = np.cumsum(num_bytes) // MOVED_BLOBS_BYTES
    starts = np.flatnonzero(np.diff(groups, prepend=-1)).tolist()
    stops = [*starts[1:], batch.num_rows]
    return [batch.slice(start, stop - start) for start, stop in zip(starts, stops, strict=True)]

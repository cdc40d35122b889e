"""Columns by a join: data in memory, matched by a key, gives new columns or new values."""

from __future__ import annotations

import secrets
from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CommitConflictError, InvalidInputError
from alance.expr.tree import plain
from alance.format.keys import KeyColumns
from alance.format.numbers import as_mask, to_arrow
from alance.format.table.changes.apply_rows import TOMBSTONE
from alance.format.table.roaring import roaring_bytes
from alance.ops.blobs.places import has_blobs
from alance.ops.columns.add import add_opened, add_opened_to_fragment, whole_columns
from alance.ops.columns.backfill import Backfill, owned_ids
from alance.ops.columns.cast import cast, overlaid
from alance.ops.columns.sources import NewColumns, OfLiveRows, are_of_fixed_width
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.version.projection import META
from alance.ops.write.blob_moves import as_moved, moved_blobs, moved_type, with_payloads
from alance.ops.write.sources import open_source

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.format.field import Field
    from alance.format.proto import file_pb2, table_pb2
    from alance.format.schema import Schema
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.sources import Data

JOINED_BATCH_ROWS: Final = 64 << 10


async def merge(
    snapshot: Snapshot,
    data: Data,
    left_on: str,
    right_on: str | None = None,
    *,
    options: CommitOptions,
) -> Snapshot:
    """Join other data by a key as new columns; return the new version. See `Dataset.merge`."""
    values = await JoinedColumns.of(snapshot, data, left_on, right_on or left_on)
    return await add_opened(snapshot, NewColumns(values, values.columns.schema), options)


async def merge_into_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    data: Data,
    left_on: str,
    right_on: str | None = None,
) -> tuple[table_pb2.DataFragment, tuple[file_pb2.Field, ...]]:
    """Add the columns of other data; return the fragment and the schema.

    See `DatasetFragment.merge`.
    """
    values = await JoinedColumns.of(snapshot, data, left_on, right_on or left_on)
    columns = NewColumns(values, values.columns.schema)
    return await add_opened_to_fragment(snapshot, handle, columns)


@dataclass(frozen=True, slots=True)
class JoinedColumns(OfLiveRows):
    """Values of other data, joined by a key.

    Attributes:
        left_on: key column of the table.
        columns: columns of the other data, without its key column.
        keys: look-up of the rows of the other data.
    """

    left_on: str
    columns: pa.Table
    keys: JoinKeys

    @property
    def is_grouped(self) -> bool:
        return are_of_fixed_width(self.columns.schema)

    @classmethod
    async def of(cls, snapshot: Snapshot, data: Data, left_on: str, right_on: str) -> JoinedColumns:
        """Read other data into memory.

        Raises:
            InvalidInputError: a key column does not exist, the types of the keys do not fit, or the
                data has no other column.
        """
        key_type = _key_type(snapshot.schema, left_on)
        pool = snapshot.engine.pool
        source = await open_source(data, None, pool)
        if source.schema.get_field_index(right_on) < 0:
            raise InvalidInputError(
                f"right_on={right_on!r}: the data has {', '.join(source.schema.names)}"
            )
        table = pa.Table.from_batches(
            [batch async for batch in source.batches], schema=source.schema
        )
        columns = table.drop_columns([right_on])
        if not columns.num_columns:
            raise InvalidInputError(f"merge: the data has no columns beside {right_on!r}")
        keys = await pool.run(partial(JoinKeys.of, table.column(right_on), key_type, right_on))
        return cls(left_on, columns, keys)

    def reads(self, schema: Schema) -> frozenset[int] | None:
        for name in self.columns.schema.names:
            if any(root.name == name for root in schema.fields):
                raise InvalidInputError(f"column {name!r}: it exists already")
        key_type = _key_type(schema, self.left_on)
        if key_type != self.keys.type:
            raise CommitConflictError(
                f"column {self.left_on!r}: {key_type} since another commit, and the data was read "
                f"for keys of {self.keys.type}; join it to the latest version"
            )
        if self.left_on in META:
            return frozenset()
        return frozenset(below.id for below in schema.project([self.left_on]).walk())

    async def grouped(
        self, snapshot: Snapshot, handles: Sequence[FragmentHandle], ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        ids = [handle.id for handle in handles]
        options = ScanOptions(fragments=ids, io_buffer_bytes=ahead_bytes)
        keys: list[pa.Array] = []
        async with aclosing(scanned(snapshot, [self.left_on], options)) as batches:
            keys.extend([batch.column(0) async for batch in batches])
        pool = snapshot.engine.pool
        places, has_match = await pool.run(partial(self.keys.find, keys))
        for start in range(0, len(places), JOINED_BATCH_ROWS):
            part = slice(start, start + JOINED_BATCH_ROWS)
            yield await pool.run(partial(self._rows, places[part], has_match[part]))

    def _rows(self, places: Int64s, has_match: Mask) -> pa.RecordBatch:
        """Return the matched rows of the other data; nulls for keys without a match."""
        missing = len(has_match) - int(np.count_nonzero(has_match))
        for column in self.columns.schema:
            if missing and not column.nullable:
                raise InvalidInputError(
                    f"column {column.name!r}: not nullable, and {missing} rows have no match"
                )
        if not self.columns.num_rows:
            arrays = [pa.nulls(len(places), column.type) for column in self.columns.schema]
        else:
            taken = self.columns.take(to_arrow(places, has_match if missing else None))
            arrays = [_combined(column) for column in taken.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns.schema)


@dataclass(frozen=True, slots=True)
class JoinKeys:
    """Look-up of the last row that has a key. Null keys match each other.

    Attributes:
        type: type of the keys.
        null: last row whose key is null; -1 if no key is null.
        last: last row of each distinct key, by its number in the hash table; shape (keys,).
    """

    type: pa.DataType
    null: int
    last: Int64s
    _table: _kernels.KeyTable

    @classmethod
    def of(cls, keys: pa.ChunkedArray, arrow: pa.DataType, name: str) -> JoinKeys:
        """Build the look-up of a column, cast to the type of the table's key. CPU work.

        Raises:
            InvalidInputError: the column cannot be cast.
            UnsupportedError: values of the type cannot be keys.
        """
        array = plain(_combined(keys))
        try:
            array = array if array.type == arrow else array.cast(arrow)
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"right_on={name!r}: {keys.type}, the key of the table is {arrow}: {error}"
            ) from error
        valid = as_mask(array.is_valid())
        nulls, rows = np.flatnonzero(~valid), np.flatnonzero(valid)
        columns = KeyColumns.of([array.drop_null()])
        table = _kernels.KeyTable(columns.plain(), secrets.randbits(64))
        last = np.zeros(len(table), np.int64)
        last[table.numbers()] = rows  # numpy keeps the last one of equal numbers
        return cls(arrow, int(nulls[-1]) if len(nulls) else -1, last, table)

    def find(self, parts: Sequence[pa.Array]) -> tuple[Int64s, Mask]:
        """Return the row of each key, and the mask of keys that have a row; (n,) each. CPU work."""
        hits = [self._find(plain(part)) for part in parts]
        if not hits:
            return np.zeros(0, np.int64), np.zeros(0, np.bool_)
        return np.concatenate([a for a, _ in hits]), np.concatenate([b for _, b in hits])

    def _find(self, keys: pa.Array) -> tuple[Int64s, Mask]:
        columns = KeyColumns.of([keys])
        places, numbers = self._table.find(columns.plain())
        rows, is_hit = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.bool_)
        rows[places], is_hit[places] = self.last[numbers], True
        if columns.valid is not None:
            has_null = self.null >= 0
            rows = np.where(columns.valid, rows, self.null if has_null else 0)
            is_hit = np.where(columns.valid, is_hit, has_null)
        return rows, is_hit


def _key_type(schema: Schema, left_on: str) -> pa.DataType:
    """Return the type of the table's key column.

    Raises:
        InvalidInputError: the column does not exist, or has nested values.
    """
    if left_on in META:
        return pa.uint64()
    arrow = schema.field(left_on).arrow_type
    if pa.types.is_dictionary(arrow):
        arrow = arrow.value_type
    if pa.types.is_nested(arrow):
        raise InvalidInputError(f"left_on={left_on!r}: {arrow} is no key")
    return arrow


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


async def update_in_fragment(
    snapshot: Snapshot,
    handle: FragmentHandle,
    data: Data,
    left_on: str,
    right_on: str | None = None,
) -> tuple[table_pb2.DataFragment, tuple[int, ...], bytes]:
    """Replace values in a fragment. See `DatasetFragment.update_columns`.

    Returns:
        The new fragment, the ids of the replaced fields, and a roaring bitmap of updated offsets.
    """
    joined = await JoinedColumns.of(snapshot, data, left_on, right_on or left_on)
    schema = whole_columns(snapshot, joined.columns.schema.names)
    moved_blobs(snapshot, joined.columns.schema.names)  # raises for blobs that cannot be moved
    target = pa.schema([_target(root) for root in schema.fields])
    columns = pa.Table.from_batches(
        await snapshot.engine.pool.run(
            lambda: [_conformed(batch, schema, target) for batch in joined.columns.to_batches()]
        ),
        schema=target,
    )
    values = Updated(JoinedColumns(left_on, columns, joined.keys))
    async with Backfill(values) as backfill:
        (fragment,) = await backfill.fragments(snapshot, schema, [handle])
        offsets = await snapshot.engine.pool.run(partial(values.offsets, handle))
    files = [file for file in fragment.files if any(id_ != TOMBSTONE for id_ in file.fields)]
    fragment.ClearField("files")
    fragment.files.extend(files)
    return fragment, tuple(owned_ids(schema)), offsets


def _target(field: Field) -> pa.Field:
    """Return a field that can hold both the new and the existing values."""
    arrow = field.logical_arrow()
    return arrow.with_type(moved_type(field)) if has_blobs(field) else arrow


def _conformed(batch: pa.RecordBatch, schema: Schema, target: pa.Schema) -> pa.RecordBatch:
    arrays = [
        as_moved(field, array) if has_blobs(field) else array
        for field, array in zip(schema.fields, batch.columns, strict=True)
    ]
    return cast(pa.RecordBatch.from_arrays(arrays, names=target.names), target)


@dataclass(slots=True)
class Updated(OfLiveRows):
    """Source of new values for rows whose key is in the other data, of old values for other rows.

    Attributes:
        joined: the values of the other data.
        hits: masks of the fragment's live rows whose key is in the other data, batch by batch.
    """

    joined: JoinedColumns
    hits: list[Mask] = field(default_factory=list)

    @property
    def in_order(self) -> bool:
        return True

    def reads(self, schema: Schema) -> frozenset[int] | None:
        return None

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        names = self.joined.columns.schema.names
        read = list(dict.fromkeys([self.joined.left_on, *names]))
        blobs = moved_blobs(snapshot, names)
        options = ScanOptions(
            fragments=[handle.id], io_buffer_bytes=ahead_bytes, with_row_address=bool(blobs)
        )
        rows = scanned(snapshot, read, options)
        if blobs:
            rows = with_payloads(snapshot, rows, blobs, keep_address=True)
        async with aclosing(rows) as batches:
            async for batch in batches:
                yield await snapshot.engine.pool.run(partial(self._values, batch, names))

    def offsets(self, handle: FragmentHandle) -> bytes:
        """Return the physical offsets of the updated rows as a roaring bitmap. CPU work."""
        hits = np.concatenate(self.hits) if self.hits else np.zeros(0, np.bool_)
        return roaring_bytes(handle.physical(np.flatnonzero(hits)))

    def _values(self, batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
        places, has_match = self.joined.keys.find([batch.column(self.joined.left_on)])
        self.hits.append(has_match)
        before = pa.RecordBatch.from_arrays([batch.column(name) for name in names], list(names))
        schema = self.joined.columns.schema
        if not has_match.any():
            return pa.RecordBatch.from_arrays(before.columns, schema=schema)
        taken = self.joined.columns.take(to_arrow(places[has_match])).combine_chunks()
        return overlaid(cast(before, schema), np.flatnonzero(has_match), taken.to_batches()[0])

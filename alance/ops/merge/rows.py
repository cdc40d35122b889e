"""Write the rows of a merge.

Updated rows are written first, then inserted rows, both in the order of the source; with stable row
ids, updated rows in the order of their ids. For updated rows, columns that the source lacks are
taken from the table.

With `rewrite_columns`, matched rows keep their addresses: new data files contain the source's
columns for all rows of the changed fragments. Values of unmatched rows come from the table. Source
values are first sorted by address, in buckets that fit in memory.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.file.batches import one_batch, work_bytes
from alance.format.numbers import as_numbers, ascending, to_arrow
from alance.format.table.changes.lineage import mark_updated, spilled
from alance.format.table.operations import REWRITE_COLUMNS, Update
from alance.format.table.roaring import roaring_bytes
from alance.io.reading.engine import DECODED_INLINE_BYTES
from alance.ops.columns.backfill import Backfill
from alance.ops.columns.cast import overlaid
from alance.ops.columns.sources import OfLiveRows
from alance.ops.merge.plan import filled
from alance.ops.merge.source import pieces
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.read.take import batch_of, take_addresses
from alance.ops.rows.delete import DeletedOffsets
from alance.ops.version.commits import PreparedChange
from alance.ops.version.lineage import lineage_reader
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.write.blob_moves import moved_blobs, with_payloads
from alance.ops.write.sources import conform
from alance.ops.write.spool import Spool
from alance.ops.write.write import table_schema
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from alance.base.arrays import Int64s, Mask, UInt64s
    from alance.format.proto import table_pb2
    from alance.format.schema import Schema
    from alance.ops.merge.plan import RowMerge
    from alance.ops.merge.source import HeldRows, HeldSource
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.version.summary import ChangeSummary
    from alance.ops.write.files import DataFiles
    from alance.ops.write.spool import Scratch

PIECE_ROWS: Final = 64 << 10
MERGED_TAKE_ROWS: Final = 16 << 10  # maximum number of table rows taken at once
MERGED_TAKE_BYTES: Final = 32 << 20  # maximum encoded bytes of these rows


async def write_updated(
    base: Snapshot,
    source: HeldSource,
    files: DataFiles,
    rows: Int64s,
    places: UInt64s,
    row_ids: UInt64s | None,
) -> UInt64s | None:
    """Write the updated rows; return their row ids in the order in which they are written.

    Returns None without stable row ids. With them, a piece of the source is written in the order of
    the row ids. Sorted ids, and the versions that created the rows, take few bytes in the manifest.

    Args:
        rows: numbers of source rows, ascending; repeated if a source row updates several rows.
        places: addresses of the rows that they update.
        row_ids: row ids of the rows that they update; None without stable row ids.

    Raises:
        InvalidInputError: nulls in columns that are not nullable.
        UnsupportedError: columns that the source lacks have blobs that cannot be moved.
    """
    schema = table_schema(base.manifest)
    written = []
    for part in source.parts:
        names = await part.gaps(base)
        async for batch, numbers in chosen_rows(part, rows, row_ids):
            if part.replaces:
                batch = await _conformed(base, batch, schema)
            async with aclosing(completed(base, names, batch, places[numbers])) as whole:
                async for rows_of_table in whole:
                    await files.write(rows_of_table)
            if row_ids is not None:
                written.append(row_ids[numbers])
    return np.concatenate(written) if written else row_ids


async def completed(
    base: Snapshot, names: Sequence[str], batch: pa.RecordBatch, places: UInt64s
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield source rows in batches, with missing columns taken from the rows that they replace.

    Args:
        names: columns that the source lacks, as a whole or in part.
        places: addresses of the replaced rows; shape (rows of the batch,).

    Raises:
        InvalidInputError: nulls in columns that are not nullable.
        UnsupportedError: these columns have blobs that cannot be moved.
    """
    if not names:
        yield batch
        return
    schema = table_schema(base.manifest)
    run = base.engine.pool.run
    done = 0
    async with aclosing(_current_rows(base, names, places)) as taken:
        async for current in taken:
            part = batch.slice(done, current.num_rows)
            done += current.num_rows
            yield await run(partial(_side, part, current, schema))


async def write_inserted(
    base: Snapshot,
    source: HeldSource,
    files: DataFiles,
    matched: Mask,
) -> None:
    """Write the unmatched source rows; columns that the source lacks are null.

    Args:
        matched: mask of source rows that are not inserted, followed by True for each key to delete;
            shape (source rows and keys,).
    """
    schema = table_schema(base.manifest)
    rows = await base.engine.decode(lambda: np.flatnonzero(~matched), matched.nbytes)
    for part in source.parts:
        async for batch, _ in chosen_rows(part, rows):
            await files.write(await _conformed(base, batch, schema))


async def _conformed(base: Snapshot, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows of the table; columns that the batch lacks are null."""
    return await base.engine.decode(partial(conform, batch, schema), work_bytes([batch]))


async def chosen_rows(
    source: HeldRows, rows: Int64s, keys: UInt64s | None = None
) -> AsyncGenerator[tuple[pa.RecordBatch, Int64s], None]:
    """Yield source rows by number in batches, each with the positions of its rows in `rows`.

    Args:
        source: a part of the source.
        rows: numbers of rows in the whole source, ascending.
        keys: values by which the rows of a batch are sorted, in the order of `rows`; None to keep
            the order of the source.
    """
    run = source.rows.scratch.pool.run
    first = source.first
    async with aclosing(pieces(source.rows, PIECE_ROWS)) as batches:
        async for batch in batches:
            last = first + batch.num_rows
            start, stop = np.searchsorted(rows, [first, last]).tolist()
            for begin in range(start, stop, PIECE_ROWS):
                numbers = np.arange(begin, min(stop, begin + PIECE_ROWS))
                if keys is not None:
                    numbers = begin + np.argsort(keys[numbers], kind="stable")
                chosen = rows[numbers] - first
                is_part = len(chosen) < batch.num_rows or (chosen != np.arange(len(chosen))).any()
                if is_part:
                    take = partial(batch.take, to_arrow(chosen))
                    part = await run(take, inline=work_bytes([batch]) <= DECODED_INLINE_BYTES)
                else:
                    part = batch
                yield part, numbers
            first = last
            if stop == len(rows):
                return


async def _current_rows(
    base: Snapshot, names: Sequence[str], places: UInt64s
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield table columns for rows by address, in batches."""
    blobs = moved_blobs(base, names)
    count = _rows_at_once(base)

    async def taken() -> AsyncGenerator[pa.RecordBatch, None]:
        for start in range(0, len(places), count):
            part = places[start : start + count]
            table = await take_addresses(base, part.astype(np.int64), list(names))
            batch = batch_of(table)
            yield batch.append_column(ROW_ADDRESS, to_arrow(part)) if blobs else batch

    if not blobs:
        async for batch in taken():
            yield batch
        return
    async with aclosing(with_payloads(base, taken(), blobs, keep_address=False)) as filled:
        async for batch in filled:
            yield batch


def _rows_at_once(base: Snapshot) -> int:
    """Return the number of rows to take at once, from the mean bytes of a row in the files."""
    rows = sum(handle.num_physical_rows for handle in base.handles)
    files = (file for handle in base.handles for file in handle.fragment.files)
    num_bytes = sum(file.num_bytes for file in files)
    return int(min(MERGED_TAKE_ROWS, max(1, MERGED_TAKE_BYTES * max(1, rows) // max(1, num_bytes))))


def _side(part: pa.RecordBatch, current: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Combine the columns of two batches to rows of the table."""
    arrays, fields = [], []
    for target in schema:
        name = target.name
        sides = [batch.column(name) for batch in (part, current) if name in batch.schema.names]
        arrays.append(sides[0] if len(sides) == 1 else filled(*sides))
        fields.append(target.with_type(arrays[-1].type))
    return conform(pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields)), schema)


BUCKET_SHARE: Final = 4  # source rows sorted at once take this fraction of the budget: 1/4


async def rewrite_columns(
    base: Snapshot,
    merge: RowMerge,
    source: HeldSource,
    rows: Int64s,
    places: UInt64s,
    scratch: Scratch,
    summary: ChangeSummary,
) -> PreparedChange:
    """Write new column files for fragments with matched rows, and prepare their commit.

    Cost: a read and a write of the source's columns in all fragments with matched rows.

    Args:
        rows: numbers of source rows, ascending.
        places: addresses of the rows that they update.

    Raises:
        InvalidInputError: nulls in columns that are not nullable.
    """
    schema = merge.written
    values = await _MergedValues.of(merge, source, rows, places, scratch)
    ids = await base.engine.pool.run(values.fragment_ids)
    run = base.engine.pool.run
    async with Backfill(values) as backfill:
        handles = await base.handles_of(ids)
        fragments = await backfill.fragments(base, schema, handles) if handles else []
        field_ids = sorted(field.id for field in schema.walk()) if fragments else []
        changed = await run(values.offsets) if base.has_stable_row_ids else {}
        operation = await run(partial(_operation, fragments, field_ids, changed, base.version + 1))
    lineage = lineage_reader(base) if base.has_stable_row_ids else None
    rules = TableRules(base.engine, base.table, lineage=lineage)
    return PreparedChange(
        base,
        operation,
        merge.plan.commit,
        rules=rules,
        discard=backfill.discard,
        summary=summary,
    )


def _operation(
    fragments: Sequence[table_pb2.DataFragment],
    field_ids: Sequence[int],
    changed: Mapping[int, Int64s],
    version: int,
) -> Update:
    """Return the operation, with row lineage filled in for the version it will create.

    Args:
        fragments: records whose last files have the new values.
        field_ids: ids of the fields with new values, sorted.
        changed: offsets of the rows with new values by fragment; needed only with stable row ids.
        version: number of the next version.
    """
    elsewhere = set(spilled(fragments))
    for fragment in fragments:
        if fragment.id in changed and fragment.id not in elsewhere:
            mark_updated(fragment, version, changed[fragment.id])
    return Update(
        updated_fragments=tuple(fragments),
        fields_modified=tuple(field_ids),
        update_mode=REWRITE_COLUMNS,
        updated_fragment_offset_bitmaps={key: roaring_bytes(rows) for key, rows in changed.items()},
    )


@dataclass(slots=True)
class _MergedValues(OfLiveRows):
    """Source of column values: the merge's for matched rows, the table's for others."""

    names: list[str]
    target: pa.Schema
    places: UInt64s  # sorted addresses of matched rows
    bounds: Int64s  # bounds of the buckets in `places`; shape (buckets + 1,)
    buckets: list[Spool]
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _loaded: tuple[int, pa.RecordBatch] | None = None

    @classmethod
    async def of(
        cls, merge: RowMerge, source: HeldSource, rows: Int64s, places: UInt64s, scratch: Scratch
    ) -> _MergedValues:
        """Partition the data's rows into buckets by their target addresses."""
        target = pa.schema([root.logical_arrow() for root in merge.written.fields])
        names = list(target.names)
        held = target.append(pa.field(ROW_ADDRESS, pa.uint64()))
        room = max(1, merge.plan.memory_bytes // BUCKET_SHARE)
        (whole_source,) = source.parts
        count = max(1, min(len(places), -(-whole_source.rows.num_bytes // room)))
        sorted_places = await scratch.pool.run(partial(ascending, places))
        bounds = np.linspace(0, len(places), count + 1).astype(np.int64)
        ends = sorted_places[bounds[1:-1]]
        buckets = [Spool(scratch, held, None if count == 1 else 1 << 16) for _ in range(count)]

        def split(batch: pa.RecordBatch, addresses: UInt64s) -> list[tuple[int, pa.RecordBatch]]:
            arrays = [*(batch.column(name) for name in names), to_arrow(addresses)]
            whole = pa.RecordBatch.from_arrays(arrays, schema=held)
            owner = np.searchsorted(ends, addresses, "right")
            return [
                (int(number), whole.take(to_arrow(np.flatnonzero(owner == number))))
                for number in np.unique(owner)
            ]

        async for batch, numbers in chosen_rows(whole_source, rows):
            for number, part in await scratch.pool.run(partial(split, batch, places[numbers])):
                await buckets[number].append(part)
        return cls(names, target, sorted_places, bounds, buckets)

    @property
    def in_order(self) -> bool:
        return len(self.buckets) > 1

    def reads(self, schema: Schema) -> frozenset[int] | None:
        return None

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        options = ScanOptions(
            fragments=[handle.id], io_buffer_bytes=ahead_bytes, with_row_address=True
        )
        run = snapshot.engine.pool.run
        async with aclosing(scanned(snapshot, self.names, options)) as batches:
            async for batch in batches:
                addresses = as_numbers(batch.column(ROW_ADDRESS))
                start = int(np.searchsorted(self.places, addresses[0]))
                stop = int(np.searchsorted(self.places, addresses[-1], "right"))
                old = await run(partial(conform, batch.drop_columns([ROW_ADDRESS]), self.target))
                while start < stop:
                    number = int(np.searchsorted(self.bounds, start, "right")) - 1
                    last = min(stop, int(self.bounds[number + 1]))
                    new = await self._bucket(number)
                    new = new.slice(start - int(self.bounds[number]), last - start)
                    rows = np.searchsorted(addresses, as_numbers(new.column(ROW_ADDRESS)))
                    old = await run(partial(overlaid, old, rows, new))
                    start = last
                yield old

    def fragment_ids(self) -> list[int]:
        """Return the ids of fragments with matched rows, ascending. CPU work."""
        ids: list[int] = np.unique(self.places >> np.uint64(32)).tolist()
        return ids

    def offsets(self) -> dict[int, Int64s]:
        """Return the matched rows as physical offsets by fragment; shape (n,), sorted."""
        offsets = DeletedOffsets()
        offsets.add(self.places)
        return offsets.by_fragment()

    async def _bucket(self, number: int) -> pa.RecordBatch:
        """Return a bucket's rows sorted by address; the latest bucket is cached."""
        async with self._lock:
            if self._loaded is None or self._loaded[0] != number:
                self._loaded = None
                held = [batch async for batch in self.buckets[number].batches()]
                pool = self.buckets[number].scratch.pool
                self._loaded = (number, await pool.run(partial(_sorted, held)))
            return self._loaded[1]


def _sorted(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = one_batch(batches)
    order = np.argsort(as_numbers(whole.column(ROW_ADDRESS)), kind="stable")
    return whole.take(to_arrow(order))

"""Find the rows that a merge changes: scan the target's keys and join them with the source.

The join builds a hash index of the source's keys and probes it with the scanned target. If the keys
are few for the size of the table, they are a filter of the scan; if they are very few, and a B-tree
or bitmap index has a key column, only the rows with these keys are scanned, and the rows that the
index does not cover. If the source's keys exceed the memory, both sides are first partitioned by
hash on the disk (a Grace hash join), and partitions are joined one after the other.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.expr.keys import is_key_type
from alance.expr.tree import plain, plain_type
from alance.file.batches import work_bytes
from alance.format.keys import KEY_COLUMN, ROW_COLUMN, KeyColumns, key_values, plain_keys
from alance.format.numbers import as_mask, as_numbers, to_arrow, validity_of
from alance.format.table.changes.apply_indices import SYSTEM
from alance.format.table.indices import Index
from alance.ops.merge.plan import SOURCE_SIDE, TARGET_SIDE
from alance.ops.merge.source import key_widths
from alance.ops.read.keys import TableKey
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.rows.delete import DeletedOffsets
from alance.ops.version.projection import META, ROW_ADDRESS, ROW_ID
from alance.ops.write.spool import Spool

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from alance.base.arrays import Int64s, Mask, UInt64s
    from alance.ops.merge.plan import RowMerge
    from alance.ops.merge.source import HeldSource
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.spool import Scratch

# An index looks up the keys if the table has at least this number of rows per key. In 5 000 000
# local rows, 100 keys take 28 ms of processor time, 300 keys 54 ms, and a scan 48 ms. On a store a
# key costs two requests and 130 kB: 100 keys take 165 requests and 13 MB, a scan 26 and 15 MB.
FEWEST_ROWS: Final = 1 << 14
FEWEST_REMOTE_ROWS: Final = 1 << 16
# The keys become a filter of the scan if the table has at least this number of rows per key. The
# filter skips rows by statistics, and before their addresses are made; it has its own hash table.
FILTERED_ROWS: Final = 64
OTHER: Final = "other"  # column of target rows: True if the row is deleted unless it matches


class RefusedRows(Exception):
    """Raised for a match that the merge does not allow; `rows` has one or two source rows."""

    def __init__(self, *rows: int) -> None:
        super().__init__(*rows)
        self.rows = rows


@dataclass(slots=True)
class Matches:
    """Rows of a version that a merge changes.

    Attributes:
        matched: mask of the source rows, followed by the keys to delete, that match a table row;
            shape (source rows and keys,).
        gone: table rows to mark as deleted: first those that no source row matches; rows of deleted
            keys and the former places of updated rows are added after the join.
        num_changed: number of table rows that are updated, or deleted because they match.
    """

    matched: Mask
    gone: DeletedOffsets = field(default_factory=DeletedOffsets)
    num_changed: int = 0
    _parts: list[tuple[Int64s, UInt64s, UInt64s]] = field(default_factory=list)

    def add(self, source: Int64s, addresses: UInt64s, row_ids: UInt64s) -> None:
        """Add matched rows: their numbers in the source, their addresses and ids in the table."""
        self.num_changed += len(source)
        self._parts.append((source, addresses, row_ids))

    def changed(self) -> tuple[Int64s, UInt64s, UInt64s]:
        """Return all matched rows that change, in the order of the source. CPU work."""
        if not self._parts:
            nothing = np.empty(0, np.uint64)
            return nothing.astype(np.int64), nothing, nothing
        source, addresses, row_ids = (
            np.concatenate([part[column] for part in self._parts]) for column in range(3)
        )
        self._parts.clear()
        # Two stable radix sorts: a million rows take 20 ms, `np.lexsort` 120 ms.
        _, by_address = _kernels.order_of(addresses)
        _, by_source = _kernels.order_of(source[by_address].view(np.uint64))
        order = by_address[by_source]
        return source[order], addresses[order], row_ids[order]


async def match(base: Snapshot, merge: RowMerge, source: HeldSource, scratch: Scratch) -> Matches:
    """Join the source with a version.

    Cost: a scan of the key columns and of the conditions' columns; no request if the source has no
    rows, unless rows without a match are deleted.

    Raises:
        InvalidInputError: a table row matches more than one source row, or any row if the merge
            refuses matches.
    """
    matcher = _Matcher(base, merge, Matches(np.zeros(source.num_keys, np.bool_)))
    if not source.num_keys and not merge.plan.deletes_others:
        return matcher.matches
    keys = source.keys
    room = merge.plan.memory_bytes // 2  # the other half is for the spools
    count = partitions_for(keys.num_rows, keys.num_bytes, room)
    try:
        if count == 1:
            await _match_at_once(matcher, source)
        else:
            await _match_by_parts(matcher, source, count, scratch)
    except RefusedRows as refused:
        key = await source.key_of(merge, refused.rows[0])
        if len(refused.rows) == 1:
            raise InvalidInputError(
                f"merge_insert: a row of the table has the key {key} of row {refused.rows[0]} of "
                "the data, and matches are to fail"
            ) from None
        raise InvalidInputError(
            f"merge_insert: rows {refused.rows[0]} and {refused.rows[1]} of the data match the "
            f"same row of the table, by {key}; expected one row at most"
        ) from None
    return matcher.matches


async def _match_at_once(matcher: _Matcher, source: HeldSource) -> None:
    decode = matcher.base.engine.decode
    held = [batch async for batch in source.keys.batches()]
    num_bytes = work_bytes(held)
    widths = key_widths(matcher.merge)
    index = await decode(partial(SourceKeys.of, held, source.keys.schema, widths), num_bytes)
    held.clear()
    options = await _of_keys(matcher.base, matcher.merge, source)
    async with aclosing(matcher.scanned(options)) as rows:
        async for batch in rows:
            await decode(
                partial(matcher.look_up_scanned, index, batch), num_bytes + work_bytes([batch])
            )


async def _match_by_parts(
    matcher: _Matcher, source: HeldSource, count: int, scratch: Scratch
) -> None:
    run = matcher.base.engine.pool.run
    theirs = KeyPartitions(scratch, source.keys.schema, count)
    async with aclosing(source.keys.batches()) as batches:
        async for batch in batches:
            await theirs.add(batch)
    ours: KeyPartitions | None = None
    async with aclosing(matcher.scanned()) as rows:
        async for read in rows:
            batch = await run(partial(matcher.prepared, read))
            ours = ours or KeyPartitions(scratch, batch.schema, count)
            await run(partial(matcher.without_key, batch))
            await ours.add(batch)
    if ours is None:
        return
    for target_part, source_part in zip(ours.parts, theirs.parts, strict=True):
        held = [batch async for batch in source_part.batches()]
        index = await run(partial(SourceKeys.of, held, source.keys.schema))
        held.clear()
        async with aclosing(target_part.batches()) as batches:
            async for batch in batches:
                await run(partial(matcher.look_up, index, batch))
        await target_part.close()
        await source_part.close()


async def _of_keys(base: Snapshot, merge: RowMerge, source: HeldSource) -> ScanOptions | None:
    """Return the options of a scan for only the source's keys; None to scan all keys."""
    if not _may_filter(base, merge):
        return None
    num_rows, num_keys = await base.num_live(), source.num_keys
    by_index = num_keys * fewest_rows(base) <= num_rows and index_of_keys(base, merge) is not None
    if not by_index and num_keys * FILTERED_ROWS > num_rows:
        return None
    keys = TableKey.of(base.schema, merge.on)
    batches = [batch.select(list(merge.on)) async for batch in source.batches()]
    if source.deleted is not None:
        batches.append(source.deleted.select(list(merge.on)))

    def filtered() -> ScanOptions:
        columns = [pa.Table.from_batches(batches).column(name) for name in merge.on]
        options = keys.options([plain(column.combine_chunks()) for column in columns])
        return replace(options, use_scalar_index=by_index)

    return await base.engine.pool.run(filtered)


def _may_filter(base: Snapshot, merge: RowMerge) -> bool:
    """Return True if unmatched table rows remain, and the keys can be a filter."""
    types = [plain_type(base.schema.field(name).logical_arrow().type) for name in merge.on]
    return not merge.plan.deletes_others and all(map(is_key_type, types))


def index_of_keys(base: Snapshot, merge: RowMerge) -> str | None:
    """Return the name of an index that can look up a few keys; None if there is none."""
    if not merge.plan.use_index or not _may_filter(base, merge):
        return None
    fields = {base.schema.field(name).id for name in merge.on}
    for message in base.manifest.indices:
        finds_keys = Index.from_protobuf(message).finds_values
        if finds_keys and fields.issuperset(message.fields) and message.name not in SYSTEM:
            return message.name
    return None


def fewest_rows(base: Snapshot) -> int:
    """Return the number of table rows per key from which an index replaces a scan."""
    return FEWEST_REMOTE_ROWS if base.is_remote else FEWEST_ROWS


def scan_of(base: Snapshot, merge: RowMerge) -> tuple[list[str], ScanOptions]:
    """Return the target columns that are scanned to find matches, and the scan's options."""
    columns = [name for name in merge.target_columns if name not in META]
    meta = [name for name in merge.target_columns if name in META]
    options = ScanOptions(
        with_row_address=True, with_row_id=base.has_stable_row_ids, scan_in_order=False
    )
    return [*columns, *meta], options


@dataclass(slots=True)
class _Matcher:
    base: Snapshot
    merge: RowMerge
    matches: Matches

    def scanned(self, keys: ScanOptions | None = None) -> AsyncGenerator[pa.RecordBatch, None]:
        """Scan the target's rows, with all columns that the join needs.

        Args:
            keys: filter for the rows that can match; None: all rows.
        """
        columns, options = scan_of(self.base, self.merge)
        if keys is not None:
            use_index = keys.use_scalar_index
            options = replace(options, filter=keys.filter, use_scalar_index=use_index)
        return scanned(self.base, columns, options, is_large=True)

    def prepared(self, batch: pa.RecordBatch, *, with_key: bool = True) -> pa.RecordBatch:
        """Convert scanned rows to the columns that the join needs. CPU work.

        These are `KEY_COLUMN`, the address as `ROW_COLUMN`, `_rowid`, `OTHER` if unmatched rows are
        deleted, and the columns of the condition.
        """
        address = batch.column(ROW_ADDRESS)
        row_ids = batch.column(ROW_ID) if self.base.has_stable_row_ids else address
        arrays, names = [address, row_ids], [ROW_COLUMN, ROW_ID]
        if with_key:
            arrays.append(key_values([batch.column(name) for name in self.merge.on]))
            names.append(KEY_COLUMN)
        if self.merge.plan.deletes_others:
            arrays.append(to_arrow(self._others(batch)))
            names.append(OTHER)
        for name in self.merge.condition_columns[1]:
            arrays.append(batch.column(name))
            names.append(f"{TARGET_SIDE}.{name}")
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _others(self, batch: pa.RecordBatch) -> Mask:
        """Return the mask of rows that are deleted if they are unmatched."""
        others = self.merge.others
        return np.ones(batch.num_rows, np.bool_) if others is None else as_mask(others.mask(batch))

    def without_key(self, batch: pa.RecordBatch) -> None:
        """Record rows with a null in the key for deletion, if the merge deletes unmatched rows."""
        keys = batch.column(KEY_COLUMN)
        if keys.null_count and self.merge.plan.deletes_others:
            lost = as_mask(keys.is_null()) & as_mask(batch.column(OTHER))
            self.matches.gone.add(as_numbers(batch.column(ROW_COLUMN))[lost])

    def look_up_scanned(self, index: SourceKeys, batch: pa.RecordBatch) -> None:
        """Join target rows as the scan returned them.

        Raises:
            RefusedRows: the merge does not allow a match.
        """
        keys = KeyColumns.of([batch.column(name) for name in self.merge.on])
        self._join(index, self.prepared(batch, with_key=False), index.find_columns(keys))

    def look_up(self, index: SourceKeys, batch: pa.RecordBatch) -> None:
        """Join target rows that `prepared` returned.

        Raises:
            RefusedRows: the merge does not allow a match.
        """
        self._join(index, batch, index.find(batch.column(KEY_COLUMN)))

    def _join(self, index: SourceKeys, batch: pa.RecordBatch, pairs: Pairs) -> None:
        plan, matches = self.merge.plan, self.matches
        addresses = as_numbers(batch.column(ROW_COLUMN))
        if plan.deletes_others:
            lost = as_mask(batch.column(OTHER))
            lost[pairs.target] = False
            matches.gone.add(addresses[lost])
        if not len(pairs.source):
            return
        rows = index.numbers[pairs.source]
        if plan.when_matched == "fail":
            raise RefusedRows(int(rows[0]))
        matches.matched[rows] = True
        if plan.when_matched == "nothing":
            return
        target = pairs.target
        if self.merge.condition is not None:
            is_met = self._condition(index.rows.take(to_arrow(pairs.source)), batch, target)
            rows, target = rows[is_met], target[is_met]
        twice = np.flatnonzero(target[1:] == target[:-1])
        if len(twice):
            raise RefusedRows(*sorted(rows[twice[0] : twice[0] + 2].tolist()))
        matches.add(rows, addresses[target], as_numbers(batch.column(ROW_ID))[target])

    def _condition(self, source: pa.Table, batch: pa.RecordBatch, target: Int64s) -> Mask:
        condition = self.merge.condition
        assert condition is not None
        batch = batch.take(to_arrow(target))
        sides: dict[str, pa.Array] = {}
        for side, rows in ((SOURCE_SIDE, source), (TARGET_SIDE, batch)):
            arrays, names = [], []
            for name in rows.schema.names:
                if name.startswith(f"{side}."):
                    column = rows.column(name)
                    if isinstance(column, pa.ChunkedArray):
                        column = column.combine_chunks()
                    arrays.append(column)
                    names.append(name.removeprefix(f"{side}."))
            if arrays:
                sides[side] = pa.StructArray.from_arrays(arrays, names)
                if side == TARGET_SIDE:
                    sides |= {
                        name: array
                        for name, array in zip(names, arrays, strict=True)
                        if name in condition.columns and name not in (SOURCE_SIDE, TARGET_SIDE)
                    }
        if not sides:
            sides = {ROW_COLUMN: batch.column(ROW_COLUMN)}
        return as_mask(
            condition.mask(pa.RecordBatch.from_arrays(list(sides.values()), names=list(sides)))
        )


INDEX_FACTOR: Final = 3  # memory while the index is built, in multiples of the keys' bytes
KEY_PARTITION_SEED: Final = 1  # seed of the hashes that assign keys to partitions
ROW_BYTES: Final = 64  # bytes of a row in the index, in addition to its key
PARTITIONS_MOST: Final = 512
# Bytes of a partition that are held in memory before they are written to the disk.
SPILLED_BLOCK_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of source and target with the same key, sorted by target row.

    Attributes:
        source: positions in the index's rows; shape (n,).
        target: positions in the rows that were looked up; shape (n,).
    """

    source: Int64s
    target: Int64s


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """Hash index of source rows by key.

    Attributes:
        rows: the rows that have a key, with all columns, in the given order.
        numbers: row numbers in the source, `ROW_COLUMN`; shape (n,).
    """

    rows: pa.Table
    numbers: Int64s
    _table: _kernels.KeyTable
    # rows sorted by key; None: keys are distinct, and rows are in table order
    _order: Int64s | None
    _starts: Int64s  # start of each key in `_order`, and the end; shape (keys + 1,)

    @classmethod
    def of(
        cls,
        batches: list[pa.RecordBatch],
        schema: pa.Schema,
        widths: Int64s | None = None,
    ) -> SourceKeys:
        """Build the index of batches with a column `KEY_COLUMN`. CPU work.

        Args:
            widths: bytes of each key column, 0 for variable width. With `widths`, rows are looked
                up by `find_columns`, otherwise by `find`.
        """
        rows = pa.Table.from_batches(batches, schema)
        if rows.column(KEY_COLUMN).null_count:
            rows = rows.filter(rows.column(KEY_COLUMN).is_valid())
        rows = rows.combine_chunks()
        keys = rows.column(KEY_COLUMN).combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.chunk(0) if keys.num_chunks else pa.nulls(0, keys.type)
        plain = plain_keys(keys) if widths is None else KeyColumns.apart(keys, widths).plain()
        table = _kernels.KeyTable(plain, secrets.randbits(64))
        own = as_numbers(rows.column(ROW_COLUMN))
        if len(table) == rows.num_rows:
            return cls(rows, own, table, None, np.arange(1))
        numbers = table.numbers()
        counts = np.bincount(numbers, minlength=len(table))
        order = np.argsort(numbers, kind="stable")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(rows, own, table, order, starts)

    def find(self, keys: pa.Array) -> Pairs:
        """Return all pairs of rows with the same key. CPU work.

        Args:
            keys: keys of the target's rows; null for a row without a key.
        """
        return self._pairs(plain_keys(keys), validity_of(keys))

    def find_columns(self, keys: KeyColumns) -> Pairs:
        """Return all pairs of rows with the same key, without copying the keys. CPU work."""
        return self._pairs(keys.plain(), keys.valid)

    def _pairs(self, keys: _kernels.Keys, valid: Mask | None) -> Pairs:
        hits, numbers = self._table.find(keys)
        if valid is not None:
            is_key = valid[hits]
            hits, numbers = hits[is_key], numbers[is_key]
        if self._order is None:
            return Pairs(numbers, hits)
        first = self._starts[numbers]
        counts = self._starts[numbers + 1] - first
        before = np.cumsum(counts) - counts
        places = np.arange(int(counts.sum())) + np.repeat(first - before, counts)
        return Pairs(self._order[places], np.repeat(hits, counts))


@dataclass(slots=True)
class KeyPartitions:
    """Batches with a column `KEY_COLUMN`, partitioned by the hash of the key."""

    scratch: Scratch
    schema: pa.Schema
    count: int
    parts: list[Spool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [
            Spool(self.scratch, self.schema, SPILLED_BLOCK_BYTES if self.count > 1 else None)
            for _ in range(self.count)
        ]

    async def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; rows without a key are omitted."""
        for part, rows in await self.scratch.pool.run(lambda: self._split(batch)):
            await self.parts[part].append(rows)

    def _split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        keys = batch.column(KEY_COLUMN)
        if keys.null_count:
            batch = batch.filter(keys.is_valid())
        if self.count == 1:
            return [(0, batch)]
        owner = plain_keys(batch.column(KEY_COLUMN)).hashes(KEY_PARTITION_SEED) % np.uint64(
            self.count
        )
        order = np.argsort(owner, kind="stable")
        batch = batch.take(to_arrow(order))
        counts = np.bincount(owner.astype(np.int64), minlength=self.count)
        ends = np.cumsum(counts)
        return [
            (int(part), batch.slice(int(ends[part] - counts[part]), int(counts[part])))
            for part in np.flatnonzero(counts)
        ]


def partitions_for(num_rows: int, num_bytes: int, memory: int) -> int:
    """Return the number of partitions for which the index of one partition fits in memory."""
    needed = num_bytes * INDEX_FACTOR + num_rows * ROW_BYTES
    return min(PARTITIONS_MOST, max(1, -(-needed // max(1, memory))))

"""Which rows of a table a merge changes: the target scanned on its keys, joined with the source.

The source's keys stand in an index, partition by partition where they do not fit together; the
target's keys come by as they are scanned, or partition by partition from the disk.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import InvalidInputError
from alance.file.batches import work_bytes
from alance.format.keys import KEY, ROW, KeyColumns, Keys
from alance.format.numbers import as_mask, as_numbers, to_arrow, validity_of
from alance.ops.merge.plan import SOURCE, TARGET
from alance.ops.merge.source import key_widths
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.rows.delete import Offsets
from alance.ops.version.projection import META, ROW_ADDRESS, ROW_ID
from alance.ops.write.spool import Spool
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from alance.arrays import Int64s, Mask, UInt64s
    from alance.ops.merge.plan import Merge
    from alance.ops.merge.source import HeldSource
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.spool import Scratch

OTHER: Final = "other"  # of a target row: deleted where it has no match


class Refused(Exception):
    """The rows do not allow the merge; the source rows that show it."""

    def __init__(self, *rows: int) -> None:
        super().__init__(*rows)
        self.rows = rows


@dataclass(slots=True)
class Matches:
    """The rows of a version that a merge changes.

    Attributes:
        matched: which rows of the source match a row of the table; shape (source rows,).
        gone: the table's rows that are deleted because they do not match.
        num_changed: the table's rows that are updated, or deleted because they match.
    """

    matched: Mask
    gone: Offsets = field(default_factory=Offsets)
    num_changed: int = 0
    _parts: list[tuple[Int64s, UInt64s, UInt64s]] = field(default_factory=list)

    def add(self, source: Int64s, addresses: UInt64s, row_ids: UInt64s) -> None:
        """Matched rows: number in the source, and address and id in the table."""
        self.num_changed += len(source)
        self._parts.append((source, addresses, row_ids))

    def changed(self) -> tuple[Int64s, UInt64s, UInt64s]:
        """All matched rows that change, in the order of the source. CPU."""
        if not self._parts:
            nothing = np.empty(0, np.uint64)
            return nothing.astype(np.int64), nothing, nothing
        source, addresses, row_ids = (
            np.concatenate([part[column] for part in self._parts]) for column in range(3)
        )
        self._parts.clear()
        order = np.lexsort((addresses, source))
        return source[order], addresses[order], row_ids[order]


async def match(base: Snapshot, merge: Merge, source: HeldSource, scratch: Scratch) -> Matches:
    """Join the source with a version.

    Cost: a scan of the key columns and of what conditions need; none where nothing can match.

    Raises:
        InvalidInputError: a row matches more than one source row; a match, where that fails.
    """
    matcher = _Matcher(base, merge, Matches(np.zeros(source.num_rows, np.bool_)))
    if not source.num_rows and not merge.plan.deletes_others:
        return matcher.matches
    keys = source.keys
    room = merge.plan.memory_bytes // 2  # the spools have the other half
    count = partitions_for(keys.num_rows, keys.num_bytes, room)
    try:
        if count == 1:
            await _match_at_once(matcher, source)
        else:
            await _match_by_parts(matcher, source, count, scratch)
    except Refused as refused:
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
    async with aclosing(matcher.scanned()) as rows:
        async for batch in rows:
            await decode(
                partial(matcher.look_up_scanned, index, batch), num_bytes + work_bytes([batch])
            )


async def _match_by_parts(
    matcher: _Matcher, source: HeldSource, count: int, scratch: Scratch
) -> None:
    run = matcher.base.engine.pool.run
    theirs = Partitions(scratch, source.keys.schema, count)
    async with aclosing(source.keys.batches()) as batches:
        async for batch in batches:
            await theirs.add(batch)
    ours: Partitions | None = None
    async with aclosing(matcher.scanned()) as rows:
        async for read in rows:
            batch = await run(partial(matcher.prepared, read))
            ours = ours or Partitions(scratch, batch.schema, count)
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


def scan_of(base: Snapshot, merge: Merge) -> tuple[list[str], ScanOptions]:
    """The columns of the target that are scanned to find matches, and how."""
    columns = [name for name in merge.target_columns if name not in META]
    meta = [name for name in merge.target_columns if name in META]
    options = ScanOptions(
        with_row_address=True, with_row_id=base.has_stable_row_ids, scan_in_order=False
    )
    return [*columns, *meta], options


@dataclass(slots=True)
class _Matcher:
    base: Snapshot
    merge: Merge
    matches: Matches

    def scanned(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The target's rows, with all columns that the merge needs to know them."""
        columns, options = scan_of(self.base, self.merge)
        return scanned(self.base, columns, options, is_large=True)

    def prepared(self, batch: pa.RecordBatch, *, with_key: bool = True) -> pa.RecordBatch:
        """Scanned rows with their `KEY`, addresses as `ROW`, `_rowid`, `OTHER` where others are
        deleted, and what the condition needs. CPU.
        """
        address = batch.column(ROW_ADDRESS)
        row_ids = batch.column(ROW_ID) if self.base.has_stable_row_ids else address
        arrays, names = [address, row_ids], [ROW, ROW_ID]
        if with_key:
            arrays.append(Keys.of([batch.column(name) for name in self.merge.on]).values)
            names.append(KEY)
        if self.merge.plan.deletes_others:
            arrays.append(to_arrow(self._others(batch)))
            names.append(OTHER)
        for name in self.merge.condition_columns[1]:
            arrays.append(batch.column(name))
            names.append(f"{TARGET}.{name}")
        return pa.RecordBatch.from_arrays(arrays, names=names)

    def _others(self, batch: pa.RecordBatch) -> Mask:
        """The rows that are deleted unless they match."""
        others = self.merge.others
        return np.ones(batch.num_rows, np.bool_) if others is None else as_mask(others.mask(batch))

    def without_key(self, batch: pa.RecordBatch) -> None:
        """Count what has a null in its key as not matched."""
        keys = batch.column(KEY)
        if keys.null_count and self.merge.plan.deletes_others:
            lost = as_mask(keys.is_null()) & as_mask(batch.column(OTHER))
            self.matches.gone.add(as_numbers(batch.column(ROW))[lost])

    def look_up_scanned(self, index: SourceKeys, batch: pa.RecordBatch) -> None:
        """Join rows of the target as they were scanned.

        Raises:
            Refused: the rows do not allow the merge.
        """
        keys = KeyColumns.of([batch.column(name) for name in self.merge.on])
        self._join(index, self.prepared(batch, with_key=False), index.find_columns(keys))

    def look_up(self, index: SourceKeys, batch: pa.RecordBatch) -> None:
        """Join rows of the target that were prepared.

        Raises:
            Refused: the rows do not allow the merge.
        """
        self._join(index, batch, index.find(batch.column(KEY)))

    def _join(self, index: SourceKeys, batch: pa.RecordBatch, pairs: Pairs) -> None:
        plan, matches = self.merge.plan, self.matches
        addresses = as_numbers(batch.column(ROW))
        if plan.deletes_others:
            lost = as_mask(batch.column(OTHER))
            lost[pairs.target] = False
            matches.gone.add(addresses[lost])
        if not len(pairs.source):
            return
        rows = index.numbers[pairs.source]
        if plan.when_matched == "fail":
            raise Refused(int(rows[0]))
        matches.matched[rows] = True
        if plan.when_matched == "nothing":
            return
        target = pairs.target
        if self.merge.condition is not None:
            kept = self._condition(index.rows.take(to_arrow(pairs.source)), batch, target)
            rows, target = rows[kept], target[kept]
        twice = np.flatnonzero(target[1:] == target[:-1])
        if len(twice):
            raise Refused(*sorted(rows[twice[0] : twice[0] + 2].tolist()))
        matches.add(rows, addresses[target], as_numbers(batch.column(ROW_ID))[target])

    def _condition(self, source: pa.Table, batch: pa.RecordBatch, target: Int64s) -> Mask:
        condition = self.merge.condition
        assert condition is not None
        batch = batch.take(to_arrow(target))
        sides: dict[str, pa.Array] = {}
        for side, rows in ((SOURCE, source), (TARGET, batch)):
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
                if side == TARGET:
                    sides |= {
                        name: array
                        for name, array in zip(names, arrays, strict=True)
                        if name in condition.columns and name not in (SOURCE, TARGET)
                    }
        if not sides:
            sides = {ROW: batch.column(ROW)}
        return as_mask(
            condition.mask(pa.RecordBatch.from_arrays(list(sides.values()), names=list(sides)))
        )


INDEX_FACTOR: Final = 3  # copies of the keys while their index is made
SEED: Final = 1  # of the hashes that cut keys into parts
ROW_BYTES: Final = 64  # what a row costs in the index beside its key
PARTITIONS_MOST: Final = 512
BLOCK_BYTES: Final = 1 << 18  # of a partition that are held before they go to the disk


@dataclass(frozen=True, slots=True)
class Pairs:
    """Rows of source and target that have the same key; sorted by target row.

    Attributes:
        source: positions in the index's rows; shape (n,).
        target: positions in the rows that were looked up; shape (n,).
    """

    source: Int64s
    target: Int64s


@dataclass(frozen=True, slots=True)
class SourceKeys:
    """Rows of the source by their keys.

    Attributes:
        rows: the rows that have a key, with all that was given; in the order given.
        numbers: their numbers in the source, `ROW`; shape (n,).
    """

    rows: pa.Table
    numbers: Int64s
    _table: _kernels.KeyTable
    _order: Int64s | None  # rows by key; None: each key is there once, and rows are in this order
    _starts: Int64s  # of each key in the order, and the end; shape (keys + 1,)

    @classmethod
    def of(
        cls,
        batches: list[pa.RecordBatch],
        schema: pa.Schema,
        widths: Int64s | None = None,
    ) -> SourceKeys:
        """The index of batches that have a column `KEY`. CPU.

        Args:
            widths: bytes of each column of the keys, 0 where they vary: rows are then looked up by
                `find_columns`; without them by `find`.
        """
        rows = pa.Table.from_batches(batches, schema)
        if rows.column(KEY).null_count:
            rows = rows.filter(rows.column(KEY).is_valid())
        rows = rows.combine_chunks()
        keys = rows.column(KEY).combine_chunks()
        if isinstance(keys, pa.ChunkedArray):
            keys = keys.chunk(0) if keys.num_chunks else pa.nulls(0, keys.type)
        plain = Keys(keys).plain()
        if widths is not None and widths.tolist() != [0]:  # one column of strings is as it was
            plain = plain.split(widths)
        table = _kernels.KeyTable(plain, secrets.randbits(64))
        own = as_numbers(rows.column(ROW))
        if len(table) == rows.num_rows:
            return cls(rows, own, table, None, np.arange(1))
        numbers = table.numbers()
        counts = np.bincount(numbers, minlength=len(table))
        order = np.argsort(numbers, kind="stable")
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        return cls(rows, own, table, order, starts)

    def find(self, keys: pa.Array) -> Pairs:
        """All pairs of rows that have the same key. CPU.

        Args:
            keys: of the target's rows; null where there is none.
        """
        return self._pairs(Keys(keys).plain(), validity_of(keys))

    def find_columns(self, keys: KeyColumns) -> Pairs:
        """All pairs of rows that have the same key, of which no copy is made. CPU."""
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
class Partitions:
    """Batches with a column `KEY`, each row in the part that its key's hash says."""

    scratch: Scratch
    schema: pa.Schema
    count: int
    parts: list[Spool] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.parts = [
            Spool(self.scratch, self.schema, BLOCK_BYTES if self.count > 1 else None)
            for _ in range(self.count)
        ]

    async def add(self, batch: pa.RecordBatch) -> None:
        """Add rows; those without a key are left out."""
        for part, rows in await self.scratch.pool.run(lambda: self._split(batch)):
            await self.parts[part].append(rows)

    def _split(self, batch: pa.RecordBatch) -> list[tuple[int, pa.RecordBatch]]:
        keys = batch.column(KEY)
        if keys.null_count:
            batch = batch.filter(keys.is_valid())
        if self.count == 1:
            return [(0, batch)]
        owner = Keys(batch.column(KEY)).plain().hashes(SEED) % np.uint64(self.count)
        order = np.argsort(owner, kind="stable")
        batch = batch.take(to_arrow(order))
        counts = np.bincount(owner.astype(np.int64), minlength=self.count)
        ends = np.cumsum(counts)
        return [
            (int(part), batch.slice(int(ends[part] - counts[part]), int(counts[part])))
            for part in np.flatnonzero(counts)
        ]


def partitions_for(num_rows: int, num_bytes: int, memory: int) -> int:
    """How many parts the source's keys are cut into, so that the index of one fits."""
    needed = num_bytes * INDEX_FACTOR + num_rows * ROW_BYTES
    return min(PARTITIONS_MOST, max(1, -(-needed // max(1, memory))))

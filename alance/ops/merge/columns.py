"""Matched rows that stay where they are: new files with the data's columns beside the old ones.

A new file has all rows of its fragment. Its values come from the table but for the rows that
match; those of the data are brought into the order of addresses first, by buckets that fit in
memory.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.format.numbers import as_numbers, to_arrow
from alance.format.proto import table_pb2
from alance.format.table.apply_columns import TOMBSTONE
from alance.format.table.lineage import mark_updated, spilled
from alance.format.table.operations import REWRITE_COLUMNS, Update
from alance.format.table.roaring import roaring_bytes
from alance.ops.columns.backfill import Backfill
from alance.ops.merge.rows import chosen_rows
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.rows.matching import Offsets
from alance.ops.version.commits import commit_change
from alance.ops.version.lineage import lineage_reader
from alance.ops.version.projection import ROW_ADDRESS
from alance.ops.write.sources import conform
from alance.ops.write.spool import Spool
from alance.versioning.rules import TableRules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

    import numpy.typing as npt

    from alance.format.schema import Schema
    from alance.ops.merge.plan import Merge
    from alance.ops.merge.source import HeldSource
    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.spool import Scratch

    Rows = npt.NDArray[np.int64]
    U64 = npt.NDArray[np.uint64]

BUCKET_SHARE: Final = 4  # of the budget: rows of the data that are sorted at once


async def rewrite_columns(
    base: Snapshot,
    merge: Merge,
    source: HeldSource,
    rows: Rows,
    places: U64,
    scratch: Scratch,
    summary: Mapping[str, int],
) -> Callable[[], Awaitable[Snapshot]]:
    """Write files by which rows have the data's values where they are; gives what then makes the
    version.

    Cost: the data's columns of the fragments that have such rows are read, and written.

    Args:
        rows: numbers of source rows, ascending.
        places: addresses of the rows that they update.

    Raises:
        InvalidInputError: nulls in columns that have none.
    """
    schema = merge.written
    values = await _Values.of(merge, source, rows, places, scratch)
    ids = await base.engine.pool.run(values.fragment_ids)
    backfill = Backfill(values)
    try:
        handles = [base.handle(one) for one in ids]
        made = await backfill.fragments(base, schema, handles) if handles else []
        gone = frozenset(one.id for one in schema.walk())
        run = base.engine.pool.run
        changed = await run(values.offsets) if base.has_stable_row_ids else {}
        operation = await run(partial(_operation, made, gone, changed, base.version + 1))
    except BaseException:
        await backfill.discard()
        raise
    lineage = lineage_reader(base) if base.has_stable_row_ids else None
    rules = TableRules(base.engine, base.table, lineage=lineage)
    return partial(
        commit_change,
        base,
        operation,
        merge.plan.commit,
        rules=rules,
        discard=backfill.discard,
        summary=summary,
    )


def _operation(
    fragments: list[table_pb2.DataFragment],
    gone: frozenset[int],
    changed: Mapping[int, Rows],
    version: int,
) -> Update:
    """The operation, with what the rows' lineage is if it makes the next version.

    Args:
        fragments: their last files have the new values.
        gone: the fields that have new values.
        changed: with stable row ids: the offsets of the rows that have new values.
    """
    made = [_replaced(one, gone) for one in fragments]
    elsewhere = set(spilled(made))
    for one in made:
        if one.id in changed and one.id not in elsewhere:
            mark_updated(one, version, changed[one.id])
    return Update(
        updated_fragments=tuple(made),
        fields_modified=tuple(sorted(gone)) if made else (),
        update_mode=REWRITE_COLUMNS,
        updated_fragment_offset_bitmaps={key: roaring_bytes(rows) for key, rows in changed.items()},
    )


def _replaced(fragment: table_pb2.DataFragment, gone: frozenset[int]) -> table_pb2.DataFragment:
    """A fragment whose last file has fields that the other files do not count for any more."""
    made = table_pb2.DataFragment()
    made.CopyFrom(fragment)
    for file in made.files[:-1]:
        file.fields[:] = [TOMBSTONE if one in gone else one for one in file.fields]
    return made


@dataclass(slots=True)
class _Values:
    """The data's values for the rows that match, the table's for the others."""

    names: list[str]
    target: pa.Schema
    places: U64  # sorted
    bounds: Rows  # of the buckets, among places; shape (buckets + 1,)
    buckets: list[Spool]
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _loaded: tuple[int, pa.RecordBatch] | None = None

    @classmethod
    async def of(
        cls, merge: Merge, source: HeldSource, rows: Rows, places: U64, scratch: Scratch
    ) -> _Values:
        """Cut the data's rows into buckets, by the addresses where they go."""
        target = pa.schema([one.logical_arrow() for one in merge.written.fields])
        names = list(target.names)
        held = target.append(pa.field(ROW_ADDRESS, pa.uint64()))
        room = max(1, merge.plan.memory_bytes // BUCKET_SHARE)
        count = max(1, min(len(places), -(-source.rows.num_bytes // room)))
        ordered = await scratch.pool.run(partial(np.sort, places))
        bounds = np.linspace(0, len(places), count + 1).astype(np.int64)
        ends = ordered[bounds[1:-1]]
        buckets = [Spool(scratch, held, None if count == 1 else 1 << 16) for _ in range(count)]

        def split(batch: pa.RecordBatch, wanted: U64) -> list[tuple[int, pa.RecordBatch]]:
            arrays = [*(batch.column(name) for name in names), to_arrow(wanted)]
            whole = pa.RecordBatch.from_arrays(arrays, schema=held)
            owner = np.searchsorted(ends, wanted, "right")
            return [
                (int(one), whole.take(to_arrow(np.flatnonzero(owner == one))))
                for one in np.unique(owner)
            ]

        async for batch, start, stop in chosen_rows(source, rows):
            for one, part in await scratch.pool.run(partial(split, batch, places[start:stop])):
                await buckets[one].append(part)
        return cls(names, target, ordered, bounds, buckets)

    @property
    def is_physical(self) -> bool:
        return False

    @property
    def in_order(self) -> bool:
        return len(self.buckets) > 1

    def reads(self, schema: Schema) -> frozenset[int] | None:
        return None

    async def end(self, snapshot: Snapshot) -> None:
        pass

    async def batches(
        self, snapshot: Snapshot, handle: FragmentHandle, ahead_bytes: int
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        options = ScanOptions(
            fragments=[handle.id], io_buffer_bytes=ahead_bytes, with_row_address=True
        )
        plan = await plan_scan(snapshot, self.names, options)
        run = snapshot.engine.pool.run
        async with aclosing(scan(snapshot, plan)) as batches:
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
                    old = await run(partial(_updated, old, addresses, new))
                    start = last
                yield old

    def fragment_ids(self) -> list[int]:
        """The fragments of the rows that change, ascending. CPU."""
        found: list[int] = np.unique(self.places >> np.uint64(32)).tolist()
        return found

    def offsets(self) -> dict[int, Rows]:
        """The rows that change, as physical offsets by fragment; shape (n,), sorted."""
        found = Offsets()
        found.add(self.places)
        return found.by_fragment()

    async def _bucket(self, number: int) -> pa.RecordBatch:
        """The rows of a bucket in the order of their addresses; the last one stays in memory."""
        async with self._lock:
            if self._loaded is None or self._loaded[0] != number:
                self._loaded = None
                held = [batch async for batch in self.buckets[number].batches()]
                pool = self.buckets[number].scratch.pool
                self._loaded = (number, await pool.run(partial(_sorted, held)))
            return self._loaded[1]


def _sorted(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    whole = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    order = np.argsort(as_numbers(whole.column(ROW_ADDRESS)), kind="stable")
    return whole.take(to_arrow(order))


def _updated(old: pa.RecordBatch, addresses: U64, new: pa.RecordBatch) -> pa.RecordBatch:
    """Rows, some of them with other values; `addresses` are those of all rows."""
    rows = np.arange(old.num_rows)
    places = np.searchsorted(addresses, as_numbers(new.column(ROW_ADDRESS)))
    rows[places] = old.num_rows + np.arange(new.num_rows)
    order = to_arrow(rows)
    arrays = [
        pa.concat_arrays([old.column(name), new.column(name)]).take(order)
        for name in old.schema.names
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=old.schema)

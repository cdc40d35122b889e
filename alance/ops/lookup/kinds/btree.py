"""B-trees: all values in order with their rows, in pages."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.expr.pruning import Zones, may_match
from alance.expr.tree import plain
from alance.format.index import btree
from alance.format.index.btree import FENCE_ROWS, PageTableBuilder
from alance.format.numbers import as_mask, as_numbers, python_value, to_arrow
from alance.format.row_set import NO_ROWS, RowSet
from alance.format.statistics import ColumnBounds
from alance.format.table.indices import ADDRESSES_FROM
from alance.io.loop.tasks import all_of
from alance.ops.lookup.files import CACHED_PAGES, IndexFiles
from alance.ops.lookup.kinds.keys import RowKeys, row_schema
from alance.ops.lookup.kinds.kind import (
    ORDERED,
    IndexKind,
    check_type,
    is_ordered,
)
from alance.ops.lookup.kinds.zones import bound
from alance.ops.lookup.stored import StoredFile, check_columns, non_empty, spans_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable, Callable, Hashable, Mapping, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.expr.index_query import Ask
    from alance.format.index.btree import PageTable, TreePage
    from alance.format.index.remap import Moves
    from alance.format.index.zones import ZoneOptions
    from alance.format.table.indices import Index
    from alance.io.caches.cache import SearchCache
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.lookup.kinds.kind import Batches, PartLoader, PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

GROUP_PAGES: Final = 128  # pages read and evaluated together
GROUPS_AT_ONCE: Final = 4
FEW_PAGES: Final = 4  # up to this number of pages, zones are not pruned
# Pages with this number of rows are worth a lookup without a better estimate.
LOOKUP_WORTH_ROWS: Final = 16 << 10
PAGE_WORK: Final = 1 << 10  # evaluating a cached page takes 5 us, like decoding 1 KiB
ZONE_COPIES: Final = 4  # zones for pruning take 4 times the bytes of the page table


class BTree(IndexKind):
    """Sorted values in pages, and a page table with the bounds of each page."""

    name = "BTree"
    index_type = "BTREE"
    type_url = "/lance.table.BTreeIndexDetails"
    versions = (0, 1)
    columns = ORDERED
    file = btree.DATA_FILE
    has_addresses = True
    has_ranges = True
    of_json = True

    def suits(self, type_: pa.DataType) -> bool:
        return is_ordered(type_)

    def written_version(self, *, has_stable_row_ids: bool) -> int:
        return ADDRESSES_FROM if has_stable_row_ids else self.version

    def json_refusal(self, *, has_stable_row_ids: bool) -> str | None:
        if not has_stable_row_ids:
            return None
        return "a B-tree of JSON values, beside stable row ids, does not say which numbers it has"

    def takes(self, ask: Ask) -> bool:
        return True

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        files = segment.files(snapshot)
        table = await files.page_table()
        check_type(ask, table.low.type)
        pages = _pages_of(ask, table, files.where, snapshot.engine.cache)
        return PreparedTree(snapshot, segment, ask, files, table, pages, table.num_rows_of(pages))

    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[PartLoader]:
        table = await files.page_table()
        spans = spans_of(table.num_pages, CACHED_PAGES)
        return [partial(files.pages, table, range(*span)) for span in spans]

    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        table = await files.page_table()
        if not table.num_pages:
            return {"min": None, "max": None, "num_pages": 0}
        ends = table.low[0], table.high[table.num_pages - 1]
        low, high = map(python_value, ends)
        return {"min": low, "max": high, "num_pages": table.num_pages}

    async def stored_type(self, snapshot: Snapshot, index: Index) -> pa.DataType:
        return (await IndexFiles(snapshot, index).page_table()).low.type

    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> RowKeys:
        return RowKeys(type_)

    async def write(
        self, files: SegmentFiles, source: RowKeys, rows: Batches, *, of_runs: bool = False
    ) -> None:
        await write_tree(files, source.type, rows)

    async def move(
        self, snapshot: Snapshot, index: Index, moves: Moves, files: SegmentFiles
    ) -> None:
        type_ = (await IndexFiles(snapshot, index).page_table()).low.type
        async with aclosing(_tree_rows(snapshot, index, moves.moved)) as rows:
            await write_tree(files, type_, rows)

    def live_rows(
        self,
        snapshot: Snapshot,
        index: Index,
        source: RowKeys,
        live: RowSet,
        covered: frozenset[int],
    ) -> Batches:
        def live_ids(ids: Int64s) -> tuple[Int64s, Mask]:
            mask = live.mask_of(ids)
            return (ids if mask.all() else ids[mask]), mask

        return _tree_rows(snapshot, index, live_ids)


@dataclass(frozen=True, slots=True)
class PreparedTree:
    """A question to a B-tree, with the numbers of its pages."""

    snapshot: Snapshot
    segment: Segment
    ask: Ask
    files: IndexFiles
    table: PageTable
    pages: Int64s
    work: int  # number of rows of the pages

    @property
    def estimate(self) -> int:
        most = self.work
        points = self.ask.points if most > LOOKUP_WORTH_ROWS else None
        if points is None:
            return most
        # If a page begins and ends with the same value, all its rows may match; otherwise only few
        # do.
        low, high = (
            plain(end).take(to_arrow(self.pages)) for end in (self.table.low, self.table.high)
        )
        alike = self.pages[as_mask(pc.equal(low, high))]
        return min(most, FENCE_ROWS * len(points) + self.table.num_rows_of(alike))

    @property
    def summary(self) -> str:
        return f"{len(self.pages)} of {self.table.num_pages} pages"

    @property
    def num_compared(self) -> int:
        return self.work

    @property
    def cache_key(self) -> Hashable:
        return None

    is_exact = True
    is_at_hand = is_counted = False

    async def row_numbers(self) -> RowSet:
        numbers = self.pages.tolist()
        groups = [numbers[at : at + GROUP_PAGES] for at in range(0, len(numbers), GROUP_PAGES)]
        sets: list[RowSet] = []
        for at in range(0, len(groups), GROUPS_AT_ONCE):
            sets += await all_of(
                self._matching(group) for group in groups[at : at + GROUPS_AT_ONCE]
            )
        return sets[0] if len(sets) == 1 else RowSet.union(sets)

    async def _matching(self, numbers: list[int]) -> RowSet:
        pages = await self.files.pages(self.table, numbers)
        return await self.snapshot.engine.decode(
            lambda: _matching(self.ask, pages), PAGE_WORK * len(pages)
        )


def _matching(ask: Ask, pages: Sequence[TreePage]) -> RowSet:
    """Return the rows of pages for which a condition is true. CPU work.

    If there are many pages, only zones in which the condition may be true are evaluated.
    """
    values, ids = [page.values for page in pages], [page.ids for page in pages]
    if len(pages) > FEW_PAGES and ask.check is not None:
        all_zones = _zones(ask, [page.fences for page in pages])
        zones = np.flatnonzero(may_match(ask.check, all_zones))
        sizes = [page.fences.num_pages for page in pages]
        numbers = np.repeat(np.arange(len(pages)), sizes)[zones]
        starts = (zones - (np.cumsum(sizes) - sizes)[numbers]) * FENCE_ROWS
        spans = list(zip(numbers.tolist(), starts.tolist(), strict=True))
        values = [pages[number].values.slice(start, FENCE_ROWS) for number, start in spans]
        ids = [pages[number].ids[start : start + FENCE_ROWS] for number, start in spans]
    if not values:
        return NO_ROWS
    joined = plain(values[0] if len(values) == 1 else pa.concat_arrays(values))
    return RowSet((ids[0] if len(ids) == 1 else np.concatenate(ids))[ask.rows_in(joined)])


def _page_bounds(tables: Sequence[PageTable]) -> ColumnBounds:
    """Return the bounds of pages, or of zones within pages, for pruning."""
    low, high, nulls = tables[0].low, tables[0].high, tables[0].null_counts
    if len(tables) > 1:
        ends = [[plain(getattr(table, end)) for table in tables] for end in ("low", "high")]
        low, high = map(pa.concat_arrays, ends)
        nulls = np.concatenate([table.null_counts for table in tables])
    low, high = plain(low), plain(high)
    has_values = nulls >= 0
    if nulls.any():
        has_values = nulls < np.concatenate([table.counts() for table in tables])
    has_nans = np.zeros(len(nulls), np.bool_)
    if pa.types.is_floating(low.type):
        # Nulls come first, so the bounds do not show a negative NaN after them.
        has_nans = as_mask(pc.is_nan(low)) | as_mask(pc.is_nan(high)) | as_mask(pc.is_null(low))
        low, high = (bound(end, zero) for end, zero in ((low, -0.0), (high, 0.0)))
    return ColumnBounds(nulls > 0, has_values, has_nans, low, high)


def _pages_of(ask: Ask, table: PageTable, where: str, cache: SearchCache) -> Int64s:
    if ask.check is None:
        return np.arange(table.num_pages, dtype=np.int64)
    key = ("page zones", where, ask.column.path)
    zones: Zones | None = cache.peek(key)
    if zones is None:
        zones = _zones(ask, [table])
        cache.put(key, zones, ZONE_COPIES * table.num_bytes)
    return may_match(ask.check, zones).nonzero()[0]


def _zones(ask: Ask, tables: Sequence[PageTable]) -> Zones:
    """Return the consecutively numbered pages of tables as zones for pruning."""
    bounds = _page_bounds(tables)
    return Zones(len(bounds.has_nulls), {ask.column.path: bounds})


async def write_tree(
    files: SegmentFiles, type_: pa.DataType, rows: AsyncIterable[pa.RecordBatch]
) -> None:
    """Write the files of a B-tree.

    Args:
        rows: values of `type_` in index order, and row numbers (uint64).
    """
    table = await write_pages(files, btree.DATA_FILE, type_, rows)
    await write_lookup(files, table, {btree.RANGE_PARTITIONED: "false"})


async def write_pages(
    files: SegmentFiles, name: str, type_: pa.DataType, rows: AsyncIterable[pa.RecordBatch]
) -> pa.RecordBatch:
    """Write a page file of a B-tree; return the rows of its page table."""
    pool = files.snapshot.engine.pool
    pages = PageTableBuilder(type_)

    async def noted() -> AsyncGenerator[pa.RecordBatch, None]:
        async for batch in rows:
            pages.add(batch)  # reads the first and last values of its pages: some 30 us
            yield batch

    await files.write(name, row_schema(type_), noted())
    return await pool.run(pages.finish)


async def write_lookup(
    files: SegmentFiles, table: pa.RecordBatch, metadata: Mapping[str, str]
) -> None:

    async def rows() -> AsyncGenerator[pa.RecordBatch, None]:
        yield table

    schema = table.schema.with_metadata({btree.BATCH_SIZE: str(btree.PAGE_ROWS), **metadata})
    await files.write(btree.LOOKUP_FILE, schema, rows())


async def _tree_rows(
    snapshot: Snapshot, index: Index, moved: Callable[[Int64s], tuple[Int64s, Mask]]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield the rows of a B-tree in the form for `write_tree`.

    Args:
        moved: returns the new numbers of retained rows, and the mask of these rows.

    Raises:
        CorruptFileError, UnsupportedError: the tree cannot be read.
    """
    table = await IndexFiles(snapshot, index).page_table()  # also checks that the files match
    type_ = table.low.type
    schema = row_schema(type_)

    def renumbered(batch: pa.RecordBatch) -> pa.RecordBatch:
        values, ids = batch.columns
        if ids.null_count:
            raise CorruptFileError("B-tree index: a row number is null")
        rows, stays = moved(as_numbers(ids).view(np.int64))
        if not stays.all():
            values = values.filter(to_arrow(stays))
        return pa.RecordBatch.from_arrays([values, to_arrow(rows.view(np.uint64))], schema=schema)

    for name in table.files:
        data = await StoredFile.open(snapshot, index, name)
        check_columns(data, [btree.VALUES_COLUMN, btree.IDS], pa.uint64())
        if data.schema.field(btree.VALUES_COLUMN).type != type_:
            raise CorruptFileError(f"B-tree index: {name} is not of {type_}, as its table says")
        async with aclosing(non_empty(data, renumbered)) as batches:
            async for batch in batches:
                yield batch

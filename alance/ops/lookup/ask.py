"""One question asked of one segment of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import CorruptFileError
from alance.expr.compare import float_values
from alance.expr.pruning import Zones, may_match
from alance.expr.tree import plain, plain_type
from alance.format.index.btree import FENCE_ROWS
from alance.format.numbers import as_mask, to_arrow
from alance.format.row_set import NO_ROWS, RowSet
from alance.format.statistics import Bounds
from alance.io.tasks import all_of
from alance.ops.lookup.files import KEPT_SETS
from alance.ops.lookup.segments import BTREE

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from alance.arrays import Int64s
    from alance.expr.index_query import Ask
    from alance.format.index.btree import PageTable, TreePage
    from alance.io.cache import SearchCache
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot


GROUP_PAGES: Final = 128  # read and evaluated at once
FEW_PAGES: Final = 4  # all of whose values are evaluated
GROUP_SETS: Final = 1024
AT_ONCE: Final = 4
PAGE_WORK: Final = 1 << 10  # of a page that is at hand, as bytes to decode: some 5 us
ZONE_COPIES: Final = 4  # of a page table's bounds: as values that conditions are compared with
SET_SHARE: Final = 64  # a row of a bitmap costs so much less than one of a B-tree


class Asked(Protocol):
    """A question whose pages or keys are known, and whose rows are not read."""

    @property
    def segment(self) -> Segment: ...

    @property
    def estimate(self) -> int:
        """Rows that it may give."""

    @property
    def told(self) -> str:
        """The pages to be read, for `explain`."""

    @property
    def work(self) -> int:
        """What it costs to read and to join, as rows of a B-tree."""

    @property
    def kept_as(self) -> Hashable:
        """What the rows of a segment of row ids are kept by; None: they are not."""

    async def row_numbers(self) -> RowSet:
        """The rows that it gives, as the segment numbers them."""


async def ask_segment(snapshot: Snapshot, segment: Segment, ask: Ask) -> Asked:
    """Find the pages or keys of a question.

    Cost: a round, once; of a large page table two.

    Raises:
        CorruptFileError, UnsupportedError, NotFoundError: an index that cannot be read.
        pyarrow.ArrowException, ValueError, Problem: values that the question cannot take.
    """
    files = segment.files
    if segment.index.kind == BTREE:
        table = await files.page_table()
        _same_type(ask, table.low)
        pages = _pages_of(ask, table, files.where, snapshot.engine.cache)
        return AskedTree(snapshot, segment, ask, files, table, pages)
    keys = await files.keys()
    _same_type(ask, keys)
    mask = await snapshot.engine.decode(lambda: ask.matches(plain(keys)), int(keys.nbytes))
    places = np.flatnonzero(mask).tolist()
    return AskedBitmap(segment, files, places, len(keys))


@dataclass(frozen=True, slots=True)
class AskedTree:
    """A question to a B-tree, of which the pages are known."""

    snapshot: Snapshot
    segment: Segment
    ask: Ask
    files: IndexFiles
    table: PageTable
    pages: Int64s

    @property
    def estimate(self) -> int:
        return self.table.num_rows_of(self.pages)

    @property
    def work(self) -> int:
        return self.estimate

    @property
    def told(self) -> str:
        return f"{len(self.pages)} of {self.table.num_pages} pages"

    @property
    def kept_as(self) -> Hashable:
        return None

    async def row_numbers(self) -> RowSet:
        numbers = self.pages.tolist()
        groups = [numbers[at : at + GROUP_PAGES] for at in range(0, len(numbers), GROUP_PAGES)]
        sets: list[RowSet] = []
        for at in range(0, len(groups), AT_ONCE):
            sets += await all_of(self._matching(group) for group in groups[at : at + AT_ONCE])
        return sets[0] if len(sets) == 1 else RowSet.union(sets)

    async def _matching(self, numbers: list[int]) -> RowSet:
        pages = await self.files.pages(self.table, numbers)
        return await self.snapshot.engine.decode(
            lambda: _matching(self.ask, pages), PAGE_WORK * len(pages)
        )


@dataclass(frozen=True, slots=True)
class AskedBitmap:
    """A question to a bitmap index, of which the keys are known."""

    segment: Segment
    files: IndexFiles
    places: list[int]
    num_keys: int

    @property
    def estimate(self) -> int:
        return len(self.segment.domain) * len(self.places) // max(1, self.num_keys)

    @property
    def work(self) -> int:
        return self.estimate if self.segment.has_row_ids else self.estimate // SET_SHARE

    @property
    def told(self) -> str:
        return f"{len(self.places)} of {self.num_keys} values"

    @property
    def kept_as(self) -> Hashable:
        return tuple(self.places) if len(self.places) <= KEPT_SETS else None

    async def row_numbers(self) -> RowSet:
        sets: list[RowSet] = []
        for at in range(0, len(self.places), GROUP_SETS):
            sets += await self.files.row_sets(self.places[at : at + GROUP_SETS])
        return sets[0] if len(sets) == 1 else RowSet.union(sets)


def _matching(ask: Ask, pages: Sequence[TreePage]) -> RowSet:
    """The rows of pages of which a condition is true. CPU.

    Of many pages only those zones are evaluated in which it may be true: few, of a list of keys.
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
    return RowSet((ids[0] if len(ids) == 1 else np.concatenate(ids))[ask.matches(joined)])


def _page_bounds(tables: Sequence[PageTable]) -> Bounds:
    """The pages of a B-tree, or parts of pages, as zones of rows."""
    low, high = ([plain(getattr(table, end)) for table in tables] for end in ("low", "high"))
    low, high = (ends[0] if len(ends) == 1 else pa.concat_arrays(ends) for ends in (low, high))
    nulls = np.concatenate([table.null_counts for table in tables])
    has_values = np.ones(len(nulls), np.bool_)
    if nulls.any():
        has_values = nulls < np.concatenate([table.counts() for table in tables])
    has_nans = np.zeros(len(nulls), np.bool_)
    if pa.types.is_floating(low.type):
        # Behind nulls there may be a NaN with its sign set.
        has_nans = as_mask(pc.is_nan(low)) | as_mask(pc.is_nan(high)) | as_mask(pc.is_null(low))
        low, high = (_bound(end, zero) for end, zero in ((low, -0.0), (high, 0.0)))
    return Bounds(nulls > 0, has_values, has_nans, low, high)


def _bound(values: pa.Array, zero: float) -> pa.Array:
    """Bounds of floats: NaN is none, and a zero is that which is at the end."""
    floats = float_values(values)
    valid = as_mask(values.is_valid()) & ~np.isnan(floats)
    return to_arrow(np.where(floats == 0, floats.dtype.type(zero), floats), valid)


def _pages_of(ask: Ask, table: PageTable, where: str, cache: SearchCache) -> Int64s:
    """The pages in which a condition may be true."""
    if ask.check is None:
        return np.arange(table.num_pages, dtype=np.int64)
    key = ("page zones", where, ask.column.path)
    zones: Zones | None = cache.peek(key)
    if zones is None:
        zones = _zones(ask, [table])
        cache.put(key, zones, ZONE_COPIES * table.num_bytes)
    return np.flatnonzero(may_match(ask.check, zones))


def _zones(ask: Ask, tables: Sequence[PageTable]) -> Zones:
    """The pages of tables, numbered one behind the other, as zones of rows."""
    bounds = _page_bounds(tables)
    return Zones(len(bounds.has_nulls), {ask.column.path: bounds})


def _same_type(ask: Ask, values: pa.Array) -> None:
    type_ = plain_type(values.type)
    if type_ != ask.column.type:
        raise CorruptFileError(f"values of type {type_}, the column has {ask.column.type}")

"""One question asked of one segment of an index."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from alance import compute as pc
from alance.errors import CorruptFileError
from alance.expr.index_query import MAX_WAYS
from alance.expr.pruning import Zones, may_match
from alance.expr.tree import plain, plain_type
from alance.format.index.btree import FENCE_ROWS
from alance.format.index.ngram import POSTING_LISTS, tokens_of
from alance.format.numbers import as_mask, as_numbers, places_in, to_arrow
from alance.format.row_set import NO_ROWS, RowSet
from alance.format.statistics import Bounds
from alance.io.tasks import all_of
from alance.ops.lookup.files import KEPT_SETS
from alance.ops.lookup.segments import BLOOM, BTREE, LABELS, NGRAMS, ZONES
from alance.ops.lookup.zones import ask_filters, ask_zones, bound
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from alance.arrays import Int64s
    from alance.expr.index_query import Ask
    from alance.format.index.btree import PageTable, TreePage
    from alance.io.cache import SearchCache
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot


GROUP_PAGES: Final = 128  # read and evaluated at once
FEW_PAGES: Final = 4  # all of whose values are evaluated
FEW_ROWS: Final = 16 << 10  # of pages, all of which a question may give: they are worth a lookup
GROUP_SETS: Final = 1024
AT_ONCE: Final = 4
PAGE_WORK: Final = 1 << 10  # of a page that is at hand, as bytes to decode: some 5 us
ZONE_COPIES: Final = 4  # of a page table's bounds: as values that conditions are compared with
SET_SHARE: Final = 64  # a row of a bitmap costs so much less than one of a B-tree
MAX_TOKENS: Final = 16  # of a text that are looked up
NGRAMS_OF_A_ROW: Final = 16  # of short texts; of longer ones a token has more rows


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
    def is_exact(self) -> bool:
        """The question is true of all rows that it gives, if the index is right."""

    @property
    def is_at_hand(self) -> bool:
        """What it gives is known already, however many rows: whole zones of them."""

    @property
    def is_counted(self) -> bool:
        """What it gives is counted without a look at the rows, however many."""

    @property
    def work(self) -> int:
        """What it costs to read and to join, as rows of a B-tree."""

    @property
    def num_compared(self) -> int:
        """Values that the question is compared with, for statistics."""

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
    files = segment.files(snapshot)
    if segment.steps is not None:
        assert ask.of_json is not None
        ask = ask.of_json[1]
    if segment.kind == BTREE:
        table = await files.page_table()
        _same_type(ask, table.low)
        pages = _pages_of(ask, table, files.where, snapshot.engine.cache)
        return AskedTree(snapshot, segment, ask, files, table, pages)
    if segment.kind == ZONES:
        return await ask_zones(snapshot, segment, ask)
    if segment.kind == BLOOM:
        return await ask_filters(snapshot, segment, ask)
    if segment.kind == NGRAMS:
        return await _ask_ngrams(snapshot, segment, ask)
    keys = await files.keys()
    if segment.kind == LABELS:
        assert ask.of_item is not None
        ask = ask.of_item
    values = plain(keys)
    _same_type(ask, values)
    mask = await snapshot.engine.decode(lambda: ask.matches(values), int(keys.nbytes))
    places = np.flatnonzero(mask).tolist()
    return AskedBitmap(segment, files, places, len(keys))


def takes(segment: Segment, ask: Ask) -> bool:
    """Whether an index of which there is a segment may narrow a question down."""
    if segment.steps is not None:
        if ask.of_json is None or ask.of_json[0] != tuple(step[:2] for step in segment.steps):
            return False
        ask = ask.of_json[1]
        if segment.kind == NGRAMS and not pa.types.is_string(ask.column.type):
            return False
    test = TAKES.get(segment.kind)
    return test is None or test(ask)


TAKES: Final[Mapping[str, Callable[[Ask], bool]]] = {
    LABELS: lambda ask: ask.of_item is not None,
    NGRAMS: lambda ask: bool(_ways_of(ask)),
    BLOOM: lambda ask: ask.is_of_nulls or ask.points is not None,
    ZONES: lambda ask: ask.check is not None,
}


def _ways_of(ask: Ask) -> list[list[int]]:
    """The tokens of each way that texts may match; none where there is one without any."""
    ways = [tokens_of(parts, MAX_TOKENS) for parts in ask.texts[: MAX_WAYS + 1]]
    return ways if all(ways) and len(ways) <= MAX_WAYS else []


async def _ask_ngrams(snapshot: Snapshot, segment: Segment, ask: Ask) -> Asked:
    files = segment.files(snapshot)
    keys = await files.keys(POSTING_LISTS)
    if keys.type != pa.uint32() or keys.null_count:
        raise CorruptFileError(f"n-gram index: tokens of type {keys.type}, or null")
    numbers = as_numbers(keys)
    ways: list[list[int]] = []
    for tokens in _ways_of(ask):
        places, is_there = places_in(numbers, np.array(tokens, numbers.dtype))
        if is_there.all():
            ways.append(places.tolist())
    return AskedNgrams(segment, files, ways, len(keys))


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
        most = self.work
        points = self.ask.points if most > FEW_ROWS else None
        if points is None:
            return most
        # All rows of a page that begins and ends with one value may have it; of others few.
        low, high = (
            plain(end).take(to_arrow(self.pages)) for end in (self.table.low, self.table.high)
        )
        alike = self.pages[as_mask(pc.equal(low, high))]
        return min(most, FENCE_ROWS * len(points) + self.table.num_rows_of(alike))

    @property
    def work(self) -> int:
        return self.table.num_rows_of(self.pages)

    @property
    def told(self) -> str:
        return f"{len(self.pages)} of {self.table.num_pages} pages"

    @property
    def num_compared(self) -> int:
        return self.work

    @property
    def kept_as(self) -> Hashable:
        return None

    is_exact = True
    is_at_hand = is_counted = False

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
    def num_compared(self) -> int:
        return len(self.places)

    @property
    def kept_as(self) -> Hashable:
        return tuple(self.places) if len(self.places) <= KEPT_SETS else None

    is_exact = True
    is_at_hand = False

    @property
    def is_counted(self) -> bool:
        return not self.segment.has_row_ids

    async def row_numbers(self) -> RowSet:
        sets: list[RowSet] = []
        for at in range(0, len(self.places), GROUP_SETS):
            sets += await self.files.row_sets(self.places[at : at + GROUP_SETS])
        return sets[0] if len(sets) == 1 else RowSet.union(sets)


@dataclass(frozen=True, slots=True)
class AskedNgrams:
    """A question to an n-gram index.

    Attributes:
        ways: places of tokens: the rows that have all those of a way may match.
    """

    segment: Segment
    files: IndexFiles
    ways: list[list[int]]
    num_keys: int

    @property
    def estimate(self) -> int:
        return len(self.segment.domain) * NGRAMS_OF_A_ROW * len(self.ways) // max(1, self.num_keys)

    @property
    def work(self) -> int:
        return self.estimate if self.segment.has_row_ids else self.estimate // SET_SHARE

    @property
    def told(self) -> str:
        tokens = {place for way in self.ways for place in way}
        return f"{len(tokens)} of {self.num_keys} tokens"

    @property
    def num_compared(self) -> int:
        return len({place for way in self.ways for place in way})

    @property
    def kept_as(self) -> Hashable:
        return tuple(map(tuple, self.ways)) if len(self.ways) <= KEPT_SETS else None

    is_exact = is_at_hand = is_counted = False

    async def row_numbers(self) -> RowSet:
        places = sorted({place for way in self.ways for place in way})
        sets = await self.files.row_sets(places, POSTING_LISTS)
        by_place = dict(zip(places, sets, strict=True))
        common = [reduce(and_, [by_place[place] for place in way]) for way in self.ways]
        return common[0] if len(common) == 1 else RowSet.union(common)


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
    return RowSet((ids[0] if len(ids) == 1 else np.concatenate(ids))[ask.rows_in(joined)])


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
        low, high = (bound(end, zero) for end, zero in ((low, -0.0), (high, 0.0)))
    return Bounds(nulls > 0, has_values, has_nans, low, high)


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

"""One question asked of one segment of an index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.errors import CorruptFileError
from alance.expr.compare import float_values
from alance.expr.pruning import Zones, check_of, may_match
from alance.expr.tree import plain, plain_type
from alance.format.index.addresses import all_of as merged
from alance.format.numbers import as_mask, to_arrow
from alance.format.statistics import Bounds
from alance.io.tasks import all_of
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.segments import BTREE

if TYPE_CHECKING:
    from alance.arrays import Int64s
    from alance.expr.index_query import Ask
    from alance.format.index.btree import PageTable
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot


GROUP_PAGES: Final = 64  # read and evaluated at once
GROUP_SETS: Final = 1024
AT_ONCE: Final = 4


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

    async def row_numbers(self) -> Int64s:
        """The numbers of rows, ascending, each once; as the segment holds them."""


async def ask_segment(snapshot: Snapshot, segment: Segment, ask: Ask) -> Asked:
    """Find the pages or keys of a question.

    Cost: a round, once; of a large page table two.

    Raises:
        CorruptFileError, UnsupportedError, NotFoundError: an index that cannot be read.
        pyarrow.ArrowException, ValueError, Problem: values that the question cannot take.
    """
    files = IndexFiles(snapshot, segment.index)
    if segment.index.kind == BTREE:
        table = await files.page_table()
        _same_type(ask, table.low)
        return AskedTree(snapshot, segment, ask, files, table, _pages_of(ask, table))
    keys = await files.keys()
    _same_type(ask, keys)
    mask = await snapshot.engine.decode(lambda: ask.matches(plain(keys)), int(keys.nbytes))
    rows = sum(snapshot.handle(one).num_physical_rows for one in segment.covered)
    return AskedBitmap(snapshot, segment, files, np.flatnonzero(mask), len(keys), rows)


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
        return int(self.table.counts()[self.pages].sum())

    @property
    def told(self) -> str:
        return f"{len(self.pages)} of {self.table.num_pages} pages"

    async def row_numbers(self) -> Int64s:
        wanted = self.pages.tolist()
        groups = [wanted[at : at + GROUP_PAGES] for at in range(0, len(wanted), GROUP_PAGES)]
        found: list[Int64s] = []
        for at in range(0, len(groups), AT_ONCE):
            found += await all_of(self._matching(group) for group in groups[at : at + AT_ONCE])
        return merged(found)

    async def _matching(self, wanted: list[int]) -> Int64s:
        pages = await self.files.pages(self.table, wanted)

        def match() -> Int64s:
            return merged(ids[self.ask.matches(plain(values))] for values, ids in pages)

        num_bytes = sum(int(values.nbytes) + ids.nbytes for values, ids in pages)
        return await self.snapshot.engine.decode(match, num_bytes)


@dataclass(frozen=True, slots=True)
class AskedBitmap:
    """A question to a bitmap index, of which the keys are known."""

    snapshot: Snapshot
    segment: Segment
    files: IndexFiles
    places: Int64s
    num_keys: int
    num_rows: int

    @property
    def estimate(self) -> int:
        return self.num_rows * len(self.places) // max(1, self.num_keys)

    @property
    def told(self) -> str:
        return f"{len(self.places)} of {self.num_keys} values"

    async def row_numbers(self) -> Int64s:
        found: list[Int64s] = []
        for at in range(0, len(self.places), GROUP_SETS):
            found += await self.files.row_sets(self.places[at : at + GROUP_SETS])
        return await self.snapshot.engine.pool.run(lambda: merged(found))


def _page_bounds(table: PageTable) -> Bounds:
    """The pages of a B-tree as zones of rows."""
    low, high = plain(table.low), plain(table.high)
    has_values = table.null_counts < table.counts()
    has_nans = np.zeros(table.num_pages, np.bool_)
    if pa.types.is_floating(low.type):
        # Behind nulls there may be a NaN with its sign set.
        has_nans = as_mask(pc.is_nan(low)) | as_mask(pc.is_nan(high)) | as_mask(pc.is_null(low))
        low, high = (_bound(end, zero) for end, zero in ((low, -0.0), (high, 0.0)))
    return Bounds(table.null_counts > 0, has_values, has_nans, low, high)


def _bound(values: pa.Array, zero: float) -> pa.Array:
    """Bounds of floats: NaN is none, and a zero is that which is at the end."""
    floats = float_values(values)
    valid = as_mask(values.is_valid()) & ~np.isnan(floats)
    return to_arrow(np.where(floats == 0, floats.dtype.type(zero), floats), valid)


def _pages_of(ask: Ask, table: PageTable) -> Int64s:
    check = check_of(ask.condition)
    if check is None:
        return np.arange(table.num_pages, dtype=np.int64)
    zones = Zones(table.num_pages, {ask.column.path: _page_bounds(table)})
    return np.flatnonzero(may_match(check, zones))


def _same_type(ask: Ask, values: pa.Array) -> None:
    found = plain_type(values.type)
    if found != ask.column.type:
        raise CorruptFileError(f"values of type {found}, the column has {ask.column.type}")

"""Eligible rows of an index segment: live, covered, and passing the filter.

A segment answers only for the fragments in its own bitmap. Its files may also have rows of
fragments whose values were later changed in place, and which another segment or no segment now
covers. So each set of rows lists its fragments, unless it contains stable row ids.
"""

from __future__ import annotations

import re
import sys
from contextlib import aclosing
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.format.index.values import NO_MASK
from alance.format.numbers import as_numbers
from alance.format.row_set import NO_ROWS, RowSet
from alance.io.caches.cache import Memo, SearchCache
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.search.segments import flat_options
from alance.ops.version.deleted import deleted_rows, with_deletions
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from alance.base.arrays import Bytes, Int64s, UInt64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.segments import SearchSegment
    from alance.ops.version.snapshot import Snapshot

MASK_BYTES: Final = 16 << 20  # memo of masks for one set of rows
ENTRY_BYTES: Final = 300  # overhead of a memo entry
FILTER_BYTES: Final = 16 << 20  # memo of filtered rows of a version, with their masks
MASKED_ROWS: Final = 1 << 20  # above this, no mask is computed for later searches
TIME_WORDS: Final = re.compile("now|today|current", re.IGNORECASE)  # results change with time


@dataclass(frozen=True, slots=True)
class Eligible:
    """A set of eligible rows.

    Attributes:
        rows: ids of the eligible rows; None if any row may be eligible.
        deleted: ids of excluded rows.
        fragments: ids of the fragments of eligible rows, ascending; None for any fragment. If set,
            ids are row addresses. An address beyond the end of its fragment is eligible: the search
            then reports that the index is damaged.
        masks: memo of masks by index part; None if masks are not memoized.
    """

    rows: RowSet | None = None
    deleted: RowSet = field(default_factory=RowSet)
    fragments: Int64s | None = None
    masks: Memo[Hashable, Bytes] | None = None

    @property
    def has_all(self) -> bool:
        """True if the set contains every row."""
        return self.rows is None and self.fragments is None and not len(self.deleted)

    def mask_of_part(self, part: Hashable, ids: UInt64s) -> Bytes:
        """Return the mask of the eligible rows of an index part; memoized if there is a memo."""
        if self.has_all:
            return NO_MASK
        mask = None if self.masks is None else self.masks.peek(part)
        if mask is None:
            mask = self.mask(ids)
            mask = NO_MASK if mask.all() else mask
            if self.masks is not None:
                self.masks.put(part, mask, ENTRY_BYTES + len(mask))
        return mask

    def mask(self, ids: UInt64s) -> Bytes:
        """Return a mask of the ids in the set, shape (n,); empty if the set has all ids."""
        if self.has_all:
            return NO_MASK
        rows = None if self.rows is None else self.rows.lookup
        deleted = self.deleted.lookup if len(self.deleted) else None
        return _kernels.rows_mask(ids, rows, deleted, self.fragments)

    def within(self, rows: RowSet) -> Eligible:
        """Return the intersection with a set of rows."""
        rows = rows if self.rows is None else self.rows & rows
        return replace(self, rows=rows, masks=None)

    def of_part(self, fragments: Int64s) -> Eligible:
        """Return the set for an index part whose rows are all in the given fragments.

        If all of these fragments are eligible, the fragment of each id need not be checked.
        """
        if self.fragments is None or not np.isin(fragments, self.fragments).all():
            return self
        return replace(self, fragments=None)


async def eligible_rows(
    snapshot: Snapshot, segments: Sequence[SearchSegment], options: ScanOptions
) -> tuple[list[Eligible], RowSet | None]:
    """Return the eligible rows of each segment, and the filtered rows (None without a filter).

    Cost: a GET for each uncached deletion vector of the covered fragments; with stable row ids,
    that of `Snapshot.row_index` instead. With a filter, a scan of its columns; results of SQL
    filters without parameters are memoized, unless they change with the time.

    Args:
        options: options of the search.
    """
    if options.filter is None or not options.prefilter:
        return [await _live_rows(snapshot, segment) for segment in segments], None
    covered = frozenset[int]().union(*(segment.covered for segment in segments))
    eligible = await _filtered_rows(snapshot, replace(flat_options(options), fragments=covered))
    rows = eligible.rows
    assert rows is not None
    if not snapshot.has_stable_row_ids:
        by_segment = [_fragments_of(snapshot, segment) for segment in segments]
        return [replace(eligible, fragments=fragments) for fragments in by_segment], rows
    # An updated row keeps its id, so a segment may still have the row's old vector. The row is only
    # eligible in a segment that covers its fragment.
    return [(await _live_rows(snapshot, segment)).within(rows) for segment in segments], rows


def _fragments_of(snapshot: Snapshot, segment: SearchSegment) -> Int64s:
    covered = segment.covered
    return snapshot.remember((_fragments_of, covered), lambda: np.array(sorted(covered), np.int64))


async def _live_rows(snapshot: Snapshot, segment: SearchSegment) -> Eligible:
    """Return the live rows of the fragments that a segment covers; memoized."""
    covered = segment.covered
    slot: list[Eligible] = snapshot.remember((_live_rows, covered), list)
    if not slot:
        fragments = _fragments_of(snapshot, segment)
        if snapshot.has_stable_row_ids:
            index = await snapshot.row_index()
            rows = await snapshot.engine.pool.run(lambda: index.rows_in(fragments))
            slot.append(Eligible(rows, masks=Memo(MASK_BYTES)))
        else:
            handles = [handle for handle in with_deletions(snapshot) if handle.id in covered]
            sets = await deleted_rows(snapshot, handles)
            deleted = await snapshot.engine.decode(
                lambda: RowSet.union(sets), 8 * sum(map(len, sets))
            )
            slot.append(Eligible(None, deleted, fragments, Memo(MASK_BYTES)))
    return slot[0]


async def _filtered_rows(snapshot: Snapshot, options: ScanOptions) -> Eligible:
    """Return the live rows that pass a scan's filter; concurrent callers share a scan."""
    filters = snapshot.remember(_filtered_rows, lambda: SearchCache(FILTER_BYTES))
    # Compared by identity: `==` of expressions is an expression, and equal parameters may differ in
    # type.
    text = options.filter if isinstance(options.filter, str) else id(options.filter)
    is_memoized = isinstance(text, str) and not options.params and not TIME_WORDS.search(text)
    rest = [
        getattr(options, field.name)
        for field in fields(options)
        if field.name not in ("filter", "params")
    ]
    key = (text, id(options.params) if options.params else None, *rest)
    num_rows = int(snapshot.manifest.fragments.physical_rows.sum())
    has_masks = is_memoized and num_rows <= MASKED_ROWS

    async def load() -> Eligible:
        return Eligible(
            await _scanned_rows(snapshot, options), masks=Memo(MASK_BYTES) if has_masks else None
        )

    def num_bytes(eligible: Eligible) -> int:
        size = 300 + (num_rows if has_masks else 0) + 2 * len(eligible.rows or NO_ROWS)
        return size if is_memoized and size <= FILTER_BYTES // 4 else sys.maxsize

    return await filters.get(key, load, num_bytes)


async def _scanned_rows(snapshot: Snapshot, options: ScanOptions) -> RowSet:
    """Return the live rows that pass a scan's filter.

    Cost: a scan of the filter's columns. If row ids are addresses and an index answers the whole
    filter for a fragment, only the fragment's deletion file is read.
    """
    counts = not snapshot.has_stable_row_ids
    plan = await plan_scan(snapshot, [ROW_ID], options, counts=counts)
    counted = plan.counted
    parts = []
    if counted is None or plan.handles:
        async with aclosing(scan(snapshot, plan)) as batches:
            parts = [as_numbers(batch.column(0)) async for batch in batches]
    rows = NO_ROWS
    if parts:
        rows = await snapshot.engine.decode(
            lambda: RowSet(np.concatenate(parts)), sum(part.nbytes for part in parts)
        )
    if counted is None:
        return rows
    hit = [handle for handle in with_deletions(snapshot) if counted.count_of(handle.id)]
    deleted = await deleted_rows(snapshot, hit)
    return await snapshot.engine.decode(
        lambda: (counted - RowSet.union(deleted)) | rows, len(counted)
    )

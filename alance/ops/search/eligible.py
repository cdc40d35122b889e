"""The rows of an index segment that a search may return: live, covered, and kept by a filter.

A segment answers for the fragments of its own bitmap alone. Its files may also hold rows of other
fragments, whose values were changed in place since: another segment covers these by now, or none.
So every set of rows lists its fragments, unless it lists stable row ids.
"""

from __future__ import annotations

import re
import sys
from contextlib import aclosing
from dataclasses import field, fields, replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.format.index.values import NO_MASK
from alance.format.numbers import as_numbers
from alance.format.row_set import NO_ROWS, RowSet
from alance.io.caches.cache import Memo, SearchCache
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.deleted import deleted_rows, with_deletions
from alance.ops.version.projection import ROW_ID
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from alance.arrays import Bytes, Int64s, UInt64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.segments import SearchSegment
    from alance.ops.version.snapshot import Snapshot

MASK_BYTES: Final = 16 << 20  # of the masks that are remembered for one set of rows
ENTRY_BYTES: Final = 300  # of the memo's entry for a mask, beside the mask
FILTER_BYTES: Final = 16 << 20  # of the rows that filters of a version keep, and of their masks
MASKED_ROWS: Final = 1 << 20  # masks of more are not made for later searches
MOMENTS: Final = re.compile("now|today|current", re.IGNORECASE)  # filters that change with time


@dataclass(frozen=True, slots=True)
class Eligible:
    """Rows by id.

    Attributes:
        rows: the only ones; None: any.
        deleted: but not these.
        fragments: ids of the only ones that rows may be in, ascending; None: any. Then ids are
            addresses, and those beyond a fragment's rows are left to be seen as damage.
        masks: masks by part of an index, if the set is remembered.
    """

    rows: RowSet | None = None
    deleted: RowSet = field(default_factory=RowSet)
    fragments: Int64s | None = None
    masks: Memo[Hashable, Bytes] | None = None

    @property
    def has_all(self) -> bool:
        """Any row may be given."""
        return self.rows is None and self.fragments is None and not len(self.deleted)

    def mask_of_part(self, part: Hashable, ids: UInt64s) -> Bytes:
        """Like `mask`, for ids that are always the same."""
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
        """Nonzero for each id that is in the set, shape (n,); empty: all are."""
        if self.has_all:
            return NO_MASK
        rows = None if self.rows is None else self.rows.lookup
        deleted = self.deleted.lookup if len(self.deleted) else None
        return _kernels.rows_mask(ids, rows, deleted, self.fragments)

    def within(self, rows: RowSet) -> Eligible:
        """Those of some rows."""
        rows = rows if self.rows is None else self.rows & rows
        return replace(self, rows=rows, masks=None)

    def of_part(self, fragments: Int64s) -> Eligible:
        """The set for a part of the index whose ids are all in some fragments.

        If the set has all of these fragments, the fragment of each id need not be checked.
        """
        if self.fragments is None or not np.isin(fragments, self.fragments).all():
            return self
        return replace(self, fragments=None)


async def eligible_rows(
    snapshot: Snapshot, segments: Sequence[SearchSegment], filtering: ScanOptions | None
) -> tuple[list[Eligible], RowSet | None]:
    """The rows of each segment of an index that may be given; and those that a filter keeps.

    Cost: a GET for each deletion vector of the fragments that is not known; with stable row ids
    all of the version's, and the ids of its rows, once. With a filter a scan of its columns; what
    filters in SQL without parameters keep is remembered.

    Args:
        filtering: options of a scan, whose filter counts; None: there is no filter.
    """
    if filtering is None:
        return [await _live_rows(snapshot, segment) for segment in segments], None
    covered = frozenset[int]().union(*(segment.covered for segment in segments))
    eligible = await _filtered_rows(snapshot, replace(filtering, fragments=covered))
    kept = eligible.rows
    assert kept is not None
    if not snapshot.has_stable_row_ids:
        by_segment = [_fragments_of(snapshot, segment) for segment in segments]
        return [replace(eligible, fragments=fragments) for fragments in by_segment], kept
    # The vectors of rows that were updated are those of older rows, which only some segment has.
    return [(await _live_rows(snapshot, segment)).within(kept) for segment in segments], kept


def _fragments_of(snapshot: Snapshot, segment: SearchSegment) -> Int64s:
    """The fragments that a segment answers for, ascending; remembered."""
    covered = segment.covered
    return snapshot.remember((_fragments_of, covered), lambda: np.array(sorted(covered), np.int64))


async def _live_rows(snapshot: Snapshot, segment: SearchSegment) -> Eligible:
    """The live rows of the fragments that a segment covers; remembered."""
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
    """The live rows for which a scan's filter is true; those who ask at once share the scan."""
    filters = snapshot.remember(_filtered_rows, lambda: SearchCache(FILTER_BYTES))
    # An expression's == is an expression; values of parameters are equal across types.
    text = options.filter if isinstance(options.filter, str) else id(options.filter)
    is_kept = isinstance(text, str) and not options.params and not MOMENTS.search(text)
    rest = [
        getattr(options, field.name)
        for field in fields(options)
        if field.name not in ("filter", "params")
    ]
    key = (text, id(options.params) if options.params else None, *rest)
    num_rows = int(snapshot.manifest.fragments.physical_rows.sum())
    has_masks = is_kept and num_rows <= MASKED_ROWS

    async def load() -> Eligible:
        return Eligible(
            await _scanned_rows(snapshot, options), masks=Memo(MASK_BYTES) if has_masks else None
        )

    def num_bytes(eligible: Eligible) -> int:
        size = 300 + (num_rows if has_masks else 0) + 2 * len(eligible.rows or NO_ROWS)
        return size if is_kept and size <= FILTER_BYTES // 4 else sys.maxsize

    return await filters.get(key, load, num_bytes)


async def _scanned_rows(snapshot: Snapshot, options: ScanOptions) -> RowSet:
    """The same by a scan.

    Cost: a scan of its columns; where rows are named by address, of fragments for which no index
    answers the whole filter, and deletion files of those of which one does.
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

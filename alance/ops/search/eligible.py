"""Which rows that an index names may be given: those that are live, covered, and kept by a filter.

Whatever stands behind it, it answers one question: of these row ids, which are among them?
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

from alance.format.index.values import NO_MASK
from alance.format.numbers import as_numbers
from alance.ops.read.plan import plan_scan
from alance.ops.read.scan import scan
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Collection

    from alance.arrays import Bytes, UInt64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.snapshot import Snapshot
    from alance.versioning.row_index import RowIdIndex


class EligibleRows(Protocol):
    """Rows by id."""

    def mask(self, ids: UInt64s) -> Bytes:
        """Nonzero for each id that is in the set, shape (n,); empty: all are."""
        ...


@dataclass(frozen=True, slots=True)
class Everything:
    """All rows."""

    def mask(self, ids: UInt64s) -> Bytes:
        return NO_MASK


@dataclass(frozen=True, slots=True)
class Listed:
    """Some rows: their ids, ascending."""

    ids: UInt64s

    def mask(self, ids: UInt64s) -> Bytes:
        return _is_in(self.ids, ids)


@dataclass(frozen=True, slots=True)
class Both:
    """The rows that are in two sets."""

    left: EligibleRows
    right: EligibleRows

    def mask(self, ids: UInt64s) -> Bytes:
        first, second = self.left.mask(ids), self.right.mask(ids)
        if not len(first) or not len(second):
            return second if not len(first) else first
        return first & second


@dataclass(frozen=True, slots=True)
class Live:
    """The rows of some fragments that are not deleted; of ids that are addresses.

    Attributes:
        fragments: ids of these fragments, ascending; None: the index names no others.
        deleted: addresses, ascending.
    """

    fragments: UInt64s | None
    deleted: UInt64s

    def mask(self, ids: UInt64s) -> Bytes:
        kept = NO_MASK
        if self.fragments is not None:
            kept = _is_in(self.fragments, ids >> np.uint64(32))
        if len(self.deleted):
            gone = _is_in(self.deleted, ids)
            kept = 1 - gone if not len(kept) else kept & (1 - gone)
        return kept


@dataclass(frozen=True, slots=True)
class LiveByIndex:
    """The rows that stable ids name, where they are in some fragments.

    A row that was updated is in another fragment than the vector that an index has of it.
    """

    index: RowIdIndex
    fragments: UInt64s

    def mask(self, ids: UInt64s) -> Bytes:
        addresses, missing = self.index.find(ids.astype(np.int64))
        is_here = _is_in(self.fragments, addresses.astype(np.uint64) >> np.uint64(32))
        kept: Bytes = is_here & ~missing
        return kept


def _is_in(values: UInt64s, ids: UInt64s) -> Bytes:
    """Where ids are among ascending values."""
    if not len(values):
        return np.zeros(len(ids), np.uint8)
    places = np.minimum(np.searchsorted(values, ids), len(values) - 1)
    there: Bytes = (values[places] == ids).view(np.uint8)
    return there


async def live_rows(
    snapshot: Snapshot, covered: Collection[int], named: Collection[int] | None
) -> EligibleRows:
    """The live rows of fragments.

    Cost: a GET for each deletion vector of them that is not known; with stable row ids all of the
    version's, and the ids of its rows, once.

    Args:
        covered: ids of the fragments.
        named: those that the index names rows of; None: unknown.
    """
    fragments = np.array(sorted(covered), np.uint64)
    if snapshot.has_stable_row_ids:
        return LiveByIndex(await snapshot.row_index(), fragments)
    handles = [snapshot.handle(fragment) for fragment in covered]
    handles = [handle for handle in handles if handle.fragment.deletion_file is not None]
    is_all = named is not None and set(named) <= set(covered)
    if is_all and not handles:
        return Everything()
    await snapshot.prepare(handles)

    def gather() -> UInt64s:
        parts = [
            (np.uint64(handle.id) << np.uint64(32)) | handle.deleted.rows.astype(np.uint64)
            for handle in handles
            if handle.deleted is not None
        ]
        return np.sort(np.concatenate(parts)) if parts else np.empty(0, np.uint64)

    deleted = await snapshot.engine.pool.run(gather) if handles else np.empty(0, np.uint64)
    return Live(None if is_all else fragments, deleted)


async def filtered_rows(snapshot: Snapshot, options: ScanOptions) -> EligibleRows:
    """The live rows for which a scan's filter is true. Cost: a scan of its columns."""
    plan = await plan_scan(snapshot, [ROW_ID], options)
    async with aclosing(scan(snapshot, plan)) as batches:
        parts = [as_numbers(batch.column(0)) async for batch in batches]
    if not parts:
        return Listed(np.empty(0, np.uint64))
    return Listed(await snapshot.engine.pool.run(lambda: np.sort(np.concatenate(parts))))

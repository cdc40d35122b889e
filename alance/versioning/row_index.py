"""Stable row ids as runs, and the index from row ids to row addresses.

Ids are assigned in ascending order, and compaction keeps that order. So even a large table has few
runs of consecutive ids; an appended fragment is one run. The versions of rows form runs of equal
values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, RowNotFoundError
from alance.format.numbers import places_in
from alance.format.row_set import RowSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.base.arrays import Int64s, Mask, UInt32s, UInt64s

OFFSET_SHIFT: Final = np.uint64(32)
MOVED_RUN_ROWS: Final = 256  # rows; looking up this many takes as long as moving one run
# Work, as bytes that take as long to decode: per row looked up, and per run moved. Moving a run
# also costs a byte per `RUN_ROWS_A_BYTE` rows.
LOOKED_UP_ROW_WORK: Final = 8
RUN_WORK: Final = 256
RUN_ROWS_A_BYTE: Final = 4
NO_LENGTHS: Final = np.empty(0, np.uint32)


class RowValues(NamedTuple):
    """A number for each physical row of a fragment, as runs that grow by `step` per row."""

    starts: Int64s  # shape (runs,): first row of each run; empty if `values` has all rows
    values: UInt64s  # shape (runs,): number of the first row of each run
    step: int

    @classmethod
    def of(cls, values: UInt64s, step: int) -> RowValues:
        """Build runs from the numbers of all rows.

        Args:
            step: 1 for row ids, which usually ascend by one; 0 for versions.
        """
        is_first = np.ones(len(values), np.bool_)
        is_first[1:] = values[1:] != values[:-1] + np.uint64(step)
        starts = np.flatnonzero(is_first)
        if step and 4 * len(starts) > 3 * len(values):
            return cls(starts[:0].copy(), values, step)
        return cls(starts, values[starts], step)

    @classmethod
    def of_runs(cls, starts: Int64s, values: UInt64s, num_rows: int) -> RowValues:
        """Build row ids from the first row and the first id of each run.

        If the runs are more than 3/4 of the rows, stores all ids instead, which takes less memory.
        """
        runs = cls(starts, values, 1)
        if 4 * len(starts) > 3 * num_rows:
            return cls(starts[:0].copy(), runs.at(np.arange(num_rows)), 1)
        return runs

    def at(self, rows: Int64s) -> UInt64s:
        """Return the numbers of rows, in the shape of `rows`."""
        if not len(self.starts) and len(self.values):
            return self.values[rows]
        if len(self.starts) == 1:
            runs = np.zeros(len(rows), np.int64)
        else:
            runs = np.searchsorted(self.starts, rows, "right") - 1
        values = self.values[runs]
        return values + (rows - self.starts[runs]).astype(np.uint64) if self.step else values


class RowIdRuns(NamedTuple):
    """Runs of rows whose ids and addresses both ascend by one; each array has shape (runs,)."""

    ids: UInt64s  # first id of each run
    addresses: UInt64s  # address of the first row of each run
    lengths: UInt32s


def runs_of(fragment_id: int, row_ids: UInt64s, live_rows: Int64s | None = None) -> RowIdRuns:
    """Split the live rows of a fragment into runs.

    Args:
        row_ids: ids of all physical rows, in row order.
        live_rows: sorted offsets of the rows that are not deleted; None if no rows are deleted.
    """
    rows = np.arange(len(row_ids)) if live_rows is None else live_rows
    ids = row_ids if live_rows is None else row_ids[rows]
    is_first = np.ones(len(ids), np.bool_)
    is_first[1:] = (ids[1:] != ids[:-1] + np.uint64(1)) | (rows[1:] != rows[:-1] + 1)
    first = np.flatnonzero(is_first)
    lengths = np.diff(np.append(first, len(ids))).astype(np.uint32)
    base = np.uint64(fragment_id << 32)
    return RowIdRuns(ids[first], base + rows[first].astype(np.uint64), lengths)


def live_runs(
    fragment_id: int, values: RowValues, num_rows: int, live_rows: Int64s | None = None
) -> RowIdRuns:
    """Return the runs of a fragment's live rows. Row ids are only expanded if rows are deleted."""
    if live_rows is not None:
        return runs_of(fragment_id, values.at(np.arange(num_rows)), live_rows)
    base = np.uint64(fragment_id << 32)
    if not len(values.starts):
        rows = np.arange(num_rows, dtype=np.uint64)
        return RowIdRuns(values.values, rows + base, np.ones(num_rows, np.uint32))
    starts = values.starts
    lengths = np.diff(starts, append=num_rows).astype(np.uint32)
    return RowIdRuns(values.values, starts.astype(np.uint64) + base, lengths)


@dataclass(frozen=True, slots=True)
class RowIdIndex:
    """Index of all live rows of a table by row id; 16 bytes per run or 12 bytes per row.

    Attributes:
        highs: distinct upper halves of the ids, ascending; shape (m,).
        bounds: position in `lows` at which each upper half begins, then the total; shape (m + 1,).
        lows: lower half of each run's first id, ascending within an upper half; shape (n,).
        addresses: address of each run's first row; shape (n,).
        lengths: length of each run; None if all lengths are 1.
    """

    highs: UInt64s
    bounds: Int64s
    lows: UInt32s
    addresses: UInt64s
    lengths: UInt32s | None

    @property
    def num_bytes(self) -> int:
        """Memory of the large arrays in bytes."""
        lengths = 0 if self.lengths is None else self.lengths.nbytes
        return self.lows.nbytes + self.addresses.nbytes + lengths

    @classmethod
    def of(cls, parts: Iterable[RowIdRuns]) -> RowIdIndex:
        """Build the index of a table from its fragments' runs. CPU: about 0.1 s per million runs.

        Raises:
            CorruptFileError: two live rows have the same id.
        """
        runs = [part for part in parts if len(part.ids)]
        runs.sort(key=lambda part: int(part.ids[0]))
        ids = np.concatenate([part.ids for part in runs] or [np.empty(0, np.uint64)])
        addresses = np.concatenate([part.addresses for part in runs] or [np.empty(0, np.uint64)])
        lengths = np.concatenate([part.lengths for part in runs] or [np.empty(0, np.uint32)])
        total = int(lengths.sum(dtype=np.int64))
        del runs
        if len(ids) and not (ids[1:] > ids[:-1]).all():
            ids, order = _kernels.order_of(ids)
            addresses = addresses[order]
            if len(ids) < total:
                lengths = lengths[order]
            del order
        if 2 * len(ids) < total:
            ids, addresses, lengths = _joined(ids, addresses, lengths)
        if len(ids) == total:
            twice = np.flatnonzero(ids[1:] == ids[:-1])
        else:
            twice = np.flatnonzero(ids[1:] - ids[:-1] < lengths[:-1])
        if len(twice):
            raise CorruptFileError(f"row id {ids[twice[0] + 1]}: two live rows have it")
        if 4 * len(ids) > 3 * total:
            ids, addresses, lengths = _expanded(ids, addresses, lengths, total)
        bounds = np.array([0, len(ids)])
        if len(ids) and ids[0] >> OFFSET_SHIFT != ids[-1] >> OFFSET_SHIFT:
            uppers = ids >> OFFSET_SHIFT
            edges = np.flatnonzero(uppers[1:] != uppers[:-1]) + 1
            bounds = np.concatenate([bounds[:1], edges, bounds[1:]])
        highs = ids[bounds[:-1]] >> OFFSET_SHIFT if len(ids) else ids
        lows = ids.astype(np.uint32)
        is_single = len(ids) == total
        return cls(highs, bounds, lows, addresses, None if is_single else lengths)

    def addresses_of(self, row_ids: Int64s) -> Int64s:
        """Return the address of each row id; shape (n,).

        Raises:
            RowNotFoundError: no live row has the id.
        """
        addresses, missing = self.find(row_ids)
        if missing.any():
            ids = row_ids[missing].tolist()
            raise RowNotFoundError(f"row id {ids[0]}: no row has it", ids)
        return addresses

    def find(self, row_ids: Int64s) -> tuple[Int64s, Mask]:
        """Return the address of each row id, and the mask of ids without a live row.

        Both have shape (n,). The address of an id without a live row is 0.
        """
        lengths = NO_LENGTHS if self.lengths is None else self.lengths
        ids = np.ascontiguousarray(row_ids, np.int64).view(np.uint64)
        addresses = _kernels.find_row_ids(
            ids, self.highs, self.bounds, self.lows, self.addresses, lengths
        )
        missing = addresses < 0
        addresses[missing] = 0
        return addresses, missing

    def rows_in(self, fragments: Int64s) -> RowSet:
        """Return the ids of all rows in fragments. CPU: about 20 ns per row, or 1 us per long run.

        Args:
            fragments: fragment ids, ascending.
        """
        _, is_here = places_in(fragments, (self.addresses >> OFFSET_SHIFT).astype(np.int64))
        ids = _starts(self)[is_here].astype(np.int64)
        if self.lengths is None:
            return RowSet(ids)
        return RowSet.of_runs(ids, self.lengths[is_here].astype(np.int64))

    def addresses_in(self, row_ids: RowSet) -> RowSet:
        """Return the addresses of row ids, omitting ids without a live row. CPU: see `work`."""
        if self.lengths is None or not self._moves_runs(row_ids):
            addresses, missing = self.find(row_ids.to_numpy())
            return RowSet(addresses[~missing])
        runs = zip(
            _starts(self).tolist(), self.lengths.tolist(), self.addresses.tolist(), strict=True
        )
        return RowSet.union(
            row_ids.moved(start, start + length, address - start) for start, length, address in runs
        )

    def work(self, row_ids: RowSet) -> int:
        """Estimate the work of `addresses_in`, as bytes of columns that take as long to decode."""
        if self._moves_runs(row_ids):
            return RUN_WORK * len(self.lows) + len(row_ids) // RUN_ROWS_A_BYTE
        return LOOKED_UP_ROW_WORK * len(row_ids)

    def _moves_runs(self, row_ids: RowSet) -> bool:
        return self.lengths is not None and len(row_ids) >= MOVED_RUN_ROWS * len(self.lows)


def _starts(index: RowIdIndex) -> UInt64s:
    """Return the first id of each run; shape (n,)."""
    uppers = np.repeat(index.highs << OFFSET_SHIFT, np.diff(index.bounds))
    return uppers | index.lows


def _joined(ids: UInt64s, addresses: UInt64s, lengths: UInt32s) -> tuple[UInt64s, UInt64s, UInt32s]:
    """Merge consecutive runs whose ids and addresses both continue."""
    if len(ids) < 2:
        return ids, addresses, lengths
    goes_on = (ids[1:] - ids[:-1] == lengths[:-1]) & (
        addresses[1:] - addresses[:-1] == lengths[:-1]
    )
    if not goes_on.any():
        return ids, addresses, lengths
    first = np.flatnonzero(np.append(True, ~goes_on))
    return ids[first], addresses[first], np.add.reduceat(lengths, first).astype(np.uint32)


def _expanded(
    ids: UInt64s, addresses: UInt64s, lengths: UInt32s, total: int
) -> tuple[UInt64s, UInt64s, UInt32s]:
    """Convert each row to a run of length 1."""
    if len(ids) == total:
        return ids, addresses, lengths
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    steps = (np.arange(total) - np.repeat(before, lengths)).astype(np.uint64)
    return (
        np.repeat(ids, lengths) + steps,
        np.repeat(addresses, lengths) + steps,
        np.ones(total, np.uint32),
    )

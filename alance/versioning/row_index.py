"""Stable row ids in little memory, and the way back from ids to addresses: runs.

Ids are given out in order and keep their order through compaction, so that a table of many rows
has few runs of consecutive ids: an appended fragment is one. The versions of rows are runs, too,
of equal values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError, NotFoundError

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

    U64 = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class RowValues:
    """A number for each physical row of a fragment: runs that grow by 0 or 1 a row."""

    starts: npt.NDArray[np.int64]  # shape (runs,): the first row of each run
    values: U64  # shape (runs,): the number of that row
    step: int

    @classmethod
    def of(cls, values: U64, step: int) -> RowValues:
        """From the numbers of all rows.

        Args:
            step: 1 for row ids, which mostly ascend by one; 0 for versions.
        """
        is_first = np.ones(len(values), np.bool_)
        is_first[1:] = values[1:] != values[:-1] + np.uint64(step)
        starts = np.flatnonzero(is_first)
        return cls(starts, values[starts], step)

    def at(self, rows: npt.NDArray[np.int64]) -> U64:
        """The numbers of some rows; shape (n,), like `rows`."""
        if len(self.starts) == 1:
            runs = np.zeros(len(rows), np.int64)
        else:
            runs = np.searchsorted(self.starts, rows, "right") - 1
        found = self.values[runs]
        return found + (rows - self.starts[runs]).astype(np.uint64) if self.step else found


@dataclass(frozen=True, slots=True)
class RowIdRuns:
    """Runs in which id and row offset grow together; each array of shape (runs,)."""

    ids: U64  # the first id of each
    addresses: U64  # the address of that row
    lengths: U64

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        return self.ids.nbytes + self.addresses.nbytes + self.lengths.nbytes


def runs_of(
    fragment_id: int, row_ids: U64, live_rows: npt.NDArray[np.int64] | None = None
) -> RowIdRuns:
    """The runs of a fragment.

    Args:
        row_ids: of all physical rows, in their order.
        live_rows: sorted offsets of the rows that are not deleted; None: all.
    """
    rows = np.arange(len(row_ids)) if live_rows is None else live_rows
    ids = row_ids[rows]
    is_first = np.ones(len(ids), np.bool_)
    is_first[1:] = (ids[1:] != ids[:-1] + np.uint64(1)) | (rows[1:] != rows[:-1] + 1)
    first = np.flatnonzero(is_first)
    lengths = np.diff(np.append(first, len(ids))).astype(np.uint64)
    base = np.uint64(fragment_id << 32)
    return RowIdRuns(ids[first], base + rows[first].astype(np.uint64), lengths)


@dataclass(frozen=True, slots=True)
class RowIdIndex:
    """All live rows of a table, by row id."""

    runs: RowIdRuns  # sorted by id, disjoint

    @classmethod
    def of(cls, parts: Iterable[RowIdRuns]) -> RowIdIndex:
        """The index of a table out of its fragments' runs.

        Raises:
            CorruptFileError: two live rows with the same id.
        """
        found = list(parts)
        empty = np.empty(0, np.uint64)
        ids = np.concatenate([one.ids for one in found] or [empty])
        addresses = np.concatenate([one.addresses for one in found] or [empty])
        lengths = np.concatenate([one.lengths for one in found] or [empty])
        order = np.argsort(ids, kind="stable")
        ids, addresses, lengths = ids[order], addresses[order], lengths[order]
        twice = np.flatnonzero(ids[1:] - ids[:-1] < lengths[:-1])
        if len(twice):
            raise CorruptFileError(f"row id {ids[twice[0] + 1]}: two live rows have it")
        return cls(RowIdRuns(ids, addresses, lengths))

    def addresses_of(self, row_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The address of each row id; shape (n,).

        Raises:
            NotFoundError: a row id that no live row has.
        """
        found, missing = self.find(row_ids)
        if missing.any():
            raise NotFoundError(f"row id {row_ids[missing][0]}: no row has it")
        return found

    def find(
        self, row_ids: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The address of each row id, and which of them no live row has; shape (n,) each."""
        wanted = row_ids.astype(np.uint64)
        if not len(wanted) or not len(self.runs.ids):
            return np.zeros(len(wanted), np.int64), np.ones(len(wanted), np.bool_)
        places = np.searchsorted(self.runs.ids, wanted, "right") - 1
        missing = places < 0
        places[missing] = 0
        steps = wanted - self.runs.ids[places]
        missing |= steps >= self.runs.lengths[places]
        return (self.runs.addresses[places] + steps).astype(np.int64), missing

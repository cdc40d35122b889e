"""Values of live rows as those of all rows: a deleted row repeats the live row before it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from alance.format.numbers import to_arrow

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from alance.ops.version.handle import FragmentHandle
    from alance.ops.version.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Spread:
    """Live rows to physical rows."""

    deleted: npt.NDArray[np.int64] | None
    num_live: int
    num_physical: int

    @classmethod
    def of(cls, handle: FragmentHandle, *, keep: bool = False) -> Spread:
        """Of a fragment that is prepared.

        Args:
            keep: deleted rows count as live.
        """
        deleted = None if handle.deleted is None or keep else handle.deleted.rows
        count = handle.num_physical_rows
        return cls(deleted, count - (0 if deleted is None else len(deleted)), count)

    def sources(self, start: int, stop: int) -> npt.NDArray[np.int64] | None:
        """For some live rows and the deleted ones behind each: the live row, from 0; shape (n,).

        The deleted rows before the first live one are with it. None: there are no deleted ones.
        """
        if self.deleted is None or not len(self.deleted):
            return None
        first, last = self._physical(start), self._physical(stop)
        gone = self.deleted[np.searchsorted(self.deleted, first) :]
        gone = gone[: np.searchsorted(gone, last)] - first
        if not len(gone):
            return None
        live = np.ones(last - first, np.int64)
        live[gone] = 0
        return np.maximum(np.cumsum(live) - 1, 0)

    async def batch(self, snapshot: Snapshot, batch: pa.RecordBatch, start: int) -> pa.RecordBatch:
        """Values of live rows from `start` on, as those of physical rows."""
        rows = self.sources(start, start + batch.num_rows)
        if rows is None:
            return batch
        return await snapshot.engine.pool.run(lambda: batch.take(to_arrow(rows)))

    def _physical(self, live: int) -> int:
        assert self.deleted is not None
        if live == 0:
            return 0
        if live >= self.num_live:
            return self.num_physical
        before = self.deleted - np.arange(len(self.deleted))
        return int(live + np.searchsorted(before, live, "right"))

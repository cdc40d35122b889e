"""What is known of the rows of a column in a fragment: bounds between edges, from any source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa

from alance.expr.prune_zones import Bounds
from alance.format.numbers import to_arrow
from alance.format.statistics import HAS_NANS, HAS_VALUES, kind_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.expr.tree import Column
    from alance.file.zones import FileStatistics
    from alance.format.statistics import Statistics, Zones
    from alance.format.v0_1.statistics import BatchStatistics

    Int64s = npt.NDArray[np.int64]


class Known(Protocol):
    """The bounds of one column of a fragment.

    Attributes:
        edges: the first row of each zone, and the number of rows; ascending; shape (n + 1,).
    """

    @property
    def edges(self) -> Int64s: ...

    def bounds(self, column: Column) -> Bounds | None:
        """Those of each zone; None: they are of another type."""

    def whole(self, column: Column) -> Bounds | None:
        """Those of the fragment as one zone; None where nobody summed them up."""


@dataclass(frozen=True, slots=True)
class OwnStatistics:
    """A column of a statistics buffer."""

    head: Statistics
    statistics: FileStatistics
    column: int

    @classmethod
    def of(cls, statistics: FileStatistics, column: int) -> OwnStatistics | None:
        """Those of a column of a file, where it has some."""
        if statistics.head is None or column not in statistics.blocks:
            return None
        return cls(statistics.head, statistics, column)

    @property
    def edges(self) -> Int64s:
        starts = np.arange(0, self.head.num_rows, self.head.zone_rows)
        return np.append(starts, self.head.num_rows)

    def bounds(self, column: Column) -> Bounds | None:
        if kind_of(column.type) != self.head.kind(self.column):
            return None
        return _of_zones(self.statistics.zones(self.column), column)

    def whole(self, column: Column) -> Bounds | None:
        if kind_of(column.type) != self.head.kind(self.column):
            return None
        return _of_zones(self.head.whole(self.column), column)


def _of_zones(zones: Zones, column: Column) -> Bounds:
    return Bounds(
        zones.nulls > 0,
        zones.flags & HAS_VALUES != 0,
        zones.flags & HAS_NANS != 0,
        zones.low(column.type),
        zones.high(column.type),
    )


@dataclass(frozen=True, slots=True)
class OldStatistics:
    """A field of a 0.1 file: bounds of its batches; of nulls and NaN nothing is believed.

    Attributes:
        statistics: None: there are none.
    """

    statistics: BatchStatistics | None

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget."""
        found = self.statistics
        return 100 if found is None else 200 + found.least.nbytes + found.most.nbytes

    @property
    def edges(self) -> Int64s:
        assert self.statistics is not None
        return self.statistics.first_rows

    def bounds(self, column: Column) -> Bounds | None:
        found = self.statistics
        if found is None or found.least.type != column.type or found.most.type != column.type:
            return None
        maybe = np.ones(len(found.least), np.bool_)
        nans = maybe & pa.types.is_floating(column.type)
        return Bounds(maybe, maybe, nans, found.least, found.most)

    def whole(self, column: Column) -> Bounds | None:
        return None


def at_edges(bounds: Bounds, own: Int64s, edges: Int64s) -> Bounds:
    """Bounds between some edges as those between more: what may be in a zone may be in a part."""
    if np.array_equal(own, edges):
        return bounds
    places = np.searchsorted(own, edges[:-1], "right") - 1
    return Bounds(
        bounds.has_nulls[places],
        bounds.has_values[places],
        bounds.has_nans[places],
        bounds.low.take(to_arrow(places)),
        bounds.high.take(to_arrow(places)),
    )

"""What is known of rows by zones, and what a condition may be in each: the terms of pruning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    import numpy.typing as npt
    import pyarrow as pa

    from alance.expr.tree import Column

    Mask = npt.NDArray[np.bool_]
    Key = tuple[tuple[str, ...], pa.DataType]  # path and type of a column
    Pair = tuple[Any, Any]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The bounds of a column in each of n zones.

    Attributes:
        has_nulls: rows may be null; shape (n,).
        has_values: rows may be neither null nor NaN; shape (n,).
        has_nans: rows may be NaN; shape (n,).
        low: at or below all such values, null where unknown; of the column's type; n of them.
        high: at or above them. Zeros of floats are -0.0 here if low, 0.0 if high.
    """

    has_nulls: Mask
    has_values: Mask
    has_nans: Mask
    low: pa.Array
    high: pa.Array


class Zones(Protocol):
    """The bounds of columns in the same zones."""

    @property
    def num_zones(self) -> int: ...

    def bounds(self, column: Column) -> Bounds | None:
        """The bounds of a column; None: nothing is known of it."""


@dataclass(frozen=True, slots=True)
class May:
    """What a condition may be of some row of each zone; shape (n,) each."""

    true: Mask
    false: Mask
    null: Mask


class Asked:
    """Zones that a condition of many terms is asked of: each column's bounds are fetched once."""

    def __init__(self, zones: Zones) -> None:
        self.num_zones = zones.num_zones
        self._zones = zones
        self._bounds: dict[Key, Bounds | None] = {}
        self._pairs: dict[Key, list[Pair]] = {}

    def bounds(self, column: Column) -> Bounds | None:
        """See `Zones`."""
        key = column.path, column.type
        if key not in self._bounds:
            self._bounds[key] = self._zones.bounds(column)
        return self._bounds[key]

    def pairs(self, column: Column, make: Callable[[Bounds], list[Pair]]) -> list[Pair]:
        """The bounds of each zone in another form, made once.

        Args:
            column: whose bounds are known.
            make: always the same one.
        """
        key = column.path, column.type
        if key not in self._pairs:
            bounds = self.bounds(column)
            assert bounds is not None
            self._pairs[key] = make(bounds)
        return self._pairs[key]


class Check(Protocol):
    """A condition, asked of zones."""

    def may(self, zones: Asked) -> May: ...

    def columns(self) -> Iterator[Column]:
        """The columns whose bounds it asks for, repeated as they are."""


@dataclass(frozen=True, slots=True)
class Anything:
    """A condition that is not understood."""

    def may(self, zones: Asked) -> May:
        maybe = np.ones(zones.num_zones, np.bool_)
        return May(maybe, maybe, maybe)

    def columns(self) -> Iterator[Column]:
        return iter(())

"""Checks: the possible values of a condition in zones of rows, from the bounds of columns.

A check returns three masks of zones: the condition may be true, may be false, or may be null for at
least one row. All zones are computed together, as arrays. A comparison that is not a set of ranges
is evaluated on the bounds, by the same nodes that evaluate rows. So casts of literals, decimals,
time zones, float rounding and NaN agree.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.compare import compare
from alance.expr.pruning_sets import StoredBounds, as_bytes
from alance.expr.tree import Column, Literal, Node, broadcast
from alance.format.numbers import as_mask, as_scalar

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from alance.base.arrays import Mask
    from alance.expr.pruning_sets import Ranges
    from alance.expr.tree import Pattern
    from alance.format.statistics import ColumnBounds

    Path = tuple[str, ...]


class Zones:
    """Zones of rows, with the bounds of columns by path."""

    def __init__(self, num_zones: int, columns: Mapping[Path, ColumnBounds]) -> None:
        self.num_zones = num_zones
        self._columns = columns
        self._stored: dict[Path, StoredBounds] = {}

    def bounds(self, column: Column) -> ColumnBounds | None:
        """Return the bounds of a column; None if they are unknown or have another type."""
        bounds = self._columns.get(column.path)
        return None if bounds is None or bounds.low.type != column.type else bounds

    def stored(self, column: Column) -> StoredBounds:
        """Return the bounds of a column as values, converted once for all checks.

        The column must have bounds.
        """
        if column.path not in self._stored:
            self._stored[column.path] = StoredBounds.of(self._columns[column.path])
        return self._stored[column.path]


@dataclass(frozen=True, slots=True)
class May:
    """Values that a condition may have in each zone.

    Attributes:
        true, false, null: masks of the zones where the condition may have this value for a row;
            shape (n,).
    """

    true: Mask
    false: Mask
    null: Mask

    @classmethod
    def be_anything(cls, num_zones: int) -> May:
        """Return the masks of a condition that may have any value."""
        maybe = np.ones(num_zones, np.bool_)
        return cls(maybe, maybe, maybe)


class Check(Protocol):
    """Protocol of a condition that can be evaluated for zones."""

    def may(self, zones: Zones) -> May: ...

    def columns(self) -> Iterator[Column]:
        """Yield the columns whose bounds the check reads, with repetitions."""


@dataclass(frozen=True, slots=True)
class Anything:
    """A condition that is not understood: it may have any value."""

    def may(self, zones: Zones) -> May:
        return May.be_anything(zones.num_zones)

    def columns(self) -> Iterator[Column]:
        return iter(())


@dataclass(frozen=True, slots=True)
class ConstantCheck:
    """A literal condition: true, false or null."""

    answer: bool | None

    def may(self, zones: Zones) -> May:
        def spread(flag: bool) -> Mask:
            return np.full(zones.num_zones, flag)

        return May(*(spread(self.answer is answer) for answer in (True, False, None)))

    def columns(self) -> Iterator[Column]:
        return iter(())


@dataclass(frozen=True, slots=True)
class Not:
    """NOT; the negation of null is null."""

    of: Check

    def may(self, zones: Zones) -> May:
        may = self.of.may(zones)
        return May(may.false, may.true, may.null)

    def columns(self) -> Iterator[Column]:
        return self.of.columns()


@dataclass(frozen=True, slots=True)
class All:
    """AND. An OR is a NOT of the AND of NOTs."""

    parts: tuple[Check, ...]

    def may(self, zones: Zones) -> May:
        true, defined = np.ones((2, zones.num_zones), np.bool_)
        false, null = np.zeros((2, zones.num_zones), np.bool_)
        for part in self.parts:
            may = part.may(zones)
            true &= may.true
            false |= may.false
            null |= may.null
            defined &= may.true | may.null
        # AND is null if some part is null and no part is false.
        return May(true, false, null & defined)

    def columns(self) -> Iterator[Column]:
        for part in self.parts:
            yield from part.columns()


@dataclass(frozen=True, slots=True)
class Is:
    """Test that a condition is true, false or null; the test itself is never null.

    Attributes:
        answer: True for IS TRUE, False for IS FALSE, None for IS NULL.
    """

    of: Check
    answer: bool | None

    def may(self, zones: Zones) -> May:
        may = self.of.may(zones)
        if self.answer is None:
            yes, no = may.null, may.true | may.false
        elif self.answer:
            yes, no = may.true, may.false | may.null
        else:
            yes, no = may.false, may.true | may.null
        return May(yes, no, np.zeros_like(yes))

    def columns(self) -> Iterator[Column]:
        return self.of.columns()


@dataclass(frozen=True, slots=True)
class IsNull:
    """IS NULL of a column."""

    column: Column

    def may(self, zones: Zones) -> May:
        bounds = zones.bounds(self.column)
        if bounds is None:
            return May.be_anything(zones.num_zones)
        present = bounds.has_values | bounds.has_nans
        return May(bounds.has_nulls, present, np.zeros_like(present))

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class Within:
    """The condition that a column's value is in a set; null if the value is null.

    Attributes:
        has_nan: True if NaN, which is above all ranges, is in the set.
    """

    column: Column
    ranges: Ranges
    has_nan: bool = False

    def may(self, zones: Zones) -> May:
        bounds = zones.bounds(self.column)
        if bounds is None:
            return May.be_anything(zones.num_zones)
        is_hit, every = self.ranges.hits(zones.stored(self.column))
        true = bounds.has_values & is_hit | bounds.has_nans & self.has_nan
        false = bounds.has_values & ~every | bounds.has_nans & (not self.has_nan)
        return May(true, false, bounds.has_nulls)

    def columns(self) -> Iterator[Column]:
        yield self.column

    def __invert__(self) -> Within:
        """NOT."""
        return Within(self.column, ~self.ranges, not self.has_nan)


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison of a column with a literal that is not a set of ranges.

    Attributes:
        tests: nodes by (side, operator) that compare the bound on that side with the literal.
        of_nan: True if the comparison is true for NaN. Ignored for types that have no NaN.
    """

    column: Column
    op: str
    tests: dict[tuple[str, str], Node]
    of_nan: bool

    @classmethod
    def of(cls, op: str, column: Column, literal: Node) -> Compared:
        """Build the check of a comparison.

        Raises:
            Problem: the two types do not compare.
        """
        tests = {
            (side, test): compare(test, Column((side,), column.type), literal)
            for side, test in (("low", "<"), ("low", "<="), ("high", ">"), ("high", ">="))
        }
        return cls(column, op, tests, _of_nan(op, column.type, literal))

    def may(self, zones: Zones) -> May:
        bounds = zones.bounds(self.column)
        if bounds is None:
            return May.be_anything(zones.num_zones)
        batch = pa.RecordBatch.from_arrays([bounds.low, bounds.high], ["low", "high"])

        def holds(side: str, op: str) -> Mask:
            return _possibly(self.tests[side, op], batch)

        if self.op in ("=", "!="):
            true = holds("low", "<=") & holds("high", ">=")
            false = holds("low", "<") | holds("high", ">")
        else:
            side, other = ("low", "high") if self.op in ("<", "<=") else ("high", "low")
            true, false = holds(side, self.op), holds(other, _OPPOSITE[self.op])
        if self.op == "!=":
            true, false = false, true
        true = bounds.has_values & true | bounds.has_nans & self.of_nan
        false = bounds.has_values & false | bounds.has_nans & (not self.of_nan)
        return May(true, false, bounds.has_nulls)

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class BeginsWith:
    """The necessary condition that a text has a prefix.

    Attributes:
        high: tests that the high bound is not below the prefix.
        prefix: the prefix in UTF-8.
    """

    column: Column
    high: Node
    prefix: bytes

    @classmethod
    def of(cls, pattern: Pattern) -> BeginsWith:
        """Build the check of a pattern that begins with plain text."""
        column = pattern.node
        assert isinstance(column, Column)
        literal = Literal(as_scalar(pattern.prefix))
        high = compare(">=", Column(("high",), column.type), literal)
        return cls(column, high, pattern.prefix.encode())

    def may(self, zones: Zones) -> May:
        bounds = zones.bounds(self.column)
        if bounds is None:
            return May.be_anything(zones.num_zones)
        heads = pc.binary_slice(as_bytes(bounds.low), 0, len(self.prefix))
        low = _true_or_null(pc.less_equal(heads, as_scalar(self.prefix, heads.type)))
        high = _possibly(self.high, pa.RecordBatch.from_arrays([bounds.high], ["high"]))
        true = bounds.has_values & low & high | bounds.has_nans
        return May(true, bounds.has_values | bounds.has_nans, bounds.has_nulls)

    def columns(self) -> Iterator[Column]:
        yield self.column


_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _possibly(test: Node, bounds: pa.RecordBatch) -> Mask:
    """Return the mask of the zones for which a test is true or a bound is unknown."""
    return _true_or_null(broadcast(test.evaluate(bounds), bounds.num_rows))


def _true_or_null(answers: pa.Array) -> Mask:
    return as_mask(pc.fill_null(answers, as_scalar(True)))


def _of_nan(op: str, type_: pa.DataType, literal: Node) -> bool:
    """True if a comparison is true for NaN; False for types that have no NaN."""
    if not pa.types.is_floating(type_):
        return False
    batch = pa.RecordBatch.from_arrays([pa.repeat(as_scalar(math.nan, type_), 1)], ["nan"])
    answers = broadcast(compare(op, Column(("nan",), type_), literal).evaluate(batch), 1)
    return bool(as_mask(answers)[0])

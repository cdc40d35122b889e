"""Conditions on the values of one column, asked of its bounds in each zone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.compare import compare
from alance.expr.exact import exact_value, scale_of
from alance.expr.prune_zones import Anything, May
from alance.expr.tree import Column, Literal, Node, broadcast
from alance.format.numbers import as_mask, as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.expr.meaning import Membership, Prefix
    from alance.expr.prune_zones import Check, Mask, Zones


@dataclass(frozen=True, slots=True)
class IsNull:
    """IS NULL of a column."""

    column: Column

    def may(self, zones: Zones) -> May:
        found = zones.bounds(self.column)
        if found is None:
            return Anything().may(zones)
        present = found.has_values | found.has_nans
        return May(found.has_nulls, present, np.zeros_like(present))

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class _Compared:
    """A column with a literal.

    Attributes:
        tests: by (side, operator): whether that holds of the bound on that side.
        nan_true: it may be true of a NaN.
        nan_false: it may be false of a NaN.
    """

    column: Column
    op: str
    tests: dict[tuple[str, str], Node]
    nan_true: bool
    nan_false: bool

    def may(self, zones: Zones) -> May:
        found = zones.bounds(self.column)
        if found is None:
            return Anything().may(zones)
        batch = pa.RecordBatch.from_arrays([found.low, found.high], ["low", "high"])

        def some(side: str, op: str) -> Mask:
            return _possibly(self.tests[side, op], batch)

        if self.op in ("=", "!="):
            true = some("low", "<=") & some("high", ">=")
            false = some("low", "<") | some("high", ">")
        else:
            side, other = ("low", "high") if self.op in ("<", "<=") else ("high", "low")
            true, false = some(side, self.op), some(other, _OPPOSITE[self.op])
        if self.op == "!=":
            true, false = false, true
        true = found.has_values & true | found.has_nans & self.nan_true
        false = found.has_values & false | found.has_nans & self.nan_false
        return May(true, false, found.has_nulls)

    def columns(self) -> Iterator[Column]:
        yield self.column


@dataclass(frozen=True, slots=True)
class _Between:
    """A column that is true at most between two literals, and may always be false."""

    column: Column
    low: Node  # of the high bounds: they reach the first
    high: Node  # of the low bounds: they do not exceed the last

    def may(self, zones: Zones) -> May:
        found = zones.bounds(self.column)
        if found is None:
            return Anything().may(zones)
        batch = pa.RecordBatch.from_arrays([found.low, found.high], ["low", "high"])
        true = found.has_values & _possibly(self.low, batch) & _possibly(self.high, batch)
        return May(true | found.has_nans, found.has_values | found.has_nans, found.has_nulls)

    def columns(self) -> Iterator[Column]:
        yield self.column


_OPPOSITE: Final = {"<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def _possibly(test: Node, bounds: pa.RecordBatch) -> Mask:
    """Where a test of bounds holds, or its bound is not known."""
    answers = broadcast(test.evaluate(bounds), bounds.num_rows)
    return as_mask(pc.fill_null(answers, as_scalar(True)))


def compared(op: str, column: Node, literal: Node) -> Check:
    """A column compared with a literal.

    Raises:
        Problem: the two do not compare.
    """
    assert isinstance(column, Column)
    tests = {
        (side, test): compare(test, Column((side,), column.type), literal)
        for side, test in (("low", "<"), ("low", "<="), ("high", ">"), ("high", ">="))
    }
    nan_true, nan_false = _of_nans(op, column.type, literal)
    return _Compared(column, op, tests, nan_true, nan_false)


def _of_nans(op: str, type_: pa.DataType, literal: Node) -> tuple[bool, bool]:
    if not pa.types.is_floating(type_):
        return False, False
    dtype = {16: np.float16, 32: np.float32, 64: np.float64}[type_.bit_width]
    nans = to_arrow(np.array([np.nan, -np.nan], dtype))
    batch = pa.RecordBatch.from_arrays([nans], ["nan"])
    answers = broadcast(compare(op, Column(("nan",), type_), literal).evaluate(batch), 2)
    found = as_mask(answers)
    return bool(found.any()), not found.all()


def listed(said: Membership) -> Check:
    """A column that is one of some literals."""
    column, items = said.node, said.items
    assert isinstance(column, Column)
    scale = scale_of(column.type)
    if scale is None:
        if pa.types.is_boolean(column.type):
            return Anything()
        return _Among(column, sorted(item.value.cast(pa.binary()).as_py() for item in items))
    numbers = [exact_value(item, column.type) for item in items]
    wholes = [number / scale.unit for number in numbers if isinstance(number, Fraction)]
    return _Among(column, sorted(int(one) for one in wholes if one.denominator == 1))


@dataclass(frozen=True, slots=True)
class _Among:
    """A column that is one of a sorted list, of text as bytes, or of whole numbers of its unit."""

    column: Column
    values: list[int] | list[bytes]

    def may(self, zones: Zones) -> May:
        found = zones.bounds(self.column)
        if found is None:
            return Anything().may(zones)
        pairs = zip(_stored(found.low), _stored(found.high), strict=True)
        true = found.has_values & [self._has(*pair) for pair in pairs]
        return May(true, found.has_values, found.has_nulls)

    def _has(self, low: int | bytes | None, high: int | bytes | None) -> bool:
        values: list[Any] = self.values
        first = 0 if low is None else bisect_left(values, low)
        return first < (len(values) if high is None else bisect_right(values, high))

    def columns(self) -> Iterator[Column]:
        yield self.column


def _stored(bounds: pa.Array) -> list[Any]:
    """Bounds as text's bytes, or as the whole numbers that are stored; None where unknown."""
    if (scale := scale_of(bounds.type)) is None:
        return _as_bytes(bounds).to_pylist()  # type: ignore[no-any-return]
    width = bounds.type.bit_width // 8
    content = bytes(bounds.buffers()[1])
    places = range(bounds.offset * width, (bounds.offset + len(bounds)) * width, width)
    wholes = [
        int.from_bytes(content[at : at + width], "little", signed=scale.low < 0) for at in places
    ]
    known = bounds.is_valid().to_pylist()
    return [whole if one else None for whole, one in zip(wholes, known, strict=True)]


def _as_bytes(text: pa.Array) -> pa.Array:
    """Text or binary as bytes, which may be cut inside of a letter."""
    large = pa.types.is_large_string(text.type) or pa.types.is_large_binary(text.type)
    return text.view(pa.large_binary() if large else pa.binary())


def prefixed(said: Prefix) -> Check:
    """A column of text between a prefix and the last text that begins with it."""
    column, prefix = said.node, said.prefix
    assert isinstance(column, Column)
    if not prefix:
        return Anything()
    reaches = compare(">=", Column(("high",), column.type), Literal(as_scalar(prefix)))
    return _Between(column, reaches, _HeadAtMost(prefix.encode()))


@dataclass(frozen=True, slots=True, eq=False)
class _HeadAtMost:
    """Whether the low bound, cut to the length of a prefix, is not behind it."""

    prefix: bytes

    @property
    def type(self) -> pa.DataType:
        return pa.bool_()

    @property
    def args(self) -> tuple[Node, ...]:
        return ()

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        heads = pc.binary_slice(_as_bytes(batch.column("low")), 0, len(self.prefix))
        return pc.less_equal(heads, as_scalar(self.prefix, heads.type))

"""Conditions on the values of one column, asked of its bounds in each zone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.compare import compare
from alance.expr.prune_sets import as_bytes
from alance.expr.prune_zones import Anything, May
from alance.expr.tree import Column, Literal, Node, broadcast
from alance.format.numbers import as_mask, as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.expr.meaning import Prefix
    from alance.expr.prune_zones import Asked, Check, Mask


@dataclass(frozen=True, slots=True)
class IsNull:
    """IS NULL of a column."""

    column: Column

    def may(self, zones: Asked) -> May:
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

    def may(self, zones: Asked) -> May:
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

    def may(self, zones: Asked) -> May:
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
        heads = pc.binary_slice(as_bytes(batch.column("low")), 0, len(self.prefix))
        return pc.less_equal(heads, as_scalar(self.prefix, heads.type))

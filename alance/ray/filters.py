"""Filters of Ray Data as conditions of scans, which use indices and statistics.

Ray compares floats as IEEE 754 does, where a comparison with NaN is false. In a scan NaN is greater
than all numbers, so conditions on floats exclude NaN. A filter is only translated if both sides
compare the same values in the same way; Ray evaluates other filters after the read.
"""

from __future__ import annotations

import datetime
import math
import operator
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from ray.data.expressions import (
    BinaryExpr,
    ColumnExpr,
    LiteralExpr,
    Operation,
    PyArrowComputeUDFExpr,
    UnaryExpr,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ray.data.expressions import Expr

JUNCTIONS: Final = {Operation.AND: operator.and_, Operation.OR: operator.or_}
NULL_CHECKS: Final = (Operation.IS_NULL, Operation.IS_NOT_NULL)
MEMBERSHIPS: Final = (Operation.IN, Operation.NOT_IN)
COMPARISONS: Final = (
    Operation.EQ,
    Operation.NE,
    Operation.LT,
    Operation.LE,
    Operation.GT,
    Operation.GE,
)
MAX_EXACT: Final = 1 << 53  # integers up to this one are exact as floats


def _is_integer(value: Any, limit: int = (1 << 63) - 1) -> bool:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and -limit <= value <= limit


def _is_number(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return math.isfinite(value)
    return _is_integer(value, MAX_EXACT)


def _is_float(kind: pa.DataType) -> bool:
    return bool(pa.types.is_float32(kind) or pa.types.is_float64(kind))


def _is_text(kind: pa.DataType) -> bool:
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner))


def _is_date(value: object) -> bool:
    return isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)


def _is_moment(value: object, *, with_zone: bool) -> bool:
    return isinstance(value, datetime.datetime) and (value.tzinfo is not None) == with_zone


MOMENTS: Final = tuple(map(pa.timestamp, ("s", "ms", "us", "ns")))  # types without a time zone
# Types of columns, each with a check of the literals that may be compared with such a column.
# Integers of 64 bits without sign are missing: Arrow compares them with signed ones in a type that
# does not hold them.
LITERALS: Final[tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], bool]], ...]] = (
    (pa.types.is_boolean, lambda value: isinstance(value, bool)),
    (lambda kind: pa.types.is_integer(kind) and kind != pa.uint64(), _is_integer),
    (_is_float, _is_number),
    (_is_text, lambda value: isinstance(value, str)),
    (pa.types.is_date32, _is_date),
    (lambda kind: kind in MOMENTS, lambda value: _is_moment(value, with_zone=False)),
    (pa.types.is_timestamp, lambda value: _is_moment(value, with_zone=True)),
)


def condition_of(expr: Expr, schema: pa.Schema) -> pc.Expression | None:
    """Return a condition that is true for the rows that a filter of Ray keeps.

    Returns None if the filter has a part without an equal condition.

    Args:
        expr: the filter.
        schema: columns of the rows.
    """
    if isinstance(expr, BinaryExpr) and expr.op in JUNCTIONS:
        left, right = condition_of(expr.left, schema), condition_of(expr.right, schema)
        return None if left is None or right is None else JUNCTIONS[expr.op](left, right)
    if isinstance(expr, UnaryExpr) and expr.op == Operation.NOT:
        operand = condition_of(expr.operand, schema)
        return None if operand is None else ~operand
    return _comparison(expr, schema) if _is_comparable(expr, schema) else None


def _comparison(expr: Expr, schema: pa.Schema) -> pc.Expression:
    condition = expr.to_pyarrow()
    if not isinstance(expr, BinaryExpr) or not _is_float(schema.field(expr.left.name).type):
        return condition
    is_nan = pc.is_nan(pc.field(expr.left.name))
    return condition | is_nan if expr.op == Operation.NE else condition & ~is_nan


def _is_comparable(expr: Expr, schema: pa.Schema) -> bool:
    """Return True if a scan and Ray agree on a part of a filter for all values."""
    if isinstance(expr, PyArrowComputeUDFExpr):  # a function of texts, such as `str.starts_with`
        return all(_fits(arg, "", schema) for arg in expr.args)
    if isinstance(expr, UnaryExpr):
        return expr.op in NULL_CHECKS and _type(expr.operand, schema) is not None
    if not isinstance(expr, BinaryExpr):
        return False
    left, right = expr.left, expr.right
    if expr.op in MEMBERSHIPS:
        values = right.value if isinstance(right, LiteralExpr) else None
        kind = _type(left, schema)
        if not isinstance(values, list) or not values or kind is None or _is_float(kind):
            return False  # `is_in` of Arrow tells 0.0 from -0.0, unlike a comparison
        return all(_fits(left, value, schema) for value in values)
    if expr.op not in COMPARISONS:
        return False
    if isinstance(right, LiteralExpr):
        return _fits(left, right.value, schema)
    kind = _type(left, schema)
    return kind is not None and kind == _type(right, schema) and not _is_float(kind)


def _type(expr: Expr, schema: pa.Schema) -> pa.DataType | None:
    """Return the type of a column of `LITERALS`; None for other expressions."""
    if not isinstance(expr, ColumnExpr) or schema.names.count(expr.name) != 1:
        return None
    kind = schema.field(expr.name).type
    return kind if any(is_kind(kind) for is_kind, _ in LITERALS) else None


def _fits(expr: Expr, value: object, schema: pa.Schema) -> bool:
    kind = _type(expr, schema)
    checks = [fits for is_kind, fits in LITERALS if kind is not None and is_kind(kind)]
    return bool(checks) and checks[0](value)

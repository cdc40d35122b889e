"""Filters of a query in the words of alance's SQL: those that mean the same in both, no others.

Spark's NaN is greater than all numbers and equal to itself, Arrow's is neither: comparisons of
floats stay with Spark. So do times, whose zone is the session's, and decimals.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import types
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_SIGNS: Final[Mapping[type[Filter], str]] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}
_COMPARED: Final = (
    types.ByteType,
    types.ShortType,
    types.IntegerType,
    types.LongType,
    types.StringType,
    types.BooleanType,
    types.DateType,
)


def as_sql(condition: Filter, schema: types.StructType) -> str | None:
    """A filter as SQL text; None where it is left to Spark."""
    if isinstance(condition, Not):
        inner = as_sql(condition.child, schema)
        return None if inner is None else f"NOT ({inner})"
    column = _column(condition, schema)
    if column is None:
        return None
    name, kind = column
    if isinstance(condition, IsNull):
        return f"{name} IS NULL"
    if isinstance(condition, IsNotNull):
        return f"{name} IS NOT NULL"
    if not isinstance(kind, _COMPARED):
        return None
    if isinstance(condition, In):
        values = [_literal(one) for one in condition.value]
        if not values or any(one is None for one in values):
            return None
        return f"{name} IN ({', '.join(str(one) for one in values)})"
    sign = _SIGNS.get(type(condition))
    value = _literal(getattr(condition, "value", None))
    return None if sign is None or value is None else f"{name} {sign} {value}"


def _column(condition: Filter, schema: types.StructType) -> tuple[str, types.DataType] | None:
    """The column of a filter, quoted, and its type; None for parts of columns."""
    path: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(path) != 1 or path[0] not in schema.names or "`" in path[0] or "." in path[0]:
        return None
    return f"`{path[0]}`", schema[path[0]].dataType


def _literal(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return f"date '{value.isoformat()}'"
    return None

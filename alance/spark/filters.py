"""Translates Spark's filters to alance's SQL if both evaluate them with the same result.

All other filters are left to Spark. The two agree on these types of columns in the table:

- integers, booleans, text (by bytes), dates: all comparisons. Text with a collation is left to
Spark.
- floats of 32 and 64 bits: comparisons with finite numbers. NaN and infinity are left to Spark.
- decimals and times: literals in the column's own type. Times finer than microseconds are left to
Spark, which sees them truncated. 64-bit unsigned integers are left to Spark, too, which sees them
as decimals.
"""

from __future__ import annotations

import datetime
import decimal
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from alance.spark.notes import is_compared_by_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_IN_ITEMS: Final = 10_000  # items of an IN list
BLOB_METADATA_KEY: Final = b"lance-encoding:blob"
_OPERATOR_SIGNS: Final = {"=": "=", "<>": "<>", ">": ">", ">=": ">=", "<": "<", "<=": "<="}
_TEXT_FUNCTIONS: Final = {
    "STARTS_WITH": "starts_with",
    "ENDS_WITH": "ends_with",
    "CONTAINS": "contains",
}
_FLIPPED: Final = {"=": "=", "<>": "<>", ">": "<", ">=": "<=", "<": ">", "<=": ">=", "<=>": "<=>"}
_EPOCH: Final = datetime.date(1970, 1, 1)
_WHOLE_NUMBER: Final = re.compile(r"-?\d+")


@dataclass(frozen=True, slots=True)
class FilterColumn:
    """A column, or a member of a struct, by its path."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FilterConstant:
    """A value as text; dates in days, times in microseconds. None: null."""

    text: str | None


@dataclass(frozen=True, slots=True)
class FilterCall:
    """An operator, by its name in Spark's `Predicate`s."""

    op: str
    args: tuple[Tree, ...]


Tree: TypeAlias = FilterColumn | FilterConstant | FilterCall


def tree_of(node: Mapping[str, object]) -> Tree:
    """Parse the tree that the connector sends as JSON (`Trees.java`)."""
    if "column" in node:
        path = node["column"]
        assert isinstance(path, list)
        return FilterColumn(tuple(path))
    if "literal" in node:
        text = node["literal"]
        assert text is None or isinstance(text, str)
        return FilterConstant(text)
    args = node["args"]
    assert isinstance(args, list)
    return FilterCall(str(node["op"]), tuple(map(tree_of, args)))


def sql_of(tree: Tree, schema: pa.Schema) -> str | None:
    """Translate a filter to SQL text; None if it is left to Spark.

    Args:
        schema: schema of the table.
    """
    if not isinstance(tree, FilterCall):
        return None
    match tree.op, tree.args:
        case (("ALWAYS_TRUE" | "ALWAYS_FALSE"), ()):
            return "true" if tree.op == "ALWAYS_TRUE" else "false"
        case "NOT", (child,):
            inner = sql_of(child, schema)
            return None if inner is None else f"NOT ({inner})"
        case (("AND" | "OR"), (left, right)):
            sides = (sql_of(left, schema), sql_of(right, schema))
            return None if None in sides else f"({sides[0]}) {tree.op} ({sides[1]})"
        case (("IS_NULL" | "IS_NOT_NULL"), (FilterColumn(path),)):
            column = column_of(path, schema)
            words = "IS NULL" if tree.op == "IS_NULL" else "IS NOT NULL"
            return None if column is None else f"{column[0]} {words}"
        case "IN", (FilterColumn(path), *items):
            return _in(path, items, schema)
        case op, (FilterConstant() as constant, FilterColumn(path)) if op in _FLIPPED:
            return _compared(_FLIPPED[op], path, constant, schema)
        case op, (FilterColumn(path), FilterConstant() as constant):
            return _compared(op, path, constant, schema)
    return None


def _in(path: Sequence[str], items: Sequence[Tree], schema: pa.Schema) -> str | None:
    column = column_of(path, schema)
    if column is None or not 0 < len(items) <= MAX_IN_ITEMS or pa.types.is_floating(column[1]):
        return None
    texts = []
    for item in items:
        text = _literal(item.text, column[1]) if isinstance(item, FilterConstant) else None
        if text is None:
            return None
        texts.append(text)
    return f"{column[0]} IN ({', '.join(texts)})"


def _compared(
    op: str, path: Sequence[str], constant: FilterConstant, schema: pa.Schema
) -> str | None:
    column = column_of(path, schema)
    if column is None:
        return None
    name, kind = column
    literal = _literal(constant.text, kind)
    if literal is None:
        return None
    if op in _TEXT_FUNCTIONS:
        return f"{_TEXT_FUNCTIONS[op]}({name}, {literal})" if _is_text(kind) else None
    if op == "<=>":
        is_floating = pa.types.is_floating(kind)
        return None if is_floating else f"{name} IS NOT DISTINCT FROM {literal}"
    if op not in _OPERATOR_SIGNS:
        return None
    return f"{name} {_OPERATOR_SIGNS[op]} {literal}"


def column_of(path: Sequence[str], schema: pa.Schema) -> tuple[str, pa.DataType] | None:
    """Return a column's SQL name and type; None if Spark has to evaluate filters on it."""
    if any("`" in name or "." in name or not name for name in path):
        return None
    names, kind = schema.names, None
    for depth, name in enumerate(path):
        if depth:
            assert kind is not None
            if not pa.types.is_struct(kind):
                return None
            names = [field.name for field in kind]
        if names.count(name) != 1:
            return None
        field = schema.field(name) if kind is None else kind.field(name)
        is_blob = BLOB_METADATA_KEY in (field.metadata or {})
        if is_blob or not is_compared_by_bytes(field):
            return None
        kind = field.type
    if kind is None or isinstance(kind, pa.BaseExtensionType):
        return None
    return ".".join(f"`{name}`" for name in path), kind


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _literal(text: str | None, kind: pa.DataType) -> str | None:
    """Format a Spark constant as a literal of a column's type; None if the two may differ."""
    if text is None:
        return None
    if _is_text(kind):
        return "'" + text.replace("'", "''") + "'" if "\0" not in text else None
    if pa.types.is_boolean(kind):
        return text if text in ("true", "false") else None
    if pa.types.is_floating(kind):
        number = float(text)
        return repr(number) if math.isfinite(number) and kind != pa.float16() else None
    if pa.types.is_decimal128(kind):
        return _decimal(decimal.Decimal(text), kind)
    if not _WHOLE_NUMBER.fullmatch(text):
        return None
    if pa.types.is_integer(kind):
        return None if kind == pa.uint64() else text
    if pa.types.is_date32(kind):
        try:
            return f"date '{(_EPOCH + datetime.timedelta(int(text))).isoformat()}'"
        except OverflowError:
            return None
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        zone = "None" if kind.tz is None else 'Some("UTC")'
        return f"arrow_cast({text}, 'Timestamp(Microsecond, {zone})')"
    return None


def _decimal(number: decimal.Decimal, kind: pa.Decimal128Type) -> str | None:
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > kind.scale:
        return None
    if len(digits) + exponent > kind.precision - kind.scale:
        return None
    return f"arrow_cast('{number:f}', 'Decimal128({kind.precision}, {kind.scale})')"

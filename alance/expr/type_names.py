"""The names of types in SQL: `int`, `decimal(10, 2)`, `timestamp(3)`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
from sqlglot import exp

from alance.expr.casts import MAX_PRECISION
from alance.expr.problem import Problem, unknown

if TYPE_CHECKING:
    from alance.expr.lexical import Tree

# By the name of sqlglot's type, which stands for all spellings (`int`, `integer`, `int4`).
TYPES: Final[dict[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINT": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "VARBINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIME": pa.time64("ns"),
}
TIMESTAMPS: Final = ("TIMESTAMP", "DATETIME", "TIMESTAMPNTZ")
UNITS: Final = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def named_type(tree: Tree) -> pa.DataType:
    """The Arrow type of a SQL type name.

    Raises:
        Problem: not a known type, or a decimal without its precision and scale.
    """
    name = str(getattr(tree.this, "value", tree.this)).upper()
    params = [one for one in tree.expressions if isinstance(one, exp.DataTypeParam)]
    numbers = [_whole(one.this) for one in params]
    if name in ("DECIMAL", "DECIMAL128", "DECIMAL256", "BIGDECIMAL", "NUMERIC"):
        return _decimal_type(numbers)
    if name in TIMESTAMPS:
        unit = UNITS.get(numbers[0] if numbers else 6)
        if unit is None:
            raise Problem(f"timestamp({numbers[0]}): expected a precision of 0, 3, 6 or 9")
        return pa.timestamp(unit)
    if name == "TIMESTAMPTZ":
        return pa.timestamp("us", "UTC")
    if name not in TYPES:
        raise unknown("type", tree.sql().lower(), [*map(str.lower, TYPES), "string", "decimal"])
    return TYPES[name]


def _decimal_type(numbers: list[int]) -> pa.DataType:
    if not numbers:
        raise Problem("decimal without precision and scale, expected decimal(p, s)")
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if not 1 <= precision <= MAX_PRECISION or not 0 <= scale <= precision:
        raise Problem(f"decimal({precision}, {scale}): expected 1 <= p <= 76 and 0 <= s <= p")
    return pa.decimal128(precision, scale) if precision <= 38 else pa.decimal256(precision, scale)


def _whole(tree: Tree) -> int:
    text = tree.name
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise Problem(f"expected a small whole number, found {text!r}")
    return int(text)

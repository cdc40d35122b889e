"""Names of types: in SQL, and as Arrow's Rust implementation prints them, for `arrow_cast`.

SQL names are `int`, `decimal(10, 2)` and `timestamp(3)`. Arrow's names are `Int32`, `Utf8`,
`Timestamp(Millisecond, Some("UTC"))` or `Timestamp(ms, "UTC")`, `Decimal128(10, 2)`,
`FixedSizeBinary(16)`, `List(Int64)` and `FixedSizeList(3, Float32)`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.expr.builders.text import literal_text
from alance.expr.casts import NARROW_DIGITS, WIDE_DIGITS, cast
from alance.expr.sql.syntax import is_kind
from alance.expr.tree import Literal, Problem, plain_type, unknown
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.expr.sql.syntax import SyntaxTree
    from alance.expr.tree import Node

MAX_TYPE_DEPTH: Final = 32  # levels of nested lists
_PLAIN: Final[dict[str, pa.DataType]] = {
    "Null": pa.null(),
    "Boolean": pa.bool_(),
    **{f"Int{bits}": getattr(pa, f"int{bits}")() for bits in (8, 16, 32, 64)},
    **{f"UInt{bits}": getattr(pa, f"uint{bits}")() for bits in (8, 16, 32, 64)},
    **{f"Float{bits}": getattr(pa, f"float{bits}")() for bits in (16, 32, 64)},
    "Utf8": pa.string(),
    "LargeUtf8": pa.large_string(),
    "Utf8View": pa.string_view(),
    "Binary": pa.binary(),
    "LargeBinary": pa.large_binary(),
    "BinaryView": pa.binary_view(),
    "Date32": pa.date32(),
    "Date64": pa.date64(),
}
_UNIT_BY_NAME: Final = {
    "Second": "s",
    "Millisecond": "ms",
    "Microsecond": "us",
    "Nanosecond": "ns",
    "s": "s",
    "ms": "ms",
    "us": "us",
    "µs": "us",
    "ns": "ns",
}
_NAME_BY_TYPE: Final = {type_: name for name, type_ in _PLAIN.items()}
_UNIT_SIGNS: Final = {"s": "s", "ms": "ms", "us": "µs", "ns": "ns"}
_TYPE_ZONE: Final = re.compile(r'(?:Some\(\s*)?"([^"]*)"\s*\)?')
_TYPE_NAME: Final = re.compile(r"([A-Za-z][A-Za-z0-9]*)\s*(?:\((.*)\))?", re.DOTALL)

# Types by the name that sqlglot gives to all spellings of a type (`int`, `integer`, `int4`).
SQL_TYPES: Final[dict[str, pa.DataType]] = {
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
UNIT_OF_PRECISION: Final = {0: "s", 3: "ms", 6: "us", 9: "ns"}


def named_type(tree: SyntaxTree) -> pa.DataType:
    """Return the Arrow type of a SQL type name.

    Raises:
        Problem: the type is unknown, or its precision or scale is absent or out of bounds.
    """
    name = str(tree.first).upper()
    params = [param for param in tree.expressions if is_kind(param, "DataTypeParam")]
    numbers = [_whole(param.first) for param in params]
    if name in ("DECIMAL", "DECIMAL128", "DECIMAL256", "BIGDECIMAL", "NUMERIC"):
        return _decimal_type(numbers)
    if name in TIMESTAMPS:
        unit = UNIT_OF_PRECISION.get(numbers[0] if numbers else 6)
        if unit is None:
            raise Problem(f"timestamp({numbers[0]}): expected a precision of 0, 3, 6 or 9")
        return pa.timestamp(unit)
    if name == "TIMESTAMPTZ":
        return pa.timestamp("us", "UTC")
    if name not in SQL_TYPES:
        raise unknown("type", tree.args["sql"], [*map(str.lower, SQL_TYPES), "string", "decimal"])
    return SQL_TYPES[name]


def _decimal_type(numbers: list[int]) -> pa.DataType:
    if not numbers:
        raise Problem("decimal without precision and scale, expected decimal(p, s)")
    precision, scale = numbers[0], numbers[1] if len(numbers) > 1 else 0
    if not 1 <= precision <= WIDE_DIGITS or not 0 <= scale <= precision:
        raise Problem(
            f"decimal({precision}, {scale}): expected 1 <= p <= {WIDE_DIGITS} and 0 <= s <= p"
        )
    make = pa.decimal128 if precision <= NARROW_DIGITS else pa.decimal256
    return make(precision, scale)


def _whole(tree: SyntaxTree) -> int:
    text = tree.name
    if not text.isascii() or not text.isdigit() or len(text) > 4:
        raise Problem(f"expected a small whole number, found {text!r}")
    return int(text)


def arrow_cast(name: str, args: list[Node]) -> Node:
    """arrow_cast(value, 'Type'), and arrow_try_cast: null where a value cannot be cast."""
    type_ = arrow_type(literal_text(name, args[1]))
    return cast(args[0], type_, strict=name == "arrow_cast")


def type_of(name: str, args: list[Node]) -> Node:
    """arrow_typeof(x): the name of the type of x; for a dictionary, that of its values.

    For an extension, it is the name of the storage type.
    """
    return Literal(as_scalar(_printed(name, args[0].type)))


def _printed(name: str, type_: pa.DataType) -> str:
    """Format a type as Arrow's Rust implementation does.

    Raises:
        Problem: the type is a map, or has no name in this module.
    """
    if type_ in _NAME_BY_TYPE:
        return _NAME_BY_TYPE[type_]
    if pa.types.is_timestamp(type_):
        return f"Timestamp({_UNIT_SIGNS[type_.unit]}" + (f', "{type_.tz}")' if type_.tz else ")")
    if pa.types.is_duration(type_):
        return f"Duration({_UNIT_SIGNS[type_.unit]})"
    if pa.types.is_time(type_):
        return f"Time{type_.bit_width}({_UNIT_SIGNS[type_.unit]})"
    if pa.types.is_decimal(type_):
        return f"Decimal{type_.bit_width}({type_.precision}, {type_.scale})"
    if pa.types.is_fixed_size_binary(type_):
        return f"FixedSizeBinary({type_.byte_width})"
    if pa.types.is_struct(type_):
        fields = [type_.field(number) for number in range(type_.num_fields)]
        members = [f'"{field.name}": {_printed_field(name, field)}' for field in fields]
        return f"Struct({', '.join(members)})"
    if pa.types.is_map(type_) or not pa.types.is_nested(type_):
        raise Problem(f"{name}: {type_}", unsupported=True)
    item = type_.value_field
    inner = _printed_field(name, item)
    if item.name != "item":
        inner += f", field: '{item.name}'"
    if pa.types.is_fixed_size_list(type_):
        return f"FixedSizeList({type_.list_size} x {inner})"
    return f"{'LargeList' if pa.types.is_large_list(type_) else 'List'}({inner})"


def _printed_field(name: str, field: pa.Field) -> str:
    return ("" if field.nullable else "non-null ") + _printed(name, plain_type(field.type))


def arrow_type(text: str, depth: int = 0) -> pa.DataType:
    """Parse the name that Arrow's Rust implementation gives to a type.

    Raises:
        Problem: the type is unknown or unsupported, or has wrong arguments.
    """
    match = _TYPE_NAME.fullmatch(text.strip())
    if match is None or depth > MAX_TYPE_DEPTH:
        raise Problem(f"type {text[:60]!r}: expected a name such as 'Int32' or 'Timestamp(ns)'")
    name, inside = match.groups()
    if name in ("Dictionary", "Interval", "Map", "RunEndEncoded", "Struct", "Union"):
        raise Problem(f"casts to {name}", unsupported=True)
    if inside is None and name in _PLAIN:
        return _PLAIN[name]
    build = _BUILT.get(name)
    if build is None:
        raise unknown("type", text, [*_PLAIN, *_BUILT])
    try:
        return build(_arguments(inside or ""), depth + 1)
    except (KeyError, ValueError, IndexError, pa.ArrowException) as error:
        raise Problem(f"type {text!r}: {error}") from None


def _arguments(text: str) -> list[str]:
    """Split the arguments of a type: `4 x Int8` and `4, Int8` are both `4` and `Int8`."""
    parts, depth, start = [], 0, 0
    text = re.sub(r"^(\d+) x ", r"\1, ", text.strip())
    for place, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    return [*parts, text[start:].strip()]


def _timestamp(args: Sequence[str], _: int) -> pa.DataType:
    unit = _UNIT_BY_NAME[args[0]]
    if len(args) == 1 or args[1] == "None":
        return pa.timestamp(unit)
    zone = _TYPE_ZONE.fullmatch(args[1])
    if zone is None:
        raise ValueError(f'expected None or Some("zone"), found {args[1]}')
    return pa.timestamp(unit, zone[1])


_BUILT: Final[dict[str, Callable[[Sequence[str], int], pa.DataType]]] = {
    "Timestamp": _timestamp,
    "Duration": lambda args, _: pa.duration(_UNIT_BY_NAME[args[0]]),
    "Time32": lambda args, _: pa.time32(_UNIT_BY_NAME[args[0]]),
    "Time64": lambda args, _: pa.time64(_UNIT_BY_NAME[args[0]]),
    "Decimal128": lambda args, _: pa.decimal128(int(args[0]), int(args[1])),
    "Decimal256": lambda args, _: pa.decimal256(int(args[0]), int(args[1])),
    "FixedSizeBinary": lambda args, _: pa.binary(int(args[0])),
    "List": lambda args, depth: pa.list_(arrow_type(args[0], depth)),
    "LargeList": lambda args, depth: pa.large_list(arrow_type(args[0], depth)),
    "FixedSizeList": lambda args, depth: pa.list_(arrow_type(args[1], depth), int(args[0])),
}

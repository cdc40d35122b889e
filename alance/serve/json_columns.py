"""Conversion of JSON values to Arrow by the types of a table: the inverse of `json_rows`.

A value that its column cannot represent exactly is refused, except that columns of floats round it:
only an integer above 2^53 must then be exact as a double.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import uuid
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import alance
from alance import InvalidInputError
from alance.serve import moments
from alance.serve.json_rows import is_binary

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    Read: TypeAlias = Callable[[Any], Any]

BLOB_METADATA = ((b"lance-encoding:blob", b"true"), (b"ARROW:extension:name", b"lance.blob.v2"))
NON_FINITE = {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf")}
_INTEGER_TEXT = re.compile(r"-?\d{1,20}", re.ASCII)


class Misfit(Exception):
    """Raised for a value that its type cannot represent; `path` leads to it from the column."""

    def __init__(self, value: object, expected: str, *path: object) -> None:
        super().__init__(value, expected)
        self.value = value
        self.expected = expected
        self.path = path

    def below(self, *path: object) -> Misfit:
        """Return the same error, with the path of a parent prepended."""
        return Misfit(self.value, self.expected, *path, *self.path)

    def __str__(self) -> str:
        path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in self.path)
        shown = str(self.value) if isinstance(self.value, Decimal) else repr(self.value)
        return f"{path}: {shown:.100}, expected {self.expected}"


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Convert rows to a table of all columns that occur in a row; a missing member is null.

    Raises:
        ColumnNotFoundError: a row has a column that the schema lacks.
        InvalidInputError: a column cannot represent a value.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    for name in names:
        if name not in schema.names:
            expected = ", ".join(schema.names)
            raise alance.ColumnNotFoundError(f"no column {name!r}; expected {expected}", name)
    fields = [schema.field(name) for name in names]
    columns = [_column([row.get(field.name) for row in rows], field) for field in fields]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def parsed(text: bytes | str, *, exact: bool) -> Any:
    """Parse JSON.

    Args:
        exact: True to return fractions as decimals with all digits; False for floats.

    Raises:
        ValueError: the text is not JSON; NaN and Infinity are no JSON either.
    """
    return json.loads(text, parse_constant=_no_constant, parse_float=Decimal if exact else None)


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def value_of(value: object, field: pa.Field) -> pa.Scalar:
    """Convert a JSON value to a scalar of a column's type.

    Raises:
        InvalidInputError: the column cannot represent the value.
    """
    return _column([value], field)[0]


def _column(values: list[Any], field: pa.Field) -> pa.Array:
    read = _of_field(field)
    number = 0
    try:
        listed = []
        for number, value in enumerate(values):  # noqa: B007  # the row of an error
            listed.append(None if value is None else read(value))
        storage = _storage(field.type)
        array = pa.array(listed, storage)
    except Misfit as misfit:
        raise InvalidInputError(f"rows[{number}].{field.name}{misfit}") from misfit
    except (pa.ArrowException, OverflowError, UnicodeError) as error:
        raise InvalidInputError(
            f"column {field.name!r}: expected values of {field.type}: {error}"
        ) from error
    if isinstance(field.type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(field.type, array)
    return array if storage.equals(field.type) else array.cast(field.type)


def _storage(kind: pa.DataType) -> pa.DataType:
    """Return the type in which arrays are built: a type without extensions or dictionaries."""
    if isinstance(kind, pa.BaseExtensionType):
        return _storage(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return kind.value_type
    return kind


def _of_field(field: pa.Field) -> Read:
    metadata = field.metadata or {}
    if any(metadata.get(key) == value for key, value in BLOB_METADATA):
        return _blob(field.type)
    return _reader(field.type)


@lru_cache(1024)
def _reader(kind: pa.DataType) -> Read:
    """Return the function that converts a JSON value, other than null, to a type."""
    if isinstance(kind, pa.BaseExtensionType):
        readers = {"arrow.uuid": _uuid, "arrow.bool8": lambda value: int(_bool(value))}
        return readers.get(kind.extension_name) or _reader(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _reader(kind.value_type)
    if pa.types.is_map(kind):
        return _map(kind)
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_fixed_size_list(kind):
        return _list(kind, kind.list_size)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list(kind, None)
    return _without_parts(kind)


def _without_parts(kind: pa.DataType) -> Read:
    if pa.types.is_integer(kind):
        return lambda value: _integer(value, kind)
    if pa.types.is_floating(kind):
        return lambda value: _float(value, kind)
    if pa.types.is_boolean(kind):
        return _bool
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return lambda value: _text(value, "text")
    if is_binary(kind):
        return lambda value: _bytes(value, kind)
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(value, kind)
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return _temporal(kind)
    return lambda value: _refuse(value, f"null: {kind} has no form in JSON")


def _refuse(value: object, expected: str) -> Any:
    raise Misfit(value, expected)


def _text(value: object, expected: str) -> str:
    if not isinstance(value, str):
        raise Misfit(value, expected)
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise Misfit(value, "true or false")
    return value


def _integer(value: object, kind: pa.DataType) -> int:
    if isinstance(value, str | float | Decimal):
        value = _whole(value)
    is_signed = pa.types.is_signed_integer(kind)
    stop = 1 << (kind.bit_width - is_signed)
    if type(value) is not int or not (-stop if is_signed else 0) <= value < stop:
        raise Misfit(value, f"a value of type {kind}")
    return value


def _whole(value: str | float | Decimal) -> object:
    """Convert digits, or a number such as 5.0, to an integer; return other values as they are."""
    if isinstance(value, str):
        return int(value) if _INTEGER_TEXT.fullmatch(value) else value
    number = Decimal(value)
    return int(number) if abs(number) < 1 << 64 and number == int(number) else value


def _float(value: object, kind: pa.DataType) -> Any:
    expected = f"a number ({kind}), or the text NaN, Infinity or -Infinity"
    if isinstance(value, str):
        if value not in NON_FINITE:
            raise Misfit(value, expected)
        number = NON_FINITE[value]
    elif isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise Misfit(value, expected)
    elif isinstance(value, int) and abs(value) > 1 << 53 and not _is_exact(value):
        raise Misfit(value, f"{expected}: this one has too many digits")
    else:
        number = float(value)
        with np.errstate(over="ignore"):
            is_finite = isfinite(number) and isfinite(
                float(np.array(number, f"f{kind.bit_width // 8}"))
            )
        if not is_finite:
            raise Misfit(value, f"{expected}: this one is too large")
    return np.float16(number) if pa.types.is_float16(kind) else number


def _is_exact(value: int) -> bool:
    try:
        return int(float(value)) == value
    except OverflowError:
        return False


def _bytes(value: object, kind: pa.DataType) -> bytes:
    is_fixed = pa.types.is_fixed_size_binary(kind)
    expected = f"base64 of {kind.byte_width} bytes" if is_fixed else "base64"
    try:
        content = base64.b64decode(_text(value, expected), validate=True)
    except (binascii.Error, ValueError):
        raise Misfit(value, expected) from None
    if is_fixed and len(content) != kind.byte_width:
        raise Misfit(value, expected)
    return content


def _decimal(value: object, kind: pa.DataType) -> Decimal:
    expected = f"a value of type {kind}, as text"
    number = _digits(value, expected)
    try:
        unscaled = moments.whole(number, kind.scale) if number.adjusted() < 100 else None
    except (ValueError, OverflowError):
        unscaled = None
    if unscaled is None or abs(unscaled) >= 10**kind.precision:
        raise Misfit(value, expected)
    return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))


def _digits(value: object, expected: str) -> Decimal:
    """Convert a number, or its text, to a decimal with exactly the same digits."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        raise Misfit(value, expected)
    text = str(value)
    if len(text) > 200 or "_" in text:
        raise Misfit(value, expected)
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise Misfit(value, expected) from None
    if not number.is_finite() or not -200 < number.adjusted() < 200:
        raise Misfit(value, expected)
    return number


def _temporal(kind: pa.DataType) -> Read:
    if pa.types.is_timestamp(kind):
        zone = "without an offset" if kind.tz is None else "with an offset, such as Z or +01:00"
        expected = f"a timestamp in ISO 8601 {zone} ({kind})"
        parse: Read = lambda text: moments.timestamp_of(text, kind)  # noqa: E731
    elif pa.types.is_date(kind):
        unit = 1 if pa.types.is_date32(kind) else 86_400_000
        expected = f"a date such as 2024-01-31 ({kind})"
        parse = lambda text: moments.days_of(text) * unit  # noqa: E731
    elif pa.types.is_time(kind):
        expected = f"a time such as 12:34:56.5 ({kind})"
        parse = lambda text: moments.time_of(text, kind.unit)  # noqa: E731
    else:
        expected = f"seconds, a number or its text ({kind})"
        digits = moments.FRACTION_DIGITS[kind.unit]
        return lambda value: _ranged(value, kind, _units(value, digits, expected), expected)

    def read(value: object) -> int:
        try:
            number = parse(_text(value, expected))
        except ValueError:
            raise Misfit(value, expected) from None
        return _ranged(value, kind, number, expected)

    return read


def _units(value: object, digits: int, expected: str) -> int:
    try:
        return moments.whole(_digits(value, expected), digits)
    except ValueError:
        raise Misfit(value, expected) from None


def _ranged(value: object, kind: pa.DataType, number: int, expected: str) -> int:
    stop = 1 << (kind.bit_width - 1)
    if not -stop <= number < stop:
        raise Misfit(value, f"{expected}, in its range")
    return number


def _uuid(value: object) -> bytes:
    expected = "a UUID as text"
    try:
        return uuid.UUID(_text(value, expected)).bytes
    except ValueError:
        raise Misfit(value, expected) from None


def _blob(kind: pa.DataType) -> Read:
    """Return the reader of blobs: base64, or for structs also an object with `data` or `uri`."""
    expected = 'the bytes of a blob in base64, or {"data": BASE64} or {"uri": TEXT}'
    read = _struct(kind) if pa.types.is_struct(kind) else None

    def blob(value: object) -> Any:
        if read is not None and isinstance(value, dict):
            if value.keys() <= {"data", "uri"}:
                return read(value)
        elif isinstance(value, str):
            content = _bytes(value, pa.large_binary())
            return content if read is None else {"data": content, "uri": None}
        raise Misfit(value, expected if read is not None else "the bytes of a blob in base64")

    return blob


def _items(values: object, read: Read, expected: str) -> list[Any]:
    if not isinstance(values, list):
        raise Misfit(values, expected)
    listed = []
    for number, value in enumerate(values):
        try:
            listed.append(None if value is None else read(value))
        except Misfit as misfit:
            raise misfit.below(number) from None
    return listed


def _list(kind: pa.DataType, size: int | None) -> Read:
    read = _of_field(kind.value_field)
    expected = f"a list ({kind})" if size is None else f"a list of {size} values ({kind})"

    def read_list(value: object) -> list[Any]:
        listed = _items(value, read, expected)
        if size is not None and len(listed) != size:
            raise Misfit(value, expected)
        return listed

    return read_list


def _map(kind: pa.DataType) -> Read:
    key, item = _of_field(kind.key_field), _of_field(kind.item_field)
    expected = f"a list of [key, value] ({kind})"

    def pair(value: object) -> tuple[Any, Any]:
        if not isinstance(value, list) or len(value) != 2 or value[0] is None:
            raise Misfit(value, "[key, value]")
        try:
            return key(value[0]), None if value[1] is None else item(value[1])
        except Misfit as misfit:
            raise misfit.below(0 if misfit.value is value[0] else 1) from None

    return lambda value: _items(value, pair, expected)


def _struct(kind: pa.DataType) -> Read:
    readers = {field.name: _of_field(field) for field in kind}
    expected = f"an object with {', '.join(readers) or 'no members'}"

    def read_struct(value: object) -> dict[str, Any]:
        if not isinstance(value, dict) or not value.keys() <= readers.keys():
            raise Misfit(value, expected)
        members = {}
        for name, member in value.items():
            try:
                members[name] = None if member is None else readers[name](member)
            except Misfit as misfit:
                raise misfit.below(name) from None
        return members

    return read_struct

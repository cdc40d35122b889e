"""Values for the parameters of SQL text: `?` by position, or `:name`.

A value means the same as a literal in the text: a number is compared exactly, whatever the column's
type; None is NULL. A list is allowed only after IN.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias, cast
from uuid import UUID

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.checks import INT64_MAX
from alance.errors import InvalidInputError
from alance.expr.arithmetic import number_literal
from alance.expr.casts import NARROW_DIGITS, WIDE_DIGITS, is_bytes, is_text
from alance.expr.exact import EPOCH_ORDINAL, MAX_EXPONENT, PER_SECOND, Digits
from alance.expr.tree import FAILURES, Literal, Problem, plain, single_line
from alance.format.numbers import as_scalar, text_array, to_arrow

if TYPE_CHECKING:
    from alance.expr.sql.lexical import SqlText
    from alance.expr.sql.syntax import SyntaxTree

Items: TypeAlias = "Sequence[Literal] | pa.Array | Digits"
NULL_LITERAL: Final = Literal(as_scalar(None, pa.null()))
LONG_LIST: Final = 64  # values; longer lists become an array instead of literals, see `lexical`


class Parameters:
    """Values for the parameters of a text.

    Args:
        source: the parsed text.
        values: a sequence by position or a mapping by name; None for no values.

    Raises:
        InvalidInputError: the number of values is wrong, a name has no value, or a value has a name
            that is not in the text.
    """

    def __init__(
        self, source: SqlText, values: Sequence[object] | Mapping[str, object] | None
    ) -> None:
        self._values: Sequence[object] | Mapping[str, object] = () if values is None else values
        named = [tree.first for tree in source.placeholders if tree.first]
        by_place = len(source.placeholders) - len(named)
        if named and by_place:
            raise InvalidInputError(f"{source.what}: parameters both as ? and as :{named[0]}")
        if named or (isinstance(values, Mapping) and not by_place):
            self._check_names(source, named)
        elif isinstance(values, Mapping):
            raise InvalidInputError(f"params: expected a list of {_count(by_place)}, by place")
        elif len(self._values) != by_place:
            problem = f"{_count(len(self._values))}, the {source.what} has {by_place} ?"
            raise _wrong_params(source, problem)

    def _check_names(self, source: SqlText, named: Sequence[str]) -> None:
        if not isinstance(self._values, Mapping):
            if len(self._values):
                raise InvalidInputError(f"params: expected values by name, such as {named[0]!r}")
            self._values = {}
        missing = [tree for tree in source.placeholders if tree.first not in self._values]
        if missing:
            problem = Problem(f"no value in params for :{missing[0].first}")
            raise source.locate(problem, missing[0])
        unknown = [name for name in self._values if name not in named]
        if unknown:
            raise _wrong_params(source, f"{unknown[0]!r}, the {source.what} has no such name")

    def literal(self, tree: SyntaxTree) -> Literal:
        """Return the value of a parameter as a literal.

        Raises:
            Problem: the value is a list, or of a type that has no literal.
        """
        value = self._value(tree)
        if _is_list(value):
            raise Problem(f"{_name(tree)}: a list of values; only IN takes a list")
        return literal_of(value, _name(tree))

    def is_list(self, tree: SyntaxTree) -> bool:
        """True if the value of a parameter is a list."""
        return _is_list(self._value(tree))

    def items(self, tree: SyntaxTree) -> tuple[Items, bool]:
        """Return the values of a list parameter without nulls, and True if it has nulls.

        Raises:
            Problem: the value is not a list of scalars.
        """
        value = self._value(tree)
        if not _is_list(value):
            raise Problem(f"{_name(tree)}: expected a list of values, found {_type(value)}")
        return items_of(value, _name(tree))

    def _value(self, tree: SyntaxTree) -> object:
        if isinstance(self._values, Mapping):
            return self._values[tree.first]
        return self._values[tree.number]


def _is_list(value: object) -> bool:
    if isinstance(value, pa.Array | pa.ChunkedArray | np.ndarray):
        return True
    is_scalar = isinstance(value, str | bytes | bytearray | memoryview | Mapping | pa.Scalar)
    return isinstance(value, Collection) and not is_scalar


def items_of(value: object, name: str) -> tuple[Items, bool]:
    """Return the values of a list without nulls, and True if it has nulls.

    A list of more than `LONG_LIST` texts, bytes or integers becomes an array, and a list of floats
    or decimals becomes `Digits`. An item then costs a tenth of a literal.

    Args:
        name: the list's name in messages.

    Raises:
        Problem: the list has items that are not scalars.
    """
    try:
        array = array_of(value)
        valid = array if isinstance(array, list) or not array.null_count else pc.drop_null(array)
        if isinstance(valid, pa.Array) and pa.types.is_integer(valid.type):
            valid = valid.cast(pa.int64()) if _is_signed(valid) else valid.to_pylist()
    except FAILURES as error:
        raise Problem(f"{name}: {single_line(error)}") from None
    if isinstance(valid, pa.Array) and (
        is_text(valid.type) or is_bytes(valid.type) or pa.types.is_int64(valid.type)
    ):
        return valid, len(valid) < len(array)
    if isinstance(valid, list) and (digits := _digits(valid)) is not None:
        return digits, False
    literals = [literal_of(item, name) for item in valid]
    literals = [literal for literal in literals if literal.value.is_valid]
    return literals, len(literals) < len(array)


def _digits(values: list[object]) -> Digits | None:
    """Return a long list of finite floats or decimals as digits. Returns None for other lists."""
    kinds = {type(value) for value in values} if len(values) > LONG_LIST else set()
    if kinds == {float} and all(map(math.isfinite, cast("list[float]", values))):
        return Digits(list(map(repr, values)), number_literal)
    if kinds == {Decimal} and all(map(Decimal.is_finite, cast("list[Decimal]", values))):
        return Digits(list(map(str, values)), lambda text: literal_of(Decimal(text), "params"))
    return None


def _is_signed(values: pa.Array) -> bool:
    """True if all integers fit int64."""
    most = pc.max(values).as_py() if pa.types.is_uint64(values.type) else 0
    return most is None or most <= INT64_MAX


def array_of(values: object, least: int = LONG_LIST + 1) -> pa.Array | list[object]:
    """Return long lists of texts, bytes, UUIDs or integers of 64 bits as arrays, others as lists.

    Arrow arrays, and numpy arrays of integers, remain arrays, whatever their length. UUIDs become
    large binary.

    Args:
        least: smallest number of Python values that become an array.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if isinstance(values, pa.Array):
        return plain(values)
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.ndim == 1:
        return to_arrow(values)
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and values.ndim == 1:
        return cast("list[object]", values.tolist())
    items = list(cast("Iterable[object]", values))
    kinds = {type(item) for item in items} if len(items) >= least else set()
    if kinds == {str}:
        return text_array([str(item).encode() for item in items], pa.large_string())
    if kinds == {bytes}:
        return text_array(cast("list[bytes]", items), pa.large_binary())
    if kinds == {UUID}:
        contents = [item.bytes for item in cast("list[UUID]", items)]
        return text_array(contents, pa.large_binary())
    if kinds == {int}:
        with suppress(OverflowError):
            return to_arrow(np.array(items, np.int64))
    return items


def literal_of(value: object, name: str) -> Literal:
    """Convert a Python value to the literal that SQL text would have; Arrow keeps its types.

    Raises:
        Problem: the value is not a scalar.
    """
    try:
        if isinstance(value, np.datetime64 | np.timedelta64):
            literal: Literal | None = _moment(value)
        else:
            literal = _scalar(value.item() if isinstance(value, np.generic) else value)
    except FAILURES as error:
        raise Problem(f"{name}: {single_line(error)}") from None
    if literal is None:
        raise Problem(f"{name}: a value of type {_type(value)}")
    return literal


def _scalar(value: object) -> Literal | None:
    if value is None:
        return NULL_LITERAL
    if isinstance(value, pa.Scalar):
        return Literal(plain(pa.repeat(value, 1))[0])
    if isinstance(value, bool | str):
        return Literal(as_scalar(value))
    if isinstance(value, int):
        return number_literal(str(value))
    if isinstance(value, float):
        return number_literal(repr(value)) if math.isfinite(value) else Literal(as_scalar(value))
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, UUID):
        value = value.bytes
    if isinstance(value, bytes | bytearray | memoryview):
        return Literal(as_scalar(bytes(value)))
    if isinstance(value, datetime):
        zone = None if value.utcoffset() is None else "UTC"
        epoch = datetime(1970, 1, 1, tzinfo=UTC if zone else None)
        return _of_microseconds(value - epoch, pa.timestamp("us", zone))
    if isinstance(value, date):
        return Literal(as_scalar(value.toordinal() - EPOCH_ORDINAL, pa.date32()))
    if isinstance(value, time) and value.tzinfo is None:
        since = datetime.combine(date.min, value) - datetime.min
        return _of_microseconds(since, pa.time64("us"))
    if isinstance(value, timedelta):
        return _of_microseconds(value, pa.duration("us"))
    return None


def _of_microseconds(span: timedelta, type_: pa.DataType) -> Literal:
    """Return the literal of a timestamp, time or duration.

    It is in microseconds, or in nanoseconds if `span` is a pandas value that needs them.
    """
    nanoseconds = getattr(span, "nanoseconds", 0)
    whole = span // timedelta(microseconds=1)
    if nanoseconds:
        nano = pa.duration("ns") if pa.types.is_duration(type_) else pa.timestamp("ns", type_.tz)
        return Literal(as_scalar(whole * 1000 + nanoseconds, nano))
    return Literal(as_scalar(whole, type_))


def _moment(value: np.datetime64 | np.timedelta64) -> Literal:
    """Convert a numpy timestamp or duration; units that Arrow lacks become microseconds."""
    if np.isnat(value):
        return NULL_LITERAL
    unit, step = np.datetime_data(value.dtype)
    if unit not in PER_SECOND or step != 1:
        unit = "us"
    whole = int(value.astype(f"{value.dtype.kind}8[{unit}]").astype(np.int64))
    is_span = isinstance(value, np.timedelta64)
    return Literal(as_scalar(whole, pa.duration(unit) if is_span else pa.timestamp(unit)))


def _decimal(value: Decimal) -> Literal | None:
    """Convert a decimal to a literal of its own scale, which compares exactly with any scale.

    Returns None for NaN and infinity.
    """
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):  # NaN or infinity
        return None
    whole = int("".join(map(str, digits))) * 10 ** max(0, min(exponent, MAX_EXPONENT))
    scale = max(0, -exponent)
    precision = max(len(str(whole)), scale, 1)
    if precision > WIDE_DIGITS:
        return number_literal(str(value))
    make = pa.decimal128 if precision <= NARROW_DIGITS else pa.decimal256
    return Literal(as_scalar(-whole if sign else whole, make(precision, scale)), str(value))


def _name(tree: SyntaxTree) -> str:
    return f"parameter :{tree.first}" if tree.first else f"parameter {tree.number + 1}"


def _type(value: object) -> str:
    return "None" if value is None else type(value).__name__


def _wrong_params(source: SqlText, problem: str) -> InvalidInputError:
    from alance.expr.sql.habits import habit_hint

    return InvalidInputError(f"params: {problem}{habit_hint(source.text)}")


def _count(number: int) -> str:
    return "1 value" if number == 1 else f"{number} values"

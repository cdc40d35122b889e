"""Exact comparison of literals with columns of a fixed scale, without rounding or wrapping.

Integers, decimals, dates, times, timestamps and durations are whole multiples of a unit within
bounds. A literal is an exact fraction of the same quantity. So a comparison with a literal that
lies between two multiples, or outside the bounds, needs no cast: `i8 > 300` is false, `i > 1.5` is
`i > 1`, and a column of seconds never equals half a second.
"""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_05UP, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.tree import Literal, Problem
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Float64s

Moments = TypeVar("Moments", pa.Array, pa.Scalar)

DAY_SECONDS: Final = 86400
PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
MAX_EXPONENT: Final = 400  # beyond all column types; keeps `1e999999999` from being written out

# A fraction of a million digits would take minutes. This many digits distinguish a number from all
# values of a column: ROUND_05UP never rounds a number to a value that it does not equal.
_FEW_DIGITS: Final = Context(prec=3 * MAX_EXPONENT, rounding=ROUND_05UP)
_WIDE_CONTEXT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)

_MOMENT: Final = re.compile(
    r"\s*(\d{4})-(\d{1,2})-(\d{1,2})"
    r"(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,18}))?)?\s*(Z|z|[+-]\d{2}(?::?\d{2})?)?)?\s*",
    re.ASCII,
)
_TIME_LITERAL: Final = re.compile(
    r"\s*(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,18}))?)?\s*", re.ASCII
)


@dataclass(frozen=True, slots=True)
class Scale:
    """Range and unit of the integers that a type stores.

    Attributes:
        quantity: "number", "moment", "time" or "duration"; only equal quantities compare.
        unit: value of the stored integer 1, as a number or in seconds.
        low: the smallest integer that the type stores.
        high: the largest integer that the type stores.
    """

    quantity: str
    unit: Fraction
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Digits:
    """A long list of finite numbers as written; literals are built only if needed.

    Attributes:
        texts: the numbers as written.
        literal: builds the literal of a number as written.
    """

    texts: Sequence[str]
    literal: Callable[[str], Literal]

    def literals(self) -> list[Literal]:
        """Return all numbers as literals."""
        return list(map(self.literal, self.texts))

    def floats(self) -> Float64s:
        """Return the nearest float64 of each number."""
        return np.array(list(map(float, self.texts)), np.float64)

    def wholes(self, type_: pa.DataType) -> list[int]:
        """Return the integers that store the numbers in `type_`, an integer or decimal type.

        Numbers that the type does not hold exactly are omitted.
        """
        scale = scale_of(type_)
        assert scale is not None
        places = type_.scale if pa.types.is_decimal(type_) else 0
        wholes = []
        for number in map(Decimal, self.texts):
            if number and abs(number.adjusted()) > MAX_EXPONENT:
                continue
            scaled = number.scaleb(places, _WIDE_CONTEXT) if number else number
            whole = int(scaled) if number else 0
            if whole == scaled and scale.low <= whole <= scale.high:
                wholes.append(whole)
        return wholes


@lru_cache(maxsize=64)  # types; a text may have 100,000 literals, with a call for each
def scale_of(type_: pa.DataType) -> Scale | None:
    """Return the scale of a type. Returns None for floats, text and all other types."""
    if pa.types.is_integer(type_):
        bits = type_.bit_width
        if pa.types.is_signed_integer(type_):
            return Scale("number", Fraction(1), -(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return Scale("number", Fraction(1), 0, (1 << bits) - 1)
    if pa.types.is_decimal(type_):
        most = 10**type_.precision - 1
        return Scale("number", Fraction(10) ** -type_.scale, -most, most)
    quantity, unit = "moment", Fraction(1)
    if pa.types.is_date32(type_):
        unit = Fraction(DAY_SECONDS)
    elif pa.types.is_date64(type_):
        unit = Fraction(1, 1000)
    elif pa.types.is_timestamp(type_):
        unit = Fraction(1, PER_SECOND[type_.unit])
    elif pa.types.is_time(type_):
        quantity, unit = "time", Fraction(1, PER_SECOND[type_.unit])
    elif pa.types.is_duration(type_):
        quantity, unit = "duration", Fraction(1, PER_SECOND[type_.unit])
    else:
        return None
    bits = type_.bit_width
    return Scale(quantity, unit, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def scalar_of(type_: pa.DataType, whole: int) -> pa.Scalar:
    """Return the scalar that stores an integer in a type with a scale."""
    return as_scalar(whole, type_)


def exact_value(literal: Literal, type_: pa.DataType) -> Fraction | float | None:
    """Return the exact value of a literal that is compared with values of `type_`.

    Returns:
        A fraction or an infinity; a NaN, which sorts above all numbers, is returned as infinity.
        None if `type_` has no `Scale`, or the literal has another quantity, such as a number for a
        date.
    """
    scale = scale_of(type_)
    if scale is None:
        return None
    value = literal.value
    if scale.quantity == "number":
        return number_value(literal)
    if pa.types.is_string(value.type):
        literal = _parsed(value.as_py(), scale, type_)
        value = literal.value
    own = scale_of(value.type)
    if own is None or own.quantity != scale.quantity:
        return None
    if own.quantity == "moment" and pa.types.is_timestamp(value.type):
        value = in_zone_of(value, type_)
    whole: int = value.value
    return whole * own.unit


def number_value(literal: Literal) -> Fraction | float | None:
    """Return the exact value of a literal like `exact_value`; None if it is not a number."""
    value = literal.value
    if pa.types.is_integer(value.type):
        return Fraction(value.as_py())
    if literal.digits is not None:
        return _fraction(Decimal(literal.digits))
    if pa.types.is_decimal(value.type):
        return _fraction(value.as_py())
    if pa.types.is_floating(value.type):
        number = float(value.as_py())
        if math.isfinite(number):
            return Fraction(number)
        return -math.inf if number == -math.inf else math.inf
    return None


def in_zone_of(values: Moments, type_: pa.DataType) -> Moments:
    """Convert timestamps without a zone to instants, as local times in the zone of `type_`.

    A local time that occurs twice becomes the earlier instant; one that is skipped becomes the last
    instant before the gap. If the values have a zone, or the type has none, they are returned as
    is.
    """
    zone = getattr(type_, "tz", None)
    if zone is None or values.type.tz is not None:
        return values
    return pc.assume_timezone(values, timezone=zone, ambiguous="earliest", nonexistent="earliest")


def timestamp_literal(text: str, unit: str | None = None) -> Literal:
    """Parse the text of `timestamp '...'`.

    A text with an offset from UTC is an instant in zone UTC; a text without one is a local time.

    Args:
        unit: unit of the type; None for microseconds, or nanoseconds if the text needs them.

    Raises:
        Problem: the text is not a date and time, or does not fit the unit.
    """
    seconds, has_zone = moment_seconds(text)
    if unit is None:
        unit = "us" if (seconds * 10**6).denominator == 1 else "ns"
    whole = math.floor(seconds * PER_SECOND[unit])
    if not -(1 << 63) <= whole < 1 << 63:
        raise Problem(f"timestamp {text!r} is out of range for unit {unit!r}")
    return Literal(as_scalar(whole, pa.timestamp(unit, "UTC" if has_zone else None)))


def date_literal(text: str) -> Literal:
    """Parse the text of `date '...'`; a time of day is cut off.

    Raises:
        Problem: the text is not a date.
    """
    seconds, _ = moment_seconds(text)
    return Literal(as_scalar(math.floor(seconds / DAY_SECONDS), pa.date32()))


def time_literal(text: str) -> Literal:
    """Parse the text of `time '...'`, to nanoseconds.

    Raises:
        Problem: the text is not a time of day.
    """
    match = _TIME_LITERAL.fullmatch(text)
    seconds = _time_seconds(*match.groups()) if match else Fraction(DAY_SECONDS)
    if seconds >= DAY_SECONDS:
        raise Problem(f"not a time of day: {text!r}, expected 'HH:MM:SS'")
    return Literal(as_scalar(math.floor(seconds * 10**9), pa.time64("ns")))


def moment_seconds(text: str) -> tuple[Fraction, bool]:
    """Return the seconds since 1970, and True if the text has an offset from UTC.

    Raises:
        Problem: the text is neither a date nor a date and time.
    """
    match = _MOMENT.fullmatch(text)
    if match is None:
        raise Problem(f"not a date or timestamp: {text!r}, expected 'YYYY-MM-DD[ HH:MM:SS[.f][Z]]'")
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - EPOCH_ORDINAL
    except ValueError as error:
        raise Problem(f"not a date: {text!r} ({error})") from None
    seconds = _time_seconds(hour or "0", minute or "0", second, fraction)
    if seconds >= DAY_SECONDS:
        raise Problem(f"not a time of day: {text!r}")
    if zone and zone not in "Zz":
        hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
        offset = hours * 3600 + minutes * 60
        seconds -= -offset if zone[0] == "-" else offset
    return days * DAY_SECONDS + seconds, zone is not None


def _time_seconds(hour: str, minute: str, second: str | None, fraction: str | None) -> Fraction:
    if int(minute) > 59 or int(second or 0) > 59:
        return Fraction(DAY_SECONDS)
    whole = int(hour) * 3600 + int(minute) * 60 + int(second or 0)
    return whole + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else Fraction(0))


def _parsed(text: str, scale: Scale, type_: pa.DataType) -> Literal:
    if scale.quantity == "moment":
        return timestamp_literal(text, None)
    if scale.quantity == "time":
        return time_literal(text)
    raise Problem(f"cannot compare text with {type_}")


def _fraction(number: Decimal) -> Fraction | float:
    if not number.is_finite():
        return math.copysign(math.inf, 1 if number.is_nan() else number)
    if number and number.adjusted() > MAX_EXPONENT:
        return math.copysign(math.inf, number)
    if number and number.adjusted() < -MAX_EXPONENT:
        return Fraction(-1 if number < 0 else 1, 10**MAX_EXPONENT)
    return Fraction(_FEW_DIGITS.plus(number))

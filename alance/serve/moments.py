"""Conversion of dates, times, timestamps and durations between Arrow integers and ISO 8601 text.

The whole range of Arrow is covered; Python's types end at the year 9999 and at microseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import lru_cache
from typing import Final

import pyarrow as pa

FRACTION_DIGITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}  # digits of a second's fraction
CALENDAR_DAY_S: Final = 86_400  # seconds
CYCLE: Final = 146_097  # days of 400 years, after which the calendar repeats
_EPOCH_ORDINAL: Final = date(1970, 1, 1).toordinal()
_BASE: Final = date(2000, 1, 1).toordinal()  # start of a cycle that Python's dates cover
_DATE_TEXT: Final = re.compile(r"([+-]?\d{4,7})-(\d\d)-(\d\d)", re.ASCII)
_TIME_TEXT: Final = re.compile(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,18}))?)?", re.ASCII)
_ZONE_TEXT: Final = re.compile(r"(?:Z|z|([+-])(\d\d):?(\d\d)(?::(\d\d))?)\Z", re.ASCII)


def date_text(days: int) -> str:
    """Format days since 1970-01-01 as a date; years outside 0 to 9999 have a sign."""
    cycles, rest = divmod(days + _EPOCH_ORDINAL - _BASE, CYCLE)
    day = date.fromordinal(_BASE + rest)
    year = day.year + 400 * cycles
    shown = f"{year:04}" if 0 <= year <= 9999 else f"{year:+07}"
    return f"{shown}-{day.month:02}-{day.day:02}"


def days_of(text: str) -> int:
    """Parse a date as days since 1970-01-01.

    Raises:
        ValueError: the text is not a date.
    """
    match = _DATE_TEXT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    cycles, year = divmod(int(match[1]), 400)
    day = date(2000 + year, int(match[2]), int(match[3]))
    return day.toordinal() - _EPOCH_ORDINAL + (cycles - 5) * CYCLE


def time_text(value: int, unit: str) -> str:
    """Format units since midnight as a time of day with a fraction of 0, 6 or 9 digits."""
    seconds, fraction = divmod(value, 10 ** FRACTION_DIGITS[unit])
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    shown = f"{hour:02}:{minute:02}:{second:02}"
    if fraction:
        nanoseconds = f"{fraction * 10 ** (9 - FRACTION_DIGITS[unit]):09}"
        shown += "." + (nanoseconds[:6] if nanoseconds.endswith("000") else nanoseconds)
    return shown


def time_of(text: str, unit: str) -> int:
    """Parse a time of day as units since midnight.

    Raises:
        ValueError: the text is not a time of day, or not a whole number of units.
    """
    match = _TIME_TEXT.fullmatch(text)
    if match is None or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        raise ValueError(text)
    seconds = 3600 * int(match[1]) + 60 * int(match[2]) + int(match[3] or 0)
    return whole(seconds + Decimal(f"0.{match[4] or 0}"), FRACTION_DIGITS[unit])


def timestamp_text(value: int, kind: pa.TimestampType) -> str:
    """Format a timestamp: as local time with an offset if the type has a zone, else without."""
    seconds, fraction = divmod(value, 10 ** FRACTION_DIGITS[kind.unit])
    offset = timedelta() if kind.tz is None else _offset(seconds, kind.tz)
    days, rest = divmod(seconds + int(offset.total_seconds()), CALENDAR_DAY_S)
    shown = time_text(rest * 10 ** FRACTION_DIGITS[kind.unit] + fraction, kind.unit)
    return f"{date_text(days)}T{shown}{'' if kind.tz is None else _offset_text(offset)}"


def timestamp_of(text: str, kind: pa.TimestampType) -> int:
    """Parse a timestamp as units since 1970; a date alone stands for its midnight.

    Raises:
        ValueError: the text is not a timestamp or not a whole number of units; or it has an offset
            although the type has no zone, or no offset although the type has one.
    """
    zone = _ZONE_TEXT.search(text) if ":" in text or text[-1:] in "Zz" else None
    if (zone is None) != (kind.tz is None):
        raise ValueError(text)
    local = text if zone is None else text[: zone.start()]
    day, time = local[:-1] if local[-1:] in "Tt" else local, "00:00"
    for sign in "Tt ":
        if sign in local:
            day, _, time = local.partition(sign)
            break
    units = 10 ** FRACTION_DIGITS[kind.unit]
    return int((days_of(day) * CALENDAR_DAY_S - _seconds(zone)) * units + time_of(time, kind.unit))


def seconds_value(value: int, unit: str) -> float | str:
    """Convert a duration to seconds: a number, or text if a double cannot hold all digits."""
    exact = Decimal(value).scaleb(-FRACTION_DIGITS[unit])
    number = float(exact)
    return number if Decimal(repr(number)) == exact else format(exact, "f")


def whole(value: Decimal, digits: int) -> int:
    """Multiply a decimal by 10 ** digits; `digits` is negative for a type of negative scale.

    Raises:
        ValueError: the product is not a whole number.
    """
    if not value.is_finite():
        raise ValueError(value)
    numerator, denominator = value.as_integer_ratio()
    power: int = 10 ** abs(digits)
    dividend, divisor = (
        (numerator * power, denominator) if digits >= 0 else (numerator, denominator * power)
    )
    product, rest = divmod(dividend, divisor)
    if rest:
        raise ValueError(value)
    return product


def _offset(seconds: int, name: str) -> timedelta:
    """Return a zone's offset from UTC at a time; zero if the time is outside Python's range."""
    zone = _zone(name)
    try:
        offset = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).astimezone(zone)
    except (OverflowError, ValueError):
        return timedelta()
    return offset.utcoffset() or timedelta()


@lru_cache(64)
def _zone(name: str) -> tzinfo:
    try:
        zone: tzinfo = pa.lib.string_to_tzinfo(name)
    except (ValueError, LookupError, pa.ArrowException):  # this machine does not know the name
        return UTC
    return zone


def _offset_text(offset: timedelta) -> str:
    seconds = int(offset.total_seconds())
    sign, seconds = "-" if seconds < 0 else "+", abs(seconds)
    shown = f"{sign}{seconds // 3600:02}:{seconds // 60 % 60:02}"
    return f"{shown}:{seconds % 60:02}" if seconds % 60 else shown


def _seconds(zone: re.Match[str] | None) -> int:
    if zone is None or zone[1] is None:
        return 0
    hours, minutes, seconds = int(zone[2]), int(zone[3]), int(zone[4] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(zone[0])
    return (3600 * hours + 60 * minutes + seconds) * (-1 if zone[1] == "-" else 1)

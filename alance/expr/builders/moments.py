"""SQL functions on dates and times: parts, truncation, conversion."""

from __future__ import annotations

from time import time_ns
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.expr.arithmetic import whole
from alance.expr.builders.text import literal_text
from alance.expr.casts import cast, is_text
from alance.expr.exact import DAY_SECONDS
from alance.expr.tree import Literal, Node, Problem, broadcast, call, unknown
from alance.format.numbers import as_mask, as_numbers, as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Int64s, Mask
    from alance.expr.tree import Value


def _weekday(values: pa.Array) -> pa.Array:
    return pc.day_of_week(values, count_from_zero=True, week_start=7)


def _iso_weekday(values: pa.Array) -> pa.Array:
    return pc.day_of_week(values, count_from_zero=False, week_start=1)


def _fraction(per_second: int) -> Callable[[pa.Array], pa.Array]:
    """Return the function that computes the time since the last full minute.

    Args:
        per_second: units of the result per second.
    """
    width = pa.int64() if per_second == 10**9 else pa.int32()
    part = as_scalar(10**9 // per_second)

    def count(values: pa.Array) -> pa.Array:
        fine = _ticks(values, pa.timestamp("ns"))
        within = pc.subtract(fine, pc.multiply(pc.divide(fine, _MINUTE), _MINUTE))
        within = pc.if_else(pc.less(within, _ZERO_INTEGER), pc.add(within, _MINUTE), within)
        return pc.cast(pc.divide(within, part), width)

    return count


def _epoch(values: pa.Array) -> pa.Array:
    """Return the seconds since 1970 as floats."""
    fine = pc.cast(_ticks(values, pa.timestamp("us")), pa.float64(), safe=False)
    return pc.divide(fine, as_scalar(1e6))


def _ticks(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if pa.types.is_time(values.type):
        raise Problem("this part of a time of day", unsupported=True)
    zone = getattr(values.type, "tz", None)
    options = pc.CastOptions(pa.timestamp(type_.unit, zone), allow_time_truncate=True)
    return pc.cast(pc.cast(values, options=options), pa.int64())


_LAST_YEAR: Final = 9999
_MONTHS: Final = 12
_ZERO_INTEGER: Final = as_scalar(0)
_MINUTE: Final = as_scalar(60 * 10**9)
DATE_PARTS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
    "year": pc.year,
    "quarter": pc.quarter,
    "month": pc.month,
    "week": pc.iso_week,
    "day": pc.day,
    "dow": _weekday,
    "doy": pc.day_of_year,
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
    "millisecond": _fraction(10**3),
    "microsecond": _fraction(10**6),
    "nanosecond": _fraction(10**9),
    "epoch": _epoch,
    "isodow": _iso_weekday,
    "isoyear": pc.iso_year,
}
TRUNCATION_UNITS: Final = (
    *("year", "quarter", "month", "week", "day", "hour", "minute", "second"),
    *("millisecond", "microsecond"),
)


def date_part(name: str, args: list[Node]) -> Node:
    """date_part('year', moment), and EXTRACT(year FROM moment): the part as an int32.

    The part `epoch` is a float64, and `nanosecond` is an int64.
    """
    part = literal_text(name, args[0]).lower()
    kernel = DATE_PARTS.get(part) or DATE_PARTS.get(part.removesuffix("s"))
    if kernel is None:
        raise unknown("part of a date", part, DATE_PARTS)
    moment = _moment(name, args[1])
    if pa.types.is_date(moment.type):
        moment = cast(moment, pa.timestamp("ms"))
    if part == "epoch" or part.startswith("nanosecond"):
        return call(name, kernel, moment)
    return call(name, lambda values: pc.cast(kernel(values), pa.int32()), moment)


def date_trunc(name: str, args: list[Node]) -> Node:
    """date_trunc('month', moment): the start of the month, or other unit, of the moment."""
    unit = literal_text(name, args[0]).lower()
    if unit not in TRUNCATION_UNITS:
        raise unknown("unit of time", unit, TRUNCATION_UNITS)
    moment = _moment(name, args[1])
    if pa.types.is_date(moment.type):
        moment = cast(moment, pa.timestamp("ns"))
    return call(name, lambda values: pc.floor_temporal(values, unit=unit), moment)


def now(name: str, args: list[Node]) -> Node:
    """now(): the time at which the text is parsed, in nanoseconds, UTC."""
    return Literal(as_scalar(time_ns(), pa.timestamp("ns", "UTC")))


def today(name: str, args: list[Node]) -> Node:
    """today(): the date at which the text is parsed, UTC."""
    return Literal(as_scalar(time_ns() // (DAY_SECONDS * 10**9), pa.date32()))


def time_of_day(name: str, args: list[Node]) -> Node:
    """current_time(): the time of day at which the text is parsed, in nanoseconds, UTC."""
    return Literal(as_scalar(time_ns() % (DAY_SECONDS * 10**9), pa.time64("ns")))


def to_date(name: str, args: list[Node]) -> Node:
    """to_date(x): the date of x, which is a text, date or timestamp."""
    return cast(args[0], pa.date32())


def to_timestamp(name: str, args: list[Node]) -> Node:
    """to_timestamp(x): a text, date or number of seconds as a timestamp in nanoseconds."""
    if pa.types.is_integer(args[0].type):
        return cast(cast(cast(args[0], pa.int64()), pa.timestamp("s")), pa.timestamp("ns"))
    return cast(args[0], pa.timestamp("ns"))


def to_unit(unit: str) -> Callable[[str, list[Node]], Node]:
    """Return the builder of to_timestamp_seconds, _millis, _micros or _nanos.

    The argument is a number of units since 1970, a text, a date or a timestamp.
    """

    def build(name: str, args: list[Node]) -> Node:
        node = args[0]
        if pa.types.is_floating(node.type):
            node = cast(node, pa.int64())
        if pa.types.is_integer(node.type):
            return cast(cast(node, pa.int64()), pa.timestamp(unit))
        if not pa.types.is_timestamp(node.type):
            node = cast(node, pa.timestamp("ns"))
        return _in_units(name, node, unit)

    return build


def from_unixtime(name: str, args: list[Node]) -> Node:
    """from_unixtime(n): the timestamp n seconds after the start of 1970, in seconds."""
    if not pa.types.is_integer(args[0].type):
        raise Problem(f"{name}: expected whole seconds, found {args[0].type}")
    return cast(cast(args[0], pa.int64()), pa.timestamp("s"))


def to_unixtime(name: str, args: list[Node]) -> Node:
    """to_unixtime(x): whole seconds since 1970, rounded towards zero.

    x is a timestamp, a date, a text, or an integer, which is returned as it is.
    """
    if pa.types.is_integer(args[0].type):
        return cast(args[0], pa.int64())
    return cast(to_unit("s")(name, args), pa.int64())


def to_local_time(name: str, args: list[Node]) -> Node:
    """to_local_time(timestamp): the local time in its zone, as a timestamp without a zone."""
    node = args[0]
    if not pa.types.is_timestamp(node.type):
        raise Problem(f"{name}: expected a timestamp, found {node.type}")
    return node if node.type.tz is None else call(name, pc.local_timestamp, node)


def to_time(name: str, args: list[Node]) -> Node:
    """to_time(x): the time of day of a timestamp or text, in nanoseconds."""
    node = args[0]
    if not pa.types.is_timestamp(node.type) and not is_text(node.type):
        raise Problem(f"{name}: expected a timestamp or text, found {node.type}")
    return cast(node, pa.time64("ns"))


def make_date(name: str, args: list[Node]) -> Node:
    """make_date(year, month, day); null if an argument is null.

    Evaluation fails if the calendar has no such day.
    """

    def build(*numbers: Value) -> pa.Array:
        (years, months, days), valid = _whole_numbers(numbers)
        years, months, days = (np.where(valid, part, 1) for part in (years, months, days))
        if (abs(years) > _LAST_YEAR).any() or (months < 1).any() or (months > _MONTHS).any():
            raise pa.ArrowInvalid("no such month")
        firsts = ((years - 1970) * 12 + months - 1).astype("datetime64[M]")
        lengths = ((firsts + 1).astype("datetime64[D]") - firsts.astype("datetime64[D]")).astype(
            int
        )
        if (days < 1).any() or (days > lengths).any():
            raise pa.ArrowInvalid("no such day")
        dates = firsts.astype("datetime64[D]").astype(np.int32) + days - 1
        return to_arrow(dates.astype(np.int32), valid).view(pa.date32())

    return call(name, build, *[whole(name, arg) for arg in args])


def make_time(name: str, args: list[Node]) -> Node:
    """make_time(hour, minute, second); null if an argument is null."""

    def build(*numbers: Value) -> pa.Array:
        parts, valid = _whole_numbers(numbers)
        for part, bound in zip(parts, (24, 60, 60), strict=True):
            if ((part < 0) | (part >= bound))[valid].any():
                raise pa.ArrowInvalid("no such time of day")
        hours, minutes, seconds = (np.where(valid, part, 0) for part in parts)
        total = (hours * 3600 + minutes * 60 + seconds).astype(np.int32)
        return to_arrow(total, valid).view(pa.time32("s"))

    return call(name, build, *[whole(name, arg) for arg in args])


def _whole_numbers(values: Sequence[Value]) -> tuple[list[Int64s], Mask]:
    """Return the arguments as integers, nulls as 0, and the mask of the rows without nulls."""
    rows = next((len(value) for value in values if isinstance(value, pa.Array)), 1)
    arrays = [broadcast(value, rows) for value in values]
    valid = np.logical_and.reduce([as_mask(pc.is_valid(array)) for array in arrays])
    return [as_numbers(pc.fill_null(array, 0)) for array in arrays], valid


def _in_units(name: str, node: Node, unit: str) -> Node:
    type_ = pa.timestamp(unit, node.type.tz)
    options = pc.CastOptions(type_, allow_time_truncate=True)
    return call(name, lambda values: pc.cast(values, options=options), node)


def _moment(name: str, node: Node) -> Node:
    if pa.types.is_timestamp(node.type) or pa.types.is_date(node.type):
        return node
    if pa.types.is_time(node.type):
        return node
    raise Problem(f"{name}: expected a date or time, found {node.type}")

"""Dates and times: their parts, cutting to a unit, conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.casts import cast
from alance.expr.problem import Problem, unknown
from alance.expr.text import literal_text
from alance.expr.tree import Node, call

if TYPE_CHECKING:
    from collections.abc import Callable


def _weekday(values: pa.Array) -> pa.Array:
    return pc.day_of_week(values, count_from_zero=True, week_start=7)


PARTS: Final[dict[str, Callable[[pa.Array], pa.Array]]] = {
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
}
UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")


def date_part(name: str, args: list[Node]) -> Node:
    """date_part('year', moment), and EXTRACT(year FROM moment): an int32."""
    part = literal_text(name, args[0]).lower()
    kernel = PARTS.get(part)
    if kernel is None:
        raise unknown("part of a date", part, PARTS)
    moment = _moment(name, args[1])
    return call(name, lambda values: pc.cast(kernel(values), pa.int32()), moment)


def date_trunc(name: str, args: list[Node]) -> Node:
    """date_trunc('month', moment): the beginning of the unit."""
    unit = literal_text(name, args[0]).lower()
    if unit not in UNITS:
        raise unknown("unit of time", unit, UNITS)
    moment = _moment(name, args[1])
    if pa.types.is_date(moment.type):
        moment = cast(moment, pa.timestamp("ns"))
    return call(name, lambda values: pc.floor_temporal(values, unit=unit), moment)


def to_date(name: str, args: list[Node]) -> Node:
    """A text or moment as a date."""
    return cast(args[0], pa.date32())


def to_timestamp(name: str, args: list[Node]) -> Node:
    """A text, date, or number of seconds as a timestamp of nanoseconds."""
    if pa.types.is_integer(args[0].type):
        return cast(cast(cast(args[0], pa.int64()), pa.timestamp("s")), pa.timestamp("ns"))
    return cast(args[0], pa.timestamp("ns"))


def _moment(name: str, node: Node) -> Node:
    if pa.types.is_timestamp(node.type) or pa.types.is_date(node.type):
        return node
    if pa.types.is_time(node.type):
        return node
    raise Problem(f"{name}: expected a date or time, found {node.type}")

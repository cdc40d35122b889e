"""The values of one column for which a condition is true, as ranges: asked of all zones' bounds.

However many terms a condition has (`IN`, OR of equalities, ranges, and what NOT makes of them), on
one column it is one sorted list of ranges, and a zone is one look into it. Values are whole numbers
of the type's unit, bytes of text, or floats; all have a next value, so that each range is its first
value and the first one behind it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.coercion import is_bytes, is_text
from alance.expr.compare import float_literal, float_values
from alance.expr.exact import exact_value, scale_of
from alance.expr.prune_zones import Anything, May
from alance.format.numbers import as_numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from alance.expr.prune_zones import Asked, Bounds
    from alance.expr.tree import Column, Literal

    Value: TypeAlias = Any  # int, bytes or float, all of one kind in a set
    # First value (None: from the lowest) and the one behind the last (None: to the highest).
    Range: TypeAlias = tuple[Value | None, Value | None]

ALL: Final[tuple[Range, ...]] = ((None, None),)


@dataclass(frozen=True, slots=True)
class Within:
    """A condition that is true where a column has one of some values, null where it is null.

    Attributes:
        ranges: ascending, with gaps between them.
        nans: whether it is true of a positive and of a negative NaN.
    """

    column: Column
    ranges: tuple[Range, ...]
    nans: tuple[bool, bool] = (False, False)

    def may(self, zones: Asked) -> May:
        found = zones.bounds(self.column)
        if found is None:
            return Anything().may(zones)
        pairs = zones.pairs(self.column, _pairs)
        answers = np.array([self._answer(*pair) for pair in pairs], np.bool_)
        meets, covers = answers.reshape(-1, 2).T
        true = found.has_values & meets | found.has_nans & any(self.nans)
        false = found.has_values & ~covers | found.has_nans & (not all(self.nans))
        return May(true, false, found.has_nulls)

    def _answer(self, low: Value | None, high: Value | None) -> tuple[bool, bool]:
        """Whether some range meets a zone, and whether one covers it."""
        place = 0
        if low is not None:
            is_open = bool(self.ranges) and self.ranges[-1][1] is None
            place = bisect_right(self.ranges, low, hi=len(self.ranges) - is_open, key=_STOP)
        if place == len(self.ranges):
            return False, False
        start, stop = self.ranges[place]
        meets = start is None or high is None or start <= high
        covers = start is None or (low is not None and start <= low)
        return meets, covers and (stop is None or (high is not None and high < stop))

    def columns(self) -> Iterator[Column]:
        yield self.column

    def __invert__(self) -> Within:
        """NOT."""
        edges = [None, *(edge for one in self.ranges for edge in one), None]
        begins = bool(self.ranges) and self.ranges[0][0] is None
        ends = bool(self.ranges) and self.ranges[-1][1] is None
        edges = edges[2 if begins else 0 : -2 if ends else None]
        gaps = tuple(zip(edges[::2], edges[1::2], strict=True))
        return Within(self.column, gaps, (not self.nans[0], not self.nans[1]))


def union(sets: Sequence[Within]) -> Within:
    """OR of conditions on one column."""
    if len(sets) == 1:
        return sets[0]
    nans = (any(one.nans[0] for one in sets), any(one.nans[1] for one in sets))
    return Within(sets[0].column, _merged(pair for one in sets for pair in one.ranges), nans)


def compared_set(op: str, column: Column, literal: Literal) -> Within | None:
    """A column compared with a literal; None where that is no set of ranges here."""
    said = _point(column.type, literal)
    if said is None:
        return None
    ranges = _of_point(op, *said)
    is_float = pa.types.is_floating(column.type)
    nans = (op in ("!=", ">", ">="), op in ("!=", "<", "<=")) if is_float else (False, False)
    return Within(column, ranges, nans)


def listed_set(column: Column, items: Iterable[Literal] | pa.Array) -> Within | None:
    """A column that is one of some literals, or of the values of an array of its type; None where
    that is no set of ranges here.
    """
    if isinstance(items, pa.Array):
        return Within(column, _runs(items))
    ranges: list[Range] = []
    for item in items:
        said = _point(column.type, item)
        if said is None:
            return None
        ranges += _of_point("=", *said)
    return Within(column, _merged(ranges))


def _point(type_: pa.DataType, literal: Literal) -> tuple[Value, Value | None, bool] | None:
    """The first value at or above a literal, the one behind it, and whether it is the literal's.

    The value is infinite beyond all, and the one behind the highest is None.
    """
    scale = scale_of(type_)
    if scale is not None:
        number = exact_value(literal, type_)
        if number is None:
            return None
        if isinstance(number, float):
            return (scale.high + 1 if number > 0 else scale.low - 1), None, False
        whole = number / scale.unit
        first = math.ceil(whole)
        return first, first + 1, isinstance(whole, Fraction) and whole.denominator == 1
    if pa.types.is_floating(type_):
        value = float_literal(literal, type_)
        if value is None or math.isnan(value):
            return None
        dtype = np.dtype(f"f{type_.bit_width // 8}").type
        after = float(np.nextafter(dtype(value), dtype(np.inf)))
        return value, None if value == math.inf else after, True
    if (is_text(type_) and is_text(literal.type)) or (
        is_bytes(type_) and (is_bytes(literal.type) or is_text(literal.type))
    ):
        content = literal.value.as_py()
        content = content.encode() if isinstance(content, str) else content
        return content, content + b"\0", True
    return None


def _of_point(op: str, first: Value, after: Value | None, is_value: bool) -> tuple[Range, ...]:
    """The ranges for which `value op literal` is true; see `_point`."""
    if op in ("=", "!="):
        if not is_value:
            return () if op == "=" else ALL
        return ((first, after),) if op == "=" else _but(first, after)
    if op in ("<", ">="):
        return ((None, first),) if op == "<" else ((first, None),)
    # Behind a literal that is itself a value, else behind none: the first above it already is.
    edge = after if is_value else first
    if edge is None:
        return ALL if op == "<=" else ()
    return ((None, edge),) if op == "<=" else ((edge, None),)


def _but(first: Value, after: Value | None) -> tuple[Range, ...]:
    below: Range = (None, first)
    return (below,) if after is None else (below, (after, None))


_START: Final[Callable[[tuple[Any, Any]], Any]] = itemgetter(0)
_STOP: Final[Callable[[tuple[Any, Any]], Any]] = itemgetter(1)


def _merged(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ranges in any order as ascending ones with gaps between them."""
    pairs = list(ranges)
    begun = [one for one in pairs if one[0] is None]
    ordered = begun + sorted((one for one in pairs if one[0] is not None), key=_START)
    made: list[Range] = []
    for start, stop in ordered:
        if made:
            last = made[-1]
            if last[1] is None:
                break
            if start is None or start <= last[1]:
                if stop is None or stop > last[1]:
                    made[-1] = (last[0], stop)
                continue
        made.append((start, stop))
    return tuple(made)


def _runs(values: pa.Array) -> tuple[Range, ...]:
    """The ranges of texts, or of whole numbers, whose neighbours are one range."""
    if is_text(values.type):
        ordered = sorted(set(as_bytes(pc.cast(values, pa.large_string())).to_pylist()))
        return tuple((content, content + b"\0") for content in ordered)
    numbers = np.unique(as_numbers(values).astype(np.int64))  # of 18 digits at most
    ends = np.flatnonzero(numbers[1:] - numbers[:-1] > 1)
    starts = numbers[np.concatenate(([0], ends + 1))] if len(numbers) else numbers
    stops = numbers[np.concatenate((ends, [len(numbers) - 1]))] if len(numbers) else numbers
    pairs = zip(starts.tolist(), stops.tolist(), strict=True)
    return tuple((start, stop + 1) for start, stop in pairs)


def _pairs(bounds: Bounds) -> list[tuple[Value | None, Value | None]]:
    return list(zip(_stored(bounds.low), _stored(bounds.high), strict=True))


def _stored(bounds: pa.Array) -> list[Value | None]:
    """Bounds as whole numbers of their unit, as the bytes of text, or as floats; None: unknown."""
    type_ = bounds.type
    if bounds.null_count == len(bounds):
        return [None] * len(bounds)
    if pa.types.is_floating(type_):
        floats = float_values(bounds).tolist()
        known = bounds.is_valid().to_pylist()
        return [floats[place] if one else None for place, one in enumerate(known)]
    if (scale := scale_of(type_)) is None:
        return as_bytes(bounds).to_pylist()  # type: ignore[no-any-return]
    width = type_.bit_width // 8
    content = bytes(bounds.buffers()[1])
    places = range(bounds.offset * width, (bounds.offset + len(bounds)) * width, width)
    wholes = [
        int.from_bytes(content[at : at + width], "little", signed=scale.low < 0) for at in places
    ]
    known = bounds.is_valid().to_pylist()
    return [whole if one else None for whole, one in zip(wholes, known, strict=True)]


def as_bytes(text: pa.Array) -> pa.Array:
    """Text or binary as bytes, which may be cut inside of a letter."""
    if pa.types.is_fixed_size_binary(text.type):
        return text
    large = pa.types.is_large_string(text.type) or pa.types.is_large_binary(text.type)
    return text.view(pa.large_binary() if large else pa.binary())

"""Sets of a column's values as ranges, in which the bounds of zones are looked up.

Any condition on one column (`IN`, OR of equalities, ranges, negations) becomes one ascending array
of edges. The check of all zones is then two binary searches in this array. Values are integers in
the type's unit, bytes, or floats. Every value has a successor, so a range is stored as its first
value and the first value after it.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.casts import is_bytes, is_text
from alance.expr.compare import float_literal, float_values
from alance.expr.exact import exact_value, scale_of
from alance.format.numbers import as_mask, bytes_of, is_large, positions_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Float64s, Int64s, Mask
    from alance.expr.tree import Literal
    from alance.format.statistics import ColumnBounds

    Values = npt.NDArray[Any]  # int64, float64, or objects: bytes or integers of any size
    Value: TypeAlias = Any  # int, bytes or float; all values of a set have the same type

INT64: Final = np.iinfo(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """A set of values as intervals, which are alternately outside and inside the set.

    Attributes:
        begins: True if values below all edges are inside.
        edges: ascending; each is the first value of the interval above it.
    """

    begins: bool
    edges: Values

    def __invert__(self) -> Ranges:
        return Ranges(not self.begins, self.edges)

    def points(self, type_: pa.DataType, most: int) -> list[Value] | None:
        """Return the values of the set. Returns None if they cannot be listed.

        Args:
            type_: type of the values.
            most: maximum number of values.
        """
        if self.begins or len(self.edges) % 2 or len(self.edges) > 2 * most:
            return None
        firsts, stops = self.edges[::2].tolist(), self.edges[1::2].tolist()
        if pa.types.is_floating(type_):
            floats = self.edges[::2].astype(f"f{type_.bit_width // 8}")
            return firsts if stops == _next_floats(floats).tolist() else None
        if scale_of(type_) is None:
            return firsts if stops == [first + b"\0" for first in firsts] else None
        if sum(stop - first for first, stop in zip(firsts, stops, strict=True)) > most:
            return None
        return [v for first, stop in zip(firsts, stops, strict=True) for v in range(first, stop)]

    def hits(self, bounds: StoredBounds) -> tuple[Mask, Mask]:
        """Return two masks of zones: some value may be in the set; all values are in the set."""
        low = self._places(bounds.lows, bounds.has_low, 0)
        high = self._places(bounds.highs, bounds.has_high, len(self.edges))
        is_inside = (low & 1).astype(np.bool_) ^ self.begins
        return is_inside | (high > low), is_inside & (high == low)

    def _places(self, values: Values, is_set: Mask, otherwise: int) -> Int64s:
        """Return the number of edges at or below each bound, and `otherwise` for unknown bounds.

        Args:
            values: the known bounds.
            is_set: mask of the known bounds.
        """
        places = self.edges.searchsorted(values, "right")
        if len(places) == len(is_set):
            return places
        spread = np.full(len(is_set), otherwise, np.int64)
        spread[is_set] = places
        return spread

    def rows_in(self, values: pa.Array) -> Int64s | None:
        """Return the positions of the values that are in the set.

        Returns None if the values, or the edges of the set, are not integers that fit int64.

        Args:
            values: sorted values, nulls first.
        """
        numbers = whole_numbers(values)
        if numbers is None or self.edges.dtype != np.int64 or numbers.dtype == np.uint64:
            return None
        nulls = values.null_count
        cuts = numbers[nulls:].searchsorted(self.edges) + nulls
        ends = ([nulls] if self.begins else []) + cuts.tolist()
        if len(ends) % 2:
            ends.append(len(values))
        if len(ends) == 2:
            return np.arange(*ends)
        starts, stops = np.array(ends, np.int64).reshape(-1, 2).T
        return positions_of(starts, stops - starts)


@dataclass(frozen=True, slots=True)
class StoredBounds:
    """Bounds of a column as values; `lows` and `highs` contain only known bounds."""

    has_low: Mask
    has_high: Mask
    lows: Values
    highs: Values

    @classmethod
    def of(cls, bounds: ColumnBounds) -> StoredBounds:
        has_low, lows = _stored(bounds.low)
        has_high, highs = _stored(bounds.high)
        return cls(has_low, has_high, lows, highs)


def union(sets: Sequence[Ranges]) -> Ranges:
    """Return the union of sets."""
    if len(sets) == 1:
        return sets[0]
    edges = _concatenated([ranges.edges for ranges in sets])
    steps = [_turns(len(ranges.edges), not ranges.begins) for ranges in sets]
    return _joined(sum(ranges.begins for ranges in sets), edges, np.concatenate(steps))


def compared(op: str, type_: pa.DataType, literal: Literal) -> Ranges | None:
    """Return the values of a type for which `value op literal` is true.

    Returns None if they do not form ranges, as for a literal of another kind or NaN.
    """
    point = _point(type_, literal)
    return None if point is None else _of_point(op, *point)


def listed(type_: pa.DataType, items: Iterable[Literal] | pa.Array) -> Ranges | None:
    """Return the set of the values of literals, or of an array of the type.

    Returns None if a value does not form a range.
    """
    if isinstance(items, pa.Array):
        return _of_array(items)
    sets = []
    for item in items:
        ranges = compared("=", type_, item)
        if ranges is None:
            return None
        sets.append(ranges)
    return union([Ranges(False, _array([])), *sets])


def _turns(count: int, is_first_in: bool) -> Int64s:
    """Return +1 for each edge that begins a range, and -1 for each edge that ends one."""
    steps = np.full(count, -1 if is_first_in else 1, np.int64)
    steps[::2] *= -1
    return steps


def _joined(num_open: int, edges: Values, steps: Int64s) -> Ranges:
    """Return the union of sets: all values at which at least one range is open.

    Args:
        num_open: number of sets with values below all edges.
        edges: edges of all sets.
        steps: change of the number of open ranges at each edge.
    """
    order = np.argsort(edges, kind="stable")
    edges, steps = edges[order], steps[order]
    is_last = np.ones(len(edges), np.bool_)  # last of the edges at one value
    is_last[:-1] = edges[1:] != edges[:-1]
    is_in = (num_open + np.cumsum(steps))[is_last] > 0
    before = np.concatenate(([num_open > 0], is_in[:-1]))[: len(is_in)]
    return Ranges(num_open > 0, edges[is_last][is_in != before])


def _point(type_: pa.DataType, literal: Literal) -> tuple[Value, Value | None, bool] | None:
    """Return the first value at or above a literal and the value after it.

    The third result is True if the first value equals the literal. For an infinite literal, the
    first value is outside the type's bounds. The second value is None if no value follows. Returns
    None for a literal of another kind, and for NaN.
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
        floats = np.array([value], f"f{type_.bit_width // 8}")
        return value, None if value == math.inf else float(_next_floats(floats)[0]), True
    if (is_text(type_) and is_text(literal.type)) or (
        is_bytes(type_) and (is_bytes(literal.type) or is_text(literal.type))
    ):
        content = literal.value.as_py()
        content = content.encode() if isinstance(content, str) else content
        return content, content + b"\0", True
    return None


def _of_point(op: str, first: Value, after: Value | None, is_value: bool) -> Ranges:
    """Return the values for which `value op literal` is true, from the result of `_point`."""
    if op == "!=":
        return ~_of_point("=", first, after, is_value)
    if op == "=":
        inside = [first] if after is None else [first, after]
        return Ranges(False, _array(inside if is_value else []))
    if op in ("<", ">="):
        return Ranges(op == "<", _array([first]))
    # If the literal is not a value, `first` is already above it.
    edge = after if is_value else first
    return Ranges(op == "<=", _array([] if edge is None else [edge]))


def _of_array(values: pa.Array) -> Ranges:
    """Return the set of texts, bytes, floats or integers; adjacent values become one range."""
    if is_text(values.type) or is_bytes(values.type):
        large = pa.large_string() if is_text(values.type) else pa.large_binary()
        # Arrow releases the GIL while it sorts, `list.sort` does not: 0.1 s for 200,000 texts.
        contents = pc.unique(as_bytes(pc.cast(values, large)))
        texts = contents.take(pc.sort_indices(contents)).to_pylist()
        edges = np.empty(2 * len(texts), np.object_)
        edges[::2], edges[1::2] = texts, [text + b"\0" for text in texts]
        return Ranges(False, edges)
    if pa.types.is_floating(values.type):
        floats = np.sort(float_values(values))
        firsts = floats.astype(np.float64)
        stops = _next_floats(floats)
    else:
        firsts = np.sort(_numbers(values))
        if len(firsts) and firsts[-1] == INT64.max:
            firsts = firsts.astype(np.object_)
        stops = firsts + 1
    is_first = np.ones(len(firsts) + 1, np.bool_)  # first of a run of adjacent numbers
    np.greater(firsts[1:], stops[:-1], out=is_first[1:-1])
    edges = np.empty(2 * (np.count_nonzero(is_first) - 1), firsts.dtype)
    edges[::2], edges[1::2] = firsts[is_first[:-1]], stops[is_first[1:]]
    # Infinity has no next float, so a range that ends with it has no stop. The next float after the
    # greatest finite number is infinity, which is a valid stop.
    is_endless = edges.dtype == np.float64 and len(firsts) and firsts[-1] == np.inf
    return Ranges(False, edges[:-1] if is_endless else edges)


def _next_floats(floats: npt.NDArray[np.floating]) -> Float64s:
    """Return the next larger float of the same type for each float; infinity for the greatest."""
    with np.errstate(over="ignore"):
        after: Float64s = np.nextafter(floats, floats.dtype.type(np.inf)).astype(np.float64)
    return after


def _array(values: list[Value]) -> Values:
    """Return values of one kind as an array; integers become int64 only if all fit."""
    if values and isinstance(values[0], float):
        return np.array(values, np.float64)
    is_small = values and isinstance(values[0], int)
    if is_small and INT64.min <= min(values) and max(values) <= INT64.max:
        return np.array(values, np.int64)
    objects = np.empty(len(values), np.object_)
    objects[:] = values
    return objects


def _concatenated(arrays: Sequence[Values]) -> Values:
    """Concatenate arrays, except empty ones, whose dtype is arbitrary."""
    return np.concatenate([array for array in arrays if len(array)] or [_array([])])


def _stored(bounds: pa.Array) -> tuple[Mask, Values]:
    """Return the mask of the known bounds, and their values (integers, bytes or floats)."""
    type_ = bounds.type
    if bounds.null_count:
        is_set = as_mask(bounds.is_valid())
        values = bounds.filter(bounds.is_valid())
    else:  # the usual case
        is_set, values = np.ones(len(bounds), np.bool_), bounds
    if not is_set.any():
        return is_set, _array([])
    if pa.types.is_floating(type_):
        floats = float_values(bounds).astype(np.float64)
        is_set &= ~np.isnan(floats)
        return is_set, floats[is_set]
    scale = scale_of(type_)
    if scale is None:
        return is_set, _array(as_bytes(values).to_pylist())
    return is_set, _numbers(values)


def _numbers(values: pa.Array) -> Values:
    """Convert values without nulls to integers of any size, in the type's unit."""
    numbers = whole_numbers(values)
    if numbers is not None:
        is_large = numbers.dtype == np.uint64 and (numbers > INT64.max).any()
        return numbers.astype(np.object_ if is_large else np.int64)
    width = values.type.bit_width // 8
    content = bytes_of(values).tobytes()
    starts = range(0, len(content), width)
    return _array(
        [int.from_bytes(content[start : start + width], "little", signed=True) for start in starts]
    )


def whole_numbers(values: pa.Array) -> Values | None:
    """Return a view of the values as integers in their unit; nulls are arbitrary.

    Returns None if the type does not store integers, or stores integers of more than 8 bytes.
    """
    scale = scale_of(values.type)
    if scale is None or values.type.bit_width not in (8, 16, 32, 64):
        return None
    kind = f"<{'i' if scale.low < 0 else 'u'}{values.type.bit_width // 8}"
    return bytes_of(values).view(kind)


def as_bytes(text: pa.Array) -> pa.Array:
    """View text as binary, because a bound may be cut inside a character; keep binary as is."""
    if pa.types.is_fixed_size_binary(text.type):
        return text
    return text.view(pa.large_binary() if is_large(text.type) else pa.binary())

"""Python values that a column cannot hold: which one it is, and why.

`pa.array` names no row, and converts some values with a loss that a table should not have.
"""

from __future__ import annotations

import datetime
from bisect import bisect_left
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base.checks import did_you_mean
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# Types of values that `pa.array` never cuts.
WHOLE_TYPES: Final = frozenset([int, type(None), datetime.date])
# Errors of `pa.array`.
ARROW_REFUSALS: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


def check_lossless(values: Sequence[Any], type_: pa.DataType) -> None:
    """Refuse Python values that `pa.array` would convert with a loss.

    It cuts fractions off integers and times off dates, ignores members that a struct lacks, and
    takes a text for a list of its characters.

    Raises:
        InvalidInputError: a value that the type does not hold.
    """
    if (is_cut := _cuts(type_)) is not None:
        if {*map(type, values)} <= WHOLE_TYPES:
            return
        for value in values:
            if value is not None and is_cut(value):
                raise InvalidInputError(f"{value!r} has a part that {type_} does not hold")
    elif pa.types.is_struct(type_):
        members = {field.name: field.type for field in type_}
        rows = [value for value in values if isinstance(value, Mapping)]
        if unknown := {*chain.from_iterable(rows)} - {*members}:
            name = min(map(str, unknown))
            hint = did_you_mean(name, members)
            raise InvalidInputError(f"no member {name!r}{hint}, expected {type_}")
        for name, member in members.items():
            check_lossless([row.get(name) for row in rows], member)
    elif pa.types.is_map(type_):
        maps = [value.items() if isinstance(value, Mapping) else value for value in values if value]
        pairs = [*chain.from_iterable(maps)]
        check_lossless([pair[0] for pair in pairs], type_.key_type)
        check_lossless([pair[1] for pair in pairs], type_.item_type)
    elif items := getattr(type_, "value_type", None):
        for value in values:
            if isinstance(value, str | bytes) and pa.types.is_nested(type_):
                raise InvalidInputError(f"{value!r}: expected a list, for {type_}")
        if _cuts(items) is not None or pa.types.is_nested(items):
            lists = [value for value in values if isinstance(value, list | tuple)]
            check_lossless([*chain.from_iterable(lists)], items)


def _cuts(type_: pa.DataType) -> Callable[[Any], bool] | None:
    """Return a test for values that `pa.array` would cut; None if it cuts none for this type."""
    if pa.types.is_integer(type_):
        return lambda value: type(value) is not int and value != int(value)
    if pa.types.is_date(type_):
        return lambda value: (
            isinstance(value, datetime.datetime) and value.time() != datetime.time.min
        )
    step = {"s": 1_000_000, "ms": 1_000}.get(getattr(type_, "unit", ""))  # microseconds
    if step is None:
        return None
    if pa.types.is_duration(type_):
        return lambda value: isinstance(value, datetime.timedelta) and value.microseconds % step > 0
    return lambda value: (
        isinstance(value, datetime.datetime | datetime.time) and value.microsecond % step > 0
    )


def plain(error: Exception, type_: pa.DataType | None) -> str:
    """Return the text of an error of `pa.array`; add the Arrow type where it is missing."""
    text = str(error)
    if type_ is not None and "cannot be converted to int" in text and pa.types.is_temporal(type_):
        return f"text is not converted, expected a Python date or time for {type_}"
    if "int too large to convert" in text:
        return f"an integer out of range, expected {'int64' if type_ is None else type_}"
    return text


def first_refused(values: Any, type_: pa.DataType | None = None) -> str:
    """Return ", row N" for the first value that does not fit the earlier ones, or empty text.

    Only for lists and arrays of NumPy.
    """

    def is_refused(row: int) -> bool:
        try:
            pa.array(values[: row + 1], type_, from_pandas=True)
        except ARROW_REFUSALS:
            return True
        return False

    if not isinstance(values, list | np.ndarray):
        return ""
    row = bisect_left(range(len(values)), True, key=is_refused)
    return f", row {row:,}" if row < len(values) else ""

"""Nanosecond times in rows that Spark has read truncated to microseconds.

A time keeps its nanoseconds if Spark's value is still the truncated old one. Struct members are
compared one by one. List items and map entries are compared by position if the row still has the
same number of them; otherwise all of them are new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alance import InvalidInputError
from alance.spark.types import is_exact, is_list

if TYPE_CHECKING:
    import numpy.typing as npt


def with_old_times(old: pa.Array, new: pa.Array) -> pa.Array:
    """Return new values, with the exact old time where Spark's value is unchanged.

    Args:
        old: values in the table.
        new: values of the same rows, in Spark's type.

    Returns:
        Timestamps and durations of nanoseconds, which Spark truncates, in the table's type, also
        inside structs, lists and maps; all other values in Spark's types.

    Raises:
        InvalidInputError: a time that the column cannot hold.
    """
    if is_exact(old.type):
        return new
    if pa.types.is_struct(old.type):
        members = [with_old_times(*pair) for pair in zip(old.flatten(), new.flatten(), strict=True)]
        names = [field.name for field in old.type]
        return pa.StructArray.from_arrays(members, names=names, mask=new.is_null())
    if is_list(old.type) or pa.types.is_map(old.type):
        return _lists(_as_lists(old), _as_lists(new), is_map=pa.types.is_map(old.type))
    seen = old.cast(options=pc.CastOptions(new.type, allow_time_truncate=True))
    return pc.if_else(pc.equal(seen, new).fill_null(False), old, _cast(new, old.type))


def _lists(old: pa.ListArray, new: pa.ListArray, *, is_map: bool) -> pa.Array:
    lengths, is_null = _lengths(new), new.is_null()
    has_old_length = (lengths == _lengths(old)) & ~is_null.to_numpy(zero_copy_only=False)
    had_length, other = pa.array(has_old_length), pa.array(~has_old_length)
    with_equal_length = with_old_times(
        old.filter(had_length).flatten(), new.filter(had_length).flatten()
    )
    values = pa.concat_arrays(
        [with_equal_length, _cast(new.filter(other).flatten(), with_equal_length.type)]
    )
    # Rows whose length is unchanged come first here, then the others; this restores the order of
    # the rows.
    behind = np.cumsum(np.where(has_old_length, lengths, 0))
    behind_others = len(with_equal_length) + np.cumsum(np.where(has_old_length, 0, lengths))
    starts = np.where(has_old_length, behind, behind_others) - lengths
    ends = np.cumsum(lengths)
    places = np.repeat(starts - (ends - lengths), lengths) + np.arange(ends[-1] if len(ends) else 0)
    values = values.take(pa.array(places))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    if not is_map:
        return pa.ListArray.from_arrays(offsets, values, mask=is_null)
    keys, items = values.field(0), values.field(1)
    return pa.MapArray.from_arrays(offsets, keys, items, mask=is_null)


def _as_lists(array: pa.Array) -> pa.ListArray:
    """Convert lists of any kind to plain lists, and maps to lists of structs."""
    if pa.types.is_map(array.type):
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        offsets = pa.array(np.array(array.offsets), pa.int32())
        return pa.ListArray.from_arrays(offsets, entries, mask=array.is_null())
    return array.cast(pa.list_(array.type.value_type))


def _lengths(lists: pa.ListArray) -> npt.NDArray[np.int64]:
    """Return the lengths of lists, 0 for null lists."""
    lengths: Any = pc.list_value_length(lists).fill_null(0)
    return np.asarray(lengths.to_numpy(zero_copy_only=False), np.int64)


def _cast(array: pa.Array, kind: pa.DataType) -> pa.Array:
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{array.type} as {kind}: {error}") from error

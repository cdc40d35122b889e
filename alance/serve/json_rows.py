"""Conversion of Arrow rows to JSON values by type; `json_columns` is the inverse.

integers, booleans, text       as such
floats                         numbers, or "NaN", "Infinity", "-Infinity"
decimals                       text
bytes                          base64
dates, times, timestamps       ISO 8601; with an offset if the type has a zone
durations                      seconds, see `moments.seconds_value`
lists                          lists; maps: lists of [key, value]
structs                        objects
UUIDs                          text; other extension types: as their storage
"""

from __future__ import annotations

import base64
import uuid
from functools import lru_cache
from math import isfinite, isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.serve import moments

if TYPE_CHECKING:
    from collections.abc import Callable


def json_rows(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Convert rows to dicts of JSON values."""
    if isinstance(rows, pa.Table):
        return [row for batch in rows.to_batches() for row in json_rows(batch)]
    names = rows.schema.names
    columns = [json_values(column) for column in rows.columns]
    if not columns:
        return [{} for _ in range(rows.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def json_values(array: pa.Array) -> list[Any]:
    """Convert the values of an array to JSON values."""
    kind = array.type
    if _is_plain(kind):
        return array.to_pylist()  # type: ignore[no-any-return]
    if isinstance(kind, pa.BaseExtensionType):
        if kind.extension_name == "arrow.uuid":
            return _each(array.storage, lambda value: str(uuid.UUID(bytes=value)))
        if kind.extension_name == "arrow.bool8":
            return array.to_pylist()  # type: ignore[no-any-return]
        return json_values(array.storage)
    if pa.types.is_dictionary(kind):
        return json_values(array.dictionary_decode())
    if pa.types.is_floating(kind):
        return _floats(array)
    if pa.types.is_map(kind):
        pairs = [list(pair) for pair in zip(*map(json_values, _children(array)), strict=True)]
        return _lists(array, pairs, np.diff(array.offsets.to_numpy()))
    if pa.types.is_fixed_size_list(kind):
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), kind.list_size, 0)
        return _lists(array, json_values(array.flatten()), lengths)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        (items,) = _children(array)
        return _lists(array, json_values(items), np.diff(array.offsets.to_numpy()))
    if pa.types.is_struct(kind):
        return _structs(array)
    return _each(*_single(array))


def _single(array: pa.Array) -> tuple[pa.Array, Callable[[Any], Any]]:
    """Return the values of a type without children, and the conversion of each to JSON."""
    kind = array.type
    if pa.types.is_timestamp(kind):
        return array.cast(pa.int64()), lambda value: moments.timestamp_text(value, kind)
    if pa.types.is_duration(kind):
        return array.cast(pa.int64()), lambda value: moments.seconds_value(value, kind.unit)
    if pa.types.is_date32(kind):
        return array.cast(pa.int32()), moments.date_text
    if pa.types.is_date64(kind):
        return array.cast(pa.int64()), lambda value: moments.date_text(value // 86_400_000)
    if pa.types.is_time32(kind):
        return array.cast(pa.int32()), lambda value: moments.time_text(value, kind.unit)
    if pa.types.is_time64(kind):
        return array.cast(pa.int64()), lambda value: moments.time_text(value, kind.unit)
    if pa.types.is_decimal(kind):
        return array, str
    if is_binary(kind):
        return array, lambda value: base64.b64encode(value).decode()
    return array, str  # an interval, which only queries compute: no column has this type


def is_binary(kind: pa.DataType) -> bool:
    """True for all types of bytes."""
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_fixed_size_binary(kind)
        or pa.types.is_binary_view(kind)
    )


@lru_cache(256)
def _is_plain(kind: pa.DataType) -> bool:
    """True if `to_pylist` of this type returns JSON values."""
    if isinstance(kind, pa.BaseExtensionType) or pa.types.is_map(kind):
        return False
    if pa.types.is_struct(kind):
        names = [field.name for field in kind]
        return len(set(names)) == len(names) and all(_is_plain(field.type) for field in kind)
    if pa.types.is_nested(kind):
        return _is_plain(kind.value_type)
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_null(kind)
    )


def _each(array: pa.Array, text: Callable[[Any], Any]) -> list[Any]:
    return [None if value is None else text(value) for value in array.to_pylist()]


def _floats(array: pa.Array) -> list[Any]:
    values: list[float | None] = array.to_pylist()
    if np.isfinite(array.to_numpy(zero_copy_only=False)).all():  # nulls are NaN in it
        return values
    return [value if value is None or isfinite(value) else _non_finite(value) for value in values]


def _non_finite(value: float) -> str:
    return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _children(array: pa.Array) -> list[pa.Array]:
    """Return the items of lists, or the keys and items of maps.

    Values before the first list and after the last one, which a slice leaves in the buffers, are
    omitted.
    """
    offsets = array.offsets
    start, stop = offsets[0].as_py(), offsets[-1].as_py()
    parts = [array.keys, array.items] if pa.types.is_map(array.type) else [array.values]
    return [part.slice(start, stop - start) for part in parts]


def _lists(array: pa.Array, items: list[Any], lengths: Any) -> list[Any]:
    stops = np.cumsum(lengths)
    starts = (stops - lengths).tolist()
    valid = array.is_valid().to_pylist()
    spans = zip(starts, stops.tolist(), valid, strict=True)
    return [items[start:stop] if is_valid else None for start, stop, is_valid in spans]


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    valid = array.is_valid().to_pylist()
    if not names:
        return [{} if is_valid else None for is_valid in valid]
    rows = zip(*(json_values(part) for part in array.flatten()), strict=True)
    return [
        dict(zip(names, row, strict=True)) if is_valid else None
        for row, is_valid in zip(rows, valid, strict=True)
    ]

"""Conversion of Python values and rows to types that JSON has."""

from __future__ import annotations

import base64
from datetime import date, datetime, time, timedelta
from typing import Any

import pyarrow as pa


def plain(value: Any) -> Any:
    """Convert a value for JSON: bytes to base64, dates and times to ISO 8601, sets to sorted lists.

    Durations become seconds, and all other values text.
    """
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def dicts(rows: pa.RecordBatch | pa.Table) -> list[dict[str, Any]]:
    """Convert rows to dicts; values that Python lacks, such as years beyond 9999, become text."""
    try:
        listed: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError):
        columns = [[_value(value) for value in column] for column in rows.columns]
        names = rows.schema.names
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return listed


def _value(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except (OverflowError, ValueError):
        return pa.repeat(value, 1).cast(_with_texts(value.type))[0].as_py()


def _with_texts(kind: pa.DataType) -> pa.DataType:
    """Replace dates, times and durations in a type by text."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_with_texts(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_with_texts(kind.key_type), _with_texts(kind.item_type))
    if pa.types.is_nested(kind):
        return pa.list_(_with_texts(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind

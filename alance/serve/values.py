"""Values and rows as JSON."""

from __future__ import annotations

import base64
import json
from datetime import date, datetime, time, timedelta
from math import isfinite
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def plain(value: Any) -> Any:
    """A value as JSON has it: bytes in base64, moments in ISO 8601, sets as sorted lists."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, set | frozenset):
        return sorted(value)
    return str(value)


def strict(value: Any) -> str:
    """JSON as its standard has it: NaN and infinities are null."""
    try:
        return json.dumps(value, default=plain, allow_nan=False)
    except ValueError:
        return json.dumps(_finite(value), default=plain, allow_nan=False)


def objects(batch: pa.RecordBatch) -> str:
    """Rows as JSON objects with commas between."""
    return ",".join([strict(row) for row in batch.to_pylist()])


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return value

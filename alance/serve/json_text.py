"""Serialization of answers as standard JSON without spaces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from alance.serve.json_rows import json_rows
from alance.serve.values import plain

if TYPE_CHECKING:
    import pyarrow as pa


def as_json(value: Any) -> bytes:
    """Serialize a Python value."""
    try:
        return orjson.dumps(value, default=plain)
    except orjson.JSONEncodeError:  # the error quotes a caller's text with a lone surrogate
        return json.dumps(value, default=plain).encode()


def objects(batch: pa.RecordBatch) -> bytes:
    """Serialize rows as JSON objects separated by commas."""
    return as_json(json_rows(batch))[1:-1]

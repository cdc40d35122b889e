"""JSON of answers: as the standard has it, without spaces."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import orjson

from alance.serve.json_rows import json_rows
from alance.serve.values import plain

if TYPE_CHECKING:
    import pyarrow as pa


def as_json(value: Any) -> bytes:
    """A value of Python."""
    try:
        return orjson.dumps(value, default=plain)
    except orjson.JSONEncodeError:  # an error's text with half of a surrogate pair: a caller's own
        return json.dumps(value, default=plain).encode()


def objects(batch: pa.RecordBatch) -> bytes:
    """Rows as JSON objects with commas between."""
    return as_json(json_rows(batch))[1:-1]

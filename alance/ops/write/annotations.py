"""Arrow types from annotations of pydantic models, for columns with only null values."""

from __future__ import annotations

import types
import typing
from collections.abc import Sequence
from datetime import date, datetime, time, timedelta
from typing import Any, Final

import pyarrow as pa

# Types that Arrow infers from values.
_TYPE_BY_ANNOTATION: Final = {
    bool: pa.bool_(),
    bytes: pa.binary(),
    date: pa.date32(),
    datetime: pa.timestamp("us"),
    float: pa.float64(),
    int: pa.int64(),
    str: pa.string(),
    time: pa.time64("us"),
    timedelta: pa.duration("us"),
}
_SEQUENCE_TYPES: Final = (list, tuple, set, frozenset, Sequence)
MAX_MODEL_DEPTH: Final = 32  # levels of nested models; a model may contain itself


def annotated_type(models: Sequence[type], name: str) -> pa.DataType | None:
    """Return the Arrow type of a field from the models' annotations; None if no model has one."""
    fields = (getattr(model, "model_fields", {}).get(name) for model in models)
    annotations = (field.annotation for field in fields if field is not None)
    return next(filter(None, (_type(annotation, 0) for annotation in annotations)), None)


def has_nulls_alone(type_: pa.DataType) -> bool:
    """True if a type, or a type nested in it, was inferred only from nulls."""
    if pa.types.is_null(type_):
        return True
    return any(has_nulls_alone(type_.field(number).type) for number in range(type_.num_fields))


def _type(annotation: Any, depth: int) -> pa.DataType | None:
    if depth > MAX_MODEL_DEPTH:
        return None
    if annotation in _TYPE_BY_ANNOTATION:
        return _TYPE_BY_ANNOTATION[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _type(arguments[0], depth)
    if origin is typing.Literal:
        kinds = {type(value) for value in arguments if value is not None}
        return _TYPE_BY_ANNOTATION.get(kinds.pop()) if len(kinds) == 1 else None
    if origin in (typing.Union, types.UnionType):
        others = [argument for argument in arguments if argument is not types.NoneType]
        return _type(others[0], depth) if len(others) == 1 else None
    if origin in _SEQUENCE_TYPES:
        items = [argument for argument in arguments if argument is not Ellipsis]
        item = _type(items[0], depth + 1) if len(items) == 1 else None
        return None if item is None else pa.list_(item)
    fields = getattr(annotation, "model_fields", None)
    if not isinstance(fields, dict):
        return None
    members = {name: _type(field.annotation, depth + 1) for name, field in fields.items()}
    if None in members.values():
        return None
    return pa.struct(list(members.items()))

"""ALTER TABLE: applies the changes that Spark passes (`Changes.java`) to a dataset."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from alance import InvalidInputError, UnsupportedError
from alance.spark.notes import COLLATION, COMMENT, noted, notes_of, texts_of
from alance.spark.types import arrow_schema, nullable, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import DataType

    from alance import Dataset

# Adjacent changes of the same kind become one version.
KIND_BY_OP: Final[Mapping[str, str]] = {
    "add": "add",
    "drop": "drop",
    "rename": "alter",
    "type": "type",
    "nullable": "alter",
    "comment": "comment",
    "set": "config",
    "unset": "config",
}


async def alter(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> Dataset:
    """Apply changes in order. If one fails, the changes before it remain.

    Cost: a commit for each run of changes of the same kind; new types rewrite their columns.

    Raises:
        UnsupportedError: a change that Lance tables do not support.
        InvalidInputError: a column that is missing or already exists; values that do not fit.
        CommitConflictError: a concurrent commit rules this one out.
    """
    for change in changes:
        if change["op"] not in KIND_BY_OP:
            raise UnsupportedError(f"ALTER TABLE: {change['op']} is not supported")
    for kind, run in groupby(changes, lambda change: KIND_BY_OP[change["op"]]):
        group = list(run)
        if kind == "add":
            dataset = await dataset.add_columns(_new_columns(group))
        elif kind == "drop":
            names = [".".join(change["path"]) for change in group if _is_dropped(dataset, change)]
            dataset = await dataset.drop_columns(names) if names else dataset
        elif kind == "alter":
            dataset = await dataset.alter_columns(*map(_alteration, group))
        elif kind == "type":
            dataset = await _with_types(dataset, group)
        elif kind == "comment":
            comments = {".".join(change["path"]): {COMMENT: change["text"]} for change in group}
            dataset = await dataset.update_field_metadata(comments)
        else:
            values = {change["key"]: change.get("value") for change in group}
            dataset = await dataset.update_config(values)
    return dataset


def _new_columns(changes: Sequence[Mapping[str, Any]]) -> list[pa.Field]:
    fields = []
    for change in changes:
        if not change["nullable"]:
            raise InvalidInputError(
                f"column {'.'.join(change['path'])!r}: a new column is null in the rows that there "
                "are; expected one that can be null"
            )
        *outer, name = change["path"]
        metadata = {COMMENT: change["comment"]} if change.get("comment") else None
        field = noted(pa.field(name, _type(change)), _spark_type(change), metadata)
        for parent in reversed(outer):
            field = pa.field(parent, pa.struct([field]))
        fields.append(field)
    return fields


def _alteration(change: Mapping[str, Any]) -> dict[str, Any]:
    path = ".".join(change["path"])
    if change["op"] == "rename":
        return {"path": path, "name": change["name"]}
    return {"path": path, "nullable": change["nullable"]}


async def _with_types(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> Dataset:
    """Cast columns to new types. A new text collation is only noted, because it changes no value.

    A cast creates a new field, which gets the notes of the old one.
    """
    cast, notes = [], {}
    for change in changes:
        path, kind = ".".join(change["path"]), _type(change)
        field = _field(dataset, path)
        collation = {COLLATION: notes_of(_spark_type(change))[COLLATION]}
        if field is not None and plain(field.type) == kind:
            notes[path] = collation
            continue
        cast.append({"path": path, "data_type": kind})
        texts = {} if field is None else texts_of(field)
        if any(collation.values()) or texts:
            notes[path] = {**texts, **collation}
    if cast:
        dataset = await dataset.alter_columns(*cast)
    return await dataset.update_field_metadata(notes) if notes else dataset


def _field(dataset: Dataset, path: str) -> pa.Field | None:
    """Return the field at a path of structs. Returns None if there is no such field."""
    top, *members = path.split(".")
    if top not in dataset.schema.names:
        return None
    field = dataset.schema.field(top)
    for name in members:
        if not pa.types.is_struct(field.type) or field.type.get_field_index(name) < 0:
            return None
        field = field.type.field(name)
    return field


def _spark_type(change: Mapping[str, Any]) -> DataType:
    return StructType.fromJson(json.loads(change["type"]))[0].dataType


def _type(change: Mapping[str, Any]) -> pa.DataType:
    name = ".".join(change["path"])
    return nullable(arrow_schema(StructType().add(name, _spark_type(change))).field(0).type)


def _is_dropped(dataset: Dataset, change: Mapping[str, Any]) -> bool:
    return not change["if_exists"] or change["path"][0] in dataset.schema.names

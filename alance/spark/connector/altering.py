"""ALTER TABLE: applies the changes that Spark passes (`Changes.java`) to a dataset."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import CharType, NullType, StructType

from alance import InvalidInputError, UnsupportedError, batch_udf
from alance.distributed import ROW_ADDRESS
from alance.spark.notes import (
    COLLATION,
    COMMENT,
    LENGTH,
    METADATA,
    metadata_of,
    noted,
    notes_of,
    texts_of,
)
from alance.spark.options import NOT_PARTITIONED
from alance.spark.types import arrow_schema, nullable, plain

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql.types import DataType, StructField

    from alance import Dataset

# Adjacent changes of the same kind become one version.
KIND_BY_OP: Final[Mapping[str, str]] = {
    "add": "add",
    "drop": "drop",
    "rename": "alter",
    "type": "type",
    "nullable": "alter",
    "position": "alter",
    "comment": "comment",
    "default": "default",
    "set": "config",
    "unset": "config",
    "add_constraint": "config",
    "drop_constraint": "config",
}
# Spark's metadata of a column with a default: SQL for new rows, and for rows that were there when
# the column was added. alance stores the values of the latter.
CURRENT_DEFAULT: Final = "CURRENT_DEFAULT"
EXISTS_DEFAULT: Final = "EXISTS_DEFAULT"


async def alter(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> Dataset:
    """Apply changes in order. If one fails, the changes before it remain.

    Cost: a commit for each run of changes of the same kind; new types rewrite their columns.

    Raises:
        UnsupportedError: a change that Lance tables do not support.
        InvalidInputError: a column that is missing or already exists; values that do not fit.
        CommitConflictError: a concurrent commit rules this one out.
    """
    _check(dataset, changes)
    for kind, run in groupby(changes, lambda change: KIND_BY_OP[change["op"]]):
        group = list(run)
        if kind == "add":
            dataset = await _with_columns(dataset, group)
            moves = [_alteration(change) for change in group if "after" in change]
            dataset = await dataset.alter_columns(*moves) if moves else dataset
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
        elif kind == "default":
            dataset = await dataset.update_field_metadata(_new_defaults(dataset, group))
        else:
            dataset = await dataset.update_config(_new_config(dataset, group))
    return dataset


def _check(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> None:
    """Check that all changes are supported.

    Raises:
        UnsupportedError: one is not.
    """
    ops = {change["op"] for change in changes}
    if "ClusterBy" in ops:
        raise UnsupportedError(NOT_PARTITIONED)
    if unknown := sorted(ops - KIND_BY_OP.keys()):
        raise UnsupportedError(f"ALTER TABLE: {', '.join(unknown)} is not supported")
    drops = {tuple(change["path"]) for change in changes if change["op"] == "drop"}
    if "add" in ops and drops.issuperset((name,) for name in dataset.schema.names):
        raise UnsupportedError(
            "REPLACE COLUMNS: all values would go; write ALTER TABLE with DROP COLUMNS and ADD "
            "COLUMNS for those that change, or CREATE OR REPLACE TABLE"
        )


async def _with_columns(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> Dataset:
    """Add columns. Existing rows get the default of each column, or null without a default."""
    fields = [_new_column(change) for change in changes]
    if not any("default" in change for change in changes):
        return await dataset.add_columns(fields)
    values = [
        _stored(change, field) if "default" in change else pa.scalar(None, field.type)
        for change, field in zip(changes, fields, strict=True)
    ]
    schema = pa.schema(fields)

    @batch_udf(output_schema=schema)
    def columns(batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = [pa.repeat(value, batch.num_rows) for value in values]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    return await dataset.add_columns(columns, read_columns=[ROW_ADDRESS])


def _new_column(change: Mapping[str, Any]) -> pa.Field:
    *outer, name = change["path"]
    path = ".".join(change["path"])
    column = _field_of(change)
    if not column.nullable and "default" not in change:
        raise InvalidInputError(
            f"column {path!r}: a new column is null in the rows that there are; expected one that "
            "can be null, or that has a default"
        )
    if outer and "default" in change:
        raise UnsupportedError(f"column {path!r}: a new member of a struct cannot have a default")
    kind = _type(path, column.dataType)
    field = noted(pa.field(name, kind, column.nullable), column.dataType, column.metadata)
    for parent in reversed(outer):
        field = pa.field(parent, pa.struct([field]))
    return field


def _field_of(change: Mapping[str, Any]) -> StructField:
    """Return Spark's field of a new column."""
    return StructType.fromJson(json.loads(change["field"]))[0]


def _stored(change: Mapping[str, Any], field: pa.Field) -> pa.Scalar:
    """Parse Spark's internal value of a default: dates are days, and times microseconds.

    Texts of a CHAR column are padded to its length.

    Raises:
        UnsupportedError: bytes, or a value of a nested type.
    """
    kind = field.type
    if pa.types.is_nested(kind) or pa.types.is_binary(kind):
        raise UnsupportedError(f"column {field.name!r}: a default of type {kind} is not supported")
    number = pa.int32() if pa.types.is_date(kind) else pa.int64()
    steps = [number, kind] if pa.types.is_temporal(kind) else [kind]
    of_spark = _field_of(change).dataType
    width = of_spark.length if isinstance(of_spark, CharType) else 0
    values = pa.array([change["default"].ljust(width)])
    for step in steps:
        values = values.cast(step)
    return values[0]


def _new_defaults(
    dataset: Dataset, changes: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, str | None]]:
    """Return the new metadata of columns whose default changes; a change without SQL removes it."""
    notes = {}
    for change in changes:
        path = ".".join(change["path"])
        field = _field(dataset, path)
        values = {} if field is None else metadata_of(field)
        if change["sql"]:
            values = {EXISTS_DEFAULT: "NULL", **values, CURRENT_DEFAULT: change["sql"]}
        else:
            values.pop(CURRENT_DEFAULT, None)
            values.pop(EXISTS_DEFAULT, None)
        notes[path] = {METADATA: notes_of(NullType(), values)[METADATA]}
    return notes


def _new_config(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> dict[str, str | None]:
    """Return values of the configuration by key; None removes a key.

    Raises:
        UnsupportedError: another place of the table.
        InvalidInputError: a constraint that exists is added, or one that is missing is dropped.
    """
    for change in changes:
        op, key = change["op"], change["key"]
        if op == "set" and key == "location":
            raise UnsupportedError("SET LOCATION: the place of a table is in the warehouse")
        exists, name = key in dataset.config, key.rpartition(".")[2]
        if op == "add_constraint" and exists:
            raise InvalidInputError(f"constraint {name!r}: exists; expected another name")
        if op == "drop_constraint" and not exists and not change["if_exists"]:
            raise InvalidInputError(f"constraint {name!r}: not there; write IF EXISTS")
    return {change["key"]: change.get("value") for change in changes}


def _alteration(change: Mapping[str, Any]) -> dict[str, Any]:
    path = ".".join(change["path"])
    if change["op"] == "rename":
        return {"path": path, "name": change["name"]}
    if "after" in change:
        return {"path": path, "after": change["after"]}
    return {"path": path, "nullable": change["nullable"]}


async def _with_types(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> Dataset:
    """Cast columns to new types. A new collation or length of text is noted, without a cast.

    A cast creates a new field, which gets the notes of the old one.
    """
    cast, notes = [], {}
    for change in changes:
        path, spark_type = ".".join(change["path"]), _spark_type(change)
        kind, field = _type(path, spark_type), _field(dataset, path)
        all_notes = notes_of(spark_type)
        stored = {key: all_notes[key] for key in (COLLATION, LENGTH)}
        if field is not None and plain(field.type) == kind:
            notes[path] = stored
            continue
        cast.append({"path": path, "data_type": kind})
        texts = {} if field is None else texts_of(field)
        if any(stored.values()) or texts:
            notes[path] = {**texts, **stored}
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


def _type(name: str, kind: DataType) -> pa.DataType:
    return nullable(arrow_schema(StructType().add(name, kind)).field(0).type)


def _is_dropped(dataset: Dataset, change: Mapping[str, Any]) -> bool:
    return not change["if_exists"] or change["path"][0] in dataset.schema.names

"""ALTER TABLE: the changes that Spark hands over (`Changes.java`), as verbs of a dataset."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from alance import InvalidInputError, UnsupportedError
from alance.spark.types import arrow_schema, nullable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance import Dataset

# Changes of one kind that stand side by side are one version.
KINDS: Final[Mapping[str, str]] = {
    "add": "add",
    "drop": "drop",
    "rename": "alter",
    "type": "alter",
    "nullable": "alter",
    "set": "config",
    "unset": "config",
}


async def alter(dataset: Dataset, changes: Sequence[Mapping[str, Any]]) -> Dataset:
    """Apply changes in their order; those before one that fails stay.

    Cost: a commit for each run of changes of one kind; new types rewrite their columns.

    Raises:
        UnsupportedError: a change that tables of Lance do not know.
        InvalidInputError: a column that is missing, or there already; values that do not fit.
        CommitConflictError: a concurrent commit rules this one out.
    """
    for change in changes:
        if change["op"] not in KINDS:
            raise UnsupportedError(f"ALTER TABLE: {change['op']} is not supported")
    for kind, run in groupby(changes, lambda change: KINDS[change["op"]]):
        group = list(run)
        if kind == "add":
            dataset = await dataset.add_columns(_new_columns(group))
        elif kind == "drop":
            names = [".".join(change["path"]) for change in group if _is_dropped(dataset, change)]
            dataset = await dataset.drop_columns(names) if names else dataset
        elif kind == "alter":
            dataset = await dataset.alter_columns(*map(_alteration, group))
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
        field = pa.field(name, _type(change))
        for parent in reversed(outer):
            field = pa.field(parent, pa.struct([field]))
        fields.append(field)
    return fields


def _alteration(change: Mapping[str, Any]) -> dict[str, Any]:
    path = ".".join(change["path"])
    if change["op"] == "rename":
        return {"path": path, "name": change["name"]}
    if change["op"] == "type":
        return {"path": path, "data_type": _type(change)}
    return {"path": path, "nullable": change["nullable"]}


def _type(change: Mapping[str, Any]) -> pa.DataType:
    struct = StructType.fromJson(json.loads(change["type"]))
    return nullable(arrow_schema(struct).field(0).type)


def _is_dropped(dataset: Dataset, change: Mapping[str, Any]) -> bool:
    return not change["if_exists"] or change["path"][0] in dataset.schema.names

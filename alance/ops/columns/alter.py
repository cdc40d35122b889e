"""Alter and drop columns: only in the schema, or for a new type by new files of the column."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from functools import partial
from itertools import count, pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError
from alance.expr.logic import is_null, junction
from alance.expr.pruning import check_of
from alance.expr.tree import Column, plain_type
from alance.file_version import FileVersion
from alance.format.numbers import as_numbers
from alance.format.table.changes.apply_indices import related
from alance.format.table.changes.apply_rows import without_dead_files
from alance.format.table.operations import Merge, Project
from alance.ops.columns.backfill import Backfill
from alance.ops.columns.cast import Casts
from alance.ops.columns.fields import (
    changed,
    check_names,
    dropped,
    field_ids,
    moved,
    next_field_id,
    recast,
)
from alance.ops.read.options import ScanOptions
from alance.ops.read.pruning import Pruner
from alance.ops.read.rows import ScanPlan
from alance.ops.read.scan import scan
from alance.ops.version.commits import PreparedChange, with_retries
from alance.ops.version.first_use import of_fields
from alance.ops.version.mem_wal import refuse_with_mem_wal
from alance.ops.version.projection import ROW_ADDRESS, project
from alance.ops.version.summary import ChangeSummary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

Alteration: TypeAlias = Mapping[str, Any]
ALTERATION_KEYS: Final = {
    "path": str,
    "name": str,
    "nullable": bool,
    "data_type": pa.DataType,
    "after": str,
}


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """Changes of a column; None for each property that does not change.

    Attributes:
        after: name of the column before this one; empty: this one becomes the first.
    """

    path: str
    name: str | None = None
    nullable: bool | None = None
    data_type: pa.DataType | None = None
    after: str | None = None

    @classmethod
    def of(cls, alteration: Alteration) -> ColumnChange:
        """Check a caller's mapping, and return the change that it describes.

        Raises:
            InvalidInputError: a key is unknown, a value has another type, or nothing changes.
        """
        if not isinstance(alteration, Mapping) or "path" not in alteration:
            raise InvalidInputError(
                f"alteration {alteration!r}: expected a mapping with 'path', "
                "such as {'path': 'a', 'name': 'b'}"
            )
        for key, value in alteration.items():
            if key not in ALTERATION_KEYS:
                raise InvalidInputError(
                    f"alteration key {key!r}: expected {', '.join(ALTERATION_KEYS)}"
                )
            if value is not None and not isinstance(value, ALTERATION_KEYS[key]):
                raise InvalidInputError(
                    f"alteration of {alteration['path']!r}: {key}={value!r}, expected "
                    f"{ALTERATION_KEYS[key].__name__}"
                )
        change = cls(**alteration)
        if change == cls(change.path):
            raise InvalidInputError(
                f"alteration of {change.path!r}: expected name, nullable, data_type or after"
            )
        return change


@dataclass(frozen=True, slots=True)
class Altered:
    """Result of changes to a schema.

    Attributes:
        schema: the new schema.
        shapes: the schema with the new types and ids, but the old names.
        tightened: paths of fields that no longer allow nulls.
        cast: old path and id of each field with a new type.
    """

    schema: Schema
    shapes: Schema
    tightened: tuple[str, ...]
    cast: tuple[tuple[str, int], ...]


async def alter_columns(
    snapshot: Snapshot, alterations: Sequence[Alteration], commit: CommitOptions
) -> Snapshot:
    """Change columns in place; return the new version. See `Dataset.alter_columns`."""
    changes = [ColumnChange.of(alteration) for alteration in alterations]
    if not changes:
        raise InvalidInputError("alter_columns: nothing to alter")
    casts = Casts()

    async def attempt(base: Snapshot) -> Snapshot:
        after = await base.engine.pool.run(partial(altered, base, changes))
        await check_no_nulls(base, after.tightened)
        if not after.cast:
            project = Project(after.schema.messages, not after.tightened)
            return await PreparedChange(base, project, commit).commit()
        refuse_with_mem_wal(
            base.table,
            base.manifest,
            "cast a column",
            "add a column of the new type",
        )
        _check_indices(base, after.cast)
        casts.set_columns(base.schema, after.shapes, tuple(path for path, _ in after.cast))
        fragments = await backfill.fragments(base, casts.target)
        ids_before = {field.id for field in base.schema.walk()}
        merge = Merge(
            fragments=await base.engine.pool.run(
                lambda: tuple(without_dead_files(fragments, field_ids(after.schema)))
            ),
            schema=after.schema.messages,
            preserves_nullability=all(
                field.nullable for field in after.schema.walk() if field.id not in ids_before
            ),
        )
        summary = ChangeSummary(files_added=len(fragments))
        return await backfill.commit(base, merge, commit, summary)

    async with Backfill(casts) as backfill:
        return await with_retries(snapshot, attempt, commit.max_retries)


def altered(base: Snapshot, changes: Sequence[ColumnChange]) -> Altered:
    """Apply changes to a schema; names and paths are those before any change.

    Raises:
        InvalidInputError: a field does not exist; a name is taken; a column cannot be cast or
            moved; or a column is cast while a field in it is changed, or while any column is made
            non-nullable.
    """
    schema = shapes = base.schema
    tightened, cast = [], []
    for change in changes:
        if change.after is not None:
            schema = moved(schema, change.path, change.after or None)
    for change in changes:
        field = base.schema.field(change.path)
        if change.nullable is False and field.nullable:
            tightened.append(change.path)
        schema = changed(schema, field.id, name=change.name, nullable=change.nullable)
        shapes = changed(shapes, field.id, nullable=change.nullable)
    recasts = [
        change
        for change in changes
        if change.data_type not in (None, base.schema.field(change.path).to_arrow().type)
    ]
    next_id = next_field_id(base.manifest) if recasts else 0
    for change in recasts:
        field = base.schema.field(change.path)
        assert change.data_type is not None
        _check_cast(base, change.path, field)
        below = {inner.id for inner in field.walk()} - {field.id}
        for other in changes:
            if base.schema.field(other.path).id in below:
                raise InvalidInputError(
                    f"column {other.path!r}: it is part of {change.path!r}, which is cast; change "
                    "one after the other"
                )
        schema = recast(schema, field.id, change.data_type, count(next_id))
        shapes = recast(shapes, field.id, change.data_type, count(next_id))
        next_id = max(next_id, *[inner.id for inner in schema.walk()]) + 1
        cast.append((change.path, field.id))
    check_names(schema)
    if tightened and cast:
        raise InvalidInputError(
            f"column {tightened[0]!r}: a change that forbids nulls and a cast are two calls; cast "
            "first"
        )
    return Altered(schema, shapes, tuple(tightened), tuple(cast))


def _check_cast(base: Snapshot, path: str, field: Field) -> None:
    """Check that a column can be cast.

    Raises:
        InvalidInputError: columns of this kind are not cast.
        UnsupportedError: the column is a field of a struct, in files before 2.1.
    """
    inside = {inner.id for inner in field.walk()}
    above = [outer for outer in base.schema.project([path]).walk() if outer.id not in inside]
    version = base.manifest.data_storage_version
    if version in (FileVersion.V0_1, FileVersion.V2_0) and any(
        parent.logical_type == "struct" for parent in above
    ):
        raise UnsupportedError(
            f"column {path!r}: files of {version.value} hold all members of a struct together; a "
            "cast of one needs 2.1"
        )
    if field.is_blob_v1 or field.is_blob_v2 or field.is_packed or field.is_json:
        raise InvalidInputError(f"column {path!r}: {field.logical_type} columns are not cast")
    if any(outer.is_packed for outer in above):
        raise InvalidInputError(
            f"column {path!r}: members of a packed struct are stored together, and are not cast"
        )


def _check_indices(base: Snapshot, cast: Sequence[tuple[str, int]]) -> None:
    """Check that no index is on a column that is cast.

    Raises:
        InvalidInputError: an index is on such a column.
    """
    for path, field_id in cast:
        touched = related(base.manifest.head.fields, [field_id])
        names = {
            index.name for index in base.manifest.indices if not touched.isdisjoint(index.fields)
        }
        if names:
            raise InvalidInputError(
                f"column {path!r}: a cast rewrites it, and {', '.join(sorted(names))} would be an "
                "index of values that are gone; drop the index first"
            )


async def check_no_nulls(snapshot: Snapshot, paths: Sequence[str]) -> None:
    """Check that no live row has a null in any of the columns.

    A field of a null struct counts as null. Cost: a scan of the columns; zones whose statistics
    show no nulls are skipped.

    Raises:
        InvalidInputError: a row has a null.
    """
    if not paths:
        return
    schema = snapshot.schema.project(paths)
    names = {path: schema.names_of(path) for path in paths}
    projection = project(schema, None, flat=False, with_row_address=True)
    plan = ScanPlan(
        ScanOptions(),
        projection,
        None,
        schema,
        None,
        snapshot.handles,
        {},
        projection.meta,
        _pruner(schema, names),
    )
    async with aclosing(scan(snapshot, plan)) as batches:
        async for batch in batches:
            await snapshot.engine.pool.run(partial(_check, batch, names))


def _pruner(schema: Schema, names: Mapping[str, Sequence[str]]) -> Pruner | None:
    """Return a pruner that skips rows without nulls in the columns; None if there is no pruner."""
    columns = [
        Column(tuple(parts), plain_type(schema.field(path).arrow_type))
        for path, parts in names.items()
    ]
    check = check_of(junction(False, [is_null(column) for column in columns]))
    return None if check is None else Pruner.of(check, schema)


def _check(batch: pa.RecordBatch, names: Mapping[str, Sequence[str]]) -> None:
    """Raise an error if there are nulls, naming the first fragment that has any. CPU work."""
    for path, (column, *below) in names.items():
        array = batch.column(column)
        if _num_nulls(array, below):
            fragments = as_numbers(batch.column(ROW_ADDRESS)).astype(np.int64) >> 32
            edges = [*np.flatnonzero(np.diff(fragments, prepend=-1)).tolist(), len(fragments)]
            first = next(
                int(fragments[start])
                for start, stop in pairwise(edges)
                if _num_nulls(array.slice(start, stop - start), below)
            )
            raise InvalidInputError(
                f"column {path!r}: it has nulls, in fragment {first} at least, and cannot forbid "
                "them"
            )


def _num_nulls(array: pa.Array, names: Sequence[str]) -> int:
    """Return the number of nulls of a nested field of an array."""
    for name in names:
        if pa.types.is_struct(array.type):
            array = array.flatten()[array.type.get_field_index(name)]
        elif pa.types.is_map(array.type):
            array = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        else:
            array = array.flatten()
    return int(array.null_count)


async def drop_columns(
    snapshot: Snapshot, columns: Sequence[str], commit: CommitOptions
) -> Snapshot:
    """Drop columns; return the new version. See `Dataset.drop_columns`."""

    async def attempt(base: Snapshot) -> Snapshot:

        def make() -> Project:
            schema = dropped(base.schema, columns)
            return Project(schema=schema.messages, preserves_nullability=True)

        change = await of_fields(base.engine, base.schema.num_fields, make)
        return await PreparedChange(base, change, commit).commit()

    return await with_retries(snapshot, attempt, commit.max_retries)

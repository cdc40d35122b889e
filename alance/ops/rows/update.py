"""Update: matching rows move to new fragments, with new values.

New values are SQL text or pyarrow expressions, which are evaluated and cast to the types of the
columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import AlanceError, InvalidInputError, UnsupportedError
from alance.expr import computed_from_arrow, parse_projection
from alance.expr.casts import widened
from alance.expr.tree import FAILURES, Problem, single_line
from alance.expr.value_budget import in_parts
from alance.file.batches import empty_batch, empty_columns
from alance.file.write.small_batches import in_groups, merged
from alance.format.encode.small_file import small_files
from alance.format.numbers import as_numbers
from alance.format.table.operations import Update
from alance.ops.read.filters import shared_out
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.rows.delete import DeletedOffsets
from alance.ops.rows.moved import FEW_MOVED_ROWS, ChangedRows, prepare_rows
from alance.ops.version.commits import with_retries
from alance.ops.version.projection import ROW_ADDRESS, ROW_ID
from alance.ops.version.summary import ChangeSummary
from alance.ops.write.blob_moves import moved_blobs, with_payloads
from alance.ops.write.files import DataFiles

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from alance.base.arrays import UInt64s
    from alance.expr import Computed
    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.ops.read.rows import ChosenRows
    from alance.ops.version.conditions import Params
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot


async def update(
    snapshot: Snapshot,
    updates: Updates,
    where: str | pc.Expression | None,
    params: Params,
    commit: CommitOptions,
) -> Snapshot:
    """Commit a version in which matching rows have new values; see `Dataset.update`."""
    # In a thread, because pyarrow's expression engine takes 0.2 s to start.
    run = snapshot.engine.pool.run

    def parse(base: Snapshot) -> tuple[Assignments, ScanOptions]:
        *texts, last = shared_out([*_texts(updates).values(), where], params)
        assignments = parse_updates(base.schema, updates, texts)
        small_files(base.schema, base.manifest.data_storage_version)  # takes 20 us a column
        return assignments, ScanOptions(filter=where, params=last)

    async def attempt(base: Snapshot) -> Snapshot:
        assignments, condition = await run(partial(parse, base))
        return await _attempt(base, assignments, condition, commit)

    return await with_retries(snapshot, attempt, commit.max_retries)


async def _attempt(
    base: Snapshot,
    assignments: Assignments,
    where: ScanOptions,
    commit: CommitOptions,
) -> Snapshot:
    moved = DeletedOffsets()
    row_ids: list[UInt64s] = []
    files = DataFiles(base.session, base.table, base.schema, base.manifest.data_storage_version)
    run = base.engine.pool.run
    try:
        async with aclosing(matching(base, assignments, where)) as batches:
            async for group in in_groups(batches):
                pairs = new_rows(group, assignments, base.schema)
                while (pair := await run(partial(next, pairs, None))) is not None:
                    batch, rows = pair
                    moved.add(as_numbers(batch.column(ROW_ADDRESS)))
                    if base.has_stable_row_ids:
                        row_ids.append(as_numbers(batch.column(ROW_ID)))
                    await files.write(rows)
        fragments = await files.seal()
        deleted = await run(moved.by_fragment, inline=moved.num_rows <= FEW_MOVED_ROWS)
        ids = await run(partial(np.concatenate, row_ids)) if row_ids else None
    except BaseException:
        await files.discard()
        raise
    prepared = await prepare_rows(
        base,
        Update(fields_for_preserving_frag_bitmap=assignments.field_ids),
        ChangedRows(deleted, files=files, new_fragments=fragments, row_ids=ids),
        commit,
        ChangeSummary(num_updated_rows=moved.num_rows),
    )
    return await prepared.commit()


def new_rows(
    group: Sequence[pa.RecordBatch], assignments: Assignments, schema: Schema
) -> Iterator[tuple[pa.RecordBatch, pa.RecordBatch]]:
    """Yield pairs of batches with old and new rows; small batches of a group are merged.

    CPU work.
    """

    def apply(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        return batch, assignments.apply(batch, schema)

    for batch in merged(group):
        yield from in_parts(batch, apply, "new values")


def matching(
    base: Snapshot,
    assignments: Assignments,
    where: ScanOptions,
    chosen: ChosenRows | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Scan the rows that match, with their addresses, and with their ids if row ids are stable.

    Args:
        chosen: rows to scan; None for all rows.
    """
    columns = assignments.needed(base.schema)
    blobs = moved_blobs(base, columns)
    options = replace(where, with_row_address=True, with_row_id=base.has_stable_row_ids)
    rows = scanned(base, columns, options, rows=chosen)
    return with_payloads(base, rows, blobs, keep_address=True) if blobs else rows


Updates: TypeAlias = Mapping[str, "str | pc.Expression"]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Column with the expression of its new values.

    Attributes:
        field: top-level field of the table.
        target: Arrow field of the column in written rows.
        value: the expression.
    """

    field: Field
    target: pa.Field
    value: Computed

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Compute the new values for the rows of a batch, which must have all columns.

        Raises:
            InvalidInputError: a value is outside of the expression's domain or of the column's
                type, or is null in a column that is not nullable.
        """
        try:
            values = cast(self.value.evaluate(batch), self.target.type)
        except AlanceError as error:
            error.add_note(f"in the new values of column {self.field.name!r}")
            raise
        except (*FAILURES, Problem) as error:
            raise InvalidInputError(f"{self._where()}: {single_line(error)}") from error
        if values.null_count and not self.target.nullable:
            raise InvalidInputError(f"{self._where()}: null, and the column is not nullable")
        return values

    def _where(self) -> str:
        return f"column {self.field.name!r} ({self.target.type}) = {self.value.text!r}"


@dataclass(frozen=True, slots=True)
class Assignments:
    """Assignments of an update; each expression uses the values before the update."""

    assignments: tuple[Assignment, ...]

    @property
    def field_ids(self) -> tuple[int, ...]:
        """Ids of the assigned columns and of all fields in them, sorted."""
        return tuple(sorted(field.id for new in self.assignments for field in new.field.walk()))

    def needed(self, schema: Schema) -> list[str]:
        """Return the columns to read: those without assignment, and those of the expressions."""
        read_names = {field.name for field in schema.fields} - {
            assignment.field.name for assignment in self.assignments
        }
        for assignment in self.assignments:
            read_names.update(schema.names_of(path)[0] for path in assignment.value.columns)
        return [field.name for field in schema.fields if field.name in read_names]

    def apply(self, batch: pa.RecordBatch, schema: Schema) -> pa.RecordBatch:
        """Return rows with new values and all columns of the table. CPU work.

        Args:
            batch: batch with at least the columns that `needed` returns.

        Raises:
            InvalidInputError: a value is outside of an expression's domain or of a column's type.
        """
        assigned = {
            assignment.field.name: (assignment.target, assignment.evaluate(batch))
            for assignment in self.assignments
        }
        arrays, fields = [], []
        for field in schema.fields:
            target_values = assigned.get(field.name)
            fields.append(
                batch.schema.field(field.name) if target_values is None else target_values[0]
            )
            arrays.append(batch.column(field.name) if target_values is None else target_values[1])
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _texts(updates: Updates) -> Updates:
    if not isinstance(updates, Mapping) or not updates:
        raise InvalidInputError(
            f"updates={updates!r}: expected a mapping of columns to SQL text or expressions"
        )
    return updates


def parse_updates(schema: Schema, updates: Updates, params: Sequence[Params]) -> Assignments:
    """Parse the assignments of an update.

    Args:
        params: parameters of each assignment, in order.

    Raises:
        InvalidInputError: there is no assignment, a column is unknown, SQL is invalid, or a type
            cannot be cast.
        UnsupportedError: an assignment is to a field inside of a column.
    """
    values = zip(_texts(updates).items(), params, strict=True)
    return Assignments(tuple(_parse(schema, name, value, own) for (name, value), own in values))


def _parse(schema: Schema, name: str, value: str | pc.Expression, params: Params) -> Assignment:
    if not isinstance(name, str):
        raise InvalidInputError(f"updates: column {name!r}, expected a name")
    field = schema.field(name)
    if len(schema.names_of(name)) > 1:
        raise UnsupportedError(f"column {name!r}: a field inside of a column; set the whole column")
    name = field.name
    # Expressions cannot use blob columns, because a blob is read as its description, not its
    # content.
    visible = pa.schema(
        [root.to_arrow() for root in schema.fields if not (root.is_blob_v1 or root.is_blob_v2)]
    )
    try:
        if isinstance(value, str):
            computed = parse_projection(value, visible, params)
        else:
            computed = computed_from_arrow(value, visible)
    except AlanceError as error:
        error.add_note(f"in the new value of column {name!r}")
        if isinstance(value, str) and field.logical_type in ("string", "large_string"):
            error.add_note("values are SQL: a text is \"'new text'\", or ':value' with `params`")
        raise
    assignment = Assignment(field, field.logical_arrow(), computed)
    # This raises if types or literals do not fit, before rows are read.
    assignment.evaluate(empty_batch(visible) if computed.columns else empty_columns(1))
    return assignment


def cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """Cast values to a column's type by SQL's rules, also inside of nested types.

    Raises:
        Problem, pa.ArrowException: a value cannot be cast.
    """
    if values.type.equals(type_):
        return values
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(cast(values, type_.storage_type))
    if isinstance(values, pa.ExtensionArray):
        return cast(values.storage, type_)
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), type_)
    if isinstance(values, pa.DictionaryArray):
        return cast(values.dictionary_decode(), type_)
    if pa.types.is_dictionary(type_):
        return pc.cast(cast(values, type_.value_type).dictionary_encode(), type_)
    return widened(values, type_)

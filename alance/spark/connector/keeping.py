"""Restores values that Spark cannot hold, in rows that replace others.

Spark gets only descriptions of blobs, and times truncated to microseconds. Values that a statement
does not set are read again from the replaced row by its address:

- a blob, if its description still identifies its row: the statement's scan replaces the blob's
position by -1 minus the row's address, which is never a valid position;
- a time, if Spark's value is still the old one truncated to microseconds (`times.py`).
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from alance import InvalidInputError, UnsupportedError
from alance.distributed import ROW_ADDRESS, SourceGaps
from alance.spark.filters import BLOB_METADATA_KEY
from alance.spark.times import with_old_times
from alance.spark.types import arrow_schema, is_exact

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Sequence

    from pyspark.sql.types import StructType

    from alance import Dataset
    from alance.spark.options import ReadOptions

BLOBS_SETTING: Final = "blobs=bytes"  # setting of a catalog
POSITION: Final = "position"  # member of a blob's description


@dataclass(frozen=True, slots=True)
class UnchangedColumns:
    """Columns of a table whose values Spark cannot hold. Pickled once for all tasks.

    Attributes:
        blobs, times: names of columns.
        lost: columns whose values cannot be restored: blobs inside other types.
        gaps: reads the values of `blobs` and `times` from replaced rows; None if there are lost
            columns.
    """

    blobs: tuple[str, ...]
    times: tuple[str, ...]
    lost: tuple[str, ...]
    gaps: SourceGaps | None

    @classmethod
    def of(
        cls, dataset: Dataset, schema: StructType, options: ReadOptions
    ) -> UnchangedColumns | None:
        """Return the columns of `schema` whose values Spark cannot hold; None if there are none.

        Args:
            options: options of Spark's read of the rows.
        """
        columns = [field for field in described(dataset, options) if field.name in schema.names]
        blobs = tuple(field.name for field in columns if is_blob(field))
        others = [field for field in columns if not is_blob(field)]
        lost = tuple(field.name for field in others if not _is_without_blobs(field))
        times = tuple(
            field.name for field in others if field.name not in lost and not is_exact(field.type)
        )
        if not blobs and not times and not lost:
            return None
        exact = [field for field in arrow_schema(schema) if field.name not in blobs + times]
        gaps = None if lost else SourceGaps.of(dataset, pa.schema(exact))
        return cls(blobs, times, lost, gaps)

    async def moved(
        self,
        dataset: Callable[[Sequence[bytes]], Dataset],
        batches: AsyncGenerator[pa.RecordBatch, None],
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield updated rows; values that Spark cannot hold are copied from the replaced rows.

        Args:
            dataset: opens the version whose rows are replaced, with some of its fragments.
            batches: rows as Spark has them, with the addresses of replaced rows.

        Raises:
            UnsupportedError: a column's values cannot be restored.
            InvalidInputError: a row has the blob of another row, or a time that the column cannot
                hold.
        """
        if self.gaps is None:
            raise UnsupportedError(
                f"column {self.lost[0]!r}: Spark does not hold all of its values, which rows that "
                f"are updated would lose; set spark.sql.catalog.<its catalog>.{BLOBS_SETTING}, "
                "or use "
                "Dataset.update, or the job `merge`"
            )
        base = dataset(self.gaps.fragments)
        async for batch in batches:
            rest, done = batch.drop_columns([*self.blobs, *self.times]), 0
            async with aclosing(self.gaps.rows(base, rest)) as parts:
                async for part in parts:
                    yield self._with_new(part, batch.slice(done, part.num_rows))
                    done += part.num_rows

    def _with_new(self, rows: pa.RecordBatch, new_rows: pa.RecordBatch) -> pa.RecordBatch:
        """Combine old rows with the new values that Spark set."""
        address = new_rows.column(ROW_ADDRESS)
        for name in (*self.blobs, *self.times):
            index = rows.schema.get_field_index(name)
            old, new = rows.column(index), new_rows.column(name)
            array = (
                _blobs(name, old, new, address) if name in self.blobs else with_old_times(old, new)
            )
            field = rows.schema.field(index).with_type(array.type)
            rows = rows.set_column(index, field, array)
        return rows


def inserted(batch: pa.RecordBatch, table: pa.Schema) -> pa.RecordBatch:
    """Return inserted rows without the columns of blob descriptions, which become null.

    Raises:
        InvalidInputError: a row has a blob's description instead of its bytes.
    """
    names = descriptions(batch.schema, table)
    for name in names:
        if batch.column(name).null_count < batch.num_rows:
            raise _not_a_blob(name)
    return batch.drop_columns(names)


def descriptions(rows: pa.Schema, table: pa.Schema) -> list[str]:
    """Return the columns of `rows` with blob descriptions of the table."""
    return [
        field.name
        for field in rows
        if _is_description(field.type)
        and field.name in table.names
        and not _is_description(table.field(field.name).type)
    ]


def _is_description(kind: pa.DataType) -> bool:
    names = {field.name for field in _members(kind)} if pa.types.is_struct(kind) else set()
    return {POSITION, "size"} <= names and "data" not in names


def described(dataset: Dataset, options: ReadOptions) -> pa.Schema:
    """Return a table's schema as read: blobs as descriptions, or as bytes on request."""
    return dataset.scanner(blob_handling=options.blob_handling).projected_schema


def is_blob(field: pa.Field) -> bool:
    """True if the column holds descriptions of blobs."""
    return pa.types.is_struct(field.type) and BLOB_METADATA_KEY in (field.metadata or {})


def marked(batch: pa.RecordBatch, names: Collection[str]) -> pa.RecordBatch:
    """Mark the blob descriptions of rows with the rows' addresses.

    Args:
        names: columns of descriptions; the batch also has a column of addresses.
    """
    for name in names:
        index = batch.schema.get_field_index(name)
        array, field = batch.column(index), batch.schema.field(index)
        place = field.type.get_field_index(POSITION)
        members = [array.field(number) for number in range(field.type.num_fields)]
        members[place] = _mark_of(batch.column(ROW_ADDRESS), field.type.field(place).type)
        fields, nulls = _members(field.type), array.is_null()
        array = pa.StructArray.from_arrays(members, fields=fields, mask=nulls)
        batch = batch.set_column(index, field, array)
    return batch


def _mark_of(address: pa.Array, kind: pa.DataType) -> pa.Array:
    return pc.subtract(pa.scalar(-1, pa.int64()), address.cast(pa.int64())).cast(kind)


def _is_without_blobs(field: pa.Field) -> bool:
    """True if neither the column nor a descendant of it holds descriptions of blobs."""
    return not is_blob(field) and all(map(_is_without_blobs, _members(field.type)))


def _members(kind: pa.DataType) -> list[pa.Field]:
    return [kind.field(number) for number in range(kind.num_fields)]


def _blobs(name: str, old: pa.Array, new: pa.Array, address: pa.Array) -> pa.Array:
    """Return the old blobs; null where the statement has set null."""
    positions = pc.struct_field(new, POSITION)
    if not pc.all(pc.equal(positions, _mark_of(address, positions.type)), min_count=0).as_py():
        raise _not_a_blob(name)
    valid = new.is_valid()
    if old.is_valid().equals(valid):
        return old
    storage = old.storage if isinstance(old, pa.ExtensionArray) else old
    items = pc.if_else(valid, storage, pa.scalar(None, storage.type))
    return old.type.wrap_array(items) if isinstance(old, pa.ExtensionArray) else items


def _not_a_blob(name: str) -> InvalidInputError:
    return InvalidInputError(
        f"column {name!r}: Spark has the descriptions of blobs, not what they hold; a statement "
        f"leaves a blob as it is, or sets it to NULL. With "
        f"spark.sql.catalog.<its catalog>.{BLOBS_SETTING} "
        "it has their bytes; or write them with `alance.spark.write`, or the job `merge`"
    )

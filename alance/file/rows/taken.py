"""Rows taken from one or more fragments, and decoded as one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance.errors import AlanceError
from alance.file.batches import empty_columns, in_order, one_array, one_batch
from alance.format.plans import all_read
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.rows.placed_columns import ColumnsShare, PlacedColumns, PlacedRows
    from alance.format.field import Field
    from alance.format.plans import Pieces, Reader
    from alance.format.v2_0.fields import FieldPiece


class FragmentTask(NamedTuple):
    """Rows of a fragment to decode in the pool; their bytes are fetched or in a local file.

    Attributes:
        others: rows of fields of files of 2.0 and 0.1 that the kernel does not decode, in
            consecutive parts, by field id.
        columns: rows of the fields that the kernel decodes.
    """

    schema: Schema
    num_rows: int
    others: Mapping[int, Sequence[FieldPiece]]
    columns: Sequence[PlacedColumns] = ()

    @property
    def num_bytes(self) -> int:
        """Number of encoded bytes to decode."""
        num_bytes = sum([columns.num_bytes for columns in self.columns])
        for pieces in self.others.values():
            num_bytes += sum([piece.num_bytes for piece in pieces])
        return num_bytes

    @property
    def unread(self) -> list[PlacedRows]:
        """Distinct placed rows whose bytes have not been read yet."""
        placed: dict[int, PlacedRows] = {}
        for columns in self.columns:
            if not columns.placed.is_read:
                placed[id(columns.placed)] = columns.placed
        return [*placed.values()]

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows.

        Args:
            read: opens the bytes of `unread` rows.
            order: numbers of the rows to return, in this order; None for all rows.

        Raises:
            CorruptFileError: the bytes contradict the format.
            BatchTooLargeError: strings have more bytes than 32-bit offsets can address.
        """
        if not self.schema.fields:
            return empty_columns(self.num_rows if order is None else len(order))
        arrays: dict[int, pa.Array] = {}
        for own in self.columns:
            if own.placed.plan.is_ranges:
                batch = in_order(own.decode(read, self.schema), order)
            else:
                batch = own.decode(read, self.schema, order)
            if batch.num_columns == len(self.schema.fields):
                return batch
            ids = [field.id for field in own.fields.fields]
            arrays.update(zip(ids, batch.columns, strict=True))
        for field in self.schema.fields:
            if field.id not in arrays:
                arrays[field.id] = in_order(self.column(field), order)
        columns = [arrays[field.id] for field in self.schema.fields]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema.read_arrow())

    def only(self, schema: Schema) -> FragmentTask:
        """Return a task for the same rows, with fewer fields."""
        ids = {field.id for field in schema.fields}
        columns = [part for own in self.columns if (part := own.only(ids)).columns]
        others = {field_id: rows for field_id, rows in self.others.items() if field_id in ids}
        return FragmentTask(schema, self.num_rows, others, columns)

    def sizes(self) -> dict[int, int]:
        """Return the encoded bytes of each field, by id; omits fields that no file has."""
        sizes = {
            field_id: sum([piece.num_bytes for piece in pieces])
            for field_id, pieces in self.others.items()
        }
        for columns in self.columns:
            sizes.update(columns.sizes)
        return sizes

    def column(self, field: Field) -> pa.Array:
        """Decode a field of `others`; a field that no file has is null."""
        arrow = field.to_arrow().type
        pieces = self.others.get(field.id)
        if pieces is None:
            return pa.nulls(self.num_rows, arrow)
        try:
            return one_array([piece.decode(arrow) for piece in pieces])
        except AlanceError as error:
            error.add_note(f"in field {field.name!r}")
            raise


class TakenRows(NamedTuple):
    """Rows of consecutive fragments: a decode task for each group of similar fragments."""

    schema: Schema
    tasks: Sequence[FragmentTask]  # at least one

    @property
    def num_bytes(self) -> int:
        """Number of encoded bytes to decode."""
        return sum([task.num_bytes for task in self.tasks])

    def split(self, count: int) -> list[TakenRows]:
        """Split the fields into at most `count` parts: consecutive fields, and about equal bytes.

        The batches of all parts together have the columns of the whole batch.
        """
        if count <= 1 or len(self.schema.fields) <= 1:
            return [self]
        fields, own_sizes = self.schema.fields, [task.sizes() for task in self.tasks]
        sizes = np.sum([[own.get(field.id, 0) for field in fields] for own in own_sizes], 0)
        middles = np.cumsum(sizes) - sizes / 2
        share = (middles * count / max(1, sizes.sum())).astype(np.int64).tolist()
        schemas = [
            Schema(
                tuple([field for field, own in zip(fields, share, strict=True) if own == part]), {}
            )
            for part in dict.fromkeys(share)
        ]
        return [TakenRows(own, [task.only(own) for task in self.tasks]) for own in schemas]

    def shares(self, count: int, order: Int64s | None) -> list[ColumnsShare]:
        """Split the rows into `count` shares that threads decode into one batch.

        Returns an empty list if there are several tasks, if the kernel cannot decode all columns
        in one call, if a column is not plain, or if the bytes have been read.
        """
        columns = [own for task in self.tasks for own in task.columns]
        if len(self.tasks) > 1 or len(columns) != 1 or columns[0].placed.is_read:
            return []
        are_all = len(columns[0].columns) == len(self.schema.fields)
        if not are_all or not columns[0].fields.are_plain:
            return []
        return columns[0].shares(count, self.schema, order)

    @property
    def unread(self) -> list[PlacedRows]:
        """Placed rows whose bytes have not been read yet."""
        return [placed for task in self.tasks for placed in task.unread]

    @property
    def unread_pieces(self) -> list[Pieces]:
        """Byte ranges that have not been read yet."""
        columns = [own for task in self.tasks for own in task.columns if not own.placed.is_read]
        return [own.placed.pieces_of_columns(own.columns) for own in columns]

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows of all tasks. Arguments and errors are those of `FragmentTask.decode`."""
        if len(self.tasks) == 1:
            return self.tasks[0].decode(read, order)
        if not self.schema.fields:
            return in_order(empty_columns(sum([task.num_rows for task in self.tasks])), order)
        return in_order(one_batch([task.decode(read) for task in self.tasks]), order)

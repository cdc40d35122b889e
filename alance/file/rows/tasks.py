"""Rows of one or more fragments, which few kernel calls decode to one record batch."""

from __future__ import annotations

from itertools import accumulate, compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, BatchTooLargeError
from alance.file.batches import empty_columns, in_order, one_array, one_batch
from alance.format.plans import Pieces, all_read, joined_spans
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.rows.leaves import FieldForms
    from alance.format.field import Field
    from alance.format.plans import Reader
    from alance.format.v2_0.fields import FieldPiece

CONSTANT_CONTENT: Final = memoryview(b"")  # constant pages have their value in the description
GOES_ON: Final = 1  # result of the kernel: other shares are not decoded yet


class PlacedColumns:
    """Rows of fields of the schema, with the positions of their bytes.

    Attributes:
        paths: for each table of the plan, the path of its file.
        files: returns for each table the bytes of its file in memory, in the decoding thread; None
            if files are not in memory.
        columns: for each leaf, field by field, the number of its column in the plan.
        content: concatenated bytes of all pieces; empty if all pages are constant. None if the
            bytes have not been read, or are in `files`.
    """

    __slots__ = ("columns", "content", "fields", "files", "paths", "plan")

    def __init__(
        self,
        plan: _kernels.RowPlan,
        paths: Sequence[str],
        fields: FieldForms,
        files: Callable[[], Sequence[_kernels.HeldFile]] | None = None,
        columns: Sequence[int] | None = None,
    ) -> None:
        self.plan = plan
        self.paths = paths
        self.fields = fields
        self.files = files
        self.columns = range(len(fields.leaves)) if columns is None else columns
        has_bytes = plan.num_bytes(0, plan.num_groups) if columns is None else self.num_bytes
        self.content: memoryview | None = None if has_bytes else CONSTANT_CONTENT

    @property
    def is_read(self) -> bool:
        """True if the bytes are in memory."""
        return not (self.content is None and self.files is None)

    @property
    def pieces(self) -> Pieces:
        """Byte ranges to read for the columns, at least one."""
        if isinstance(self.columns, range):  # all columns of the plan
            return self.pieces_of(0, self.plan.num_groups)
        parts = [self.pieces_of(*run) for run in joined_spans(map(self.plan.groups, self.columns))]
        if len(parts) == 1:
            return parts[0]
        before = np.cumsum([0, *(len(part.starts) for part in parts)]).tolist()
        return Pieces(
            [path for part in parts for path in part.paths],
            [first + end for first, part in zip(before, parts, strict=False) for end in part.ends],
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.stops for part in parts]),
            sum(part.num_bytes for part in parts),
        )

    def pieces_of(self, first: int, last: int) -> Pieces:
        """Return the byte ranges to read for the groups from `first` to `last` of the plan."""
        tables, ends, starts, stops, num_bytes = self.plan.pieces(first, last)
        paths = [*map(self.paths.__getitem__, tables)]
        return Pieces(paths, ends, starts, stops, num_bytes)

    @property
    def sizes(self) -> dict[int, int]:
        """Encoded bytes by field id."""
        of_columns, forms = self.plan.column_bytes, self.fields.forms
        upto = np.cumsum([0, *map(of_columns.__getitem__, self.columns)])
        ends = [0, *accumulate([len(form.leaves) for form in forms])]
        ids = [form.field.id for form in forms]
        return dict(zip(ids, np.diff(upto[ends]).tolist(), strict=True))

    @property
    def num_bytes(self) -> int:
        """Number of encoded bytes to decode."""
        sizes = self.plan.column_bytes
        return sum([sizes[column] for column in self.columns])

    def only(self, ids: Collection[int]) -> PlacedColumns:
        """Return the rows of only the fields with these ids."""
        keep = [form.field.id in ids for form in self.fields.forms]
        of_leaves = [
            is_kept
            for form, is_kept in zip(self.fields.forms, keep, strict=True)
            for _ in form.leaves
        ]
        columns = [*compress(self.columns, of_leaves)]
        part = PlacedColumns(self.plan, self.paths, self.fields.only(keep), self.files, columns)
        if self.content is not None:
            part.content = self.content
        return part

    def shares(self, count: int, schema: Schema, order: Int64s | None = None) -> list[ColumnsShare]:
        """Split the decoding into `count` shares of about equal bytes, one per thread.

        More than one share is only allowed for unread single rows of fields that `are_plain`.

        Args:
            schema: schema of the rows, which has all of `fields` in their order.
            order: numbers of the rows to return, in this order; None for all. Not for ranges of
                rows.
        """
        _, trees, _, widths, texts, shapes, _ = self.fields
        batch = _kernels.RowBatch(trees, self.columns, widths, texts, order, count, shapes)
        return [ColumnsShare(self, schema, batch, number) for number in range(count)]


class ColumnsShare(NamedTuple):
    """Share of the decoding of columns for one thread; all shares fill the same batch."""

    columns: PlacedColumns
    schema: Schema
    batch: _kernels.RowBatch
    number: int

    def decode(self, read: Reader) -> pa.RecordBatch | None:
        """Decode the share. The last share returns the batch of all shares; others return None.

        Args:
            read: opens the bytes that have not been read yet.
        """
        columns = self.columns
        try:
            if not self._decode(read):
                return None
        except OverflowError as error:
            raise BatchTooLargeError(f"{error}: read fewer rows at once") from error
        except AlanceError:
            raise
        except ValueError as error:
            page, leaf = self.batch.place(self.number)
            what = str(error)
            raise columns.fields.corrupt(columns.plan, columns.paths, leaf, page, what) from error
        if len(columns.fields.forms) == len(self.schema.fields):
            arrow = self.schema.read_arrow()
        else:
            arrow = pa.schema([field.to_arrow() for field in columns.fields.fields])
        return columns.fields.imported(self.batch.address, arrow)

    def _decode(self, read: Reader) -> bool:
        """Decode the share. Returns False if other shares are not decoded yet."""
        columns = self.columns
        if columns.content is not None:
            self.batch.decode(columns.plan, columns.content)
            return True
        if columns.files is not None:
            held = _kernels.HeldSource(columns.files())
            if not self.batch.read(columns.plan, held, self.number):
                raise ValueError("bytes that the file has not")
            return True
        with read(columns.paths, self._pieces) as source:
            state = self.batch.read(columns.plan, source, self.number)
            if not state:
                raise OSError  # the reader replaces this by the store's error
        return state != GOES_ON

    def _pieces(self) -> Pieces:
        """Return the pieces to report in a trace: all for the first share, none for others."""
        return self.columns.pieces_of(0, 0) if self.number else self.columns.pieces


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
    def unread(self) -> list[PlacedColumns]:
        """Columns whose bytes have not been read yet."""
        return [own for own in self.columns if not own.is_read]

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
            is_ranges = own.plan.is_ranges
            (share,) = own.shares(1, self.schema, None if is_ranges else order)
            batch = share.decode(read)
            assert batch is not None
            if is_ranges:
                batch = in_order(batch, order)
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
        if len(self.tasks) > 1 or len(columns) != 1 or columns[0].is_read:
            return []
        are_all = len(columns[0].columns) == len(self.schema.fields)
        if not are_all or not columns[0].fields.are_plain:
            return []
        return columns[0].shares(count, self.schema, order)

    @property
    def unread(self) -> list[PlacedColumns]:
        """Columns whose bytes have not been read yet."""
        return [own for task in self.tasks for own in task.unread]

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows of all tasks. Arguments and errors are those of `FragmentTask.decode`."""
        if len(self.tasks) == 1:
            return self.tasks[0].decode(read, order)
        if not self.schema.fields:
            return in_order(empty_columns(sum([task.num_rows for task in self.tasks])), order)
        return in_order(one_batch([task.decode(read) for task in self.tasks]), order)

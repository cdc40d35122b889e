"""Rows of fields, including nested fields, that one kernel call decodes to a record batch."""

from __future__ import annotations

from itertools import accumulate, compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError, BatchTooLargeError
from alance.file.open.new_pages import CONSTANT_CONTENT
from alance.format.plans import Pieces

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.base.arrays import Int64s
    from alance.file.rows.field_forms import FieldForms
    from alance.format.plans import Reader
    from alance.format.schema import Schema

GOES_ON: Final = 1  # result of the kernel: other shares are not decoded yet


class PlacedRows:
    """The same rows of several columns, with the positions of their bytes.

    Attributes:
        paths: for each table of the plan, the path of its file.
        content: concatenated bytes of all pieces; empty if all pages are constant. None if the
            bytes have not been read, or are in `files`.
        files: for each table, the bytes of its file in memory; None if files are not in memory.
    """

    __slots__ = ("_pieces", "content", "files", "paths", "plan")

    def __init__(
        self,
        plan: _kernels.RowPlan,
        paths: Sequence[str],
        files: Sequence[_kernels.HeldFile] | None = None,
    ) -> None:
        self.plan = plan
        self.paths = paths
        has_bytes = plan.num_bytes(0, plan.num_groups)
        self.content: memoryview | None = None if has_bytes else CONSTANT_CONTENT
        self.files = files
        self._pieces: Pieces | None = None

    @property
    def is_read(self) -> bool:
        """True if the bytes are in memory."""
        return self.content is not None or self.files is not None

    @property
    def pieces(self) -> Pieces:
        """Byte ranges to read for all groups of the plan."""
        if self._pieces is None:
            self._pieces = self.pieces_of(0, self.plan.num_groups)
        return self._pieces

    def pieces_of(self, first: int, last: int) -> Pieces:
        """Return the byte ranges to read for the groups from `first` to `last` of the plan."""
        tables, ends, starts, stops, num_bytes = self.plan.pieces(first, last)
        paths = [*map(self.paths.__getitem__, tables)]
        return Pieces(paths, ends, starts, stops, num_bytes)

    def pieces_of_columns(self, columns: Sequence[int]) -> Pieces:
        """Return the byte ranges to read for columns, at least one."""
        groups: list[list[int]] = []
        for column in columns:
            first, last = self.plan.groups(column)
            if groups and groups[-1][1] == first:
                groups[-1][1] = last
            else:
                groups.append([first, last])
        parts = [self.pieces_of(first, last) for first, last in groups]
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


class PlacedColumns(NamedTuple):
    """Placed rows of fields of the schema.

    Attributes:
        columns: for each leaf, field by field, the number of its column in the plan.
    """

    placed: PlacedRows
    fields: FieldForms
    columns: Sequence[int]

    @property
    def sizes(self) -> dict[int, int]:
        """Encoded bytes by field id."""
        of_columns, forms = self.placed.plan.column_bytes, self.fields.forms
        upto = np.cumsum([0, *map(of_columns.__getitem__, self.columns)])
        ends = [0, *accumulate([len(form.leaves) for form in forms])]
        ids = [form.field.id for form in forms]
        return dict(zip(ids, np.diff(upto[ends]).tolist(), strict=True))

    @property
    def num_bytes(self) -> int:
        """Number of encoded bytes to decode."""
        sizes = self.placed.plan.column_bytes
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
        placed, sizes = self.placed, self.placed.plan.column_bytes
        if not (placed.is_read or any(sizes[column] for column in columns)):
            placed = PlacedRows(placed.plan, placed.paths)  # because all pages are constant
            placed.content = CONSTANT_CONTENT
        return PlacedColumns(placed, self.fields.only(keep), columns)

    def decode(self, read: Reader, schema: Schema, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the fields to one batch.

        Args:
            read: opens the bytes that have not been read yet.
            schema: schema of the rows, which has all of `fields` in their order.
            order: numbers of the rows to return, in this order; None for all. Not for ranges of
                rows.
        """
        (share,) = self.shares(1, schema, order)
        batch = share.decode(read)
        assert batch is not None
        return batch

    def shares(self, count: int, schema: Schema, order: Int64s | None) -> list[ColumnsShare]:
        """Split the decoding into `count` shares of about equal bytes, one per thread.

        More than one share is only allowed for unread single rows of fields that `are_plain`.
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

        Arguments and errors are those of `PlacedColumns.decode`.
        """
        columns = self.columns
        plan = columns.placed.plan
        try:
            if not self._decode(plan, read):
                return None
        except OverflowError as error:
            raise BatchTooLargeError(f"{error}: read fewer rows at once") from error
        except AlanceError:
            raise
        except ValueError as error:
            page, leaf = self.batch.place(self.number)
            paths = columns.placed.paths
            raise columns.fields.corrupt(plan, paths, leaf, page, str(error)) from error
        if len(columns.fields.forms) == len(self.schema.fields):
            arrow = self.schema.read_arrow()
        else:
            arrow = pa.schema([field.to_arrow() for field in columns.fields.fields])
        return columns.fields.imported(self.batch.address, arrow)

    def _decode(self, plan: _kernels.RowPlan, read: Reader) -> bool:
        """Decode the share. Returns False if other shares are not decoded yet."""
        placed = self.columns.placed
        if placed.content is not None:
            self.batch.decode(plan, placed.content)
            return True
        if placed.files is not None:
            if not self.batch.read(plan, _kernels.HeldSource(placed.files), self.number):
                raise ValueError("bytes that the file has not")
            return True
        with read(placed.paths, self._pieces) as source:
            state = self.batch.read(plan, source, self.number)
            if not state:
                raise OSError  # the reader replaces this by the store's error
        return state != GOES_ON

    def _pieces(self) -> Pieces:
        """Return the pieces to report in a trace: all for the first share, none for others."""
        placed, _, columns = self.columns
        return placed.pieces_of(0, 0) if self.number else placed.pieces_of_columns(columns)

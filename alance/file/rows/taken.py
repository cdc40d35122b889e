"""Rows taken from one or more fragments, and decoded as one batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance.errors import BatchTooLargeError
from alance.file.batches import empty_columns, in_order
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import all_read
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.rows.fragment import FragmentTask
    from alance.file.rows.placed_columns import ColumnsShare, PlacedRows
    from alance.format.field import Field
    from alance.format.plans import Pieces, Reader


class TakenRows(NamedTuple):
    """Rows of consecutive fragments, with a decode task for each."""

    schema: Schema
    tasks: Sequence[FragmentTask]  # at least one

    @property
    def num_rows(self) -> int:
        return sum([task.num_rows for task in self.tasks])

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
        by_leaf = [task.sizes() for task in self.tasks]
        sizes = [sum([_size(field, own) for own in by_leaf]) for field in self.schema.fields]
        middles = np.cumsum(sizes) - np.array(sizes) / 2
        share = (middles * count / max(1, sum(sizes))).astype(np.int64)
        fields = self.schema.fields
        schemas = [
            Schema(tuple(fields[at] for at in np.flatnonzero(share == part).tolist()), {})
            for part in dict.fromkeys(share.tolist())
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
        return [pieces for task in self.tasks for pieces in task.unread_pieces]

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows of all tasks. Arguments and errors are those of `FragmentTask.decode`."""
        if len(self.tasks) == 1:
            return self.tasks[0].decode(read, order)
        batches = [task.decode(read) for task in self.tasks]
        if not self.schema.fields:
            return in_order(empty_columns(self.num_rows), order)
        columns = [
            _joined(field, [batch.column(number) for batch in batches])
            for number, field in enumerate(self.schema.fields)
        ]
        return in_order(pa.RecordBatch.from_arrays(columns, schema=batches[0].schema), order)


def _size(field: Field, by_leaf: Mapping[int, int]) -> int:
    """Return the encoded bytes of a field: its entry in `by_leaf`, or the sum of its leaves'."""
    size = by_leaf.get(field.id)
    if size is None:
        size = sum([by_leaf.get(leaf.field.id, 0) for leaf in leaf_columns(field)])
    return size


def _joined(field: Field, arrays: Sequence[pa.Array]) -> pa.Array:
    try:
        return pa.concat_arrays(arrays)
    except pa.ArrowException as error:
        raise BatchTooLargeError(f"field {field.name!r}: {error}; take fewer rows") from error

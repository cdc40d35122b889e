"""Rows taken from several fragments, as one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import UnsupportedError
from alance.file.batches import empty_columns, one_array
from alance.file.fragment import FragmentTask, encoded_bytes
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import all_read
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.field import Field
    from alance.format.layouts.paged_rows import PlacedRows
    from alance.format.plans import Reader


@dataclass(frozen=True, slots=True)
class TakenRows:
    """Rows of fragments, one fragment behind the other; a column is decoded in one go."""

    schema: Schema
    tasks: Sequence[FragmentTask]  # at least one

    @property
    def num_rows(self) -> int:
        return sum(task.num_rows for task in self.tasks)

    @property
    def num_bytes(self) -> int:
        """Encoded bytes to decode."""
        return sum(task.num_bytes for task in self.tasks)

    def split(self, count: int) -> list[TakenRows]:
        """The rows as up to `count` parts, each of some neighbouring fields and about as many
        bytes; their batches side by side are the batch of the whole.
        """
        if count <= 1 or len(self.schema.fields) <= 1:
            return [self]
        sizes = [
            sum(
                encoded_bytes(task.leaves[field_id])
                for field_id in {field.id, *(leaf.field.id for leaf in leaf_columns(field))}
                for task in self.tasks
                if field_id in task.leaves
            )
            for field in self.schema.fields
        ]
        middles = np.cumsum(sizes) - np.array(sizes) / 2
        share = (middles * count / max(1, sum(sizes))).astype(np.int64)
        return [
            TakenRows(
                Schema(
                    tuple(self.schema.fields[at] for at in np.flatnonzero(share == part).tolist()),
                    {},
                ),
                self.tasks,
            )
            for part in np.unique(share).tolist()
        ]

    @property
    def unread(self) -> list[PlacedRows]:
        """Rows whose bytes are still to be read."""
        return [placed for task in self.tasks for placed in task.unread]

    def decode(self, read: Reader = all_read) -> pa.RecordBatch:
        """The rows as Arrow, in the order of the plans.

        Args:
            read: brings what is `unread`.

        Raises:
            CorruptFileError: bytes that contradict the format.
            UnsupportedError: more bytes of strings than 32-bit offsets can say.
        """
        if not self.schema.fields:
            return empty_columns(self.num_rows)
        arrays = [self._column(field, read) for field in self.schema.fields]
        schema = pa.schema([field.to_arrow() for field in self.schema.fields])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, field: Field, read: Reader) -> pa.Array:
        arrays = [task.column(field, read) for task in self.tasks]
        try:
            return one_array(arrays)
        except pa.ArrowException as error:
            raise UnsupportedError(f"field {field.name!r}: {error}; take fewer rows") from error

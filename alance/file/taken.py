"""Rows taken from several fragments, as one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.errors import AlanceError, UnsupportedError
from alance.file.batches import empty_columns
from alance.file.fragment import FragmentTask, encoded_bytes
from alance.format.layouts.fields import assemble, leaf_columns
from alance.format.layouts.paged_rows import PagedRows, joined
from alance.format.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.field import Field


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
                encoded_bytes(task.leaves[one])
                for one in {field.id, *(leaf.field.id for leaf in leaf_columns(field))}
                for task in self.tasks
                if one in task.leaves
            )
            for field in self.schema.fields
        ]
        middles = np.cumsum(sizes) - np.array(sizes) / 2
        share = (middles * count / max(1, sum(sizes))).astype(np.int64)
        return [
            TakenRows(
                Schema(
                    tuple(self.schema.fields[at] for at in np.flatnonzero(share == one).tolist()),
                    {},
                ),
                self.tasks,
            )
            for one in np.unique(share).tolist()
        ]

    def decode(self, *, wait: bool = True) -> pa.RecordBatch | None:
        """The rows as Arrow, in the order of the plans.

        Args:
            wait: read what the page cache does not have; else there is no answer then.

        Raises:
            CorruptFileError: bytes that contradict the format.
            UnsupportedError: more bytes of strings than 32-bit offsets can say.
        """
        if not self.schema.fields:
            return empty_columns(self.num_rows)
        arrays = []
        for field in self.schema.fields:
            array = self._column(field, wait)
            if array is None:
                return None
            arrays.append(array)
        schema = pa.schema([field.to_arrow() for field in self.schema.fields])
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, field: Field, wait: bool) -> pa.Array | None:
        try:
            leaves = self._joined(field)
            if leaves is None:
                if not wait and any(
                    isinstance(task.leaves.get(leaf.field.id), PagedRows)
                    for leaf in leaf_columns(field)
                    for task in self.tasks
                ):
                    return None
                arrays = [task.column(field) for task in self.tasks]
                return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
            own = leaves.get(field.id)
            if own is not None and own.is_array:
                return own.decode(wait=wait)
            pages = {}
            for leaf, paged in leaves.items():
                found = paged.decode_pages(wait=wait)
                if found is None:
                    return None
                pages[leaf] = found
            return assemble(field, pages, self.num_rows)
        except AlanceError as error:
            error.add_note(f"in field {field.name!r}")
            raise
        except pa.ArrowException as error:
            raise UnsupportedError(f"field {field.name!r}: {error}; take fewer rows") from error

    def _joined(self, field: Field) -> dict[int, PagedRows] | None:
        """The rows of all fragments for each leaf; None where a fragment's are not paged, or
        those of the leaf are of several kinds.
        """
        found = {}
        for leaf in leaf_columns(field):
            parts = [task.leaves.get(leaf.field.id) for task in self.tasks]
            paged = [part for part in parts if isinstance(part, PagedRows)]
            if len(paged) < len(parts) or len({part.is_array for part in paged}) > 1:
                return None
            if paged[0].is_array and len({p.kernel.width for one in paged for p in one.pages}) > 1:
                return None
            found[leaf.field.id] = joined(paged)
        return found

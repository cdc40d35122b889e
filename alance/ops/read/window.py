"""Offset and limit over a stream of batches, and the cutting to a batch size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


@dataclass(slots=True)
class RowWindow:
    """Lets through the rows from `skip` on, `limit` of them (None: all)."""

    skip: int
    limit: int | None

    @property
    def is_full(self) -> bool:
        """Whether no further row is wanted."""
        return self.limit == 0

    def cut(self, batch: pa.RecordBatch, batch_size: int | None) -> Iterator[pa.RecordBatch]:
        """The wanted rows of the next batch, in pieces of at most `batch_size`; no copy."""
        skipped = min(self.skip, batch.num_rows)
        self.skip -= skipped
        num_rows = batch.num_rows - skipped
        if self.limit is not None:
            num_rows = min(num_rows, self.limit)
            self.limit -= num_rows
        if num_rows == 0:
            return
        if skipped or num_rows < batch.num_rows:
            batch = batch.slice(skipped, num_rows)
        step = batch_size or num_rows
        if step >= num_rows:
            yield batch
            return
        for start in range(0, num_rows, step):
            yield batch.slice(start, step)

"""Offset and limit of a stream of batches, and cutting to batch sizes."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.ops.read.options import ScanOptions


@dataclass(slots=True)
class RowWindow:
    """Window over a stream: `limit` rows from `offset` on, in batches of the options' size.

    Attributes:
        is_cut: True if the stream has only these rows.
    """

    options: ScanOptions
    is_cut: bool = False
    skip: int = field(init=False)
    limit: int | None = field(init=False)
    # Pending rows, if batches need an exact size.
    _short: list[pa.RecordBatch] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.skip = 0 if self.is_cut else self.options.offset or 0
        self.limit = None if self.is_cut else self.options.limit

    @property
    def is_full(self) -> bool:
        """True if no more rows are needed."""
        return self.limit == 0

    def cut(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the needed rows of the next batch in pieces, as views unless the size is strict."""
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
        if self.options.strict_batch_size:
            yield from self._fill(batch)
            return
        step = self.options.batch_size or num_rows
        most = self.options.batch_size_bytes
        if most is not None and (num_bytes := batch.nbytes) > most:
            step = min(step, max(1, num_rows * most // num_bytes))
        if step >= num_rows:
            yield batch
            return
        for start in range(0, num_rows, step):
            yield batch.slice(start, step)

    def _fill(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield batches of exactly the requested size; remaining rows wait for the next batch."""
        size = self.options.batch_size or 0
        start = 0
        if self._short:
            start = min(size - sum(part.num_rows for part in self._short), batch.num_rows)
            self._short.append(batch.slice(0, start))
            if sum(part.num_rows for part in self._short) < size:
                return
            yield from self.rest()
        while start + size <= batch.num_rows:
            yield batch.slice(start, size)
            start += size
        if start < batch.num_rows:
            self._short.append(batch.slice(start))

    def rest(self) -> Iterator[pa.RecordBatch]:
        """Yield the pending rows as the last batch; nothing if there are none."""
        parts, self._short = self._short, []
        if parts:
            yield pa.concat_batches(parts)


def cut_table(table: pa.Table, options: ScanOptions) -> Iterator[pa.RecordBatch]:
    """Yield a table in batches of the options' size, without applying offset and limit."""
    window = RowWindow(options, is_cut=True)
    for batch in table.to_batches():
        yield from window.cut(batch)
    yield from window.rest()

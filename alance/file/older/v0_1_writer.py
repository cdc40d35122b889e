"""Writer of 0.1 files: rows are buffered until a batch of the file is full.

The base class for all versions is in `alance.file.write.writer`.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.file.budgets import BUFFER_BYTES
from alance.file.write.writer import DataFileWriter, WrittenFile, joined
from alance.format.v0_1.encode import BatchFileBuilder

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.base.arrays import Bytes

V0_1_BATCH_ROWS: Final = 1024  # rows per batch of the file, as by default in other writers
STEP_ROWS: Final = 64 * V0_1_BATCH_ROWS  # rows to encode per job


class BatchWriter(DataFileWriter):
    """Writer of a data file of version 0.1, batch by batch.

    Most nulls become zeros, empty lists or valid structs, because 0.1 files cannot hold them; the
    writer warns once per file. Strings can be null, but an empty string of a nullable field is read
    as null.

    Raises:
        UnsupportedError: 0.1 files cannot hold a type of the schema.
    """

    def _begin(self) -> None:
        self._batches = BatchFileBuilder(self._schema, statistics=self._has_statistics)
        self._step_bytes = min(self._page_bytes, self._buffer_bytes or BUFFER_BYTES)
        self._parts: list[list[pa.Array]] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0

    def _bytes_so_far(self) -> int:
        return self._batches.num_bytes + self._waiting_bytes

    async def _seal(self) -> WrittenFile:
        await self._upload_all(await self._pool.run(lambda: self._encode_batches(whole=False)))
        await self._upload_all(self._batches.finish())
        if self._batches.lost:
            warnings.warn(
                f"fields {list(self._batches.lost)}: nulls are zeros, empty lists, or valid "
                "structs in files of version 0.1",
                stacklevel=2,
            )
        columns = {field: number for number, field in enumerate(self._batches.field_ids)}
        return WrittenFile(self.num_rows, self._batches.num_bytes, columns)

    async def _write(self, batch: pa.RecordBatch) -> None:
        self._parts.append(batch.columns)
        self._waiting_rows += batch.num_rows
        self._waiting_bytes += batch.nbytes
        if self._waiting_rows >= STEP_ROWS or (
            self._waiting_rows >= V0_1_BATCH_ROWS and self._waiting_bytes >= self._step_bytes
        ):
            await self._upload_all(await self._pool.run(lambda: self._encode_batches(whole=True)))

    def _encode_batches(self, *, whole: bool) -> list[Bytes]:
        """Encode the batches of waiting rows. CPU work.

        Args:
            whole: True to encode only full batches; the remaining rows still wait.
        """
        rows = self._waiting_rows
        if not rows:
            return []
        arrays = [
            joined([part[number] for part in self._parts], f"field {field.name!r}: ")
            for number, field in enumerate(self._schema.fields)
        ]
        stop = rows // V0_1_BATCH_ROWS * V0_1_BATCH_ROWS if whole else rows
        chunks: list[Bytes] = []
        for start in range(0, stop, V0_1_BATCH_ROWS):
            part = [array.slice(start, min(V0_1_BATCH_ROWS, stop - start)) for array in arrays]
            chunks += self._batches.add_batch(part)
        rest = [array.slice(stop) for array in arrays]
        self._parts = [rest] if stop < rows else []
        self._waiting_rows = rows - stop
        self._waiting_bytes = sum(array.nbytes for array in rest)
        return [np.concatenate(chunks)] if chunks else []  # one chunk, because pages are small

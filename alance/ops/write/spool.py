"""Batches held for a second read: in memory up to a budget, then in a file on the local disk."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from alance.io.reading.pool import DecodePool


@dataclass(slots=True)
class Scratch:
    """Folder of temporary files, created with the first file."""

    pool: DecodePool
    num_files: int = 0
    _folder: Path | None = None

    def new_file(self) -> Path:
        """Return the path of a new file. Blocks."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="alance-"))
        self.num_files += 1
        return self._folder / f"{self.num_files}.arrows"

    async def remove(self) -> None:
        """Remove all files."""
        folder, self._folder = self._folder, None
        if folder is not None:
            await self.pool.run(lambda: shutil.rmtree(folder, ignore_errors=True))


@dataclass(slots=True)
class Spool:
    """Batches of one schema, in order of arrival. For one task at a time.

    Attributes:
        memory: bytes held in memory before batches are written to the file; None: no limit.
    """

    scratch: Scratch
    schema: pa.Schema
    memory: int | None
    num_rows: int = 0
    num_bytes: int = 0
    _held: list[pa.RecordBatch] = field(default_factory=list)
    _held_bytes: int = 0
    _path: Path | None = None
    _file: Any = None
    _writer: Any = None

    async def append(self, batch: pa.RecordBatch) -> None:
        """Add a batch.

        Raises:
            OSError: the disk is full.
        """
        if not batch.num_rows:
            return
        num_bytes = batch.nbytes  # asking takes 3 us a column
        self.num_rows += batch.num_rows
        self.num_bytes += num_bytes
        self._held.append(batch)
        self._held_bytes += num_bytes
        if self.memory is not None and self._held_bytes > self.memory:
            await self.scratch.pool.run(self._spill)

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield all batches; may be called repeatedly, but not while batches are appended."""
        run = self.scratch.pool.run
        path = self._path
        if path is not None:
            await run(self._file.flush)
            source = await run(lambda: pa.OSFile(str(path), "rb"))
            try:
                reader = await run(lambda: pa.ipc.open_stream(source))
                while True:
                    batch = await run(lambda: next(reader, None))
                    if batch is None:
                        break
                    yield batch
            finally:
                source.close()
        for batch in self._held:
            yield batch

    async def close(self) -> None:
        """Drop all batches."""
        self._held.clear()
        if self._file is not None:
            await self.scratch.pool.run(self._file.close)
        path, self._path = self._path, None
        if path is not None:
            await self.scratch.pool.run(lambda: path.unlink(missing_ok=True))

    def _spill(self) -> None:
        if self._writer is None:
            self._path = self.scratch.new_file()
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_stream(self._file, self.schema)
        for batch in self._held:
            self._writer.write_batch(batch)
        self._held.clear()
        self._held_bytes = 0

"""Progress of a long backfill in a SQLite file, from which a run after a crash continues.

The file has two tables: `fragments` has the record of the data file of each finished fragment,
`batches` the results of unfinished fragments so far, as Arrow IPC streams. Rows are keyed by `job`,
a hash of the table's location, the new columns and the columns read; and by `source`, the
fragment's data files, and for batches also its deletion file. So a row is never used for another
table, other columns, or a fragment that has changed. The file is removed when the version is
committed.

After a failure, data files of finished fragments remain in the table's folder. A cleanup removes
them after seven days; a later run computes them again.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, TypeVar

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError, NotFoundError, StoreError
from alance.format.proto import table_pb2
from alance.io.loop.background import LOCAL_GRACE_S

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.ops.version.snapshot import Snapshot

T = TypeVar("T")

CHECKPOINT_BUSY_S: Final = 30.0  # seconds to wait for a lock of another process
_CREATE_TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS fragments (job TEXT, fragment_id INTEGER, source TEXT, "
    "file BLOB, PRIMARY KEY (job, fragment_id)) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS batches (job TEXT, fragment_id INTEGER, source TEXT, "
    "start INTEGER, num_rows INTEGER, result BLOB, PRIMARY KEY (job, fragment_id, start))",
)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Checkpoint in a SQLite file on a local disk. Each call opens the file in a thread.

    Attributes:
        path: path of the file.
        job: hash of the table's location, the new columns and the columns read.
        snapshot: version of the table.
    """

    path: str
    job: str
    snapshot: Snapshot

    @classmethod
    async def open(
        cls, path: str, snapshot: Snapshot, output: pa.Schema, columns: Sequence[str] | None
    ) -> Checkpoint:
        """Open the file, or create it.

        Raises:
            InvalidInputError: the file is not a SQLite database, or cannot be created.
        """
        place = snapshot.table.new_data_file("")
        parts = [place.encode(), output.serialize().to_pybytes(), repr(columns).encode()]
        job = hashlib.sha256(b"\0".join(parts)).hexdigest()
        checkpoint = cls(path, job, snapshot)
        try:
            await checkpoint._run(
                lambda database: [database.execute(text) for text in _CREATE_TABLES]
            )
        except StoreError as error:
            raise InvalidInputError(f"checkpoint_file {path!r}: {error}") from error
        return checkpoint

    async def find(self, fragment_id: int, source: str) -> table_pb2.DataFile | None:
        """Return the record of a finished fragment's file; None if there is no such file.

        Cost: a HEAD of the file, if there is a record.
        """
        content = await self._value(
            "SELECT file FROM fragments WHERE job = ? AND fragment_id = ? AND source = ?",
            (self.job, fragment_id, source),
        )
        if content is None:
            return None
        record = table_pb2.DataFile.FromString(content)
        location = self.snapshot.table.new_data_file(record.path)
        store, path = self.snapshot.engine.registry.resolve(location)
        with suppress(NotFoundError):
            if await store.size(path) == record.file_size_bytes:
                return record
        return None

    async def add(self, fragment_id: int, source: str, file: table_pb2.DataFile) -> None:
        """Record that a fragment is finished, and drop its batches."""
        row = (self.job, fragment_id, source, file.SerializeToString())

        def store(database: sqlite3.Connection) -> None:
            database.execute("INSERT OR REPLACE INTO fragments VALUES (?, ?, ?, ?)", row)
            database.execute("DELETE FROM batches WHERE job = ? AND fragment_id = ?", row[:2])

        await self._run(store)

    async def find_batch(
        self, fragment_id: int, source: str, start: int, num_rows: int
    ) -> pa.RecordBatch | None:
        """Return the stored result for a span of a fragment's live rows; None if there is none."""
        content = await self._value(
            "SELECT result FROM batches WHERE job = ? AND fragment_id = ? AND source = ? "
            "AND start = ? AND num_rows = ?",
            (self.job, fragment_id, source, start, num_rows),
        )
        return None if content is None else next(iter(pa.ipc.open_stream(content)))

    async def add_batch(
        self, fragment_id: int, source: str, start: int, result: pa.RecordBatch
    ) -> None:
        """Store the result for a span of live rows."""

        def store(database: sqlite3.Connection) -> None:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, result.schema) as writer:
                writer.write_batch(result)
            row = (self.job, fragment_id, source, start, result.num_rows, sink.getvalue())
            database.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?, ?, ?)", row)

        await self._run(store)

    async def remove(self) -> None:
        """Remove the file after the version was committed."""

        def remove() -> None:
            with suppress(FileNotFoundError):
                os.remove(self.path)

        await asyncio.to_thread(remove)

    async def _value(self, query: str, values: tuple[str | int, ...]) -> bytes | None:
        """Return the only column of a query's first row; None if there is no row."""
        row = await self._run(lambda database: database.execute(query, values).fetchone())
        return None if row is None else row[0]

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with (
                closing(sqlite3.connect(self.path, timeout=CHECKPOINT_BUSY_S)) as database,
                database,
            ):
                return work(database)

        try:
            background = self.snapshot.engine.background
            return await background.to_the_end(
                asyncio.to_thread(run), 2 * CHECKPOINT_BUSY_S, LOCAL_GRACE_S
            )
        except sqlite3.Error as error:
            raise StoreError(f"checkpoint {self.path!r}: {error}") from error

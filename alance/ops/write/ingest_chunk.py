"""Rows of one commit of a stream: their files, and the notes in the transaction."""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import TYPE_CHECKING

from alance.checks import check_count
from alance.errors import InvalidInputError
from alance.ops.write.append import commit_append
from alance.ops.write.files import DataFiles
from alance.records import dataclass
from alance.versioning.outcome import may_be_visible
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.format.table.manifest import Manifest
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.ingest_options import IngestOptions
    from alance.session import Session
    from alance.versioning.table import Table


@dataclass(frozen=True, slots=True)
class Item:
    """Batches of one `write`, which are committed together.

    Attributes:
        number: number of the item in the stream, from 1.
        token, sequence: identification of the item by the producer.
        accepted: event loop time of its acceptance.
    """

    number: int
    batches: tuple[pa.RecordBatch, ...]
    num_rows: int
    num_bytes: int
    token: str | None = None
    sequence: int | None = None
    accepted: float = 0.0


@dataclass(slots=True)
class Chunk:
    """Rows of one commit. For one task at a time.

    Attributes:
        base: a version with a matching schema.
        previous: number of the producer's last batch before the chunk.
        begun: event loop time of the first write.
        accepted: event loop time at which the first row was accepted.
        file_begun: event loop time of the first row of the current file; None: no current file.
        last_item: number of the last item.
    """

    session: Session
    table: Table
    base: Manifest
    options: IngestOptions
    previous: int
    accepted: float
    begun: float = field(init=False)
    file_begun: float | None = field(default=None, init=False)
    last_item: int = field(default=0, init=False)
    num_rows: int = field(default=0, init=False)
    _files: DataFiles = field(init=False)
    _tokens: set[str] = field(default_factory=set, init=False)
    _last: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.begun = asyncio.get_running_loop().time()
        self._last = self.previous
        writing = self.options.writing({})
        self._files = DataFiles(
            self.session,
            self.table,
            self.base.schema,
            writing.version_for(self.base),
            writing.limits,
            buffer_bytes=max(1, self.options.max_buffer_bytes // 2),
            bases=self.base.base_paths,
        )

    @property
    def num_files(self) -> int:
        """Number of files started."""
        return self._files.num_files

    @property
    def last_sequence(self) -> int:
        """Number of the producer's last batch in the chunk, or before it."""
        return self._last

    async def write(self, item: Item) -> None:
        """Write rows to files.

        Raises:
            InvalidInputError: values that the format cannot hold.
            StoreError: the store failed.
        """
        for batch in item.batches:
            before = self._files.num_files
            await self._files.write(batch)
            if self.file_begun is None or self._files.num_files > before:
                self.file_begun = asyncio.get_running_loop().time()
        self.num_rows += item.num_rows
        self.last_item = item.number
        if item.token is not None:
            self._tokens.add(item.token)
        if item.sequence is not None:
            self._last = item.sequence

    async def cut(self) -> None:
        """End the current file."""
        self.file_begun = None
        await self._files.cut()

    def due_at(self) -> float | None:
        """Return the event loop time at which the commit is due; None: no time is set."""
        options = self.options
        if (options.commit_rows is not None and self.num_rows >= options.commit_rows) or (
            options.commit_bytes is not None and self._files.num_bytes >= options.commit_bytes
        ):
            return self.begun
        return None if options.commit_interval is None else self.begun + options.commit_interval

    def cut_at(self) -> float | None:
        """Return the event loop time at which the current file is to end; None: no time is set."""
        age = self.options.max_file_age
        return None if age is None or self.file_begun is None else self.file_begun + age

    async def commit(self) -> Snapshot:
        """Commit the version. On failure the files are removed unless the version may be visible.

        Raises:
            CommitConflictError: a newer version has the same batches, or other columns.
            CommitStateUnknownError, StoreError: see `versioning.commit`.
        """
        producers = {}
        if self.options.producer is not None and self._last > self.previous:
            producers[self.options.producer] = (self.previous, self._last)
        notes = Notes(frozenset(self._tokens), producers)
        try:
            fragments = await self._files.seal()
            return await commit_append(
                self.session,
                self.table,
                self.base,
                self._files,
                fragments,
                self.options.writing(notes.properties()),
            )
        except BaseException as error:
            if not may_be_visible(error):
                await self.discard()
            raise

    async def discard(self) -> None:
        """Remove the files."""
        await self._files.discard()


def checked_sequence(sequence: int | None, producer: str | None) -> None:
    """Check the sequence number of a batch.

    Raises:
        InvalidInputError: not a positive number, or the sink has no producer.
    """
    if sequence is None:
        return
    if producer is None:
        raise InvalidInputError(f"sequence={sequence}: the sink was opened without `producer`")
    check_count("sequence", sequence)

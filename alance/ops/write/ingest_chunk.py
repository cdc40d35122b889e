"""Rows of one commit of a stream: their files, and the producers' notes in the transaction."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from alance.base.checks import check_count
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.ops.write.append import commit_append, queue_of
from alance.ops.write.files import DataFiles
from alance.versioning.outcome import may_be_visible
from alance.versioning.tokens import Notes

if TYPE_CHECKING:
    from typing import Any

    import pyarrow as pa

    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.ingest_options import IngestOptions
    from alance.versioning.group_queue import GroupQueue


@dataclass(frozen=True, slots=True)
class Item:
    """Batches of one `write`, which are committed together.

    Attributes:
        number: number of the item in the stream, from 1.
        batches: rows with the table's columns, or some of them in a stream of changes.
        deleted: keys of the rows to delete, in a stream of changes, before the rows are upserted.
            Each key of the item occurs once in `batches`, and once here.
        num_rows: number of rows and keys that were written.
        token, sequence: identification of the item by the producer; None: not set.
        accepted: event loop time at which the item was accepted.
    """

    number: int
    batches: tuple[pa.RecordBatch, ...]
    num_rows: int
    num_bytes: int
    token: str | None = None
    sequence: int | None = None
    accepted: float = 0.0
    deleted: tuple[pa.RecordBatch, ...] = ()


class Chunk(ABC):
    """Rows of one commit. For one task at a time.

    Args:
        base: a version with a matching schema.
        previous: number of the producer's last batch before the chunk.
        accepted: event loop time at which the first row was accepted.

    Attributes:
        begun: event loop time of the first write.
        last_item: number of the last item.
        last_sequence: number of the producer's last batch in the chunk; `previous` if there is
            none.
    """

    def __init__(
        self, base: Snapshot, options: IngestOptions, previous: int, accepted: float
    ) -> None:
        self.base = base
        self.options = options
        self.accepted = accepted
        self.begun = asyncio.get_running_loop().time()
        self.last_item = 0
        self.last_sequence = previous
        self.num_rows = 0
        self._previous = previous
        self._tokens: set[str] = set()

    @property
    @abstractmethod
    def num_files(self) -> int:
        """Number of data files, once the chunk is committed."""

    @property
    @abstractmethod
    def num_bytes(self) -> int:
        """Bytes of the chunk so far; a commit is due at `commit_bytes`."""

    @property
    @abstractmethod
    def queue(self) -> GroupQueue[Any]:
        """Queue in which the commit waits for its version."""

    @property
    def held_bytes(self) -> int:
        """Bytes of rows that the chunk holds in memory until its commit ends."""
        return 0

    async def write(self, item: Item) -> None:
        """Add an item.

        Raises:
            InvalidInputError: the format cannot hold a value.
            StoreError: the store failed.
        """
        await self._add(item)
        self.num_rows += item.num_rows
        self.last_item = item.number
        if item.token is not None:
            self._tokens.add(item.token)
        if item.sequence is not None:
            self.last_sequence = item.sequence

    def due_at(self) -> float | None:
        """Return the event loop time at which the commit is due; None if no time is set."""
        options = self.options
        if (options.commit_rows is not None and self.num_rows >= options.commit_rows) or (
            options.commit_bytes is not None and self.num_bytes >= options.commit_bytes
        ):
            return self.begun
        return None if options.commit_interval is None else self.begun + options.commit_interval

    def notes(self) -> Notes:
        """Return the notes for the transaction: tokens and the producer's numbers of the chunk."""
        producers = {}
        if self.options.producer is not None and self.last_sequence > self._previous:
            producers[self.options.producer] = (self._previous, self.last_sequence)
        return Notes(frozenset(self._tokens), producers)

    def cut_at(self) -> float | None:
        """Return the loop time at which the current file has to end; None: no time is set."""
        return None

    async def cut(self) -> None:  # noqa: B027 - there may be no file before the commit
        """End the current file."""

    async def discard(self) -> None:  # noqa: B027 - as above
        """Remove the files of an uncommitted chunk."""

    @abstractmethod
    async def commit(self) -> Snapshot:
        """Commit the version. After a failure the files are removed unless the version may exist.

        Raises:
            CommitConflictError: a newer version has the same batches, or other columns.
            CommitStateUnknownError, StoreError: see `versioning.commit`.
        """

    @abstractmethod
    async def _add(self, item: Item) -> None:
        """Add the rows of an item."""


class AppendChunk(Chunk):
    """Rows to append, which are written to files at once."""

    def __init__(
        self, base: Snapshot, options: IngestOptions, previous: int, accepted: float
    ) -> None:
        super().__init__(base, options, previous, accepted)
        self._file_begun: float | None = None  # time of the current file's first row
        writing = options.writing({})
        self._files = DataFiles(
            base.session,
            base.table,
            base.schema,
            writing.version_for(base.manifest),
            writing.limits,
            buffer_bytes=max(1, options.max_buffer_bytes // 2),
            bases=base.manifest.base_paths,
        )

    @property
    def num_files(self) -> int:
        """Number of files started."""
        return self._files.num_files

    @property
    def num_bytes(self) -> int:
        """Bytes of the files."""
        return self._files.num_bytes

    @property
    def queue(self) -> GroupQueue[Any]:
        """Queue of the session's appends to the table."""
        return queue_of(self.base.session, self.base.table)

    async def _add(self, item: Item) -> None:
        for batch in item.batches:
            before = self._files.num_files
            await self._files.write(batch)
            if self._file_begun is None or self._files.num_files > before:
                self._file_begun = asyncio.get_running_loop().time()

    async def cut(self) -> None:
        """End the current file."""
        self._file_begun = None
        await self._files.cut()

    def cut_at(self) -> float | None:
        """Return the loop time at which the current file has to end; None: no time is set."""
        age = self.options.max_file_age
        return None if age is None or self._file_begun is None else self._file_begun + age

    async def commit(self) -> Snapshot:
        """Commit the version. After a failure the files are removed unless the version may exist.

        Raises:
            CommitConflictError: a newer version has the same batches, or other columns.
            CommitStateUnknownError, StoreError: see `versioning.commit`.
        """
        base = self.base
        try:
            fragments = await self._files.seal()
            return await commit_append(
                base.session,
                base.table,
                base.manifest,
                self._files,
                fragments,
                self.options.writing(self.notes().properties()),
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
        InvalidInputError: the number is not positive, or the sink has no producer.
    """
    if sequence is None:
        return
    if producer is None:
        raise InvalidInputError(f"sequence={sequence}: the sink was opened without `producer`")
    check_count("sequence", sequence)

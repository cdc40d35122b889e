"""Stream of batches into a table: a buffer, a task that writes files, and periodic commits.

    write()  ->  buffer (bounded)  ->  files of the current chunk  ->  commit queue of the table
                                       cut by rows, bytes, age         one chunk at a time

The next chunk is written during the commit of the previous one. Rows leave the buffer when the
file's writer accepts them. The writer holds at most the same number of bytes, until their pages are
full.

In a stream of changes, a chunk holds its rows in memory until its commit, which is a merge, has
ended. Only then do they leave the buffer. The commit is due as soon as a write waits for room.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError
from alance.file.write.small_batches import PAUSED_COLUMNS, BatchSizes
from alance.io.events import observing
from alance.io.events.observing import Reading
from alance.ops.write.ingest_chunk import AppendChunk, Item, checked_sequence
from alance.ops.write.ingest_history import read_history
from alance.ops.write.ingest_options import IngestMetrics
from alance.versioning.outcome import may_be_visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from alance.format.table.naming import NamingScheme
    from alance.ops.version.snapshot import Snapshot
    from alance.ops.write.ingest_chunk import Chunk
    from alance.ops.write.ingest_options import IngestOptions

SETTLE_S: Final = 10.0  # seconds to wait for a commit under way when the sink is aborted
MAX_TOKENS: Final = 1 << 20  # remembered tokens of a sink's own batches


class Ingest:
    """Writer task of `alance.ingest` for an existing table. Starts at once.

    Args:
        snapshot: the version to append to.
        last_sequence: number of the producer's last batch in the table.
        scheme: naming scheme of the manifests.
        new_chunk: creates chunks, with the arguments of `Chunk`.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        options: IngestOptions,
        last_sequence: int,
        scheme: NamingScheme,
        new_chunk: Callable[[Snapshot, IngestOptions, int, float], Chunk] = AppendChunk,
    ) -> None:
        self.schema: pa.Schema = snapshot.schema.to_arrow()
        self.last = snapshot
        self.last_sequence = last_sequence  # of committed batches
        self._options = options
        self._accepted_sequence = last_sequence
        self._written_sequence = last_sequence
        self._scheme = scheme
        self._room = max(1, options.max_buffer_bytes - options.max_buffer_bytes // 2)
        self._new_chunk = new_chunk
        self._is_full = False  # True while a write waits for room
        self._tokens: dict[str, None] | None = None  # in order; None: not yet read
        self._turn = asyncio.Lock()  # orders calls of write
        self._sizes = BatchSizes()
        self._items: deque[Item] = deque()
        self._num_items = 0
        self._num_rows = self._num_bytes = self._num_skipped = 0  # totals of accepted rows
        self._buffered_bytes = 0
        self._rarely = IngestMetrics()  # counters that rarely change: waits, versions
        self.on_commit: Callable[[Snapshot], object] | None = None  # called with each new version
        self._committed_items = 0
        self._flush_to = 0
        self._is_closing = False
        self._error: BaseException | None = None
        self._wake = asyncio.Event()  # wakes the worker
        self._moved = asyncio.Event()  # set when something left the buffer, was committed or failed
        self._chunk: Chunk | None = None
        self._committing: asyncio.Task[None] | None = None
        self._committed_chunk: Chunk | None = None  # chunk of that task
        self._open_chunk: Chunk | None = None  # its failed commit may have created its version
        self._worker = asyncio.create_task(self._work())
        self._clock = asyncio.get_running_loop().time
        observing.show(self)

    async def write(
        self,
        batches: tuple[pa.RecordBatch, ...],
        token: str | None,
        sequence: int | None,
        deleted: tuple[pa.RecordBatch, ...] = (),
        num_rows: int | None = None,
    ) -> bool:
        """Accept rows with the table's schema; wait for room. Returns False for a repetition.

        Args:
            deleted: keys of the rows to delete, in a stream of changes; see `Item`.
            num_rows: number of rows for the metrics; None: the number of rows in the batches.

        Raises:
            InvalidInputError: the sink is closed, or the sequence number is invalid.
            AlanceError: an earlier failure, after which nothing is written.
        """
        checked_sequence(sequence, self._options.producer)
        async with self._turn:
            # a producer that never waits must not block the event loop
            await self.last.engine.pool.share_turn()
            self._check()
            num_bytes = await self.last.engine.pool.run(
                lambda: sum([self._sizes.of(batch) for batch in (*batches, *deleted)]),
                inline=sum([own.num_columns for own in (*batches, *deleted)]) <= PAUSED_COLUMNS,
            )
            if token is not None and self._tokens is None:
                self._tokens = await self._read_tokens()
            self._check()  # it may have been closed meanwhile
            is_known = token is not None and token in (self._tokens or ())
            if is_known or (sequence is not None and sequence <= self._accepted_sequence):
                self._num_skipped += 1
                return False
            await self._wait_for_room(num_bytes)
            if sequence is None and self._options.producer is not None:
                sequence = self._accepted_sequence + 1
            if num_rows is None:
                num_rows = sum(batch.num_rows for batch in batches)
            self._num_items += 1
            self._accept(
                Item(
                    self._num_items,
                    batches,
                    num_rows,
                    num_bytes,
                    token,
                    sequence,
                    self._clock(),
                    deleted,
                )
            )
        return True

    @property
    def metrics(self) -> IngestMetrics:
        """Counters of the stream so far."""
        return replace(
            self._rarely,
            num_rows=self._num_rows,
            num_bytes=self._num_bytes,
            num_skipped=self._num_skipped,
            buffered_bytes=self._buffered_bytes,
        )

    def readings(self) -> Iterator[Reading]:
        """Yield metrics: age of the oldest row without a version, buffered bytes, accepted rows."""
        chunk = self._committed_chunk or self._chunk
        oldest = chunk.accepted if chunk is not None else None
        if oldest is None and self._items:
            oldest = self._items[0].accepted
        lag = 0.0 if oldest is None or self._error is not None else self._clock() - oldest
        yield Reading("ingest_lag_seconds", self.last.uri, lag)
        yield Reading("ingest_buffered_bytes", self.last.uri, self._buffered_bytes)
        yield Reading("ingest_rows_total", self.last.uri, self._num_rows)

    async def flush(self) -> Snapshot:
        """Commit all rows accepted before the call; return a version that contains them.

        Raises:
            AlanceError: a failure in the background, after which nothing is written.
        """
        target = self._num_items
        self._flush_to = max(self._flush_to, target)
        self._wake.set()
        while self._committed_items < target:
            self._check_error()
            await self._until_moved()
        return self.last

    async def close(self) -> Snapshot:
        """Commit everything and stop.

        Raises:
            AlanceError: a failure in the background, after which nothing is written.
        """
        self._is_closing = True
        try:
            snapshot = await self.flush()
            self._wake.set()
            await asyncio.wait([self._worker])
            self._check_error()
            return snapshot
        except BaseException:
            await self.abort()
            raise

    async def abort(self) -> None:
        """Stop, and remove uncommitted files. May be called twice."""
        self._is_closing = True
        self._items.clear()
        self._fail(InvalidInputError("the sink was aborted"))
        self._worker.cancel()
        await asyncio.gather(self._worker, return_exceptions=True)

    def _check(self) -> None:
        self._check_error()
        if self._is_closing:
            raise InvalidInputError(f"dataset {self.last.uri!r}: the sink is closed")

    def _check_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _fail(self, error: BaseException) -> None:
        if self._error is None:
            is_ours = isinstance(error, Exception)
            self._error = error if is_ours else InvalidInputError("the sink was aborted")
        self._wake.set()
        self._moved.set()

    async def _until_moved(self) -> None:
        self._moved.clear()
        await self._moved.wait()

    async def _wait_for_room(self, num_bytes: int) -> None:
        """Wait until the buffer has room; a batch larger than the buffer is buffered alone."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        has_waited = False
        try:
            while self._buffered_bytes and self._buffered_bytes + num_bytes > self._room:
                has_waited = self._is_full = True
                self._wake.set()
                await self._until_moved()
                self._check()
        finally:
            self._is_full = False
        if has_waited:
            metrics = self._rarely
            self._rarely = replace(
                metrics,
                num_waits=metrics.num_waits + 1,
                waited_s=metrics.waited_s + clock() - begun,
            )

    def _accept(self, item: Item) -> None:
        self._items.append(item)
        if item.token is not None and self._tokens is not None:
            self._tokens[item.token] = None
            if len(self._tokens) > MAX_TOKENS:
                del self._tokens[next(iter(self._tokens))]
        if item.sequence is not None:
            self._accepted_sequence = item.sequence
        self._num_rows += item.num_rows
        self._num_bytes += item.num_bytes
        self._buffered_bytes += item.num_bytes
        self._wake.set()

    async def _read_tokens(self) -> dict[str, None]:
        last = self.last
        history = await read_history(
            last.engine, last.table, last.manifest, self._scheme, self._options.history, None
        )
        return dict.fromkeys(history.tokens)

    async def _work(self) -> None:
        """Write buffered rows; end files and commit versions when they are due."""
        try:
            while not self._is_done():
                self._wake.clear()
                while self._items:
                    await self._write(self._items[0])
                    await self._see_to_time()
                await self._see_to_time()
                if not self._is_done():
                    await self._sleep()
        except BaseException as error:
            self._fail(error)
        finally:
            if self._error is not None:
                await self.last.engine.background.discard(self._drop(), self.last.table.store)
            self._moved.set()

    def _is_done(self) -> bool:
        self._check_error()
        return self._is_closing and self._committed_items == self._num_items

    async def _write(self, item: Item) -> None:
        if self._chunk is None:
            self._chunk = self._new_chunk(
                self.last, self._options, self._written_sequence, item.accepted
            )
        held_bytes = self._chunk.held_bytes
        await self._chunk.write(item)
        self._written_sequence = self._chunk.last_sequence
        self._items.popleft()
        self._buffered_bytes += self._chunk.held_bytes - held_bytes - item.num_bytes
        self._moved.set()

    async def _see_to_time(self) -> None:
        """End the file and start a commit if they are due."""
        self._check_error()
        chunk = self._chunk
        if chunk is None:
            return
        now = asyncio.get_running_loop().time()
        cut_at = chunk.cut_at()
        if cut_at is not None and cut_at <= now:
            await chunk.cut()
        due_at = chunk.due_at()
        is_due = (due_at is not None and due_at <= now) or (self._is_full and chunk.held_bytes)
        is_flushed = chunk.last_item >= self._flush_to > self._committed_items
        if (is_due or is_flushed) and self._committing is None:
            self._chunk = None
            self._committed_chunk = chunk
            self._committing = asyncio.create_task(self._commit(chunk))

    async def _sleep(self) -> None:
        """Wait until there is something in the buffer, or something is due."""
        chunk = self._chunk
        times = [] if chunk is None else [chunk.cut_at()]
        if chunk is not None and self._committing is None:
            times.append(chunk.due_at())
        until = min((time for time in times if time is not None), default=None)
        with suppress(TimeoutError):
            async with asyncio.timeout_at(until):
                await self._wake.wait()

    async def _commit(self, chunk: Chunk) -> None:
        try:
            snapshot = await chunk.commit()
        except BaseException as error:
            self._open_chunk = chunk if may_be_visible(error) else None
            self._fail(error)
            return
        finally:
            self._committing = self._committed_chunk = None
        self._buffered_bytes -= chunk.held_bytes
        self.last = snapshot
        self.last_sequence = chunk.last_sequence
        self._committed_items = chunk.last_item
        metrics = self._rarely
        self._rarely = replace(
            metrics,
            num_files=metrics.num_files + chunk.num_files,
            num_commits=metrics.num_commits + 1,
            committed_rows=metrics.committed_rows + chunk.num_rows,
            last_version=snapshot.version,
        )
        if self.on_commit is not None:
            self.on_commit(snapshot)
        self._wake.set()
        self._moved.set()

    async def _drop(self) -> None:
        """Remove uncommitted files; wait for a commit under way, at most `SETTLE_S`."""
        committing, chunk = self._committing, self._chunk
        if committing is not None:
            committing.cancel()
            await asyncio.gather(committing, return_exceptions=True)
        if chunk is not None:
            await chunk.discard()
        if self._open_chunk is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(SETTLE_S):
                    await self._open_chunk.queue.aclose()

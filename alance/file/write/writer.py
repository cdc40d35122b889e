"""Base class of the writers of data files, for all file versions.

Batches wait until there are enough rows for the encoder, and rows wait until a page is full.
Threads encode pages, and the bytes are passed to the upload. Memory use: the waiting rows, up to a
budget, and the bytes being uploaded. If a file has only small batches, a single job encodes it.
That job runs the writer without threads, uploads or waiting (`without_waiting`).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from dataclasses import field
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar, cast

import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file.budgets import PAGE_BYTES, buffer_bytes_for
from alance.file.write.small_batches import SmallBatches, merged
from alance.file_version import FileVersion
from alance.format.encode.options import FieldOptions
from alance.format.encode.rows import join, split, values_bytes
from alance.format.numbers import storage_of
from alance.format.plans import answered
from alance.io.loop.tasks import all_of
from alance.io.reading.pool import DecodePool
from alance.io.stores.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence

    from alance.base.arrays import Bytes
    from alance.file.write.blob_placer import Sidecars
    from alance.format.encode.small_file import SmallFiles
    from alance.format.encode.statistics import NewStatistics
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn
    from alance.format.schema import Schema
    from alance.io.stores.store import Body


@dataclass(slots=True)
class WaitingColumn:
    """Column with the rows for its next page."""

    number: int
    root: Field
    leaf: LeafColumn
    statistics: NewStatistics | None = None
    parts: list[PageValues] = field(default_factory=list)
    num_bytes: int = 0

    def add(self, values: PageValues) -> None:
        """Add rows."""
        if values.num_rows:
            self.parts.append(values)
            self.num_bytes += values_bytes(values)

    def take(self, page_bytes: int) -> list[PageValues]:
        """Remove the waiting rows, and return them in pieces of about a page.

        Also adds the rows to the statistics. CPU work.
        """
        if not self.parts:
            return []
        joined = join(self.parts)
        self.parts, self.num_bytes = [], 0
        if self.statistics is not None:
            try:
                self.statistics.add(self.number, joined)
            except ValueError as error:
                raise InvalidInputError(f"field {self.leaf.field.name!r}: {error}") from error
        return split(joined, page_bytes, multiple=self.leaf.multiplier)


class Waiting(Protocol):
    """Interface of columns with waiting rows."""

    num_bytes: int


W = TypeVar("W", bound=Waiting)
NUM_BYTES_OF: Final = attrgetter("num_bytes")


def largest(waiting: Sequence[W], buffer_bytes: int | None) -> list[W]:
    """Return the largest columns if the budget is exceeded; writing them frees half of the budget.

    Returns an empty list if the budget is not exceeded.
    """
    if buffer_bytes is None:
        buffer_bytes = buffer_bytes_for(len(waiting))
    num_bytes = sum(column.num_bytes for column in waiting)
    if num_bytes <= buffer_bytes:
        return []
    chosen = []
    for column in sorted(waiting, key=lambda column: -column.num_bytes):
        if num_bytes <= buffer_bytes // 2:
            break
        chosen.append(column)
        num_bytes -= column.num_bytes
    return chosen


HELD_BYTES: Final = 64 << 10  # bytes of other memory that a small column may keep alive
STEP_BYTES: Final = 32 << 20  # bytes of a batch to encode at a time


def steps(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch to encode one by one, which limits the bytes that wait."""
    rows = batch.num_rows
    parts = max(1, -(-batch.nbytes // STEP_BYTES))
    step = max(1, -(-rows // parts))
    for start in range(0, rows, step):
        yield batch.slice(start, step)


def owned(array: pa.Array) -> pa.Array:
    """Return an array to buffer: a copy if the array keeps much more memory alive than its own.

    A column of a batch from IPC keeps the whole batch alive, and a slice keeps its whole parent
    alive.
    """
    held: dict[int, int] = {}
    for buffer in array.buffers():
        whole = buffer
        while whole is not None and whole.parent is not None:
            whole = whole.parent
        if whole is not None:
            held[whole.address] = whole.size
    if sum(held.values()) <= 2 * array.nbytes + HELD_BYTES:
        return array
    return pa.concat_arrays([array])


def joined(parts: Sequence[pa.Array], where: str = "") -> pa.Array:
    """Concatenate rows to one array of a storage type.

    Args:
        parts: one or more; parts of other types are cast to the first part's type.
        where: prefix of an error's message.

    Raises:
        InvalidInputError: the rows do not fit into one array, or cannot be cast to the first part's
            type.
    """
    plain = [storage_of(part) for part in parts]
    if len(plain) == 1:
        return plain[0]
    try:
        if len({part.type for part in plain}) > 1:
            plain = [part.cast(plain[0].type) for part in plain]
        return pa.concat_arrays(plain)
    except pa.ArrowException as error:
        raise InvalidInputError(f"{where}rows of {plain[0].type}: {error}") from error


T = TypeVar("T")


class Here(DecodePool):
    """Pool that runs the work in the caller's thread."""

    def __init__(self) -> None:
        super().__init__(1)

    async def run(
        self, work: Callable[[], T], *, inline: bool = True, is_decoding: bool = False
    ) -> T:
        return work()

    async def share_turn(self) -> None:
        """Do nothing, because there is no event loop."""


class BufferUpload(Upload):
    """Upload that collects the bytes in memory."""

    def __init__(self, where: str = "memory") -> None:
        super().__init__(where)
        self._chunks: list[Body] = []

    async def write(self, buffer: Body | Bytes) -> None:
        """Store a buffer without copying."""
        self._chunks.append(cast("Body", buffer))

    def content(self) -> bytes:
        """Return all written bytes."""
        return b"".join(self._chunks)

    async def _advance(self) -> None:
        """Do nothing, because no upload is running."""

    async def _publish(self) -> None:
        """Do nothing, because the bytes are in memory."""

    async def _drop(self) -> None:
        """Do nothing, because the bytes are freed with the object."""


def without_waiting(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    return answered(work.__await__(), _never)


def _never(_: object) -> Sequence[memoryview]:
    raise AssertionError("a writer without threads and without an upload has waited")


def check_version(version: FileVersion, leaves: Iterable[Field]) -> None:
    """Check that files of a version can hold the leaves.

    Warns if later releases may not be able to read the version, and about values of metadata that
    are clamped or ignored.

    Raises:
        InvalidInputError: files of this version cannot hold a leaf's version of blobs.
    """
    for leaf in leaves:
        for text in FieldOptions.doubtful(leaf.metadata):
            warnings.warn(f"field {leaf.name!r}: metadata {text}", stacklevel=4)
        if leaf.is_blob_v2 and version < FileVersion.V2_2:
            raise InvalidInputError(
                f"field {leaf.name!r}: blobs of version 2 in a file of {version.value}; "
                "expected version 2.2 or later"
            )
        if leaf.is_blob_v1 and version >= FileVersion.V2_3:
            raise InvalidInputError(
                f"field {leaf.name!r}: blobs of version 1 in a file of {version.value}, "
                "which has those of version 2 alone"
            )
    if version >= FileVersion.V2_3:
        warnings.warn(
            f"file version {version.value} is unstable: later releases of Lance may not read it",
            stacklevel=4,  # points to the code that creates the writer
        )


# Maximum columns of a batch whose size the event loop asks for, at 3 us each.
MEASURED_COLUMNS: Final = 256
# Maximum rows of a file that the event loop encodes, in less time than a hop takes.
QUICK_ROWS: Final = 99
# Maximum columns of a file that the event loop encodes, at 5 microseconds each.
QUICK_COLUMNS: Final = 64


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Description of a finished data file.

    Attributes:
        num_bytes: exact size of the file.
        columns: column number of each field, by field id.
    """

    num_rows: int
    num_bytes: int
    columns: dict[int, int]


class DataFileWriter(ABC):
    """Writer of a data file. For a single task at a time; after an error, only `abort` is allowed.

    Methods raise `InvalidInputError` if the format cannot hold a value, and `StoreError` if the
    upload failed.

    Args:
        upload: the object; `finish` or `abort` ends the upload.
        schema: schema of the file; the file's descriptor stores its field ids.
        version: file version of the writer (`writer_of`); warns for 2.3, which is unstable.
        pool: threads that encode.
        threads: number of threads that may work for this file at once.
        page_bytes: maximum bytes of a page's values before encoding.
        buffer_bytes: maximum bytes of rows that wait for pages; None for `buffer_bytes_for`.
        statistics: True to write statistics of zones of rows, except in 2.0; see
            docs/statistics.md.

    Attributes:
        num_rows: rows written so far.
        is_small: True if `encode` is allowed, because nothing of the file has been encoded yet.

    Raises:
        UnsupportedError: alance does not write the version, or its files cannot hold a type.
    """

    _plain: SmallFiles | None = None  # encoder of whole small files of plain columns

    def __init__(
        self,
        upload: Upload,
        schema: Schema,
        version: FileVersion,
        pool: DecodePool,
        *,
        threads: int = 2,
        page_bytes: int = PAGE_BYTES,
        buffer_bytes: int | None = None,
        statistics: bool = True,
    ) -> None:
        self._upload = upload
        self._sink = upload  # destination of encoded bytes
        self._schema = schema
        self._version = version
        self._pool = pool
        self._threads = max(1, threads)
        self._page_bytes = page_bytes
        self._buffer_bytes = buffer_bytes
        self._has_statistics = statistics
        self.num_rows = 0
        self._small = SmallBatches()
        self.is_small = True
        self._encoded_bytes = 0
        self._extra_buffers: list[Bytes] = []
        self._begin()

    @abstractmethod
    def _begin(self) -> None:
        """Set up the state of an empty file."""

    def attach(self, sidecars: Sidecars) -> None:
        """Set the sidecars for version 2 blobs; without them, all blobs must be stored already.

        Raises:
            InvalidInputError: files of this version have no such blobs.
        """
        raise InvalidInputError(f"files of {self._version.value} have no blobs of version 2")

    def add_buffer(self, content: Bytes) -> None:
        """Add a global buffer, to be written after all pages. The first one has number 1."""
        self._extra_buffers.append(content)

    @property
    def num_bytes(self) -> int:
        """Encoded bytes so far, plus the unencoded bytes of waiting rows."""
        return self._encoded_bytes + self._small.num_bytes

    async def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            batch: a column for each field of the schema, by position; its type can be cast to the
                field's.

        Raises:
            InvalidInputError: the number of columns is wrong.
        """
        if batch.num_columns != len(self._schema.fields):
            raise InvalidInputError(
                f"a batch of {batch.num_columns} columns for {len(self._schema.fields)} fields"
            )
        if not batch.num_rows:
            return
        if batch.num_columns <= MEASURED_COLUMNS:
            leaving = self._small.add(batch)
        else:
            leaving = await self._pool.run(partial(self._small.add, batch))
        self.num_rows += batch.num_rows
        if leaving:
            await self._write_merged(leaving)
        if self._small.are_enough:
            await self._write_merged(self._small.take())
        else:
            await self._pool.share_turn()

    async def finish(self) -> WrittenFile:
        """Write the waiting rows and the end of the file, and make the object visible."""
        written = await self.seal()
        await self.publish()
        return written

    async def seal(self) -> WrittenFile:
        """Pass all bytes to the upload, without making the object visible."""
        if not self.is_small:
            await self._write_merged(self._small.take())
            return await self._seal()
        content, written = await self.encode()
        await self._upload.write(content)
        return written

    async def encode(self) -> tuple[bytes, WrittenFile]:
        """Return the bytes and the record of a file of small batches; no rows may follow.

        Cost: one hop to a thread; none for at most `QUICK_ROWS` rows of plain columns.
        """
        assert self.is_small
        batches = self._small.take()
        is_quick = self.num_rows <= QUICK_ROWS and len(self._schema.fields) <= QUICK_COLUMNS
        if is_quick and self._plain is not None:
            file = self._file_at_once(merged(batches))
            if file is not None:
                await self._pool.share_turn()
                return file
        return await self._pool.run(partial(self._encode_here, batches))

    def _encode_here(self, batches: Sequence[pa.RecordBatch]) -> tuple[bytes, WrittenFile]:
        """Encode rows as a complete file. CPU work."""
        batches = merged(batches)
        file = self._file_at_once(batches)
        if file is None:
            self._pool, self._threads = Here(), 1
            self._sink = pieces = BufferUpload(self._upload.where)
            without_waiting(self._write_merged(batches))
            written = without_waiting(self._seal())
            file = pieces.content(), written
        return file

    def _file_at_once(self, batches: Sequence[pa.RecordBatch]) -> tuple[bytes, WrittenFile] | None:
        """Encode the whole file; None if it has too many rows, or columns are not plain."""
        plain = self._plain
        if plain is None or len(batches) != 1 or self._extra_buffers:
            return None
        if plain.metadata != self._schema.metadata:  # some may have been added with the rows
            return None
        content = plain.encode(batches[0], self._page_bytes, statistics=self._has_statistics)
        if content is None:
            return None
        self.is_small = False
        self._encoded_bytes = len(content)
        columns = {field.id: number for number, field in enumerate(self._schema.fields)}
        return content, WrittenFile(self.num_rows, len(content), columns)

    @abstractmethod
    async def _seal(self) -> WrittenFile:
        """Encode the waiting rows and the end of the file."""

    async def publish(self, content: bytes = b"") -> None:
        """Make the sealed object visible.

        Args:
            content: result of `encode`, if that was called instead of `seal`.
        """
        if content:
            await self._upload.write(content)
        await self._upload.finish()

    async def abort(self) -> None:
        """Abort the upload, so that neither the object nor a part of it stays in the store."""
        await self._upload.abort()

    async def _write_merged(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Merge batches, and pass them to the encoder."""
        if len(batches) > 1:
            batches = await self._pool.run(partial(merged, batches))
        self.is_small = False
        for batch in batches:
            for part in steps(batch):
                await self._write(part)
        self._encoded_bytes = self._bytes_so_far()

    @abstractmethod
    async def _write(self, batch: pa.RecordBatch) -> None:
        """Buffer the rows of a batch of about `STEP_BYTES` at most, and write full pages."""

    @abstractmethod
    def _bytes_so_far(self) -> int:
        """Return the encoded bytes so far, plus the unencoded bytes of rows that wait for pages."""

    async def _in_threads(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Run CPU work in threads; return the results in order. Cost: one hop per thread used."""
        if self._threads == 1:
            return await self._pool.run(lambda: [work() for work in works])
        waiting = deque(enumerate(works))
        results: dict[int, T] = {}

        def help_out() -> None:
            while True:
                try:
                    number, work = waiting.popleft()
                except IndexError:
                    return
                results[number] = work()

        helpers = min(self._threads, len(works))
        try:
            await all_of(self._pool.run(help_out) for _ in range(helpers))
        finally:
            waiting.clear()  # start no other work after a failure or cancellation
        return [results[number] for number in range(len(works))]

    async def _upload_all(self, chunks: Sequence[Bytes]) -> None:
        for chunk in chunks:
            await self._sink.write(chunk)

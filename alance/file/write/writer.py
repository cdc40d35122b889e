"""DataFileWriter: writes batches to one object. This is the part that all file versions share.

Batches wait until the encoder has enough rows, and rows until a page is full. Threads encode pages,
and the bytes go to the upload. Memory holds the waiting rows, up to a budget, and the upload's
bytes under way. If a file has only small batches, one job encodes it completely.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from alance.errors import InvalidInputError
from alance.file.budgets import PAGE_BYTES
from alance.file.write.here import Here, Pieces, without_waiting
from alance.file.write.small_batches import SmallBatches, merged
from alance.file.write.waiting import steps
from alance.file_version import FileVersion
from alance.format.encode.options import FieldOptions
from alance.io.loop.tasks import all_of
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from alance.arrays import Bytes
    from alance.file.write.blob_placer import Sidecars
    from alance.format.field import Field
    from alance.format.schema import Schema
    from alance.io.reading.pool import DecodePool
    from alance.io.stores.upload import Upload


def check_version(version: FileVersion, leaves: Iterable[Field]) -> None:
    """Check the leaves of a new file.

    Warns if later releases may not read the version, and of metadata that are not used as given.

    Raises:
        InvalidInputError: blobs of a version that these files do not have.
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
            stacklevel=4,  # the caller who creates the writer
        )


T = TypeVar("T")
QUICK_ROWS: Final = 99  # rows of a file that the event loop encodes in less time than a hop takes


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A finished data file.

    Attributes:
        num_bytes: exact size of the file.
        columns: number of each field's column, by field id.
    """

    num_rows: int
    num_bytes: int
    columns: dict[int, int]


class DataFileWriter(ABC):
    """Writes one data file. For a single task at a time; after an error it can only be aborted.

    Args:
        upload: the object; ended by `finish` or `abort`.
        schema: schema with the field ids of the file's descriptor.
        version: file version of the writer (`writer_of`); 2.3 is unstable, which warns.
        pool: threads that encode.
        threads: number of threads that may work for this file at once.
        page_bytes: bytes of a page's values before encoding.
        buffer_bytes: bytes of rows that may wait for pages; None: `buffer_bytes_for`.
        statistics: write statistics of zones of rows (not in 2.0): docs/statistics.md.

    Raises:
        UnsupportedError: a version that alance does not write, or types that its files cannot hold.
    """

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
        self._num_rows = 0
        self._small = SmallBatches()
        self._may_be_small = True
        self._encoded_bytes = 0
        self._extra_buffers: list[Bytes] = []
        self._begin(statistics=statistics)

    @abstractmethod
    def _begin(self, *, statistics: bool) -> None:
        """Set up an empty file.

        Raises:
            UnsupportedError: types that files of the version cannot hold.
        """

    def attach(self, sidecars: Sidecars) -> None:
        """Set the sidecars of version 2 blobs; without them all blobs must have their place.

        Raises:
            InvalidInputError: files of this version have no such blobs.
        """
        raise InvalidInputError(f"files of {self._version.value} have no blobs of version 2")

    def add_buffer(self, content: Bytes) -> None:
        """Add a global buffer after all pages; the first one has number 1."""
        self._extra_buffers.append(content)

    @property
    def num_rows(self) -> int:
        """Number of rows written so far."""
        return self._num_rows

    @property
    def num_bytes(self) -> int:
        """Encoded bytes so far, plus unencoded bytes of waiting rows."""
        return self._encoded_bytes + self._small.num_bytes

    async def write(self, batch: pa.RecordBatch) -> None:
        """Add rows.

        Args:
            batch: a column for each field of the schema, by position, of a type that casts to it.

        Raises:
            InvalidInputError: another number of columns, or values that the format cannot hold.
            StoreError: the upload failed.
        """
        if batch.num_columns != len(self._schema.fields):
            raise InvalidInputError(
                f"a batch of {batch.num_columns} columns for {len(self._schema.fields)} fields"
            )
        if not batch.num_rows:
            return
        leaving = self._small.add(batch)
        self._num_rows += batch.num_rows
        if leaving:
            await self._write_merged(leaving)
        if self._small.are_enough:
            await self._write_merged(self._small.take())
        else:
            await self._pool.share_turn()

    async def finish(self) -> WrittenFile:
        """Write the waiting rows and the file's end; the object is visible when this returns.

        Raises:
            InvalidInputError: values that the format cannot hold.
            StoreError: the upload failed.
        """
        written = await self.seal()
        await self.publish()
        return written

    async def seal(self) -> WrittenFile:
        """Pass all bytes to the upload; the object is not visible yet.

        Raises:
            InvalidInputError: values that the format cannot hold.
            StoreError: the upload failed.
        """
        if not self._may_be_small:
            await self._write_merged(self._small.take())
            return await self._seal()
        content, written = await self.encode()
        await self._upload.write(content)
        return written

    async def encode(self) -> tuple[bytes, WrittenFile]:
        """Return all bytes of a file with only small batches; one hop. No row may follow.

        Raises:
            InvalidInputError: values that the format cannot hold.
        """
        assert self._may_be_small
        batches = self._small.take()
        if sum(batch.num_rows for batch in batches) <= QUICK_ROWS and self._is_plain:
            file = self._file_at_once(merged(batches))
            if file is not None:
                await self._pool.share_turn()
                return file
        return await self._pool.run(partial(self._encode_here, batches))

    def _encode_here(self, batches: Sequence[pa.RecordBatch]) -> tuple[bytes, WrittenFile]:
        """Encode rows as a whole file; CPU work."""
        batches = merged(batches)
        file = self._file_at_once(batches)
        if file is None:
            self._pool, self._threads = Here(), 1
            self._sink = pieces = Pieces(self._upload.where)
            without_waiting(self._write_merged(batches))
            written = without_waiting(self._seal())
            file = pieces.content(), written
        return file

    def _file_at_once(self, batches: Sequence[pa.RecordBatch]) -> tuple[bytes, WrittenFile] | None:
        content = self._at_once(batches[0]) if len(batches) == 1 else None
        if content is None:
            return None
        self._may_be_small = False
        self._encoded_bytes = len(content)
        columns = {field.id: number for number, field in enumerate(self._schema.fields)}
        return content, WrittenFile(self._num_rows, len(content), columns)

    @property
    def _is_plain(self) -> bool:
        """True if `_at_once` is fast enough for the event loop."""
        return False

    def _at_once(self, batch: pa.RecordBatch) -> bytes | None:
        """Encode the whole file at once. Returns None if its rows are too many or not plain."""
        return None

    @property
    def is_small(self) -> bool:
        """True if `encode` can return the file: nothing of it has been encoded yet."""
        return self._may_be_small

    @abstractmethod
    async def _seal(self) -> WrittenFile:
        """Encode the waiting rows and the file's end."""

    async def publish(self, content: bytes = b"") -> None:
        """Make the sealed object visible.

        Args:
            content: result of `encode`, if that was called instead of `seal`.

        Raises:
            StoreError: the upload failed.
        """
        if content:
            await self._upload.write(content)
        await self._upload.finish()

    async def abort(self) -> None:
        """Abort the upload: no object, and no part of an object, stays in the store."""
        await self._upload.abort()

    async def _write_merged(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Merge batches and pass them to the encoder."""
        if len(batches) > 1:
            batches = await self._pool.run(partial(merged, batches))
        self._may_be_small = False
        for batch in batches:
            for part in steps(batch):
                await self._write(part)
        self._encoded_bytes = self._bytes_so_far()

    @abstractmethod
    async def _write(self, batch: pa.RecordBatch) -> None:
        """Add rows of a batch that is not large, and write full pages."""

    @abstractmethod
    def _bytes_so_far(self) -> int:
        """Return the encoded bytes so far, plus unencoded bytes of rows that wait for pages."""

    async def _in_threads(self, works: Sequence[Callable[[], T]]) -> list[T]:
        """Return the results of CPU work, in order: one hop for each thread used."""
        if self._threads == 1:
            return await self._pool.run(lambda: [work() for work in works])
        left = deque(enumerate(works))
        results: dict[int, T] = {}

        def help_out() -> None:
            while True:
                try:
                    number, work = left.popleft()
                except IndexError:
                    return
                results[number] = work()

        helpers = min(self._threads, len(works))
        try:
            await all_of(self._pool.run(help_out) for _ in range(helpers))
        finally:
            left.clear()  # start no more work after a failure or cancellation
        return [results[number] for number in range(len(works))]

    async def _upload_all(self, chunks: Sequence[Bytes]) -> None:
        for chunk in chunks:
            await self._sink.write(chunk)

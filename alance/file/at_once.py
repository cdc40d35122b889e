"""Small data files encoded in memory, by one thread from the first row to the last byte.

A `DataFileWriter` gives its work to threads and its bytes to an upload, page by page; of a small
file these hops cost more than the work. Here the same writer runs where it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from alance.file.v0_1_writer import writer_of
from alance.format.plans import answered
from alance.io.pool import DecodePool
from alance.io.upload import Upload

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    import pyarrow as pa

    from alance.file.writer import WrittenFile
    from alance.file_version import FileVersion
    from alance.format.schema import Schema

T = TypeVar("T")


def encode_file(
    schema: Schema, version: FileVersion, batch: pa.RecordBatch, *, statistics: bool = True
) -> tuple[bytes, WrittenFile]:
    """The bytes of a data file with the rows of a batch, and what it holds; CPU work.

    Args:
        schema: without blobs of version 2, which have objects beside the file.

    Raises:
        InvalidInputError: values that the format cannot hold.
        UnsupportedError: types that files of the version do not hold.
    """
    upload = _Pieces()
    writer = writer_of(version)(upload, schema, version, _Here(), threads=1, statistics=statistics)
    _now(writer.write(batch))
    written = _now(writer.seal())
    return upload.content(), written


class _Here(DecodePool):
    """A pool whose work is done by the caller."""

    def __init__(self) -> None:
        super().__init__(1)

    async def run(self, work: Callable[[], T], *, inline: bool = True) -> T:
        return work()


class _Pieces(Upload):
    """An upload that stays in memory."""

    def __init__(self) -> None:
        super().__init__("memory")

    def content(self) -> bytes:
        """All that was written."""
        self._end_block()
        return b"".join(self._pieces)

    async def _advance(self) -> None:
        """Nothing is under way."""

    async def _publish(self) -> None:
        """The bytes are there already."""

    async def _drop(self) -> None:
        """They go with the upload."""


def _now(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing."""
    return answered(work.__await__(), _never)


def _never(_: object) -> Sequence[memoryview]:
    raise AssertionError("a writer without threads and without an upload has waited")

"""Small data files encoded in memory, by one thread from the first row to the last byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.file.here import Here, Pieces, without_waiting
from alance.file.page_writer import writer_of

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.file.writer import WrittenFile
    from alance.file_version import FileVersion
    from alance.format.schema import Schema


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
    upload = Pieces()
    writer = writer_of(version)(upload, schema, version, Here(), threads=1, statistics=statistics)
    without_waiting(writer.write(batch))
    written = without_waiting(writer.seal())
    return upload.content(), written

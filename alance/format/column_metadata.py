"""Column metadata of 2.x files: the pages of each column, and the positions of their buffers.

The kernel parses the metadata of many columns of many files in one call. It refuses unusual
metadata; then the protobuf parser reports the error precisely.

Source: docs/format/file.md, "Container"; file2.proto, message ColumnMetadata.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import file2_pb2

if TYPE_CHECKING:
    from alance.base.arrays import Int64s
    from alance.format.container import Container

COLUMN_ENCODING: Final = "/lance.encodings.ColumnEncoding"
FILE_BUFFER_ALIGNMENT: Final = 64  # bytes; buffers in files of 2.1 and later are aligned to it


class Page(NamedTuple):
    """Buffers of a page, with the undecoded description of its layout."""

    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) of each buffer
    num_rows: int  # number of rows, multiplied by the dimensions of fixed-size lists of structs
    encoding: bytes  # a serialized google.protobuf.Any


class FileColumn:
    """Pages of a column, in row order.

    Args:
        index: number of the column in the file.
        kernel: pages as flat tables.
    """

    __slots__ = ("_first_rows", "index", "kernel")

    def __init__(self, index: int, kernel: _kernels.ColumnPages) -> None:
        self.index = index
        self.kernel = kernel
        self._first_rows: Int64s | None = None

    @property
    def pages(self) -> list[Page]:
        """All pages, built on access."""
        return [*map(self.page, range(self.num_pages))]

    def page(self, number: int) -> Page:
        """Build a page."""
        return Page(*self.kernel.page(number))

    @property
    def num_pages(self) -> int:
        return len(self.kernel)

    @property
    def first_rows(self) -> Int64s:
        """First row of each page, then the number of rows; shape (pages + 1,)."""
        if self._first_rows is None:
            self._first_rows = np.frombuffer(self.kernel.first_rows(), np.int64)
        return self._first_rows

    @property
    def num_rows(self) -> int:
        return self.kernel.num_rows

    @property
    def buffer_bytes(self) -> int:
        """Total bytes of the buffers of all pages."""
        return self.kernel.buffer_bytes


def parse_column(index: int, content: bytes, container: Container) -> _kernels.ColumnPages:
    """Parse a column that the kernel refused, by the protobuf parser.

    Nearly always the metadata are corrupt, and the error names the page and buffer. The kernel also
    refuses unknown fields and a repeated encoding, which are valid, but which no known writer
    produces. Tests use this parser as the kernel's reference.

    Raises:
        CorruptFileError: metadata that contradict themselves or the file.
        UnsupportedError: an unknown encoding.
    """
    file_bytes, version = container.file_bytes, container.version
    where = f"column {index} in {container.path}"
    try:
        message = file2_pb2.ColumnMetadata.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"{where}: {error}") from error
    if version > FileVersion.V2_0:
        _check_encoding(direct_encoding(message.encoding, where), where)
    pages = []
    num_rows = 0
    for number, page in enumerate(message.pages):
        place = f"page {number} of {where}"
        offsets, sizes = page.buffer_offsets, page.buffer_sizes
        if len(offsets) != len(sizes):
            raise CorruptFileError(f"{place}: {len(offsets)} offsets, {len(sizes)} sizes")
        buffers = tuple(zip(offsets, sizes, strict=True))
        for offset, size in buffers:
            if offset + size > file_bytes or (
                offset % FILE_BUFFER_ALIGNMENT and version > FileVersion.V2_0
            ):
                raise CorruptFileError(
                    f"{place}: buffer of {size} bytes at {offset}, "
                    f"in a file of {file_bytes} bytes with buffers at multiples of "
                    f"{FILE_BUFFER_ALIGNMENT}"
                )
        num_rows += page.length
        if num_rows >= 1 << 62:
            raise CorruptFileError(f"{place}: {page.length} rows")
        pages.append(Page(buffers, page.length, direct_encoding(page.encoding, place)))
    return _kernels.ColumnPages(pages)


def _check_encoding(encoding: bytes, where: str) -> None:
    url = any_url(encoding, where)
    if not url.endswith(COLUMN_ENCODING):
        raise UnsupportedError(f"{where}: column encoding {url!r}")


def direct_encoding(encoding: file2_pb2.Encoding, where: str) -> bytes:
    """Return the serialized `Any` of an encoding.

    Raises:
        UnsupportedError: the encoding is `indirect`, which was never written, or missing.
    """
    if not encoding.HasField("direct"):
        kind = encoding.WhichOneof("location")
        raise UnsupportedError(f"{where}: encoding is {kind or 'missing'}, expected 'direct'")
    return encoding.direct.encoding


def any_url(content: bytes, where: str) -> str:
    """Return the type URL of a serialized `Any`.

    Raises:
        CorruptFileError: the bytes are not an `Any`.
    """
    try:
        return _type_url(content)
    except DecodeError as error:
        raise CorruptFileError(f"{where}: {error}") from error


@lru_cache(maxsize=256)
def _type_url(content: bytes) -> str:
    """Return the type URL of an `Any`; memoized, because all files have the same few."""
    return str(Any.FromString(content).type_url)

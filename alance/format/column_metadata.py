"""Column metadata of 2.x files: the pages of each column, and the positions of their buffers.

The kernel parses the metadata of many columns of many files in one call. It refuses unusual
metadata; then the protobuf parser reports the error precisely.

Source: docs/format/file.md, "Container"; file2.proto, message ColumnMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, overload

import numpy as np
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import file2_pb2

if TYPE_CHECKING:
    from alance.arrays import Int64s
    from alance.format.container import Container

COLUMN_ENCODING: Final = "/lance.encodings.ColumnEncoding"
ALIGNMENT: Final = 64  # bytes; buffers in files of 2.1 and later are aligned to it


class Page(NamedTuple):
    """Buffers of a page, with the undecoded description of its layout."""

    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) of each buffer
    num_rows: int  # number of rows, multiplied by the dimensions of fixed-size lists of structs
    encoding: bytes  # a serialized google.protobuf.Any


class FlatPages(Sequence[Page]):
    """Pages of a column as flat tables; each `Page` is built on access."""

    __slots__ = ("_length", "kernel")

    def __init__(self, kernel: _kernels.ColumnPages) -> None:
        self.kernel = kernel
        self._length = len(kernel)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, number: int) -> Page: ...

    @overload
    def __getitem__(self, number: slice) -> Sequence[Page]: ...

    def __getitem__(self, number: int | slice) -> Page | Sequence[Page]:
        if isinstance(number, slice):
            return [self[place] for place in range(self._length)[number]]
        return Page(*self.kernel.page(number if number >= 0 else number + self._length))


class Column:
    """Pages of a column, in row order.

    Args:
        index: number of the column in the file.
        kernel: pages as flat tables, with a memo of values derived from them.
    """

    __slots__ = ("_first_rows", "index", "kernel")

    def __init__(self, index: int, kernel: _kernels.ColumnPages) -> None:
        self.index = index
        self.kernel = kernel
        self._first_rows: Int64s | None = None

    @property
    def pages(self) -> Sequence[Page]:
        """Pages, each built on access."""
        return FlatPages(self.kernel)

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


class Metadata(NamedTuple):
    """Bytes with the metadata of consecutive columns of a file; `first` is their file position."""

    container: Container
    indices: Sequence[int]
    spans: Int64s  # shape (n, 2): start and stop of each column's metadata in the file
    content: memoryview
    first: int

    @property
    def alignment(self) -> int:
        """Alignment of buffers in the file."""
        return ALIGNMENT if self.container.version > FileVersion.V2_0 else 1


def parse_columns(metadata: Sequence[Metadata]) -> list[_kernels.ColumnPages]:
    """Parse the pages of columns of files, and check every position against the file's size.

    Raises:
        CorruptFileError: metadata are inconsistent, or contradict the file.
        UnsupportedError: an encoding is unknown.
    """
    counts = [len(part.indices) for part in metadata]
    of_parts = [
        (number, part.first, part.container.file_bytes, part.alignment)
        for number, part in enumerate(metadata)
    ]
    numbers, first, file_bytes, alignments = np.repeat(
        np.array(of_parts, np.int64).reshape(-1, 4).T, counts, axis=1
    )
    spans = np.concatenate([part.spans for part in metadata])
    starts, sizes = spans[:, 0] - first, spans[:, 1] - spans[:, 0]
    contents = [part.content for part in metadata]
    parsed, distinct = _kernels.column_pages(
        contents, numbers, starts, sizes, file_bytes, alignments
    )
    indices = [index for part in metadata for index in part.indices]
    encodings = dict(distinct)
    columns = []
    for place, (index, pages) in enumerate(zip(indices, parsed, strict=True)):
        if pages is not None and place not in encodings:
            columns.append(pages)
            continue
        part = metadata[numbers[place]]
        container = part.container
        if pages is not None:
            _check_encoding(encodings[place], f"column {index} in {container.path}")
            columns.append(pages)
            continue
        start = int(starts[place])
        content = bytes(part.content[start : start + int(sizes[place])])
        columns.append(
            _parse_column(index, content, container.path, container.file_bytes, container.version)
        )
    return columns


def _parse_column(
    index: int, content: bytes, path: str, file_bytes: int, version: FileVersion
) -> _kernels.ColumnPages:
    """Parse the metadata of a column that the kernel refused, with the protobuf parser.

    Nearly always the metadata are corrupt; the error names the page and the buffer. Valid metadata
    that the kernel refuses have a repeated encoding, which protobuf merges, or unknown fields. No
    known writer produces them. Tests use this parser as the kernel's reference.
    """
    where = f"column {index} in {path}"
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
            if offset + size > file_bytes or (offset % ALIGNMENT and version > FileVersion.V2_0):
                raise CorruptFileError(
                    f"{place}: buffer of {size} bytes at {offset}, "
                    f"in a file of {file_bytes} bytes with buffers at multiples of {ALIGNMENT}"
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

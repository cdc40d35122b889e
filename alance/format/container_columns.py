"""Column metadata of 2.x files: the pages of a column, in row order.

The kernel reads the metadata of all columns in one call, and leaves what is unusual in them to
the parser of protobuf, which knows what to say of it.

Source: file2.proto, message ColumnMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final, overload

import numpy as np
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.proto import file2_pb2

if TYPE_CHECKING:
    import numpy.typing as npt

COLUMN_ENCODING: Final = "/lance.encodings.ColumnEncoding"
ALIGNMENT: Final = 64  # of buffers in files of 2.1 and later


@dataclass(frozen=True, slots=True)
class Page:
    """Where a page lies and the description of its layout, undecoded."""

    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) each
    num_rows: int  # rows, times the dimensions of structural fixed-size lists
    encoding: bytes  # a serialized google.protobuf.Any


class FlatPages(Sequence[Page]):
    """The pages of a column in flat tables; each is made when it is asked for."""

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
            return [self[one] for one in range(self._length)[number]]
        return Page(*self.kernel.page(number if number >= 0 else number + self._length))


@dataclass(frozen=True, slots=True)
class Column:
    """The pages of one column, in row order."""

    index: int
    pages: Sequence[Page]
    first_rows: npt.NDArray[np.int64]  # shape (pages + 1,): first row of each, and the total

    @property
    def num_rows(self) -> int:
        return int(self.first_rows[-1])

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers of all pages."""
        if isinstance(self.pages, FlatPages):
            return self.pages.kernel.buffer_bytes
        return sum(size for page in self.pages for _, size in page.buffers)

    @property
    def num_bytes(self) -> int:
        """Bytes that this object keeps alive, for a cache's budget."""
        if isinstance(self.pages, FlatPages):
            return 300 + self.first_rows.nbytes + self.pages.kernel.num_bytes
        return 200 + sum(len(page.encoding) + 120 for page in self.pages)


def parse_columns(
    path: str,
    file_bytes: int,
    version: FileVersion,
    indices: Sequence[int],
    contents: Sequence[memoryview],
) -> list[Column]:
    """Columns from their metadata, with every place checked against the file.

    Args:
        contents: of each of the columns `indices`.

    Raises:
        CorruptFileError: metadata that contradict themselves or the file.
        UnsupportedError: an encoding that is not known.
    """
    is_structural = version > FileVersion.V2_0
    parsed = _kernels.column_pages(contents, file_bytes, ALIGNMENT if is_structural else 1)
    columns = []
    for index, content, pages in zip(indices, contents, parsed, strict=True):
        if pages is None or (is_structural and pages.encoding is None):
            columns.append(_parse_column(index, bytes(content), path, file_bytes, version))
            continue
        if is_structural and pages.encoding is not None:
            _check_encoding(pages.encoding, f"column {index} in {path}")
        first_rows = np.frombuffer(pages.first_rows(), np.int64)
        columns.append(Column(index, FlatPages(pages), first_rows))
    return columns


def _parse_column(
    index: int, content: bytes, path: str, file_bytes: int, version: FileVersion
) -> Column:
    """A column, whatever its metadata: the reference of what the kernel does."""
    where = f"column {index} in {path}"
    try:
        message = file2_pb2.ColumnMetadata.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"{where}: {error}") from error
    if version > FileVersion.V2_0:
        _check_encoding(direct_encoding(message.encoding, where), where)
    pages = []
    first_rows = [0]
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
        first_rows.append(first_rows[-1] + page.length)
        if first_rows[-1] >= 1 << 62:
            raise CorruptFileError(f"{place}: {page.length} rows")
        pages.append(Page(buffers, page.length, direct_encoding(page.encoding, place)))
    return Column(index, tuple(pages), np.array(first_rows, np.int64))


def _check_encoding(encoding: bytes, where: str) -> None:
    url = any_url(encoding, where)
    if not url.endswith(COLUMN_ENCODING):
        raise UnsupportedError(f"{where}: column encoding {url!r}")


def direct_encoding(encoding: file2_pb2.Encoding, where: str) -> bytes:
    """The bytes of an encoding's Any; `indirect` was never written and is refused."""
    if not encoding.HasField("direct"):
        kind = encoding.WhichOneof("location")
        raise UnsupportedError(f"{where}: encoding is {kind or 'missing'}, expected 'direct'")
    return encoding.direct.encoding


def any_url(content: bytes, where: str) -> str:
    """The type URL of a serialized google.protobuf.Any."""
    try:
        return _type_url(content)
    except DecodeError as error:
        raise CorruptFileError(f"{where}: {error}") from error


@lru_cache(maxsize=256)
def _type_url(content: bytes) -> str:
    """The type URL of an Any: columns of all files have the same few."""
    return str(Any.FromString(content).type_url)

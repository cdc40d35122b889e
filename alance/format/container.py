"""The container of 2.x files: footer, offset tables, column metadata, global buffers.

    page buffers | global buffers | column metadata 0 ... n-1 | CMO | GBO | footer

    footer, the last 40 bytes:
      0  u64  position of column metadata 0
      8  u64  position of the column metadata offset table (CMO): n pairs (position, size)
     16  u64  position of the global buffer offset table (GBO): g pairs (position, size)
     24  u32  number of global buffers, number 0 is the schema
     28  u32  number of columns
     32  u16  major version
     34  u16  minor version
     36  4    `LANC`

Normally one read of the file's last bytes holds all of it. The kernel reads the metadata of all
columns in one call, and leaves what is unusual in them to the parser of protobuf, which knows what
to say of it.

Source: docs/format/file.md, "Container"; file2.proto, message ColumnMetadata.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final, overload

import numpy as np
from google.protobuf.any_pb2 import Any
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.plans import ByteRange, joined_spans
from alance.format.proto import file2_pb2, file_pb2
from alance.format.search_buffer import SearchBuffer, parse_search_buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.arrays import Int64s
    from alance.format.plans import Plan, T

MAGIC: Final = b"LANC"
FOOTER: Final = struct.Struct("<QQQIIHH4s")
TAIL_BYTES: Final = 64 << 10  # holds the metadata of about 500 pages; one GET costs no more
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
            return [self[place] for place in range(self._length)[number]]
        return Page(*self.kernel.page(number if number >= 0 else number + self._length))


class Column:
    """The pages of one column, in row order.

    Args:
        index: its number in the file.
        pages: those that are in no flat tables.
        first_rows: of these the first row of each, and the total.
        kernel: the flat tables; None: there are none.
    """

    __slots__ = ("_first_rows", "_pages", "index", "kernel")

    def __init__(
        self,
        index: int,
        pages: Sequence[Page] = (),
        first_rows: Int64s | None = None,
        kernel: _kernels.ColumnPages | None = None,
    ) -> None:
        self.index = index
        self.kernel = kernel
        self._pages = pages
        self._first_rows = first_rows

    @property
    def pages(self) -> Sequence[Page]:
        """The pages, each made when it is asked for."""
        return self._pages if self.kernel is None else FlatPages(self.kernel)

    @property
    def num_pages(self) -> int:
        return len(self._pages) if self.kernel is None else len(self.kernel)

    @property
    def first_rows(self) -> Int64s:
        """The first row of each page, and the total; shape (pages + 1,)."""
        if self._first_rows is None:
            assert self.kernel is not None
            self._first_rows = np.frombuffer(self.kernel.first_rows(), np.int64)
        return self._first_rows

    @property
    def num_rows(self) -> int:
        if self.kernel is not None:
            return self.kernel.num_rows
        return int(self.first_rows[-1])

    def row_table(self) -> _kernels.RowTable:
        """A table of the pages for the kernel that places rows, which knows nothing of them yet."""
        if self.kernel is not None:
            return self.kernel.row_table()
        return _kernels.RowTable(self.first_rows)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers of all pages."""
        if self.kernel is not None:
            return self.kernel.buffer_bytes
        return sum(size for page in self.pages for _, size in page.buffers)

    @property
    def num_bytes(self) -> int:
        """Bytes that this object keeps alive, for a cache's budget."""
        if self.kernel is not None:
            return 260 + 8 * len(self.kernel) + self.kernel.num_bytes
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
    checked: set[bytes] = set()  # encodings: columns of a file have the same few
    for index, content, pages in zip(indices, contents, parsed, strict=True):
        encoding = None if pages is None else pages.encoding
        if pages is None or (is_structural and encoding is None):
            columns.append(_parse_column(index, bytes(content), path, file_bytes, version))
            continue
        if is_structural and encoding is not None and encoding not in checked:
            _check_encoding(encoding, f"column {index} in {path}")
            checked.add(encoding)
        columns.append(Column(index, kernel=pages))
    return columns


def _parse_column(
    index: int, content: bytes, path: str, file_bytes: int, version: FileVersion
) -> Column:
    """A column that the kernel leaves, by the parser of protobuf.

    Nearly always something is wrong with it, and the message says which page and buffer. What comes
    here and is right, no writer makes: an encoding that is there twice, which protobuf merges, or
    fields beside it that nobody knows. A kernel that knew all that would be another parser of
    protobuf. Tests take this one for the reference of what the kernel does.
    """
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


@dataclass(frozen=True, slots=True)
class Container:
    """The tables of a file, and as much of its end as was read to get them."""

    path: str
    file_bytes: int
    version: FileVersion
    columns: Int64s  # shape (n, 2): start and stop of each column's metadata
    buffers: Int64s  # shape (g, 2): start and stop of each global buffer
    content: memoryview  # the file's bytes from `content_start` to its end
    content_start: int
    search: SearchBuffer | None = None

    @property
    def is_whole(self) -> bool:
        """Whether `content` is the whole file, pages too."""
        return self.content_start == 0

    @property
    def num_columns(self) -> int:
        return len(self.columns)

    @property
    def num_bytes(self) -> int:
        return len(self.content) + self.columns.nbytes + self.buffers.nbytes + 200

    def read_columns(self, indices: Sequence[int]) -> Plan[list[Column]]:
        """Plan the metadata of columns: no round if the tail held them, else one.

        Raises:
            CorruptFileError: a column that the file has not, or metadata that contradict it.
        """
        num_columns = self.num_columns
        for index in indices:
            if not 0 <= index < num_columns:
                raise CorruptFileError(
                    f"column {index} in {self.path}: the file has {num_columns} columns"
                )
        spans = [(start, stop) for start, stop in self.columns[list(indices)].tolist()]
        contents = yield from self._read(spans)
        return parse_columns(self.path, self.file_bytes, self.version, indices, contents)

    def read_buffer(self, index: int) -> Plan[memoryview]:
        """Plan the content of a global buffer.

        Raises:
            CorruptFileError: the file has no such buffer.
        """
        if not 0 <= index < len(self.buffers):
            raise CorruptFileError(
                f"global buffer {index} in {self.path}: the file has {len(self.buffers)}"
            )
        start, stop = self.buffers[index]
        (content,) = yield from self._read([(int(start), int(stop))])
        return content

    def read_descriptor(self) -> Plan[file_pb2.FileDescriptor]:
        """Plan the file's own schema and row count."""
        content = yield from self.read_buffer(0)
        try:
            return file_pb2.FileDescriptor.FromString(bytes(content))
        except DecodeError as error:
            raise CorruptFileError(f"schema of {self.path}: {error}") from error

    def _read(self, spans: Sequence[tuple[int, int]]) -> Plan[list[memoryview]]:
        missing = [span for span in spans if span[0] < self.content_start]
        joined = joined_spans(missing)
        fetched = (yield [ByteRange(self.path, *span) for span in joined]) if joined else ()
        buffers: dict[tuple[int, int], memoryview] = {}
        wholes = iter(zip(joined, fetched, strict=True))
        first = stop = -1
        content = memoryview(b"")
        for span in sorted(missing):
            if span[1] > stop:
                (first, stop), content = next(wholes)
            buffers[span] = content[span[0] - first : span[1] - first]
        return [
            buffers[span] if span[0] < self.content_start else self._slice(*span) for span in spans
        ]

    def held(self, extent: ByteRange) -> memoryview | None:
        """Bytes of the file that its end, as far as it was read, has; else None.

        Raises:
            CorruptFileError: bytes of the search-cache buffer that are not those written.
        """
        if extent.start < self.content_start or extent.stop > self.file_bytes:
            return None
        content = self._slice(extent.start, extent.stop)
        if self.search is not None:
            self.search.check(self.path, extent.start, content)
        return content

    def _slice(self, start: int, stop: int) -> memoryview:
        return self.content[start - self.content_start : stop - self.content_start]


def open_container(path: str, file_bytes: int, tail: memoryview | None = None) -> Plan[Container]:
    """Plan the opening of a file: one round, or two where the tables outgrow the tail.

    Args:
        path: the file's location.
        file_bytes: its exact size.
        tail: its last bytes, where they have been read already.

    Raises:
        CorruptFileError: no 2.x file, or tables outside of it.
        UnsupportedError: a later version.
    """
    if tail is None:
        tail = yield from read_tail(path, file_bytes)
    tail_start = file_bytes - len(tail)
    major, minor, metadata, *tables = _parsed(path, partial(_kernels.read_footer, tail))
    version = FileVersion.from_footer(major, minor)
    if version < FileVersion.V2_0:
        raise UnsupportedError(f"{path}: file version {version.value} is not read yet")
    alignment = 64 if version > FileVersion.V2_0 else 1
    places = _parsed(path, partial(_kernels.footer_tables, tail, file_bytes, alignment))
    if places is None:
        needed = min(tables)
        # Tables first: they may be all that the tail misses, or far larger than needed.
        head_start = min(needed, metadata) if tail_start - metadata <= TAIL_BYTES * 16 else needed
        head_start = max(
            0, head_start - TAIL_BYTES
        )  # and the schema, and what readers need of pages
        (head,) = yield [ByteRange(path, head_start, tail_start)]
        tail, tail_start = memoryview(bytes(head) + bytes(tail)), head_start
        places = _parsed(path, partial(_kernels.footer_tables, tail, file_bytes, alignment))
        assert places is not None
    columns, buffers = (table.reshape(-1, 2) for table in places)
    search = parse_search_buffer(path, tail, tail_start, buffers)
    return Container(path, file_bytes, version, columns, buffers, tail, tail_start, search)


def _parsed(path: str, parse: Callable[[], T]) -> T:
    """What a kernel finds at the end of a file.

    Raises:
        CorruptFileError: tables or parts outside of the file, or no file of this kind.
    """
    try:
        return parse()
    except ValueError as error:
        raise CorruptFileError(f"{path}: {error}") from error


def read_tail(path: str, file_bytes: int, tail_bytes: int = TAIL_BYTES) -> Plan[memoryview]:
    """Plan the read that opening a file begins with: its last 64 KiB, or as told.

    Raises:
        CorruptFileError: it is shorter than a footer.
    """
    if file_bytes < FOOTER.size:
        raise CorruptFileError(f"{path}: {file_bytes} bytes, a footer alone has {FOOTER.size}")
    (tail,) = yield [ByteRange(path, max(0, file_bytes - tail_bytes), file_bytes)]
    return tail

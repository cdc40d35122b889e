"""Container of 2.x files: footer, offset tables, column metadata, global buffers.

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

Normally, one read of the file's last bytes gets the footer, the tables and the metadata. A single
kernel call parses the tails of many files, another the metadata of many columns. It refuses unusual
metadata; then the protobuf parser reports the error precisely.

  search-cache buffer, the last global buffer of its file: copies of page buffers that a take needs
    entries    page buffers at their positions, each at a multiple of 64 of the file
    table      n times: u64 offset in the file, u32 bytes, u32 CRC-32 of these bytes
    trailer    u32 n, u16 version (1), u16 zero, 8 bytes `alancesc`

Pages refer to these copies by offset, so readers that do not know the search-cache buffer are not
affected. Readers that know it get it with the file's last bytes, and verify the checksums.

Source: docs/format/file.md, "Container"; file2.proto, message ColumnMetadata;
docs/search-cache-buffer.md.
"""

from __future__ import annotations

import binascii
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from google.protobuf.any_pb2 import Any

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.plans import TURN, ByteRange
from alance.format.proto import file2_pb2, file_pb2, parsed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.format.plans import Plan

MAGIC: Final = b"LANC"
FOOTER: Final = struct.Struct("<QQQIIHH4s")
# Bytes; has the metadata of about 500 pages, and costs no more than a smaller GET.
TAIL_BYTES: Final = 64 << 10
COLUMNS_AT_ONCE: Final = 1 << 9  # columns per kernel call, which takes about a millisecond
ARRAY_ENCODING: Final = "/lance.encodings.ArrayEncoding"  # of pages of 2.0
COLUMN_ENCODING: Final = "/lance.encodings.ColumnEncoding"
FILE_BUFFER_ALIGNMENT: Final = 64  # bytes; buffers in files of 2.1 and later are aligned to it
TRAILER: Final = struct.Struct("<IHH8s")
SEARCH_BUFFER_VERSION: Final = 1
SEARCH_BUFFER_MAGIC: Final = b"alancesc"
SEARCH_BUFFER_ENTRY: Final = np.dtype([("offset", "<u8"), ("num_bytes", "<u4"), ("crc", "<u4")])


@dataclass(frozen=True, slots=True)
class Container:
    """Tables of a file, its open columns, and the useful part of its end, or the whole file."""

    path: str
    file_bytes: int
    version: FileVersion
    columns: _kernels.FileColumns  # pages of the columns that were opened
    buffers: Int64s  # shape (g, 2): start and stop of each global buffer
    content: memoryview  # the file's bytes from `content_start` to its end
    content_start: int
    search: SearchBuffer | None = None

    @property
    def is_whole(self) -> bool:
        """True if `content` is the whole file, including its pages."""
        return self.content_start == 0

    @property
    def num_columns(self) -> int:
        return len(self.columns)

    @property
    def num_bytes(self) -> int:
        return len(self.content) + self.columns.num_bytes + self.buffers.nbytes + 200

    def read_columns(self, indices: Sequence[int]) -> Plan[list[FileColumn]]:
        """Plan the metadata of columns of this file; see the function `read_columns`."""
        yield from read_columns([(self, self.absent(indices))])
        return [FileColumn(index, self.columns.column(index)) for index in indices]

    def absent(self, indices: Sequence[int]) -> Sequence[int]:
        """Return the columns that are not open yet."""
        try:
            return self.columns.absent(indices)
        except IndexError:
            wrong = next(index for index in indices if not 0 <= index < self.num_columns)
            raise CorruptFileError(
                f"column {wrong} in {self.path}: the file has {self.num_columns} columns"
            ) from None

    def read_buffer(self, index: int) -> Plan[memoryview]:
        """Plan the content of a global buffer."""
        if not 0 <= index < len(self.buffers):
            raise CorruptFileError(
                f"global buffer {index} in {self.path}: the file has {len(self.buffers)}"
            )
        start, stop = self.buffers[index].tolist()
        if start >= self.content_start:
            return self._slice(start, stop)
        (content,) = yield [ByteRange(self.path, start, stop)]
        return content

    def read_descriptor(self) -> Plan[file_pb2.FileDescriptor]:
        """Plan the file's own schema and row count."""
        content = yield from self.read_buffer(0)
        return parsed(file_pb2.FileDescriptor, content, f"schema of {self.path}")

    def check(self, start: int, stop: int) -> None:
        """Verify bytes in memory if a search-cache buffer has their checksum."""
        if self.search is not None and start >= self.content_start:
            self.search.check(self.path, start, self._slice(start, stop))

    def _slice(self, start: int, stop: int) -> memoryview:
        return self.content[start - self.content_start : stop - self.content_start]


def read_columns(requests: Sequence[tuple[Container, Sequence[int]]]) -> Plan[None]:
    """Plan the pages of columns of files: no round if their tails hold the metadata, else one."""
    held: list[_kernels.HeldFile] = []
    ranges: list[ByteRange] = []
    owners: list[_kernels.HeldFile] = []  # of the ranges
    for container, indices in requests:
        file = _kernels.HeldFile([container.content_start], [container.content])
        held.append(file)
        if container.content_start:
            for span in container.columns.far(indices, container.content_start):
                ranges.append(ByteRange(container.path, *span))
                owners.append(file)
    contents = (yield ranges) if ranges else ()
    for file, extent, content in zip(owners, ranges, contents, strict=True):
        file.add(extent.start, content)
    first = waiting = 0
    for number, (_, indices) in enumerate(requests, 1):
        waiting += len(indices)
        if waiting < COLUMNS_AT_ONCE and number < len(requests):
            continue
        batch = requests[first:number]
        files = [container.columns for container, _ in batch]
        columns = [of_file for _, of_file in batch]
        for place, index in _kernels.open_columns(files, columns, held[first:number]):
            container = batch[place][0]
            start, stop = container.columns.span(index)
            metadata = bytes(held[first + place].cut(start, stop))
            pages = parse_column(index, metadata, container)
            container.columns.add(index, pages)
        first, waiting = number, 0
        if number < len(requests):
            yield TURN


class FileEnd(NamedTuple):
    """File whose last bytes have been read."""

    path: str  # location of the file
    file_bytes: int  # exact size
    tail: memoryview


def open_container(path: str, file_bytes: int, tail: memoryview | None = None) -> Plan[Container]:
    """Plan the opening of a file: one round, or two if its tables exceed the tail.

    Args:
        tail: the file's last bytes; None to read them first.
    """
    if tail is None:
        (tail,) = yield [tail_range(path, file_bytes, TAIL_BYTES)]
    (container,) = yield from open_containers([FileEnd(path, file_bytes, tail)])
    return container


def open_containers(files: Sequence[FileEnd]) -> Plan[list[Container]]:
    """Plan the opening of files from their tails: one round if any tail lacks tables, else none."""
    sizes = np.array([file.file_bytes for file in files], np.int64)
    containers: list[Container | None] = []
    outgrown: list[ByteRange] = []
    ends = _kernels.file_ends([file.tail for file in files], sizes)
    for (path, file_bytes, tail), end in zip(files, ends, strict=True):
        if isinstance(end, str):
            raise CorruptFileError(f"{path}: {end}")
        major, minor, wrong, tables, metadata, first_table = end
        version = FileVersion.from_footer(major, minor)
        if version is FileVersion.V0_1:
            raise UnsupportedError(f"{path}: file version {version.value} is not read yet")
        if wrong is not None:
            raise CorruptFileError(f"{path}: {wrong}")
        tail_start = file_bytes - len(tail)
        if tables is None:
            containers.append(None)
            # Read the tables first: perhaps the tail lacks nothing else, or the metadata are far
            # larger than needed.
            is_near = tail_start - metadata <= TAIL_BYTES * 16
            head_start = min(first_table, metadata) if is_near else first_table
            # Also read the schema, and buffers that readers need before pages.
            head_start -= TAIL_BYTES
            outgrown.append(ByteRange(path, max(0, head_start), tail_start))
            continue
        columns, buffers = tables[0], tables[1].reshape(-1, 2)
        search = parse_search_buffer(path, tail, tail_start, buffers) if len(buffers) > 1 else None
        start = tail_start
        # Entries of a search-cache buffer inside the tail are useful, too.
        if file_bytes > TAIL_BYTES and (search is None or buffers[-1, 0] >= tail_start):
            start = tables[2]
        content = memoryview(bytes(tail[start - tail_start :]))
        containers.append(
            Container(path, file_bytes, version, columns, buffers, content, start, search)
        )
    if outgrown:
        heads = yield outgrown
        missing = [number for number, container in enumerate(containers) if container is None]
        longer = [
            files[number]._replace(tail=memoryview(bytes(head) + bytes(files[number].tail)))
            for number, head in zip(missing, heads, strict=True)
        ]
        for number, container in zip(missing, (yield from open_containers(longer)), strict=True):
            containers[number] = container
    return [container for container in containers if container is not None]


def tail_range(path: str, file_bytes: int, tail_bytes: int) -> ByteRange:
    """Return the range of a file's last bytes, which a reader needs first."""
    if file_bytes < FOOTER.size:
        raise CorruptFileError(f"{path}: {file_bytes} bytes, a footer alone has {FOOTER.size}")
    return ByteRange(path, max(0, file_bytes - tail_bytes), file_bytes)


class Page(NamedTuple):
    """Buffers of a page, with the undecoded description of its layout."""

    buffers: tuple[tuple[int, int], ...]  # (absolute offset, size) of each buffer
    num_rows: int  # number of rows, multiplied by the dimensions of fixed-size lists of structs
    encoding: bytes  # a serialized google.protobuf.Any


class FileColumn:
    """Pages of column `index` of a file, in row order; `kernel` holds them as flat tables."""

    __slots__ = ("index", "kernel")

    def __init__(self, index: int, kernel: _kernels.ColumnPages) -> None:
        self.index = index
        self.kernel = kernel

    @property
    def pages(self) -> list[Page]:
        """All pages, built on access."""
        return [*map(self.page, range(self.num_pages))]

    def page(self, number: int) -> Page:
        return Page(*self.kernel.page(number))

    @property
    def num_pages(self) -> int:
        return len(self.kernel)

    @property
    def first_rows(self) -> Int64s:
        """First row of each page, then the number of rows; shape (pages + 1,)."""
        return np.frombuffer(self.kernel.first_rows(), np.int64)

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
    """
    file_bytes, version = container.file_bytes, container.version
    where = f"column {index} in {container.path}"
    message = parsed(file2_pb2.ColumnMetadata, content, where)
    if version > FileVersion.V2_0:
        url = parsed(Any, _direct_encoding(message.encoding, where), where).type_url
        if not url.endswith(COLUMN_ENCODING):
            raise UnsupportedError(f"{where}: column encoding {url!r}")
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
        pages.append(Page(buffers, page.length, _direct_encoding(page.encoding, place)))
    return _kernels.ColumnPages(pages)


def _direct_encoding(encoding: file2_pb2.Encoding, where: str) -> bytes:
    """Return the serialized `Any` of an encoding."""
    if not encoding.HasField("direct"):
        kind = encoding.WhichOneof("location")
        raise UnsupportedError(f"{where}: encoding is {kind or 'missing'}, expected 'direct'")
    return encoding.direct.encoding


@dataclass(frozen=True, slots=True)
class SearchBuffer:
    """Table of a search-cache buffer: number of bytes and CRC-32 of each entry, by file offset."""

    entries: dict[int, tuple[int, int]]

    def check(self, where: str, start: int, content: memoryview) -> None:
        """Verify the checksum of a page buffer if it is an entry."""
        entry = self.entries.get(start)
        if entry is not None and entry != (len(content), binascii.crc32(content)):
            raise CorruptFileError(
                f"{where}: {len(content)} bytes at {start} have another checksum than the "
                f"{entry[0]} bytes that were written"
            )

    def check_all(self, where: str, content: memoryview) -> None:
        """Verify all entries in the bytes of a whole file."""
        for start, (num_bytes, _) in self.entries.items():
            self.check(where, start, content[start : start + num_bytes])


def parse_search_buffer(
    where: str, tail: memoryview, tail_start: int, buffers: Int64s
) -> SearchBuffer | None:
    """Parse the table of a file's search-cache buffer.

    Returns None if the file has no such buffer, if its version is unknown, or if the tail lacks the
    table.

    Args:
        tail: the file's bytes from `tail_start` on.
        buffers: shape (g, 2): start and stop of each global buffer, at least two.
    """
    start, stop = buffers[-1].tolist()
    if stop - TRAILER.size < max(start, tail_start):
        return None
    count, version, _, magic = TRAILER.unpack_from(tail, stop - TRAILER.size - tail_start)
    if magic != SEARCH_BUFFER_MAGIC or version != SEARCH_BUFFER_VERSION:
        return None
    table_start = stop - TRAILER.size - count * SEARCH_BUFFER_ENTRY.itemsize
    if table_start < start:
        raise CorruptFileError(
            f"{where}: a search-cache buffer of {stop - start} bytes with {count} entries"
        )
    if table_start < tail_start:
        return None
    table = np.frombuffer(tail, SEARCH_BUFFER_ENTRY, count, table_start - tail_start)
    columns = (table[name].tolist() for name in ("offset", "num_bytes", "crc"))
    return SearchBuffer({offset: (size, crc) for offset, size, crc in zip(*columns, strict=True)})

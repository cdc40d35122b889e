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
kernel call parses the tails of many files.

Source: docs/format/file.md, "Container".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from google.protobuf.message import DecodeError

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.column_metadata import FileColumn, parse_column
from alance.format.plans import TURN, ByteRange
from alance.format.proto import file_pb2
from alance.format.search_buffer import SearchBuffer, parse_search_buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.format.plans import Plan

MAGIC: Final = b"LANC"
FOOTER: Final = struct.Struct("<QQQIIHH4s")
# Bytes; has the metadata of about 500 pages, and costs no more than a smaller GET.
TAIL_BYTES: Final = 64 << 10
COLUMNS_AT_ONCE: Final = 1 << 9  # columns per kernel call, which takes about a millisecond


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
        """Return the columns that are not open yet.

        Raises:
            CorruptFileError: the file has no such column.
        """
        try:
            return self.columns.absent(indices)
        except IndexError:
            wrong = next(index for index in indices if not 0 <= index < self.num_columns)
            raise CorruptFileError(
                f"column {wrong} in {self.path}: the file has {self.num_columns} columns"
            ) from None

    def read_buffer(self, index: int) -> Plan[memoryview]:
        """Plan the content of a global buffer.

        Raises:
            CorruptFileError: the file has no such buffer.
        """
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
        """Plan the file's own schema and row count.

        Raises:
            CorruptFileError: the descriptor cannot be parsed.
        """
        content = yield from self.read_buffer(0)
        try:
            return file_pb2.FileDescriptor.FromString(bytes(content))
        except DecodeError as error:
            raise CorruptFileError(f"schema of {self.path}: {error}") from error

    def check(self, start: int, content: memoryview) -> None:
        """Verify bytes of the file from `start` on, if the search-cache buffer has their checksum.

        Raises:
            CorruptFileError: the checksum is wrong.
        """
        if self.search is not None:
            self.search.check(self.path, start, content)

    def _slice(self, start: int, stop: int) -> memoryview:
        return self.content[start - self.content_start : stop - self.content_start]


def read_columns(requests: Sequence[tuple[Container, Sequence[int]]]) -> Plan[None]:
    """Plan the pages of columns of files: no round if their tails hold the metadata, else one.

    Raises:
        CorruptFileError: metadata that contradict their file.
        UnsupportedError: an unknown encoding.
    """
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

    Raises:
        CorruptFileError: the file is not of 2.x, or a table lies outside of it.
        UnsupportedError: the file version is unknown.
    """
    if tail is None:
        (tail,) = yield [tail_range(path, file_bytes, TAIL_BYTES)]
    (container,) = yield from open_containers([FileEnd(path, file_bytes, tail)])
    return container


def open_containers(files: Sequence[FileEnd]) -> Plan[list[Container]]:
    """Plan the opening of files from their tails: one round if any tail lacks tables, else none.

    Raises:
        CorruptFileError: not a 2.x file, or tables outside of the file.
        UnsupportedError: another file version.
    """
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
    """Return the range of a file's last bytes, which a reader needs first.

    Raises:
        CorruptFileError: the file is shorter than a footer.
    """
    if file_bytes < FOOTER.size:
        raise CorruptFileError(f"{path}: {file_bytes} bytes, a footer alone has {FOOTER.size}")
    return ByteRange(path, max(0, file_bytes - tail_bytes), file_bytes)

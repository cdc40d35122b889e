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

Normally one read of the file's last bytes holds all of it.

Source: docs/format/file.md, "Container".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError, UnsupportedError
from alance.file_version import FileVersion
from alance.format.container_columns import parse_columns
from alance.format.container_tables import check_spans, check_table, read_table
from alance.format.plans import ByteRange
from alance.format.proto import file_pb2
from alance.format.search_buffer import SearchBuffer, parse_search_buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from alance.format.container_columns import Column
    from alance.format.plans import Plan

MAGIC: Final = b"LANC"
FOOTER: Final = struct.Struct("<QQQIIHH4s")
TAIL_BYTES: Final = 64 << 10  # holds the metadata of about 500 pages; one GET costs no more


@dataclass(frozen=True, slots=True)
class Container:
    """The tables of a file, and as much of its end as was read to get them."""

    path: str
    file_bytes: int
    version: FileVersion
    columns: npt.NDArray[np.int64]  # shape (n, 2): start and stop of each column's metadata
    buffers: npt.NDArray[np.int64]  # shape (g, 2): start and stop of each global buffer
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
        for index in indices:
            if not 0 <= index < self.num_columns:
                raise CorruptFileError(
                    f"column {index} in {self.path}: the file has {self.num_columns} columns"
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
        missing = [ByteRange(self.path, *span) for span in spans if span[0] < self.content_start]
        fetched = iter((yield missing) if missing else ())
        return [
            next(fetched) if start < self.content_start else self._slice(start, stop)
            for start, stop in spans
        ]

    def held(self, wanted: ByteRange) -> memoryview | None:
        """Bytes of the file that its end, as far as it was read, has; else None.

        Raises:
            CorruptFileError: bytes of the search-cache buffer that are not those written.
        """
        if wanted.start < self.content_start or wanted.stop > self.file_bytes:
            return None
        content = self._slice(wanted.start, wanted.stop)
        if self.search is not None:
            self.search.check(self.path, wanted.start, content)
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
    metadata, cmo, gbo, num_buffers, num_columns, major, minor, magic = FOOTER.unpack(
        tail[-FOOTER.size :]
    )
    if magic != MAGIC:
        raise CorruptFileError(f"{path}: ends in {magic!r}, expected {MAGIC!r}")
    version = FileVersion.from_footer(major, minor)
    if version < FileVersion.V2_0:
        raise UnsupportedError(f"{path}: file version {version.value} is not read yet")
    footer_start = file_bytes - FOOTER.size
    check_table(path, "column metadata table", cmo, num_columns, footer_start)
    check_table(path, "global buffer table", gbo, num_buffers, footer_start)
    if num_buffers == 0:
        raise CorruptFileError(f"{path}: no global buffer, the schema is missing")
    if metadata > cmo:
        raise CorruptFileError(f"{path}: column metadata at {metadata}, their table at {cmo}")
    needed = min(cmo, gbo)
    if needed < tail_start:
        # Tables first: they may be all that the tail misses, or far larger than needed.
        wanted = min(needed, metadata) if tail_start - metadata <= TAIL_BYTES * 16 else needed
        wanted = max(0, wanted - TAIL_BYTES)  # and the schema, and what readers need of pages
        (head,) = yield [ByteRange(path, wanted, tail_start)]
        tail, tail_start = memoryview(bytes(head) + bytes(tail)), wanted
    columns = read_table(tail, cmo - tail_start, num_columns)
    buffers = read_table(tail, gbo - tail_start, num_buffers)
    check_spans(path, "column metadata", columns, footer_start, 1)
    alignment = 64 if version > FileVersion.V2_0 else 1
    check_spans(path, "global buffer", buffers, footer_start, alignment)
    search = parse_search_buffer(path, tail, tail_start, buffers)
    return Container(path, file_bytes, version, columns, buffers, tail, tail_start, search)


def read_tail(path: str, file_bytes: int) -> Plan[memoryview]:
    """Plan the read that opening a file begins with: its last 64 KiB.

    Raises:
        CorruptFileError: it is shorter than a footer.
    """
    if file_bytes < FOOTER.size:
        raise CorruptFileError(f"{path}: {file_bytes} bytes, a footer alone has {FOOTER.size}")
    (tail,) = yield [ByteRange(path, max(0, file_bytes - TAIL_BYTES), file_bytes)]
    return tail

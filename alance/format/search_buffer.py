"""Search-cache buffer: copies near the file's end of the page buffers that a take needs first.

  global buffer, the last one of its file:
    entries    page buffers at their positions, each at a multiple of 64 of the file
    table      n times: u64 offset in the file, u32 bytes, u32 CRC-32 of these bytes
    trailer    u32 n, u16 version (1), u16 zero, 8 bytes `alancesc`

Pages refer to these buffers by offset, so readers that do not know the search-cache buffer are not
affected. Readers that know it get it with the file's last bytes, and verify the checksums.

Source: docs/search-cache-buffer.md.
"""

from __future__ import annotations

import binascii
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError

if TYPE_CHECKING:
    from alance.base.arrays import Int64s

TRAILER: Final = struct.Struct("<IHH8s")
SEARCH_BUFFER_VERSION: Final = 1
SEARCH_BUFFER_MAGIC: Final = b"alancesc"
SEARCH_BUFFER_ENTRY: Final = np.dtype([("offset", "<u8"), ("num_bytes", "<u4"), ("crc", "<u4")])


@dataclass(frozen=True, slots=True)
class SearchBuffer:
    """Table of a search-cache buffer: number of bytes and CRC-32 of each entry, by file offset."""

    entries: dict[int, tuple[int, int]]

    def check(self, where: str, start: int, content: memoryview) -> None:
        """Verify the checksum of a page buffer if it is an entry.

        Raises:
            CorruptFileError: a wrong size or checksum.
        """
        entry = self.entries.get(start)
        if entry is not None and entry != (len(content), binascii.crc32(content)):
            raise CorruptFileError(
                f"{where}: {len(content)} bytes at {start} have another checksum than the "
                f"{entry[0]} bytes that were written"
            )

    def check_all(self, where: str, content: memoryview) -> None:
        """Verify all entries in the bytes of a whole file.

        Raises:
            CorruptFileError: a size or checksum is wrong.
        """
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

    Raises:
        CorruptFileError: the table does not fit the buffer.
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

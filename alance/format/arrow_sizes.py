"""Sizes in an Arrow IPC record batch, read before memory is allocated for the batch.

The first eight bytes of a compressed buffer declare its decompressed size, and pyarrow allocates as
much. The message is a flatbuffer. A table in it begins with the signed distance back to its vtable.
The vtable has the u16 sizes of itself and of the table, then the offset of each field in the table
(0 if absent).

  Footer:      version, schema, dictionaries, batches (structs: i64 place, i32 length, i64 length)
  Message:     version, header type, header (a table), body length, ..
  RecordBatch: length (i64), nodes, buffers (structs: i64 offset, i64 length), compression

Source: Apache Arrow columnar format, "Serialization and interprocess communication".
"""

from __future__ import annotations

import struct
from typing import Final

from alance.errors import CorruptFileError

BATCHES: Final = 3
HEADER_FIELD: Final = 2
FOOTER_END: Final = 10  # i32 size of the footer, "ARROW1"
LENGTH_FIELD, BUFFERS_FIELD, COMPRESSION_FIELD = 0, 2, 3
UNCOMPRESSED_SIZE: Final = -1  # declared size of a buffer that is stored uncompressed


def batch_place(content: memoryview) -> int:
    """Return the position of a file's first record batch message, by the footer.

    Raises:
        CorruptFileError: the footer has no record batch that lies inside the file.
    """
    end = len(content) - FOOTER_END
    try:
        length = _number(content, "<i", end)
        footer = content[end - length : end] if 0 < length <= end else content[:0]
        place = _field(footer, _follow(footer, 0), BATCHES)
        start = _number(footer, "<q", _follow(footer, place) + 4) if place else -1
    except struct.error as error:
        raise CorruptFileError(f"Arrow file of {len(content)} bytes: {error}") from error
    if not 0 <= start < end:
        raise CorruptFileError(f"Arrow file of {len(content)} bytes: a batch at {start}")
    return start


def batch_sizes(metadata: memoryview, body: memoryview) -> tuple[int, list[int]]:
    """Return the number of rows of a record batch, and the decompressed size of each buffer.

    Args:
        metadata: flatbuffer of a message whose header is a record batch.

    Raises:
        CorruptFileError: a position is outside of the bytes, or a size is negative.
    """
    try:
        return _batch_sizes(metadata, body)
    except struct.error as error:
        raise CorruptFileError(f"Arrow message of {len(metadata)} bytes: {error}") from error


def _batch_sizes(metadata: memoryview, body: memoryview) -> tuple[int, list[int]]:
    batch = _follow(metadata, _field(metadata, _follow(metadata, 0), HEADER_FIELD))
    place = _field(metadata, batch, LENGTH_FIELD)
    length = _number(metadata, "<q", place) if place else 0
    place = _field(metadata, batch, BUFFERS_FIELD)
    vector = _follow(metadata, place) if place else None
    count = 0 if vector is None else _number(metadata, "<I", vector)
    if vector is not None and count * 16 > len(metadata) - vector:
        raise CorruptFileError(f"Arrow message of {len(metadata)} bytes: {count} buffers")
    is_compressed = bool(_field(metadata, batch, COMPRESSION_FIELD))
    sizes = []
    for number in range(count):
        assert vector is not None
        start, size = struct.unpack_from("<qq", metadata, vector + 4 + 16 * number)
        if start < 0 or size < 0 or start + size > len(body):
            raise CorruptFileError(
                f"Arrow message: buffer of {size} bytes at {start}, the body has {len(body)}"
            )
        stated = _number(body, "<q", start) if is_compressed and size >= 8 else UNCOMPRESSED_SIZE
        sizes.append(size if stated == UNCOMPRESSED_SIZE else stated)
    if length < 0 or min(sizes, default=0) < 0:
        raise CorruptFileError(f"Arrow message: {length} rows in buffers of {sizes} bytes")
    return length, sizes


def _number(content: memoryview, form: str, place: int) -> int:
    if place < 0:
        raise CorruptFileError(f"Arrow message: a table at {place}")
    return int(struct.unpack_from(form, content, place)[0])


def _follow(content: memoryview, place: int) -> int:
    return place + _number(content, "<I", place)


def _field(content: memoryview, table: int, number: int) -> int:
    """Return the position of a field of a flatbuffer table; 0 if the field is absent."""
    vtable = table - _number(content, "<i", table)
    if 4 + 2 * number + 2 > _number(content, "<H", vtable):
        return 0
    offset = _number(content, "<H", vtable + 4 + 2 * number)
    return table + offset if offset else 0

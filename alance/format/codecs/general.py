"""General-purpose compression around the bytes of another codec.

The compressed unit is buffer 0 of a chunk in mini-blocks, a whole block, or a value in zipped rows:

    LZ4   u32 size of the content, then one raw LZ4 block
    ZSTD  u64 size of the content, then one frame

Older writers omitted the size before a zstd frame, and wrote nothing for an empty value.

The size is not trusted. Before memory is allocated, it is compared with the upper bounds of the
compression and of the inner codec, and with the size in the frame.

Source: encodings_v2_1.proto, messages General and BufferCompression; docs/format/encodings.md,
"General"; LZ4 block format; RFC 8878.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

import numpy as np
import zstandard

from alance import _kernels
from alance.errors import UnsupportedError, kernel_errors

if TYPE_CHECKING:
    from alance.base.arrays import Bytes
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_UNIT_BYTES: Final = 1 << 31  # bytes; no writer makes larger chunks or values
ZSTD_MAX_RATIO: Final = 1 << 15  # upper bound: a block of 4 bytes can repeat a byte 128 Ki times
ZSTD_MAGIC: Final = bytes.fromhex("28b52ffd")
ZSTD_PREFIX_BYTES: Final = 8
ZSTD_LEVEL: Final = 3  # default level, also if the field's metadata have 0
PIECE_BYTES: Final = 1 << 20  # bytes; content of unknown size is decompressed in such pieces


class Scheme(IntEnum):
    """Compression algorithm, numbered as CompressionScheme."""

    LZ4 = 1
    ZSTD = 2

    @classmethod
    def from_proto(cls, message: pb.BufferCompression) -> Scheme:
        try:
            return cls(message.scheme)
        except ValueError:
            raise UnsupportedError(f"compression scheme {message.scheme}") from None


SCHEMES: Final = {"lz4": Scheme.LZ4, "zstd": Scheme.ZSTD}


def compress(scheme: Scheme, level: int | None, data: Bytes) -> Bytes:
    """Compress bytes to a unit.

    Args:
        level: compression level of Zstandard; None or 0 for `ZSTD_LEVEL`. LZ4 ignores it.
    """
    if scheme is Scheme.LZ4:
        return _kernels.encode_lz4(data)
    frame = zstandard.ZstdCompressor(level=level or ZSTD_LEVEL).compress(data.data)
    return np.frombuffer(len(data).to_bytes(ZSTD_PREFIX_BYTES, "little") + frame, np.uint8)


def decompress(scheme: Scheme, unit: Bytes) -> Bytes:
    """Decompress a unit."""
    with kernel_errors:
        if scheme is Scheme.LZ4:
            return _kernels.decode_lz4(unit, MAX_UNIT_BYTES)
        return np.frombuffer(decompress_zstd(unit.data, MAX_UNIT_BYTES), np.uint8)


def decompress_zstd(unit: bytes | memoryview, limit: int) -> bytes:
    """Decompress a unit of Zstandard, also for kernels.

    Raises:
        ValueError: the unit is damaged, or its content is larger than `limit` bytes.
    """
    if not unit:
        return b""
    unit = memoryview(unit)
    head = bytes(unit[:5])
    has_prefix = len(unit) >= ZSTD_PREFIX_BYTES and not (
        head.startswith(ZSTD_MAGIC) and not head[4] & 16
    )
    frame = unit[ZSTD_PREFIX_BYTES:] if has_prefix else unit
    limit = min(limit, ZSTD_MAX_RATIO * len(frame))
    try:
        stated = zstandard.frame_content_size(frame)
        if not has_prefix:
            return _content(frame, stated, limit)
        size = int.from_bytes(unit[:ZSTD_PREFIX_BYTES], "little")
        if stated not in (-1, size):
            raise ValueError(f"zstd: a frame of {stated} bytes, expected {size}")
        content = _content(frame, stated, min(size, limit)) if size <= limit else None
    except zstandard.ZstdError as error:
        raise ValueError(f"zstd: {error}") from error
    if content is None or len(content) != size:
        raise ValueError(f"zstd: a unit of {len(unit)} bytes does not hold {size}")
    return content


def _content(frame: memoryview, stated: int, limit: int) -> bytes:
    """Decompress a frame.

    Args:
        stated: size of the content according to the frame's header; -1 if the header has none.
    """
    if stated > limit:
        raise ValueError(f"zstd: a frame of {stated} bytes, at most {limit} are possible")
    decompressor = zstandard.ZstdDecompressor()
    if stated >= 0:
        return decompressor.decompress(frame, allow_extra_data=False)
    pieces: list[bytes] = []
    total = 0
    with decompressor.stream_reader(frame) as reader:
        while piece := reader.read(PIECE_BYTES):
            total += len(piece)
            if total > limit:
                raise ValueError(f"zstd: a frame of more than {limit} bytes")
            pieces.append(piece)
    return b"".join(pieces)


_kernels.set_zstd(decompress_zstd)

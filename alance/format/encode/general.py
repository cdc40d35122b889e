"""General-purpose compression of what other codecs made: units of LZ4 and Zstandard.

    LZ4   u32 size of the content, then one raw LZ4 block
    ZSTD  u64 size of the content, then one frame that says its size

Source: encodings_v2_1.proto, messages General and BufferCompression.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import zstandard

from alance import _kernels
from alance.format.codecs.general import ZSTD_PREFIX_BYTES, Scheme
from alance.format.encode import encodings

if TYPE_CHECKING:
    from alance.format.blocks import Bytes
    from alance.format.encode.base import Int64s, MiniBlockValues
    from alance.format.encode.options import Options

MIN_BYTES: Final = 4096  # a page of less is not worth the units' sizes
ZSTD_LEVEL: Final = 3  # where the field says none, or 0


def compress(scheme: Scheme, level: int | None, data: Bytes, sizes: Int64s) -> tuple[Bytes, Int64s]:
    """Compress neighbouring pieces of `data`, each to one unit.

    Args:
        scheme: of all units.
        level: of Zstandard; LZ4 has none.
        data: the pieces, end to end.
        sizes: bytes of each piece, shape (n,).

    Returns:
        The units end to end, and the bytes of each.
    """
    if scheme is Scheme.LZ4:
        return _kernels.encode_lz4(data, sizes)
    compressor = zstandard.ZstdCompressor(level=level or ZSTD_LEVEL)
    ends = np.cumsum(sizes)
    parts: list[bytes] = []
    unit_sizes = np.empty(len(sizes), np.int64)
    for i, (size, end) in enumerate(zip(sizes.tolist(), ends.tolist(), strict=True)):
        frame = compressor.compress(data[end - size : end].data)
        parts += [size.to_bytes(ZSTD_PREFIX_BYTES, "little"), frame]
        unit_sizes[i] = ZSTD_PREFIX_BYTES + len(frame)
    return np.frombuffer(b"".join(parts), np.uint8), unit_sizes


def compress_chunks(values: MiniBlockValues, options: Options) -> MiniBlockValues:
    """The chunks with buffer 0 compressed, if that is asked for and makes them smaller."""
    scheme, first = options.scheme, values.buffers[0]
    if scheme is None or len(first) < MIN_BYTES:
        return values
    units, sizes = compress(scheme, options.level, first, values.sizes[0])
    if len(units) >= len(first):
        return values
    return replace(
        values,
        encoding=encodings.general(scheme, options.level, values.encoding),
        buffers=(units, *values.buffers[1:]),
        sizes=np.vstack([sizes, values.sizes[1:]]),
    )

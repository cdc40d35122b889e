"""Bytes compressed by a general scheme, piece by piece."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import zstandard

from alance import _kernels
from alance.format.codecs.general import ZSTD_PREFIX_BYTES, Scheme

if TYPE_CHECKING:
    from alance.arrays import Bytes, Int64s

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

"""Bit-packing of 1024 values in numpy: the order written down once more, without any speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

ORDER = (0, 4, 2, 6, 1, 5, 3, 7)


def positions(width: int) -> npt.NDArray[np.int64]:
    """Position of the value of each row and lane; shape (width, 1024 / width)."""
    rows, lanes = np.arange(width), np.arange(1024 // width)
    groups = np.array(ORDER)[rows // 8]
    return (16 * groups + 128 * (rows % 8))[:, np.newaxis] + lanes


def pack(values: Sequence[int] | npt.NDArray[np.unsignedinteger], width: int, packed: int) -> bytes:
    """Pack 1024 values of `width` bits at `packed` bits each."""
    wide = np.array(values, np.uint64)
    bits = (wide[:, np.newaxis] >> np.arange(packed, dtype=np.uint64) & np.uint64(1)).astype("u1")
    by_lane = bits[positions(width)].transpose(1, 0, 2)  # (lanes, rows, bits of a code)
    stream = by_lane.reshape(1024 // width, packed, width)  # (lanes, words, bits of a word)
    words = np.packbits(stream, axis=2, bitorder="little")  # (lanes, words, bytes of a word)
    return words.transpose(1, 0, 2).tobytes()

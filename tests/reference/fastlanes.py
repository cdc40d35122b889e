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
    bits = np.array([[int(v) >> bit & 1 for bit in range(packed)] for v in values], np.uint8)
    by_lane = bits.reshape(1024, packed)[positions(width)]  # (rows, lanes, packed)
    stream = by_lane.transpose(1, 0, 2).reshape(
        1024 // width, packed, width
    )  # (lanes, words, bits)
    words = np.packbits(stream, axis=2, bitorder="little")  # (lanes, words, width / 8)
    return words.transpose(1, 0, 2).tobytes()


def unpack(block: bytes, width: int, packed: int) -> list[int]:
    """The 1024 values of a packed block."""
    words = np.frombuffer(block, np.uint8).reshape(packed, 1024 // width, width // 8)
    stream = np.unpackbits(words.transpose(1, 0, 2), axis=2, bitorder="little")
    codes = stream.reshape(1024 // width, width, packed).transpose(1, 0, 2)  # (rows, lanes, packed)
    flat = np.empty((1024, packed), np.uint8)
    flat[positions(width)] = codes
    return [sum(int(bit) << i for i, bit in enumerate(code)) for code in flat]

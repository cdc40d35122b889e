"""Integers of few bits, as releases that called themselves 2.1 too early wrote them.

    bitpacked              one little-endian stream: value i is bits [i * b, (i + 1) * b)
    bitpacked_for_non_neg  chunks of 1024 values in lanes, 128 * b bytes each, the last padded

The buffer is read whole: no file of a stable release has such pages.

Source: encodings_v2_0.proto, Bitpacked, BitpackedForNonNeg.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, kernel_errors
from alance.format.blocks import FixedWidth, gather
from alance.format.layouts.place import fetch
from alance.format.v2_0.base import Piece, Values

if TYPE_CHECKING:
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.v2_0.spans import Spans

CHUNK: Final = 1024  # values of a chunk in lanes
CHUNK_BYTES: Final = CHUNK // 8  # of each bit of the packed width


@dataclass(frozen=True, slots=True)
class PackedBitsPiece:
    """The buffer, and which values of it are wanted."""

    page: PackedBits
    spans: Spans
    content: memoryview

    @property
    def num_bytes(self) -> int:
        return len(self.content)

    def decode(self) -> Values:
        data = np.frombuffer(self.content, np.uint8)
        page = self.page
        if page.lanes:
            found = FixedWidth(page.bits_per_value, page.num_values, _from_lanes(page, data))
            return Values(gather(found, self.spans.positions()), None)
        width, positions = page.packed_bits, self.spans.positions()
        places = (positions[:, None] * width + np.arange(width)).reshape(-1)
        with kernel_errors:
            bits = _kernels.gather_bits(data, places)
        rows = np.unpackbits(bits, count=len(places), bitorder="little").reshape(-1, width)
        wide = np.zeros((len(rows), page.bits_per_value), np.uint8)
        wide[:, :width] = rows
        if page.is_signed and width:
            wide[:, width:] = rows[:, -1:]
        values = np.packbits(wide, axis=1, bitorder="little").reshape(-1)
        return Values(FixedWidth(page.bits_per_value, len(rows), values), None)


def _from_lanes(
    page: PackedBits, data: np.ndarray[tuple[int], np.dtype[np.uint8]]
) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    bits, width = page.bits_per_value, page.packed_bits
    if width == 0:
        return np.zeros(page.num_values * bits // 8, np.uint8)
    chunks = -(-page.num_values // CHUNK)
    if width == bits:
        # Packed to their own width they lie in lanes all the same.
        raise CorruptFileError(f"bit-packing of {bits} bits to as many")
    starts = np.zeros(1, np.int64)
    sizes = np.array([chunks * CHUNK_BYTES * width], np.int64)
    with kernel_errors:
        return _kernels.unpack_blocks(
            data, starts, sizes, np.array([chunks * CHUNK], np.int64), bits, width
        )


@dataclass(frozen=True, slots=True)
class PackedBits:
    """Integers of `packed_bits` each."""

    bits_per_value: int  # 8, 16, 32 or 64
    packed_bits: int
    buffer: int
    num_values: int
    is_signed: bool
    lanes: bool  # in chunks of lanes; else one stream

    @property
    def buffer_bytes(self) -> int:
        """Bytes that the buffer must have."""
        if self.lanes:
            return -(-self.num_values // CHUNK) * CHUNK_BYTES * self.packed_bits
        return (self.num_values * self.packed_bits + 7) // 8

    def plan(self, place: PagePlace, spans: Spans) -> Plan[Piece]:
        (content,) = yield from fetch([place.whole(self.buffer)])
        return PackedBitsPiece(self, spans, content)

"""Fixed-width encodings: flat, nullable, fixed-size lists, packed structs, bit-packed integers.

  flat              n values back to back; of 1 bit each: LSB first
  nullable          a bitmap (1 is valid) beside other values, or no nulls, or only nulls
  fixed_size_list   the items of row r are values [r * dimension, (r + 1) * dimension)
  packed_struct     rows back to back, each the values of its children, without padding

Only some prereleases of 2.1 bit-packed integers; no stable release wrote such pages. Their buffer
is read completely:

  bitpacked              one little-endian stream: value i is bits [i * b, (i + 1) * b)
  bitpacked_for_non_neg  chunks of 1024 values in lanes, 128 * b bytes each, the last padded

Source: encodings_v2_0.proto, Flat, Nullable, FixedSizeList, PackedStruct, Bitpacked,
BitpackedForNonNeg.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, kernel_errors
from alance.format.blocks import (
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    bits_at,
    gather,
)
from alance.format.layouts.place import fetch, unpinned
from alance.format.plans import together
from alance.format.v2_0.base import (
    ArrayPiece,
    BitPiece,
    NullableBlock,
    Spans,
    fetch_bits,
    fetch_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Bytes
    from alance.format.blocks import Block
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.v2_0.base import ArrayEncoding

LANE_CHUNK_VALUES: Final = 1024  # values per chunk
CHUNK_BYTES: Final = LANE_CHUNK_VALUES // 8  # bytes per chunk and bit of the packed width


@dataclass(frozen=True, slots=True)
class FlatEncoding:
    """Uncompressed values in one buffer."""

    bits_per_value: int  # 1, or a multiple of 8
    buffer: int

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        if self.bits_per_value == 1:
            bits = yield from fetch_bits(place, self.buffer, spans)
            return ArrayPiece(len(bits.content), partial(self._decoded, bits.num_rows, bits.bits))
        width = self.bits_per_value // 8
        content = yield from fetch_values(place, self.buffer, spans, width)
        data = partial(self._decoded, spans.num_rows, lambda: np.frombuffer(content, np.uint8))
        return ArrayPiece(len(content), data)

    def _decoded(self, num_rows: int, data: Callable[[], Bytes]) -> NullableBlock:
        return NullableBlock(FixedWidth(self.bits_per_value, num_rows, data()), None)


@dataclass(frozen=True, slots=True)
class SomeNulls:
    """Values with a validity bitmap, read in the same round."""

    validity: FlatEncoding  # bitmap: values of 1 bit
    values: ArrayEncoding

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        plans: list[Plan[Any]] = [
            fetch_bits(place, self.validity.buffer, spans),
            self.values.plan(place, spans),
        ]
        validity, values = yield from together(plans)
        num_bytes = len(validity.content) + values.num_bytes
        return ArrayPiece(num_bytes, partial(_nullable, validity, values))


def _nullable(validity: BitPiece, piece: ArrayPiece) -> NullableBlock:
    values, valid = piece.decode(), validity.mask()
    if values.valid is not None:
        valid = valid & values.valid
    return NullableBlock(values.block, valid)


@dataclass(frozen=True, slots=True)
class FixedSizeListEncoding:
    """Fixed-size lists of `dimension` items."""

    dimension: int
    items: ArrayEncoding

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        items = yield from self.items.plan(place, spans.times(self.dimension))
        return ArrayPiece(items.num_bytes, partial(self._decoded, items))

    def _decoded(self, piece: ArrayPiece) -> NullableBlock:
        items = piece.decode()
        block, bits = items.block, None
        # A constant block needs no item validity: all its items are null.
        if items.valid is not None and not isinstance(block, NullBlock):
            bits = np.packbits(items.valid, bitorder="little")
        return NullableBlock(FixedSizeListBlock(self.dimension, block, bits), None)


def plain_bits(encoding: ArrayEncoding) -> int:
    """Return the bits of plain values of whole bytes, perhaps in fixed-size lists; else 0."""
    if isinstance(encoding, FixedSizeListEncoding):
        return encoding.dimension * plain_bits(encoding.items)
    if isinstance(encoding, FlatEncoding) and encoding.bits_per_value % 8 == 0:
        return encoding.bits_per_value
    return 0


def _block_of(encoding: ArrayEncoding, data: Bytes) -> Block:
    """Build the block of plain values from their bytes."""
    if isinstance(encoding, FixedSizeListEncoding):
        return FixedSizeListBlock(encoding.dimension, _block_of(encoding.items, data), None)
    bits = plain_bits(encoding)
    return FixedWidth(bits, len(data) * 8 // bits, data)


@dataclass(frozen=True, slots=True)
class PackedStructEncoding:
    """Packed structs: row by row, the plain values of all children, which have no nulls."""

    children: tuple[ArrayEncoding, ...]
    buffer: int

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        row_bytes = sum(map(plain_bits, self.children)) // 8
        content = yield from fetch_values(place, self.buffer, spans, row_bytes)
        return ArrayPiece(len(content), partial(self._decoded, spans.num_rows, content))

    def _decoded(self, num_rows: int, content: memoryview) -> NullableBlock:
        stops = np.cumsum([plain_bits(child) // 8 for child in self.children])
        rows = np.split(unpinned(content).reshape(num_rows, stops[-1]), stops[:-1], axis=1)
        blocks = [
            _block_of(child, np.ascontiguousarray(data).reshape(-1))
            for child, data in zip(self.children, rows, strict=True)
        ]
        return NullableBlock(StructBlock(num_rows, tuple(blocks)), None)


@dataclass(frozen=True, slots=True)
class PackedBits:
    """Bit-packed integers of `packed_bits` bits each."""

    bits_per_value: int  # 8, 16, 32 or 64
    packed_bits: int
    buffer: int
    num_values: int
    is_signed: bool
    lanes: bool  # True for chunks of 1024 values in lanes, False for a single stream

    @property
    def buffer_bytes(self) -> int:
        """Required size of the buffer in bytes."""
        if self.lanes:
            return -(-self.num_values // LANE_CHUNK_VALUES) * CHUNK_BYTES * self.packed_bits
        return (self.num_values * self.packed_bits + 7) // 8

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        (content,) = yield from fetch([place.whole(self.buffer)])
        return ArrayPiece(len(content), partial(self._decoded, spans, content))

    def _decoded(self, spans: Spans, content: memoryview) -> NullableBlock:
        data, positions = np.frombuffer(content, np.uint8), spans.positions()
        bits, width = self.bits_per_value, self.packed_bits
        if self.lanes:
            block = FixedWidth(bits, self.num_values, self._from_lanes(data))
            return NullableBlock(gather(block, positions), None)
        places = (positions[:, None] * width + np.arange(width)).reshape(-1)
        packed = bits_at(data, places)
        rows = np.unpackbits(packed, count=len(places), bitorder="little").reshape(-1, width)
        wide = np.zeros((len(rows), bits), np.uint8)
        wide[:, :width] = rows
        if self.is_signed and width:
            wide[:, width:] = rows[:, -1:]
        values = np.packbits(wide, axis=1, bitorder="little").reshape(-1)
        return NullableBlock(FixedWidth(bits, len(rows), values), None)

    def _from_lanes(self, data: Bytes) -> Bytes:
        bits, width = self.bits_per_value, self.packed_bits
        if width == 0:
            return np.zeros(self.num_values * bits // 8, np.uint8)
        chunks = -(-self.num_values // LANE_CHUNK_VALUES)
        if width == bits:
            # Values packed to their full width would still be in the order of lanes, which is not
            # supported.
            raise CorruptFileError(f"bit-packing of {bits} bits to as many")
        with kernel_errors:
            return _kernels.unpack_blocks(data, chunks * LANE_CHUNK_VALUES, bits, width)

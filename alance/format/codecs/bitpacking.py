"""Bit-packing codecs: the low bits of values, in blocks of 1024.

A packed block of values of T bits at W bits each has `128 * W` bytes, in the FastLanes unified
transposed order (see kernels/bitpacking.cpp).

InlineBitpacking, one buffer, at most 1024 values:

    T / 8 bytes   W
    128 * W       one packed block, always whole

OutOfLineBitpacking, one buffer, any number of values, W stands in the description:

    128 * W * (n div 1024)   packed blocks
    the rest of n            raw values of T bits, or one more packed block: told by the size

Source: encodings_v2_1.proto, messages InlineBitpacking and OutOfLineBitpacking;
docs/format/encodings.md, "Bit-packing".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors
from alance.format.blocks import FixedWidth
from alance.format.codecs.base import (
    ChunkBuffers,
    nested_flat_bits,
    packable_bits,
    refuse_compression,
)

if TYPE_CHECKING:
    from alance.arrays import Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class InlineBitpacking:
    """Values of one packed block, its width in front of it."""

    num_buffers: ClassVar[int] = 1

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.InlineBitpacking) -> InlineBitpacking:
        refuse_compression(message, "values")
        return cls(packable_bits(message, "inline bit-packing"))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.unpack_inline(
                chunks.data, chunks.starts[0], chunks.sizes[0], chunks.counts, bits
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    decode_blocks = decode_chunks

    def max_bytes(self, counts: Int64s) -> Int64s:
        bits = self.bits_per_value
        return np.full(len(counts), bits // 8 + 128 * bits, np.int64)


@dataclass(frozen=True, slots=True)
class OutOfLineBitpacking:
    """Any number of values, all packed to the same width."""

    bits_per_value: int
    packed_bits: int  # 1 to bits_per_value - 1

    @classmethod
    def from_proto(cls, message: pb.OutOfLineBitpacking) -> OutOfLineBitpacking:
        bits = packable_bits(message, "bit-packing")
        return cls(bits, nested_flat_bits(message.values, range(1, bits), "bit-packing"))

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.unpack_blocks(
                blocks.data,
                blocks.starts[0],
                blocks.sizes[0],
                blocks.counts,
                bits,
                self.packed_bits,
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    def max_bytes(self, counts: Int64s) -> Int64s:
        return counts * (self.bits_per_value // 8) + 128 * self.packed_bits

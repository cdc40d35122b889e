"""Byte-stream-split codec: byte 0 of all values of a chunk, then byte 1 of all, and so on.

One buffer a chunk, values of 32 or 64 bits. It compresses nothing by itself; it stands inside
General to make floats more regular.

Source: encodings_v2_1.proto, message ByteStreamSplit; docs/format/encodings.md, "ByteStreamSplit".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from alance import _kernels
from alance.format.blocks import FixedWidth
from alance.format.codecs.base import ChunkBuffers, kernel_errors
from alance.format.codecs.describe import nested_flat_bits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class ByteStreamSplit:
    """Values whose bytes are sorted by significance."""

    num_buffers: ClassVar[int] = 1

    bits_per_value: int  # 32 or 64

    @classmethod
    def from_proto(cls, message: pb.ByteStreamSplit) -> ByteStreamSplit:
        return cls(nested_flat_bits(message.values, (32, 64), "byte stream split"))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.unsplit_bytes(
                chunks.data, chunks.starts[0], chunks.sizes[0], chunks.counts, bits
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return counts * (self.bits_per_value // 8)

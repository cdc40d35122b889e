"""Run-length codec.

In mini-blocks two buffers: the value of each run, then the length of each run, one byte. A run
longer than 255 is stored as several. As a block one buffer:

    u64    bytes of the values
    ...    values
    rest   lengths

Only the last run may be longer than what is left of the chunk; it is cut. Coded children and wider
lengths come with 2.3.

Source: encodings_v2_1.proto, message Rle; docs/format/encodings.md, "Rle".
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
class Rle:
    """Runs of equal values."""

    num_buffers: ClassVar[int] = 2

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.Rle) -> Rle:
        nested_flat_bits(message.run_lengths, (8,), "rle lengths")
        return cls(nested_flat_bits(message.values, (8, 16, 32, 64), "rle"))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        values, lengths = zip(chunks.starts, chunks.sizes, strict=True)
        return self._expand(chunks, *values, *lengths)

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        with kernel_errors:
            spans = _kernels.split_runs(blocks.data, blocks.starts[0], blocks.sizes[0])
        return self._expand(blocks, *spans)

    def _expand(
        self,
        chunks: ChunkBuffers,
        value_starts: npt.NDArray[np.int64],
        value_sizes: npt.NDArray[np.int64],
        length_starts: npt.NDArray[np.int64],
        length_sizes: npt.NDArray[np.int64],
    ) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.expand_runs(
                chunks.data,
                value_starts,
                value_sizes,
                length_starts,
                length_sizes,
                chunks.counts,
                bits,
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Of the run values, or of a block: one run a value, and the size in front."""
        return counts * (self.bits_per_value // 8 + 1) + 8

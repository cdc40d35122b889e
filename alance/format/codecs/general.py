"""General codec: a general-purpose compression around what another codec made.

In mini-blocks only buffer 0 of each chunk is compressed; as a block the whole of it; zipped each
value is one compressed unit. The units are described in `compression.py`.

Source: encodings_v2_1.proto, message General; docs/format/encodings.md, "General".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from alance.format.blocks import Block, FixedWidth, VariableWidth
from alance.format.codecs.base import BlockCodec, ChunkBuffers, MiniBlockCodec
from alance.format.codecs.compression import Scheme, decompress
from alance.format.codecs.variable import Variable, check_variable

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class GeneralMiniBlock:
    """Chunks whose first buffer is compressed."""

    scheme: Scheme
    inner: MiniBlockCodec

    @classmethod
    def from_proto(cls, message: pb.General, inner: MiniBlockCodec) -> GeneralMiniBlock:
        return cls(Scheme.from_proto(message.compression), inner)

    @property
    def num_buffers(self) -> int:
        return self.inner.num_buffers

    def decode_chunks(self, chunks: ChunkBuffers) -> Block:
        plain = _decompress_first(self.scheme, chunks, self.inner.max_bytes(chunks.counts))
        return self.inner.decode_chunks(plain)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class GeneralBlock:
    """Blocks that are compressed as a whole."""

    scheme: Scheme
    inner: BlockCodec

    @classmethod
    def from_proto(cls, message: pb.General, inner: BlockCodec) -> GeneralBlock:
        return cls(Scheme.from_proto(message.compression), inner)

    def decode_blocks(self, blocks: ChunkBuffers) -> Block:
        plain = _decompress_first(self.scheme, blocks, self.inner.max_bytes(blocks.counts))
        return self.inner.decode_blocks(plain)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> None:
        return None


@dataclass(frozen=True, slots=True)
class GeneralPerValue:
    """Strings of which each is one compressed unit."""

    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    scheme: Scheme
    inner: Variable

    @classmethod
    def from_proto(cls, message: pb.General) -> GeneralPerValue:
        """The codec of a description whose values are Variable."""
        return cls(
            Scheme.from_proto(message.compression), Variable.from_proto(message.values.variable)
        )

    def decode_values(self, values: FixedWidth | VariableWidth) -> VariableWidth:
        units = check_variable(values)
        bounds = units.offsets.astype(np.int64, copy=False)
        offsets, data = decompress(self.scheme, units.data, bounds[:-1], np.diff(bounds))
        return self.inner.decode_values(VariableWidth(offsets, data))


def _decompress_first(
    scheme: Scheme, chunks: ChunkBuffers, limits: npt.NDArray[np.int64] | None
) -> ChunkBuffers:
    """The same chunks with buffer 0 decompressed; further buffers are copied behind it."""
    offsets, content = decompress(scheme, chunks.data, chunks.starts[0], chunks.sizes[0], limits)
    starts, sizes = chunks.starts.copy(), chunks.sizes.copy()
    starts[0], sizes[0] = offsets[:-1], np.diff(offsets)
    if len(starts) == 1:
        return ChunkBuffers(content, starts, sizes, chunks.counts)
    starts[1:] += len(content)
    return ChunkBuffers(np.concatenate([content, chunks.data]), starts, sizes, chunks.counts)

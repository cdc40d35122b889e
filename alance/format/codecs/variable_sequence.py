"""Variable codec whose offsets are a sequence (2.3), in mini-blocks.

    payload of the offsets   a buffer of its own, where their codec has one
    bytes                    without padding

A chunk of n values has n + 1 offsets: they begin at 0 and end at the number of its bytes.

Source: encodings_v2_1.proto, message Variable; docs/format/encodings.md, "Mini-block, sequence
offsets".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from alance import _kernels
from alance.format.blocks import VariableWidth
from alance.format.codecs.base import ChunkBuffers, MiniBlockCodec, kernel_errors
from alance.format.codecs.describe import refuse_compression, variant
from alance.format.codecs.sequence_nested import sequence_codec
from alance.format.codecs.variable import Variable

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.format.codecs.sequence import SequenceCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb


def variable_codec(message: pb.Variable) -> MiniBlockCodec:
    """The codec of strings in mini-blocks, by that of their offsets.

    Raises:
        UnsupportedError: one that is not known.
        CorruptFileError: the description contradicts itself.
    """
    if variant(message.offsets) == "flat":
        return Variable.from_proto(message)
    refuse_compression(message, "values")
    return SequenceVariable(sequence_codec(message.offsets, bits=32))


@dataclass(frozen=True, slots=True)
class SequenceVariable:
    """Byte strings, their offsets apart from their bytes."""

    offsets: SequenceCodec

    @property
    def num_buffers(self) -> int:
        return 1 + self.offsets.has_payload

    def decode_chunks(self, chunks: ChunkBuffers) -> VariableWidth:
        counts = chunks.counts
        starts, sizes = chunks.starts[-1], chunks.sizes[-1]
        offsets = self.offsets.decode(
            ChunkBuffers(chunks.data, chunks.starts[:-1], chunks.sizes[:-1], counts + 1)
        )
        with kernel_errors:
            joined = _kernels.join_offsets(offsets, counts, sizes)
            _, data = _kernels.concat_spans_64(chunks.data, starts, sizes)
        codec = Variable(self.offsets.bits)
        return VariableWidth(codec.offsets_of(VariableWidth(joined, data)), data)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> None:
        return None

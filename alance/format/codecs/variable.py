"""Variable codec: byte strings with offsets of 32 or 64 bits.

In mini-blocks one buffer a chunk, o the bytes of an offset:

    o * (n + 1)   offsets from the start of this buffer: the first is where the bytes begin
    ...           bytes
    0 to o - 1    padding to a multiple of o

As a block (a dictionary) one buffer, its words of 32 or 64 bits as the offsets:

    word          32 or 64: bits of an offset
    word          where the bytes begin, from the start of this buffer
    word * n + 1  offsets from the first of the bytes: the first is 0
    ...           bytes

Early writers began a block with one byte for the bits of an offset and then the number of values.
Zipped in rows, a value is its bytes; the layout knows their length.

Source: encodings_v2_1.proto, message Variable; docs/format/encodings.md, "Variable".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import ChunkBuffers, kernel_errors
from alance.format.codecs.describe import nested_flat_bits, refuse_compression

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.blocks import Bytes
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Variable:
    """Byte strings."""

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    bits_per_offset: int  # 32 or 64

    @classmethod
    def from_proto(cls, message: pb.Variable) -> Variable:
        refuse_compression(message, "values")
        return cls(nested_flat_bits(message.offsets, (32, 64), "offsets"))

    def decode_chunks(self, chunks: ChunkBuffers) -> VariableWidth:
        concat = (
            _kernels.concat_strings_32 if self.bits_per_offset == 32 else _kernels.concat_strings_64
        )
        with kernel_errors:
            return VariableWidth(
                *concat(chunks.data, chunks.starts[0], chunks.sizes[0], chunks.counts)
            )

    def decode_blocks(self, blocks: ChunkBuffers) -> VariableWidth:
        found = []
        spans = zip(blocks.starts[0].tolist(), blocks.sizes[0].tolist(), strict=True)
        for (start, size), count in zip(spans, blocks.counts.tolist(), strict=True):
            if not 0 <= start <= start + size <= len(blocks.data):
                raise CorruptFileError(f"variable: a block outside of {len(blocks.data)} bytes")
            found.append(self._decode_block(blocks.data[start : start + size], count))
        if len(found) == 1:
            return found[0]
        sizes = np.array([len(one.offsets) - 1 for one in found], np.int64)
        ends = np.cumsum([len(one.data) for one in found], dtype=np.int64)
        offsets = np.concatenate([np.zeros(1, np.int64), *(one.offsets[1:] for one in found)])
        offsets[1:] += np.repeat(ends - [len(one.data) for one in found], sizes)
        strings = VariableWidth(offsets, np.concatenate([one.data for one in found]))
        return VariableWidth(self.offsets_of(strings), strings.data)

    def _decode_block(self, block: Bytes, num_values: int) -> VariableWidth:
        word = self.bits_per_offset // 8
        offsets_start, bits, bytes_start = self._block_header(block, num_values)
        if bits != self.bits_per_offset:
            raise CorruptFileError(
                f"variable: a block with offsets of {bits} bits, described are "
                f"{self.bits_per_offset}"
            )
        offsets_stop = offsets_start + word * (num_values + 1)
        if not offsets_stop <= bytes_start <= len(block):
            raise CorruptFileError(
                f"variable: {num_values} values whose bytes begin at {bytes_start} "
                f"of {len(block)} bytes"
            )
        # A dictionary is kept for long: nothing of it may hold the buffer that was read.
        offsets = np.frombuffer(block[offsets_start:offsets_stop].tobytes(), f"<i{word}")
        if offsets[0] != 0 or np.any(offsets[1:] < offsets[:-1]):
            raise CorruptFileError("variable: offsets of a block do not rise from 0")
        if (num_bytes := int(offsets[-1])) > len(block) - bytes_start:
            raise CorruptFileError(
                f"variable: offsets to {num_bytes} in {len(block) - bytes_start} bytes"
            )
        return VariableWidth(offsets, block[bytes_start : bytes_start + num_bytes].copy())

    def _block_header(self, block: Bytes, num_values: int) -> tuple[int, int, int]:
        """Where the offsets begin, bits of an offset, where the bytes begin."""
        word = self.bits_per_offset // 8
        if len(block) < 1 + 2 * word:
            raise CorruptFileError(f"variable: a block of {len(block)} bytes")
        if block[1:4].any():  # the number of values of early writers
            count, bytes_start = (int(x) for x in np.frombuffer(block, f"<u{word}", 2, offset=1))
            if count != num_values:
                raise CorruptFileError(f"variable: a block of {count} values, not {num_values}")
            return 1 + 2 * word, int(block[0]), bytes_start
        bits, bytes_start = (int(x) for x in np.frombuffer(block, f"<u{word}", 2))
        return 2 * word, bits, bytes_start

    def decode_values(self, values: FixedWidth | VariableWidth) -> VariableWidth:
        strings = check_variable(values)
        return VariableWidth(self.offsets_of(strings), strings.data)

    def offsets_of(self, strings: VariableWidth) -> npt.NDArray[np.int32] | npt.NDArray[np.int64]:
        """Their offsets in the type that the description names.

        Raises:
            UnsupportedError: more bytes than 32-bit offsets can say.
        """
        if self.bits_per_offset == 64:
            return strings.offsets.astype(np.int64, copy=False)
        if (num_bytes := int(strings.offsets[-1])) > np.iinfo(np.int32).max:
            raise UnsupportedError(
                f"strings of {num_bytes} bytes with 32-bit offsets: read fewer rows at once"
            )
        return strings.offsets.astype(np.int32, copy=False)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> None:
        return None


def check_variable(values: FixedWidth | VariableWidth) -> VariableWidth:
    """The values that a variable-width codec expects.

    Raises:
        CorruptFileError: the layout zipped fixed-width values.
    """
    if isinstance(values, FixedWidth):
        raise CorruptFileError(f"values of {values.bits_per_value} bits, described as variable")
    return values

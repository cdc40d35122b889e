"""Flat codec: values as they are.

One buffer of `ceil(n * bits_per_value / 8)` bytes; widths that are not whole bytes (booleans) are
packed without gaps, least significant bit first. In full-zip pages values are whole bytes, and a
boolean is one byte, 0 or 1.

Source: encodings_v2_1.proto, message Flat; docs/format/encodings.md, "Flat".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import ChunkBuffers, kernel_errors
from alance.format.codecs.describe import flat_bits

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Flat:
    """Fixed-width values, uncompressed."""

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["fixed"]] = "fixed"

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.Flat) -> Flat:
        return cls(flat_bits(message))

    @classmethod
    def per_value(cls, message: pb.Flat) -> Flat:
        """The codec of zipped values, which are whole bytes."""
        codec = cls.from_proto(message)
        if codec.bits_per_value % 8:
            raise UnsupportedError(f"flat: zipped values of {codec.bits_per_value} bits")
        return codec

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        with kernel_errors:
            data = _kernels.concat_fixed(
                chunks.data, chunks.starts[0], chunks.sizes[0], chunks.counts, self.bits_per_value
            )
        return FixedWidth(self.bits_per_value, chunks.num_values, data)

    decode_blocks = decode_chunks

    def decode_values(self, values: FixedWidth | VariableWidth) -> FixedWidth:
        return check_fixed(values, self.bits_per_value)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return (counts * self.bits_per_value + 7) // 8


def check_fixed(values: FixedWidth | VariableWidth, bits_per_value: int) -> FixedWidth:
    """The values that a fixed-width codec expects.

    Raises:
        CorruptFileError: the layout zipped other values than the codec describes.
    """
    if isinstance(values, VariableWidth):
        raise CorruptFileError(f"variable values, the codec describes {bits_per_value} bits")
    if values.bits_per_value != bits_per_value:
        raise CorruptFileError(
            f"values of {values.bits_per_value} bits, the codec describes {bits_per_value}"
        )
    return values

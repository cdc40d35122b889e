"""Packed-struct codec: the fixed-width children of a struct side by side in each row.

A row is the bytes of the children in the order of the struct, without padding, stored as Flat.
Children of single bits do not occur: no reader takes them.

Source: encodings_v2_1.proto, message PackedStruct; docs/format/encodings.md, "PackedStruct".
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, StructBlock, VariableWidth
from alance.format.codecs.base import ChunkBuffers, kernel_errors
from alance.format.codecs.describe import expect
from alance.format.codecs.flat import Flat

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class PackedStruct:
    """Structs of fixed-width children."""

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["fixed"]] = "fixed"

    child_bits: tuple[int, ...]  # each a multiple of 8
    rows: Flat

    @property
    def bits_per_value(self) -> int:
        return self.rows.bits_per_value

    @classmethod
    def from_proto(cls, message: pb.PackedStruct) -> PackedStruct:
        expect(message.values, ("flat",), "packed struct")
        rows = Flat.from_proto(message.values.flat)
        child_bits = tuple(message.bits_per_value)
        if any(bits % 8 for bits in child_bits):
            raise UnsupportedError(f"packed struct with children of {child_bits} bits")
        if not all(child_bits) or sum(child_bits) != rows.bits_per_value:
            raise CorruptFileError(
                f"packed struct: children of {child_bits} bits in rows of {rows.bits_per_value}"
            )
        return cls(child_bits, rows)

    def decode_chunks(self, chunks: ChunkBuffers) -> StructBlock:
        return self._unzip(self.rows.decode_chunks(chunks))

    def decode_values(self, values: FixedWidth | VariableWidth) -> StructBlock:
        return self._unzip(self.rows.decode_values(values))

    def _unzip(self, rows: FixedWidth) -> StructBlock:
        row_bytes = self.bits_per_value // 8
        starts = accumulate((bits // 8 for bits in self.child_bits), initial=0)
        with kernel_errors:
            children = tuple(
                FixedWidth(
                    bits,
                    rows.num_values,
                    _kernels.unzip_column(rows.data, row_bytes, start, bits),
                )
                for bits, start in zip(self.child_bits, starts, strict=False)
            )
        return StructBlock(rows.num_values, children)

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return self.rows.max_bytes(counts)

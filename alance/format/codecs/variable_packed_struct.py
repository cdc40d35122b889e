"""Variable packed structs (2.2 and later): the encoded children of a struct side by side.

Each child has a per-value codec of its own. A row is, child after child:

    encoded value                   if the child is fixed-width after encoding
    u32 or u64, encoded value       else: its length, then the value

Source: encodings_v2_1.proto, message VariablePackedStruct; docs/format/encodings.md,
"VariablePackedStruct".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import Block, FixedWidth, StructBlock, VariableWidth
from alance.format.codecs.base import PerValueCodec, kernel_errors
from alance.format.codecs.variable import check_variable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Part:
    """One child in a row: a value of known size, or a length and a value."""

    codec: PerValueCodec
    bits_per_length: int | None  # 32 or 64; None: the encoded value has always the same size

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct.FieldEncoding, codec: PerValueCodec
    ) -> Part:
        layout = message.WhichOneof("layout")
        if layout is None:
            raise CorruptFileError("variable packed struct: a child without its layout")
        expected = "bits_per_value" if codec.encoded == "fixed" else "bits_per_length"
        if layout != expected:
            raise CorruptFileError(f"variable packed struct: {layout}, its codec has {expected}")
        if layout == "bits_per_length":
            if message.bits_per_length not in (32, 64):
                raise UnsupportedError(
                    f"variable packed struct: lengths of {message.bits_per_length} bits"
                )
            return cls(codec, message.bits_per_length)
        if message.bits_per_value != codec.bits_per_value or message.bits_per_value % 8:
            raise CorruptFileError(
                f"variable packed struct: a child of {message.bits_per_value} bits, "
                f"its codec has {codec.bits_per_value}"
            )
        return cls(codec, None)

    @property
    def wire_bytes(self) -> int:
        """Bytes of the value, or minus the bytes of its length."""
        if self.bits_per_length is not None:
            return -self.bits_per_length // 8
        assert self.codec.bits_per_value is not None
        return self.codec.bits_per_value // 8

    def decode(
        self,
        rows: VariableWidth,
        starts: npt.NDArray[np.int64],
        sizes: npt.NDArray[np.int64],
    ) -> Block:
        """The child's values from their places in the rows."""
        with kernel_errors:
            offsets, data = _kernels.concat_spans_64(rows.data, starts, sizes)
        if self.bits_per_length is not None:
            return self.codec.decode_values(VariableWidth(offsets, data))
        assert self.codec.bits_per_value is not None
        return self.codec.decode_values(FixedWidth(self.codec.bits_per_value, len(starts), data))


@dataclass(frozen=True, slots=True)
class VariablePackedStruct:
    """Structs with a variable-width child, or with lists of fixed size."""

    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    parts: tuple[Part, ...]

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct, codecs: Sequence[PerValueCodec]
    ) -> VariablePackedStruct:
        """The codec of a description, given the codecs of its children."""
        if not codecs:
            raise CorruptFileError("variable packed struct: no children")
        parts = zip(message.fields, codecs, strict=True)
        return cls(tuple(Part.from_proto(field, codec) for field, codec in parts))

    def decode_values(self, values: FixedWidth | VariableWidth) -> StructBlock:
        rows = check_variable(values)
        wire = np.array([part.wire_bytes for part in self.parts], np.int64)
        with kernel_errors:
            starts, sizes = _kernels.split_rows(rows.offsets, rows.data, wire)
        shape = (len(self.parts), rows.num_values)
        places = zip(self.parts, starts.reshape(shape), sizes.reshape(shape), strict=True)
        return StructBlock(
            rows.num_values,
            tuple(
                part.decode(rows, part_starts, part_sizes)
                for part, part_starts, part_sizes in places
            ),
        )

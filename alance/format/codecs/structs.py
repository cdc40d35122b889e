"""Codecs for packed structs: all children of a struct in one value per row.

Source: encodings_v2_1.proto, messages PackedStruct and VariablePackedStruct;
docs/format/encodings.md, "PackedStruct" and "VariablePackedStruct".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import PerValueCodec, expect
from alance.format.codecs.fixed import Flat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class PackedStruct:
    """Structs of fixed-width children; rows are stored as Flat.

    A row has the bytes of the children in the order of the struct, without padding. All
    children must be whole bytes, because no reader supports others.
    """

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["fixed"]] = "fixed"

    child_bits: tuple[int, ...]  # bits of each child, a multiple of 8
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


class Child(NamedTuple):
    """Child of a packed struct.

    In each row, it has a value of fixed size, or a length and a value.
    """

    codec: PerValueCodec
    bits_per_length: int | None  # 32 or 64; None if all encoded values have the same size

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct.FieldEncoding, codec: PerValueCodec
    ) -> Child:
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


@dataclass(frozen=True, slots=True)
class VariablePackedStruct:
    """Structs with a variable-width child, or with fixed-size lists (2.2 and later).

    Each child has its own per-value codec. A row has, for each child:

        encoded value                   if encoded values of the child have a fixed size
        u32 or u64, encoded value       else: the length of the value, then the value
    """

    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    parts: tuple[Child, ...]

    @classmethod
    def from_proto(
        cls, message: pb.VariablePackedStruct, codecs: Sequence[PerValueCodec]
    ) -> VariablePackedStruct:
        """Parse a description.

        Args:
            codecs: codec of each child.
        """
        if not codecs:
            raise CorruptFileError("variable packed struct: no children")
        parts = zip(message.fields, codecs, strict=True)
        return cls(tuple(Child.from_proto(field, codec) for field, codec in parts))

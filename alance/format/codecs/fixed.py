"""Codecs for fixed-width values: flat, bit-packed, constant, byte-stream-split, fixed-size lists.

A block of 1024 values, packed from T bits to W bits each, has `128 * W` bytes in the unified
transposed order of FastLanes (see kernels/codecs/bitpacking.cpp).

Source: encodings_v2_1.proto, messages Flat, InlineBitpacking, OutOfLineBitpacking, Constant,
ByteStreamSplit and FixedSizeList; docs/format/encodings.md, "Flat", "Bit-packing", "Constant,
Range", "ByteStreamSplit" and "FixedSizeList".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import (
    MAX_BITS_PER_VALUE,
    expect,
    flat_bits,
    nested_flat_bits,
    packable_bits,
    refuse_compression,
)

if TYPE_CHECKING:
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Flat:
    """Raw values.

    One buffer of `ceil(n * bits_per_value / 8)` bytes. Booleans, the only values that are not whole
    bytes, are packed without gaps, LSB first. In full-zip pages, a boolean is one byte, 0 or 1.
    """

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["fixed"]] = "fixed"

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.Flat) -> Flat:
        return cls(flat_bits(message))

    @classmethod
    def per_value(cls, message: pb.Flat) -> Flat:
        """Parse the codec for zipped values, which must have whole bytes."""
        codec = cls.from_proto(message)
        if codec.bits_per_value % 8:
            raise UnsupportedError(f"flat: zipped values of {codec.bits_per_value} bits")
        return codec


@dataclass(frozen=True, slots=True)
class Constant:
    """Single value for all slots, stored in the description; there are no other bytes.

    Used for blocks and zipped rows of files up to 2.2. The module `sequence` has the constants of
    2.3.
    """

    encoded: ClassVar[Literal["fixed"]] = "fixed"
    bits_per_value: ClassVar[int] = 0  # bits per encoded value

    value: bytes

    @classmethod
    def from_proto(cls, message: pb.Constant) -> Constant:
        if not message.value:
            raise UnsupportedError("constant without a value: nulls are told by levels")
        return cls(message.value)


@dataclass(frozen=True, slots=True)
class ByteStreamSplit:
    """Transposed bytes: byte 0 of all values of a chunk, then byte 1 of all values, and so on.

    A chunk has one buffer. The codec itself saves no bytes, but it helps General to compress
    floats.
    """

    num_buffers: ClassVar[int] = 1

    bits_per_value: int  # 32 or 64

    @classmethod
    def from_proto(cls, message: pb.ByteStreamSplit) -> ByteStreamSplit:
        return cls(nested_flat_bits(message.values, (32, 64), "byte stream split"))


class ListLevel(NamedTuple):
    """Level of nested fixed-size lists."""

    dimension: int
    has_validity: bool
    items_per_row: int  # product of the dimensions of this level and of all outer levels


@dataclass(frozen=True, slots=True)
class FixedSizeList:
    """Fixed-size lists, which may be nested.

    The description nests from the outside in, and ends in Flat or Constant. A level may store the
    validity of its items (1 is valid, LSB first). D is the product of all dimensions, D_k the
    product of the dimensions of levels 1 to k. In mini-blocks, a chunk of n rows has:

        one buffer per level with validity, outermost first: n * D_k bits
        items: n * D values, as Flat

    Zipped rows and blocks have, for each row:

        ceil(D_k / 8) bytes for each level with validity, outermost first
        D * bits_per_item / 8 bytes of items; none if all items of the page are null (Constant)
    """

    encoded: ClassVar[Literal["fixed"]] = "fixed"

    levels: tuple[ListLevel, ...]  # outermost first
    bits_per_item: int | None  # None if all items are null and take no bytes

    @classmethod
    def from_proto(cls, message: pb.FixedSizeList) -> FixedSizeList:
        levels: list[ListLevel] = []
        items_per_row = 1
        while True:
            dimension = message.items_per_value
            items_per_row *= dimension
            if dimension == 0:
                raise UnsupportedError("fixed-size list of 0 items")
            if items_per_row > MAX_BITS_PER_VALUE:
                raise CorruptFileError(f"fixed-size list of {items_per_row} items")
            levels.append(ListLevel(dimension, message.has_validity, items_per_row))
            name = expect(
                message.values, ("fixed_size_list", "flat", "constant"), "fixed-size list"
            )
            if name != "fixed_size_list":
                break
            message = message.values.fixed_size_list
        if name == "constant":
            if message.values.constant.HasField("value"):
                raise UnsupportedError("fixed-size list of constant items that are not null")
            return cls(tuple(levels), None)
        bits_per_item = flat_bits(message.values.flat)
        if items_per_row * bits_per_item > MAX_BITS_PER_VALUE:
            raise CorruptFileError(
                f"fixed-size list of {items_per_row} items of {bits_per_item} bits"
            )
        return cls(tuple(levels), bits_per_item)

    @classmethod
    def mini_block(cls, message: pb.FixedSizeList) -> FixedSizeList:
        """Parse the codec for chunks, which store items even if all items are null."""
        codec = cls.from_proto(message)
        if codec.bits_per_item is None:
            raise UnsupportedError("fixed-size list of constant items in mini-blocks")
        return codec

    @classmethod
    def per_value(cls, message: pb.FixedSizeList) -> FixedSizeList:
        """Parse the codec for zipped rows, which must have whole bytes."""
        codec = cls.from_proto(message)
        if codec.item_bits % 8:
            raise UnsupportedError(f"fixed-size list: zipped items of {codec.item_bits} bits")
        if codec.bits_per_value == 0:
            raise CorruptFileError("fixed-size list: rows without bytes")
        return codec

    @property
    def num_buffers(self) -> int:
        return 1 + sum(level.has_validity for level in self.levels)

    @property
    def bits_per_value(self) -> int:
        return self.item_bits + 8 * sum(self._validity_bytes())

    @property
    def item_bits(self) -> int:
        """Bits of all items per row."""
        return self.levels[-1].items_per_row * (self.bits_per_item or 0)

    def _validity_bytes(self) -> list[int]:
        """Return the bytes of validity per zipped row, for each level with validity."""
        return [-(-level.items_per_row // 8) for level in self.levels if level.has_validity]


@dataclass(frozen=True, slots=True)
class InlineBitpacking:
    """Bit-packing of at most 1024 values of T bits to W bits each. A chunk has one buffer:

    T / 8 bytes   W
    128 * W       a packed block, always complete
    """

    num_buffers: ClassVar[int] = 1

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.InlineBitpacking) -> InlineBitpacking:
        refuse_compression(message, "values")
        return cls(packable_bits(message, "inline bit-packing"))


class OutOfLineBitpacking(NamedTuple):
    """Bit-packing of n values of T bits to W bits each; the description has W. One buffer:

    128 * W * (n div 1024)   packed blocks
    remaining n mod 1024     raw values of T bits, or one more packed block; their size shows which

    W is 0 if all values are 0.
    """

    bits_per_value: int
    packed_bits: int  # 0 to bits_per_value - 1

    @classmethod
    def from_proto(cls, message: pb.OutOfLineBitpacking) -> OutOfLineBitpacking:
        bits = packable_bits(message, "bit-packing")
        return cls(bits, nested_flat_bits(message.values, range(bits), "bit-packing"))

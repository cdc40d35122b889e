"""Codecs for fixed-width values: flat, bit-packed, constant, byte-stream-split, fixed-size lists.

A block of 1024 values, packed from T bits to W bits each, has `128 * W` bytes in the unified
transposed order of FastLanes (see kernels/codecs/bitpacking.cpp).

Source: encodings_v2_1.proto, messages Flat, InlineBitpacking, OutOfLineBitpacking, Constant,
ByteStreamSplit and FixedSizeList; docs/format/encodings.md, "Flat", "Bit-packing", "Constant,
Range", "ByteStreamSplit" and "FixedSizeList".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError, kernel_errors
from alance.format.blocks import Block, ConstantBlock, FixedSizeListBlock, FixedWidth, VariableWidth
from alance.format.codecs.base import (
    MAX_BITS_PER_VALUE,
    MAX_REPEATED,
    expect,
    flat_bits,
    nested_flat_bits,
    packable_bits,
    refuse_compression,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes
    from alance.format.proto import encodings_v2_1_pb2 as pb

PACKED_AT_ONCE: Final = 1024  # values per packed block


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

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> FixedWidth:
        return self.decode_block(buffers[0], num_values)

    def decode_block(self, data: Bytes, num_values: int) -> FixedWidth:
        bits = self.bits_per_value
        return FixedWidth(bits, num_values, _own_bytes(data, num_values, bits))

    def decode_values(self, values: FixedWidth | VariableWidth) -> FixedWidth:
        return check_fixed(values, self.bits_per_value)

    def max_bytes(self, num_values: int) -> int:
        return (num_values * self.bits_per_value + 7) // 8


def _own_bytes(data: Bytes, num_values: int, bits: int, codec: str = "flat") -> Bytes:
    """Copy the bytes of values after checking their number.

    Raises:
        CorruptFileError: the number of bytes does not fit the values.
    """
    if len(data) != (num_values * bits + 7) // 8:
        raise CorruptFileError(f"{codec}: {len(data)} bytes for {num_values} values of {bits} bits")
    return data.copy()


def column_of(rows: FixedWidth, start: int, bits: int) -> Bytes:
    """Copy a child column out of rows: `bits` bits of each row, from the row's byte `start` on."""
    row_bytes, size = rows.bits_per_value // 8, (bits + 7) // 8
    if bits % 8:
        column = rows.data.reshape(rows.num_values, row_bytes)[:, start : start + size]
        single = np.unpackbits(column, axis=1, count=bits, bitorder="little")
        return np.packbits(single, bitorder="little")
    if not (rows.num_values and size):
        return np.empty(0, np.uint8)
    # Copying words is 4 times faster than copying bytes.
    word = f"u{size}" if size in (1, 2, 4, 8) else f"V{size}"
    values = np.ndarray(rows.num_values, word, rows.data, start, (row_bytes,))
    return np.ascontiguousarray(values).view(np.uint8)


def check_fixed(values: FixedWidth | VariableWidth, bits_per_value: int) -> FixedWidth:
    """Return zipped values after checking that they have the width of their codec.

    Raises:
        CorruptFileError: the values are variable-width, or have another width.
    """
    if isinstance(values, VariableWidth):
        raise CorruptFileError(f"variable values, the codec describes {bits_per_value} bits")
    if values.bits_per_value != bits_per_value:
        raise CorruptFileError(
            f"values of {values.bits_per_value} bits, the codec describes {bits_per_value}"
        )
    return values


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

    def decode_block(self, data: Bytes, num_values: int) -> FixedWidth:
        if len(data):
            raise CorruptFileError(f"constant: {len(data)} bytes, the description has the value")
        return self._repeated(num_values)

    def decode_values(self, values: FixedWidth | VariableWidth) -> FixedWidth:
        return self._repeated(check_fixed(values, self.bits_per_value).num_values)

    def max_bytes(self, num_values: int) -> int:
        return 0

    def _repeated(self, num_values: int) -> FixedWidth:
        if num_values > MAX_REPEATED:
            raise UnsupportedError(f"constant: a block of {num_values} values")
        data = np.tile(np.frombuffer(self.value, np.uint8), num_values)
        return FixedWidth(8 * len(self.value), num_values, data)


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

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> FixedWidth:
        bits = self.bits_per_value
        planes = _own_bytes(buffers[0], num_values, bits, "byte stream split")
        planes = planes.reshape(bits // 8, num_values)
        return FixedWidth(bits, num_values, np.ascontiguousarray(planes.T).reshape(-1))

    def max_bytes(self, num_values: int) -> int:
        return num_values * (self.bits_per_value // 8)


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

    @classmethod
    def block(cls, message: pb.FixedSizeList) -> FixedSizeList:
        """Parse the codec for a block (dictionary items), which has the format of zipped rows."""
        return cls.per_value(message)

    @property
    def num_buffers(self) -> int:
        return 1 + sum(level.has_validity for level in self.levels)

    @property
    def bits_per_value(self) -> int:
        return self.item_bits + 8 * sum(self._validity_bytes())

    @property
    def is_flat(self) -> bool:
        """True if rows have whole bytes, with items but without validity."""
        whole = self.bits_per_item is not None and self.item_bits % 8 == 0
        return whole and not any(level.has_validity for level in self.levels)

    @property
    def item_bits(self) -> int:
        """Bits of all items per row."""
        return self.levels[-1].items_per_row * (self.bits_per_item or 0)

    def _validity_bytes(self) -> list[int]:
        """Return the bytes of validity per zipped row, for each level with validity."""
        return [-(-level.items_per_row // 8) for level in self.levels if level.has_validity]

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> Block:
        bits = [level.items_per_row for level in self.levels if level.has_validity]
        *validity, items = [
            _own_bytes(buffer, num_values, bits_per_row)
            for buffer, bits_per_row in zip(buffers, [*bits, self.item_bits], strict=True)
        ]
        return self._nest(num_values, validity, items)

    def decode_values(self, values: FixedWidth | VariableWidth) -> Block:
        rows = check_fixed(values, self.bits_per_value)
        validity: list[Bytes] = []
        start = 0
        for level in self.levels:
            if level.has_validity:
                validity.append(column_of(rows, start, level.items_per_row))
                start += -(-level.items_per_row // 8)
        items = rows.data
        if start and self.item_bits:
            items = column_of(rows, start, self.item_bits)
        return self._nest(rows.num_values, validity, items)

    def decode_block(self, data: Bytes, num_values: int) -> Block:
        bits = self.bits_per_value
        rows = FixedWidth(bits, num_values, _own_bytes(data, num_values, bits))
        return self.decode_values(rows)

    def _nest(self, num_rows: int, validity: Sequence[Bytes], items: Bytes) -> Block:
        """Wrap items in their lists."""
        num_items = num_rows * self.levels[-1].items_per_row
        block: Block = ConstantBlock(num_items, None)
        if self.bits_per_item is not None:
            block = FixedWidth(self.bits_per_item, num_items, items)
        remaining = list(validity)
        for level in reversed(self.levels):
            bits = remaining.pop() if level.has_validity else None
            block = FixedSizeListBlock(level.dimension, block, bits)
        return block

    def max_bytes(self, num_values: int) -> int:
        """Return an upper bound for zipped rows; the first buffer of a chunk is never larger."""
        return num_values * (self.bits_per_value // 8 + 1)


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

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> FixedWidth:
        return self.decode_block(buffers[0], num_values)

    def decode_block(self, data: Bytes, num_values: int) -> FixedWidth:
        bits, word = self.bits_per_value, self.bits_per_value // 8
        if num_values > PACKED_AT_ONCE:
            raise CorruptFileError(f"bit-packing: {num_values} values in one block of 1024")
        if num_values == 0 and len(data) == 0:
            return FixedWidth(bits, 0, data)
        if len(data) < word:
            raise CorruptFileError("bit-packing: no width before a block")
        width = int.from_bytes(data[:word].tobytes(), "little")
        if width > bits:
            raise CorruptFileError(f"bit-packing: width {width} of {bits}")
        if len(data) != word + 128 * width:
            raise CorruptFileError(
                f"bit-packing: a block of {len(data)} bytes, width {width} needs "
                f"{word + 128 * width}"
            )
        whole = _unpacked(data[word:], PACKED_AT_ONCE, bits, width)
        return FixedWidth(bits, num_values, whole[: num_values * word])

    def max_bytes(self, num_values: int) -> int:
        return self.bits_per_value // 8 + 128 * self.bits_per_value


def _unpacked(data: Bytes, num_values: int, bits: int, width: int) -> Bytes:
    """Unpack blocks of 1024 values of `width` bits; the last block may be shorter and raw."""
    starts, sizes = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    counts = np.full(1, num_values, np.int64)
    with kernel_errors:
        return _kernels.unpack_blocks(data, starts, sizes, counts, bits, width)


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

    def decode_block(self, data: Bytes, num_values: int) -> FixedWidth:
        bits = self.bits_per_value
        if not self.packed_bits and num_values > MAX_REPEATED:
            raise UnsupportedError(f"bit-packing: a block of {num_values} zeros")
        return FixedWidth(bits, num_values, _unpacked(data, num_values, bits, self.packed_bits))

    def max_bytes(self, num_values: int) -> int:
        return num_values * (self.bits_per_value // 8) + 128 * self.packed_bits

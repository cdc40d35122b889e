"""Fixed-width values: as they are, bit-packed, one for all, split into bytes, or in lists.

A packed block of 1024 values of T bits at W bits each has `128 * W` bytes, in the FastLanes unified
transposed order (see kernels/codecs/bitpacking.cpp).

Source: encodings_v2_1.proto, messages Flat, InlineBitpacking, OutOfLineBitpacking, Constant,
ByteStreamSplit and FixedSizeList; docs/format/encodings.md, "Flat", "Bit-packing", "Constant,
Range", "ByteStreamSplit" and "FixedSizeList".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError, kernel_errors
from alance.format.blocks import Block, ConstantBlock, FixedSizeListBlock, FixedWidth, VariableWidth
from alance.format.codecs.base import (
    MAX_BITS_PER_VALUE,
    ChunkBuffers,
    expect,
    flat_bits,
    nested_flat_bits,
    packable_bits,
    refuse_compression,
)
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Bytes, Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class Flat:
    """Values as they are.

    One buffer of `ceil(n * bits_per_value / 8)` bytes; widths that are not whole bytes (booleans)
    are packed without gaps, least significant bit first. In full-zip pages values are whole bytes,
    and a boolean is one byte, 0 or 1.
    """

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

    def max_bytes(self, counts: Int64s) -> Int64s:
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


@dataclass(frozen=True, slots=True)
class Constant:
    """One value for all slots, told by the description: there are no bytes of it elsewhere.

    In blocks and zipped rows of files up to 2.2. Sequences of 2.3 have their own, see `sequence`.
    """

    encoded: ClassVar[Literal["fixed"]] = "fixed"
    bits_per_value: ClassVar[int] = 0  # encoded

    value: bytes

    @classmethod
    def from_proto(cls, message: pb.Constant) -> Constant:
        if not message.value:
            raise UnsupportedError("constant without a value: nulls are told by levels")
        return cls(message.value)

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        if num_bytes := int(blocks.sizes.sum()):
            raise CorruptFileError(f"constant: {num_bytes} bytes, the description has the value")
        return self._repeated(blocks.num_values)

    def decode_values(self, values: FixedWidth | VariableWidth) -> FixedWidth:
        return self._repeated(check_fixed(values, self.bits_per_value).num_values)

    def max_bytes(self, counts: Int64s) -> Int64s:
        return np.zeros_like(counts)

    def _repeated(self, num_values: int) -> FixedWidth:
        data = np.tile(np.frombuffer(self.value, np.uint8), num_values)
        return FixedWidth(8 * len(self.value), num_values, data)


@dataclass(frozen=True, slots=True)
class ByteStreamSplit:
    """Byte 0 of all values of a chunk, then byte 1 of all, and so on.

    One buffer a chunk. It compresses nothing by itself; it stands inside General to make floats
    more regular.
    """

    num_buffers: ClassVar[int] = 1

    bits_per_value: int  # 32 or 64

    @classmethod
    def from_proto(cls, message: pb.ByteStreamSplit) -> ByteStreamSplit:
        return cls(nested_flat_bits(message.values, (32, 64), "byte stream split"))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.unsplit_bytes(
                chunks.data, chunks.starts[0], chunks.sizes[0], chunks.counts, bits
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    def max_bytes(self, counts: Int64s) -> Int64s:
        return counts * (self.bits_per_value // 8)


class ListLevel(NamedTuple):
    """One level of lists."""

    dimension: int
    has_validity: bool
    items_per_row: int  # of all levels down to this one: the product of their dimensions


@dataclass(frozen=True, slots=True)
class FixedSizeList:
    """Rows of a fixed number of items, perhaps lists again.

    The description nests from the outside in and ends in Flat. A level may store the validity of
    its items (1 is valid, least significant bit first). D is the product of all dimensions, D_k
    that of the levels 1 to k. In mini-blocks, for n rows of a chunk:

        one buffer a level with validity, outermost first: n * D_k bits
        items: n * D values, as Flat

    Zipped, or as a block, one row after another:

        ceil(D_k / 8) bytes for each level with validity, outermost first
        D * bits_per_item / 8 bytes of items; none if all items of the page are null (Constant)
    """

    encoded: ClassVar[Literal["fixed"]] = "fixed"

    levels: tuple[ListLevel, ...]  # outermost first
    bits_per_item: int | None  # None: all items are null and take no bytes

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
        """The codec of chunks, whose items are there even if all are null."""
        codec = cls.from_proto(message)
        if codec.bits_per_item is None:
            raise UnsupportedError("fixed-size list of constant items in mini-blocks")
        return codec

    @classmethod
    def per_value(cls, message: pb.FixedSizeList) -> FixedSizeList:
        """The codec of zipped rows, which are whole bytes."""
        codec = cls.from_proto(message)
        if codec._item_bits % 8:
            raise UnsupportedError(f"fixed-size list: zipped items of {codec._item_bits} bits")
        if codec.bits_per_value == 0:
            raise CorruptFileError("fixed-size list: rows without bytes")
        return codec

    @classmethod
    def block(cls, message: pb.FixedSizeList) -> FixedSizeList:
        """The codec of dictionary items: zipped rows, end to end."""
        return cls.per_value(message)

    @property
    def num_buffers(self) -> int:
        return 1 + sum(level.has_validity for level in self.levels)

    @property
    def bits_per_value(self) -> int:
        return self._item_bits + 8 * sum(self._validity_bytes())

    @property
    def is_flat(self) -> bool:
        """Whether rows are their items and nothing else, in whole bytes."""
        whole = self.bits_per_item is not None and self._item_bits % 8 == 0
        return whole and not any(level.has_validity for level in self.levels)

    @property
    def _item_bits(self) -> int:
        """Bits of the items of a row."""
        return self.levels[-1].items_per_row * (self.bits_per_item or 0)

    def _validity_bytes(self) -> list[int]:
        """Bytes of the validity in a zipped row, of each level that has it."""
        return [-(-level.items_per_row // 8) for level in self.levels if level.has_validity]

    def decode_chunks(self, chunks: ChunkBuffers) -> Block:
        bits = [level.items_per_row for level in self.levels if level.has_validity]
        with kernel_errors:
            *validity, items = (
                _kernels.concat_fixed(chunks.data, starts, sizes, chunks.counts, bits_per_row)
                for starts, sizes, bits_per_row in zip(
                    chunks.starts, chunks.sizes, [*bits, self._item_bits], strict=True
                )
            )
        return self._nest(chunks.num_values, validity, items)

    def decode_values(self, values: FixedWidth | VariableWidth) -> Block:
        rows = check_fixed(values, self.bits_per_value)
        row_bytes = self.bits_per_value // 8
        validity: list[Bytes] = []
        start = 0
        with kernel_errors:
            for level in self.levels:
                if level.has_validity:
                    validity.append(
                        _kernels.unzip_column(rows.data, row_bytes, start, level.items_per_row)
                    )
                    start += -(-level.items_per_row // 8)
            items = rows.data
            if start and self._item_bits:
                items = _kernels.unzip_column(rows.data, row_bytes, start, self._item_bits)
        return self._nest(rows.num_values, validity, items)

    def decode_blocks(self, blocks: ChunkBuffers) -> Block:
        with kernel_errors:
            rows = _kernels.concat_fixed(
                blocks.data, blocks.starts[0], blocks.sizes[0], blocks.counts, self.bits_per_value
            )
        return self.decode_values(FixedWidth(self.bits_per_value, blocks.num_values, rows))

    def _nest(self, num_rows: int, validity: Sequence[Bytes], items: Bytes) -> Block:
        """The lists around the items."""
        num_items = num_rows * self.levels[-1].items_per_row
        block: Block = ConstantBlock(num_items, None)
        if self.bits_per_item is not None:
            block = FixedWidth(self.bits_per_item, num_items, items)
        remaining = list(validity)
        for level in reversed(self.levels):
            bits = remaining.pop() if level.has_validity else None
            block = FixedSizeListBlock(level.dimension, block, bits)
        return block

    def max_bytes(self, counts: Int64s) -> Int64s:
        """Of the first buffer of a chunk, or of a block: no more than the rows zipped."""
        return counts * (self.bits_per_value // 8 + 1)


@dataclass(frozen=True, slots=True)
class InlineBitpacking:
    """At most 1024 values, packed. One buffer:

    T / 8 bytes   W
    128 * W       one packed block, always whole
    """

    num_buffers: ClassVar[int] = 1

    bits_per_value: int

    @classmethod
    def from_proto(cls, message: pb.InlineBitpacking) -> InlineBitpacking:
        refuse_compression(message, "values")
        return cls(packable_bits(message, "inline bit-packing"))

    def decode_chunks(self, chunks: ChunkBuffers) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.unpack_inline(
                chunks.data, chunks.starts[0], chunks.sizes[0], chunks.counts, bits
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    decode_blocks = decode_chunks

    def max_bytes(self, counts: Int64s) -> Int64s:
        bits = self.bits_per_value
        return np.full(len(counts), bits // 8 + 128 * bits, np.int64)


class OutOfLineBitpacking(NamedTuple):
    """Any number of values, all packed to the width W that the description says: 0 where all are
    zero. One buffer:

    128 * W * (n div 1024)   packed blocks
    the rest of n            raw values of T bits, or one more packed block: told by the size
    """

    bits_per_value: int
    packed_bits: int  # 0 to bits_per_value - 1

    @classmethod
    def from_proto(cls, message: pb.OutOfLineBitpacking) -> OutOfLineBitpacking:
        bits = packable_bits(message, "bit-packing")
        return cls(bits, nested_flat_bits(message.values, range(bits), "bit-packing"))

    def decode_blocks(self, blocks: ChunkBuffers) -> FixedWidth:
        bits = self.bits_per_value
        with kernel_errors:
            data = _kernels.unpack_blocks(
                blocks.data,
                blocks.starts[0],
                blocks.sizes[0],
                blocks.counts,
                bits,
                self.packed_bits,
            )
        return FixedWidth(bits, len(data) * 8 // bits, data)

    def max_bytes(self, counts: Int64s) -> Int64s:
        return counts * (self.bits_per_value // 8) + 128 * self.packed_bits

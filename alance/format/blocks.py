"""Decoded values between codecs, layouts and Arrow.

A block has no nulls; validity comes from definition levels. Slots of nulls hold arbitrary bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from alance import _kernels
from alance.errors import kernel_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Bytes, Int32s, Int64s


class FixedWidth(NamedTuple):
    """Contiguous values of equal width; booleans (`bits_per_value` 1) packed LSB first."""

    bits_per_value: int
    num_values: int
    data: Bytes  # shape (ceil(num_values * bits_per_value / 8),)


class VariableWidth(NamedTuple):
    """Byte strings: value i is `data[offsets[i] : offsets[i + 1]]`, and `offsets[0]` is 0."""

    offsets: Int32s | Int64s  # shape (num_values + 1,)
    data: Bytes
    is_ascii: bool = False  # True: known to be ASCII, with valid offsets

    @property
    def num_values(self) -> int:
        return len(self.offsets) - 1


class FixedSizeListBlock(NamedTuple):
    """Rows of `dimension` items each, and the items' validity if it is stored."""

    dimension: int
    items: Block  # `num_values * dimension` items
    validity: Bytes | None  # LSB-first bits of the items, 1 is valid; None: all valid

    @property
    def num_values(self) -> int:
        return self.items.num_values // self.dimension


class StructBlock(NamedTuple):
    """Children of equal length, in the order of the struct's fields."""

    num_values: int
    children: tuple[Block, ...]


class DictionaryBlock(NamedTuple):
    """Indices into distinct items, as a page with a dictionary stores them."""

    indices: FixedWidth  # 8, 16, 32 or 64 bits, unsigned
    items: Block

    @property
    def num_values(self) -> int:
        return self.indices.num_values


class ConstantBlock(NamedTuple):
    """A single value for all slots; `value` None: all slots are null."""

    num_values: int
    value: Block | None  # a block of one value


Block: TypeAlias = (
    FixedWidth | VariableWidth | FixedSizeListBlock | StructBlock | DictionaryBlock | ConstantBlock
)


def gather(block: Block, indices: Int64s) -> Block:
    """Return copies of the values at `indices`, in that order.

    Args:
        block: values of any kind.
        indices: shape (n,), each in [0, block.num_values), any order, duplicates allowed.

    Raises:
        CorruptFileError: an index is outside of the block.
        UnsupportedError: more string bytes than 32-bit offsets can address.
    """
    match block:
        case FixedWidth(bits_per_value=bits):
            return FixedWidth(bits, len(indices), _gather_fixed(block, indices))
        case VariableWidth():
            with kernel_errors:
                return VariableWidth(*_kernels.gather_strings(block.offsets, block.data, indices))
        case FixedSizeListBlock():
            return _gather_lists(block, indices)
        case StructBlock():
            children = tuple(gather(child, indices) for child in block.children)
            return StructBlock(len(indices), children)
        case DictionaryBlock():
            picked = FixedWidth(
                block.indices.bits_per_value, len(indices), _gather_fixed(block.indices, indices)
            )
            return DictionaryBlock(picked, block.items)
        case ConstantBlock():
            return ConstantBlock(len(indices), block.value)


def _gather_fixed(block: FixedWidth, indices: Int64s) -> Bytes:
    bits = block.bits_per_value
    with kernel_errors:
        if bits == 1:
            return _kernels.gather_bits(block.data, indices)
        if bits % 8:
            places = indices[:, np.newaxis] * bits + np.arange(bits)
            return _kernels.gather_bits(block.data, places.ravel())
        return _kernels.gather_fixed(block.data, bits // 8, indices)


def _gather_lists(block: FixedSizeListBlock, indices: Int64s) -> FixedSizeListBlock:
    dimension, items, validity = block.dimension, block.items, block.validity
    if (
        isinstance(items, FixedWidth)
        and validity is None
        and dimension * items.bits_per_value % 8 == 0
    ):
        # A usual vector: gather each row as one wide value.
        row = FixedWidth(dimension * items.bits_per_value, block.num_values, items.data)
        picked = FixedWidth(
            items.bits_per_value, len(indices) * dimension, _gather_fixed(row, indices)
        )
        return FixedSizeListBlock(dimension, picked, None)
    places = (indices[:, np.newaxis] * dimension + np.arange(dimension)).ravel()
    with kernel_errors:
        bits = None if validity is None else _kernels.gather_bits(validity, places)
    return FixedSizeListBlock(dimension, gather(items, places), bits)


def joined_values(blocks: Sequence[Block]) -> Block | None:
    """Concatenate fixed-width values or strings, as a copy. None for other kinds.

    Raises:
        UnsupportedError: more string bytes than the offsets can address.
        CorruptFileError: offsets outside of their bytes.
    """
    fixed = [block for block in blocks if isinstance(block, FixedWidth)]
    if len(fixed) == len(blocks):
        return _joined_fixed(fixed)
    strings = [block for block in blocks if isinstance(block, VariableWidth)]
    return _joined_strings(strings) if len(strings) == len(blocks) else None


def _joined_fixed(blocks: Sequence[FixedWidth]) -> FixedWidth | None:
    bits = blocks[0].bits_per_value
    counts = [block.num_values * bits for block in blocks]
    if any(
        block.bits_per_value != bits or 8 * len(block.data) < count
        for block, count in zip(blocks, counts, strict=True)
    ):
        return None
    data = join_bits([block.data for block in blocks], counts)
    return FixedWidth(bits, sum(block.num_values for block in blocks), data)


def join_bits(parts: Sequence[Bytes], counts: Sequence[int]) -> Bytes:
    """Concatenate bits of all parts, LSB first, without gaps."""
    sizes = [(count + 7) // 8 for count in counts]
    data = _kernels.join_bytes([part[:size] for part, size in zip(parts, sizes, strict=True)])
    if all(count % 8 == 0 for count in counts[:-1]):
        return data
    own = np.array(sizes, np.int64)
    return _kernels.concat_fixed(data, np.cumsum(own) - own, own, np.array(counts, np.int64), 1)


def _joined_strings(blocks: Sequence[VariableWidth]) -> VariableWidth:
    pieces = [block.data for block in blocks]
    total = sum(int(block.offsets[-1]) for block in blocks)
    is_ascii = all(block.is_ascii for block in blocks)
    with kernel_errors:
        if total < 1 << 31 and all(block.offsets.dtype == np.int32 for block in blocks):
            short = [block.offsets.view(np.int32) for block in blocks]
            return VariableWidth(*_kernels.join_strings_32(short, pieces), is_ascii)
        long = [block.offsets.astype(np.int64, copy=False) for block in blocks]
        return VariableWidth(*_kernels.join_strings_64(long, pieces), is_ascii)

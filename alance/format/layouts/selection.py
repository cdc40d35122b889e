"""Selection of values from blocks of any kind; a slice is a view if possible."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

import numpy as np

from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
    gather,
)
from alance.format.numbers import bits_of

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.blocks import Block

    Selection: TypeAlias = slice | Int64s


def select(block: Block, selection: Selection) -> Block:
    """Select values by position; returns the block itself if all values are selected.

    Args:
        selection: a slice with `start` and `stop` inside the block, or positions of shape (n,).
    """
    if not isinstance(selection, slice):
        return gather(block, selection)
    return block if selection == slice(0, block.num_values) else _slice(block, selection)


def spread(block: Block, present: Mask) -> Block:
    """Scatter the values of a block to the slots where `present` is True.

    Args:
        present: mask of shape (n,). The result has n values, arbitrary where `present` is False.
    """
    ranks: Int64s = np.cumsum(present, dtype=np.int64)
    match block:
        case VariableWidth():
            # Absent values become empty strings, so no byte is moved.
            offsets = block.offsets[np.concatenate([[0], ranks])]
            return VariableWidth(offsets, block.data, block.is_ascii)
        case StructBlock():
            children = tuple(spread(child, present) for child in block.children)
            return StructBlock(len(present), children)
        case NullBlock():
            return NullBlock(len(present))
        case _:
            return select(block, np.maximum(ranks - 1, 0))


def block_bytes(block: Block) -> int:
    """Return the memory of a block's arrays in bytes."""
    match block:
        case FixedWidth():
            return block.data.nbytes
        case VariableWidth():
            return block.offsets.nbytes + block.data.nbytes
        case FixedSizeListBlock():
            validity = 0 if block.validity is None else block.validity.nbytes
            return block_bytes(block.items) + validity
        case StructBlock():
            return sum(block_bytes(child) for child in block.children)
        case DictionaryBlock():
            return block_bytes(block.indices) + block_bytes(block.items)
        case _:
            return 0


def _slice(block: Block, rows: slice) -> Block:
    match block:
        case FixedWidth(bits_per_value=bits):
            return FixedWidth(bits, rows.stop - rows.start, _slice_bits(block.data, bits, rows))
        case VariableWidth():
            offsets = block.offsets[rows.start : rows.stop + 1]
            first, last = int(offsets[0]), int(offsets[-1])
            offsets = offsets - offsets[0] if first else offsets
            return VariableWidth(offsets, block.data[first:last], block.is_ascii)
        case FixedSizeListBlock(dimension=dimension, validity=validity):
            if validity is not None:
                validity = _slice_bits(validity, dimension, rows)
            items = slice(rows.start * dimension, rows.stop * dimension)
            return FixedSizeListBlock(dimension, _slice(block.items, items), validity)
        case StructBlock():
            children = tuple(_slice(child, rows) for child in block.children)
            return StructBlock(rows.stop - rows.start, children)
        case DictionaryBlock(indices=FixedWidth(bits_per_value=bits) as indices):
            count = rows.stop - rows.start
            part = FixedWidth(bits, count, _slice_bits(indices.data, bits, rows))
            return DictionaryBlock(part, block.items)
        case NullBlock():
            return NullBlock(rows.stop - rows.start)
        case _:
            assert_never(block)


def _slice_bits(data: Bytes, bits: int, rows: slice) -> Bytes:
    """Slice groups of `bits` bits, LSB first; a view if the first group is aligned to a byte."""
    return bits_of(data, rows.start * bits, (rows.stop - rows.start) * bits)

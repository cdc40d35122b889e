"""Picks values of a block by index: rows of a chunk that were asked for, dictionary items."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.format.blocks import (
    Block,
    ConstantBlock,
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    StructBlock,
    VariableWidth,
)
from alance.format.codecs.base import kernel_errors

if TYPE_CHECKING:
    import numpy.typing as npt


def gather(block: Block, indices: npt.NDArray[np.int64]) -> Block:
    """The values at `indices`, in that order; the arrays are fresh.

    Args:
        block: values of any kind.
        indices: shape (n,), each in [0, block.num_values), any order, duplicates allowed.

    Raises:
        CorruptFileError: an index is outside of the block.
        UnsupportedError: strings of more bytes than their offsets can say.
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


def _gather_fixed(block: FixedWidth, indices: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    bits = block.bits_per_value
    with kernel_errors:
        if bits == 1:
            return _kernels.gather_bits(block.data, indices)
        if bits % 8:
            places = indices[:, np.newaxis] * bits + np.arange(bits)
            return _kernels.gather_bits(block.data, places.ravel())
        return _kernels.gather_fixed(block.data, bits // 8, indices)


def _gather_lists(block: FixedSizeListBlock, indices: npt.NDArray[np.int64]) -> FixedSizeListBlock:
    dimension, items, validity = block.dimension, block.items, block.validity
    if (
        isinstance(items, FixedWidth)
        and validity is None
        and dimension * items.bits_per_value % 8 == 0
    ):
        # The usual vectors: a row is one wide value.
        row = FixedWidth(dimension * items.bits_per_value, block.num_values, items.data)
        picked = FixedWidth(
            items.bits_per_value, len(indices) * dimension, _gather_fixed(row, indices)
        )
        return FixedSizeListBlock(dimension, picked, None)
    places = (indices[:, np.newaxis] * dimension + np.arange(dimension)).ravel()
    with kernel_errors:
        bits = None if validity is None else _kernels.gather_bits(validity, places)
    return FixedSizeListBlock(dimension, gather(items, places), bits)

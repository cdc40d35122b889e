"""Pages as numpy makes them, step by step: what the kernel's pages are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
)
from alance.format.encode.page_inputs import WIDE_BITS
from alance.format.encode.pages import (
    FULL_ZIP_LAYOUT,
    MINI_BLOCK_LAYOUT,
    _asked_layout,
    sparse_values_page,
)
from tests.reference.pages.constant import constant_page
from tests.reference.pages.dictionary import dictionary_of
from tests.reference.pages.fullzip import full_zip_page
from tests.reference.pages.miniblock import mini_block_page

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from alance.format.encode.page_inputs import EncodedPage, Hints
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues


def page(field: Field, values: PageValues, hints: Hints) -> EncodedPage:
    """The page of these rows.

    Raises:
        TooManyLevels: a chunk would have too many entries.
    """
    layout, is_sparse = _asked_layout(field, values, hints)
    constant = constant_page(values, hints)
    if constant is not None:
        return constant
    block = values.values
    if is_sparse:
        return sparse_values_page(values, hints, zipped=_is_zipped(block, layout))
    if isinstance(block, StructBlock) and not all(
        isinstance(child, FixedWidth) for child in block.children
    ):
        return full_zip_page(values, hints)
    if not isinstance(block, DictionaryBlock):
        dictionary = dictionary_of(block, hints)
        if dictionary is not None:
            block = DictionaryBlock(*dictionary)
            values = values._replace(values=block)
    if isinstance(block, DictionaryBlock) or not _is_zipped(block, layout):
        return mini_block_page(values, hints)
    return full_zip_page(values, hints)


def _is_zipped(block: Block, layout: str | None) -> bool:
    """True if values have to be stored one by one, in a full-zip page."""
    if isinstance(block, StructBlock) and not all(
        isinstance(child, FixedWidth) for child in block.children
    ):
        return True
    if isinstance(block, FixedSizeListBlock) and _is_of_nulls(block):
        return True
    if layout is None:
        layout = FULL_ZIP_LAYOUT if longest_bits(block) >= WIDE_BITS else MINI_BLOCK_LAYOUT
    return layout == FULL_ZIP_LAYOUT and _can_stand_alone(block)


def _is_of_nulls(block: Block) -> bool:
    """True if the items of fixed-size lists take no bytes, which chunks do not support."""
    while isinstance(block, FixedSizeListBlock):
        block = block.items
    return isinstance(block, NullBlock)


def longest_bits(block: Block) -> int:
    """Return the bits of the longest value, without the validity of items."""
    if isinstance(block, FixedWidth):
        return block.bits_per_value
    if isinstance(block, VariableWidth):
        return 8 * int(np.diff(block.offsets).max(initial=0))
    if isinstance(block, FixedSizeListBlock):
        return block.dimension * longest_bits(block.items)
    if isinstance(block, StructBlock):
        return sum(longest_bits(child) for child in block.children)
    return 0


def _can_stand_alone(block: Block) -> bool:
    """True if full-zip pages can hold the values, because these are whole bytes."""
    if isinstance(block, FixedSizeListBlock):
        return longest_bits(block) % 8 == 0
    return True

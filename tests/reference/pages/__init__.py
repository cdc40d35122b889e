"""Pages as numpy makes them, step by step: what the kernel's pages are compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.blocks import DictionaryBlock, FixedWidth, StructBlock
from alance.format.encode.fullzip import full_zip_page
from alance.format.encode.pages import _asked_layout, _is_zipped
from alance.format.encode.planar import sparse_values_page
from tests.reference.pages.constant import constant_page
from tests.reference.pages.dictionary import dictionary_of
from tests.reference.pages.miniblock import mini_block_page

if TYPE_CHECKING:
    from alance.format.encode.base import EncodedPage, Hints
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

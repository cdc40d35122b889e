"""Sparse pages of 2.3 with stored values: in chunks, one for every slot, or zipped, the valid ones.

Source: encodings_v2_3.proto, ValuePlane; docs/format/file.md, "Sparse values".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.format.blocks import DictionaryBlock
from alance.format.encode.fullzip import full_zip_page
from alance.format.encode.miniblock import mini_block_page
from alance.format.encode.planar import planar_layout
from alance.format.encode.sparse import sparse_structure
from alance.format.encode.values import dictionary_of
from alance.format.layouts.base import Layer, PageValues
from alance.format.layouts.selection import select, spread

if TYPE_CHECKING:
    from alance.format.blocks import Block
    from alance.format.encode.base import EncodedPage, Hints


def sparse_values_page(values: PageValues, hints: Hints, *, zipped: bool) -> EncodedPage:
    """All rows as one page.

    Args:
        values: at least one value that is not null.
        zipped: values one by one; else in chunks, with a dictionary where it pays.

    Raises:
        UnsupportedError: values that do not fill whole bytes and are to be zipped.
    """
    structure = sparse_structure(values, hints.dimensions)
    block = values.values
    if not zipped and not isinstance(block, DictionaryBlock):
        found = dictionary_of(block, hints)
        if found is not None:
            block = DictionaryBlock(*found)
    if zipped and not isinstance(block, DictionaryBlock):
        if structure.valid is not None:
            block = select(block, np.flatnonzero(structure.valid))
        page = full_zip_page(_flat(block), hints)
        plane = planar_layout(page.layout).values
        plane.zipped.ClearField("levels")
    else:
        if structure.present is not None:
            block = spread(block, structure.present)
        page = mini_block_page(_flat(block), hints)
        plane = planar_layout(page.layout).values
        plane.chunked.ClearField("levels")
        plane.chunked.ClearField("num_items")
    return structure.page(plane, page)


def _flat(block: Block) -> PageValues:
    """Values without structure."""
    return PageValues((Layer.ALL_VALID_ITEM,), None, None, block, block.num_values)

"""Inputs of the kernel that encodes pages, and its results: constant and mini-block pages.

A single call encodes the pages of many columns, without the GIL (kernels/encode/encode_pages.cpp).
The kernel does not encode full-zip pages or the values of sparse pages.

Source: docs/format/file.md, "Mini-block layout", "Level budget" and "Constant layout".
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import zstandard

from alance import _kernels
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
)
from alance.format.codecs.general import ZSTD_LEVEL
from alance.format.encode.base import EncodedPage
from alance.format.encode.fixed import FixedLists
from alance.format.encode.options import FieldOptions
from alance.format.encode.values import has_fixed_rows, struct_rows
from alance.format.layouts.base import max_definition, max_repetition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes
    from alance.format.blocks import Block
    from alance.format.encode.base import Hints
    from alance.format.layouts.base import PageValues
    from alance.format.proto import encodings_v2_1_pb2 as pb

PageInput: TypeAlias = tuple[object, ...]
ValuesInput: TypeAlias = tuple[object, ...]

MAX_ENTRIES: Final = 0xFFFF  # a chunk stores its number of entries in 16 bits
MAX_LEVEL_BITS: Final = 131072  # maximum bits of all levels of a chunk: half of a chunk of 2.1
WIDE_BITS: Final = 8 * 256  # bits; a page with a value of this size is encoded as full-zip
ANY: Final = (1 << 62) - 1  # more bits than any value has
MINOR: Final = {FileVersion.V2_1: 1, FileVersion.V2_2: 2, FileVersion.V2_3: 3}


class NoPage(IntEnum):
    """Reason why the kernel did not encode a page."""

    LEFT = 0  # the values need another layout
    TOO_MANY_LEVELS = 1  # a chunk exceeds its level budget; fewer rows may fit


class TooManyLevels(Exception):
    """Error: a chunk would exceed its level budget."""


def level_budget(values: PageValues) -> int:
    """Return the maximum number of entries in a chunk of these rows."""
    bits = max_repetition(values.layers).bit_length() + max_definition(values.layers).bit_length()
    return min(MAX_ENTRIES, MAX_LEVEL_BITS // max(bits, 1))


def page_input(
    values: PageValues, hints: Hints, *, is_sparse: bool = False, zip_bits: int = WIDE_BITS
) -> PageInput:
    """Build the kernel's input for rows; the kernel chooses the layout.

    Args:
        is_sparse: True if the kernel encodes the page only if it is constant.
        zip_bits: the kernel does not encode the page if a value has at least this many bits.
    """
    block = values.values
    if isinstance(block, DictionaryBlock):
        return (*_levels(values), *_dictionary(block), *_hints(hints), False, is_sparse, zip_bits)
    kinds = FixedWidth | VariableWidth | NullBlock
    form = _values(block) if isinstance(block, kinds) else (block.num_values, "others")
    return (*_levels(values), form, None, *_hints(hints), False, is_sparse, zip_bits)


def encoded(inputs: Sequence[PageInput]) -> list[_kernels.PageResult]:
    """Encode all inputs in one kernel call, without the GIL.

    Raises:
        InvalidInputError: values or levels do not fit into chunks of the file version.
    """
    try:
        return _kernels.encode_pages(inputs, _frame)
    except OverflowError as error:
        raise InvalidInputError(str(error)) from error


def page_of(result: _kernels.MadePage, num_rows: int) -> EncodedPage:
    """Wrap a page that the kernel encoded."""
    description, buffers, search = result
    return EncodedPage(description, buffers, num_rows, search)


def mini_block_page(values: PageValues, hints: Hints) -> EncodedPage:
    """Encode all rows as a mini-block page.

    Args:
        values: rows with at least one value slot; a `DictionaryBlock` becomes a page with a
            dictionary.

    Raises:
        TooManyLevels: a chunk would have too many entries; fewer rows may fit.
        InvalidInputError: a chunk is too large for the file version.
    """
    block = values.values
    pair = _dictionary(block) if isinstance(block, DictionaryBlock) else (_values(block), None)
    result = encoded([(*_levels(values), *pair, *_hints(hints), True, False, ANY)])[0]
    if not isinstance(result, tuple):
        raise TooManyLevels
    assert len(result) == 3
    return page_of(result, values.num_rows)


def dictionary_of(values: Block, hints: Hints) -> DictionaryBlock | None:
    """Return the distinct values with the index of each value; None if that saves no bytes.

    Also returns None for values with children.

    Raises:
        InvalidInputError: a key of the field's metadata has a wrong value.
    """
    if not isinstance(values, FixedWidth | VariableWidth):
        return None
    numbered = _kernels.choose_dictionary(_values(values), *_hints(hints))
    if numbered is None:
        return None
    indices, *items = numbered
    index_block = FixedWidth(32, len(indices), indices.view(np.uint8))
    if isinstance(values, VariableWidth):
        offsets, data = items
        is_large = values.offsets.dtype == np.int64
        starts = offsets.view(np.int64) if is_large else offsets.view(np.int32)
        return DictionaryBlock(index_block, VariableWidth(starts, data))
    bits = values.bits_per_value
    return DictionaryBlock(index_block, FixedWidth(bits, len(items[0]) * 8 // bits, items[0]))


def _levels(values: PageValues) -> tuple[object, ...]:
    return values.layers, values.rep, values.definition


def _hints(hints: Hints) -> tuple[tuple[object, ...], int]:
    return FieldOptions.of(hints).numbers, MINOR[hints.version]


def _values(block: Block) -> ValuesInput:
    count = block.num_values
    match block:
        case FixedWidth():
            return count, "fixed", block.bits_per_value, block.data
        case VariableWidth():
            return count, "strings", block.offsets, block.data
        case NullBlock():
            return count, "nulls"
        case FixedSizeListBlock():
            return _lists(FixedLists.of(block))
        case StructBlock() if has_fixed_rows(block):
            encoding, rows = struct_rows(block)
            return _rows(count, encoding, [(rows.bits_per_value, rows.data)])
        case _:
            return count, "others"


def _lists(lists: FixedLists) -> ValuesInput:
    if lists.items is None:
        return lists.num_rows, "others"
    parts = [
        (level.items_per_row, validity)
        for level in lists.levels
        if (validity := level.validity) is not None
    ]
    parts.append((lists.item_bits, lists.items.data))
    return _rows(lists.num_rows, lists.encoding, parts, lists.row_bits)


def _rows(
    count: int,
    encoding: pb.CompressiveEncoding,
    parts: list[tuple[int, Bytes]],
    row_bits: int | None = None,
) -> ValuesInput:
    text = encoding.SerializeToString(deterministic=True)
    return count, "rows", text, parts[0][0] if row_bits is None else row_bits, parts


def _dictionary(block: DictionaryBlock) -> tuple[ValuesInput, ValuesInput]:
    items = block.items
    if isinstance(items, FixedSizeListBlock):
        lists = FixedLists.of(items)
        rows = lists.rows()
        form = _rows(rows.num_values, lists.encoding, [(rows.bits_per_value, rows.data)])
        return _values(block.indices), form
    return _values(block.indices), _values(items)


def _frame(data: bytes, level: int) -> bytes:
    return zstandard.ZstdCompressor(level=level or ZSTD_LEVEL).compress(data)

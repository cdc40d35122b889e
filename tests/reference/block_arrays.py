"""Arrow arrays of blocks, the decoded values of pages, for the decoders that test the kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import BatchTooLargeError, CorruptFileError, kernel_errors
from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
)
from alance.format.jsonb import json_text
from alance.format.layouts.fields import EMPTY_STRUCT, narrow, wrapped
from alance.format.numbers import (
    bitmap,
    bits_of_type,
    contents_of,
    is_large,
    is_text,
    is_variable,
    mask_bytes,
    storage_type,
    strings_array,
    to_arrow,
)

if TYPE_CHECKING:
    from alance.base.arrays import Mask
    from alance.format.blocks import Block
    from alance.format.field import Field


def values_array(field: Field, arrow: pa.DataType, values: Block, valid: Mask | None) -> pa.Array:
    """Convert the values of a leaf to an Arrow array."""
    if isinstance(values, NullBlock) and arrow != EMPTY_STRUCT:
        return pa.nulls(values.num_values, arrow)
    if field.is_json:
        stored = array_of(values, pa.large_binary(), valid)
        content = VariableWidth(*contents_of(stored))
        return array_of(json_text(content, valid), arrow, valid)
    if arrow == EMPTY_STRUCT:
        return pa.Array.from_buffers(arrow, values.num_values, [bitmap(valid)])
    return array_of(values, arrow, valid)


def array_of(block: Block, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    """Convert a block to an array of a storage type, which is not an extension type.

    Args:
        block: one value per slot; values of nulls are arbitrary.
    """
    if isinstance(block, NullBlock):
        return pa.nulls(block.num_values, arrow)
    if pa.types.is_dictionary(arrow):
        return _dictionary(block, arrow, valid)
    if isinstance(block, DictionaryBlock):
        return _expanded(block, arrow, valid)
    if pa.types.is_struct(arrow):
        return _struct(block, arrow, valid)
    if pa.types.is_fixed_size_list(arrow):
        return _fixed_size_list(block, arrow, valid)
    if is_variable(arrow):
        return _variable(block, arrow, valid)
    return _fixed(block, arrow, valid)


def _wrong_block(block: Block, arrow: pa.DataType) -> CorruptFileError:
    kind = type(block).__name__
    width = f" of {block.bits_per_value} bits" if isinstance(block, FixedWidth) else ""
    return CorruptFileError(f"a page of {kind}{width} values for type {arrow}")


def _fixed(block: Block, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    if pa.types.is_boolean(arrow) and isinstance(block, FixedWidth) and block.bits_per_value == 8:
        # In constant and full-zip pages, a boolean is a byte; in other pages, it is a bit.
        block = FixedWidth(1, block.num_values, np.packbits(block.data != 0, bitorder="little"))
    if not isinstance(block, FixedWidth) or block.bits_per_value != bits_of_type(arrow):
        raise _wrong_block(block, arrow)
    data, width = block.data, block.bits_per_value
    if len(data) * 8 < block.num_values * width:
        raise CorruptFileError(f"{block.num_values} values of {width} bits in {len(data)} bytes")
    if width > 8 and data.ctypes.data % min(width // 8, 8):
        data = data.copy()
    return pa.Array.from_buffers(arrow, block.num_values, [bitmap(valid), pa.py_buffer(data)])


def _variable(block: Block, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    if not isinstance(block, VariableWidth):
        raise _wrong_block(block, arrow)
    if is_text(arrow):
        if not block.is_ascii:
            with kernel_errors:
                bad = _kernels.first_bad_utf8(block.offsets, block.data, mask_bytes(valid))
            if bad >= 0:
                raise CorruptFileError(f"value {bad} of the rows read is no UTF-8")
    elif int(block.offsets[-1]) > len(block.data):
        raise CorruptFileError(f"strings of {block.offsets[-1]} bytes in {len(block.data)}")
    return strings_array(arrow, narrow(block.offsets, large=is_large(arrow)), block.data, valid)


def _struct(block: Block, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    """Convert packed structs or blob descriptions, whose children have no nulls."""
    if not isinstance(block, StructBlock) or len(block.children) != arrow.num_fields:
        raise _wrong_block(block, arrow)
    children = []
    for number, child in enumerate(block.children):
        field = arrow.field(number)
        values = array_of(child, storage_type(field.type), None)
        if len(values) != block.num_values:
            raise CorruptFileError(f"child {field.name!r} of a struct has another length")
        children.append(wrapped(values, field.type))
    return pa.Array.from_buffers(arrow, block.num_values, [bitmap(valid)], children=children)


def _fixed_size_list(block: Block, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    if not isinstance(block, FixedSizeListBlock) or block.dimension != arrow.list_size:
        raise _wrong_block(block, arrow)
    count, item_valid = block.num_values * block.dimension, None
    if block.validity is not None:
        if len(block.validity) * 8 < count:
            raise CorruptFileError(f"validity of {count} items in {len(block.validity)} bytes")
        bits = np.unpackbits(block.validity, count=count, bitorder="little")
        item_valid = bits.view(np.bool_)
    items = array_of(block.items, storage_type(arrow.value_type), item_valid)
    if len(items) != count:
        raise CorruptFileError(f"{len(items)} items in {block.num_values} lists of {arrow}")
    return pa.Array.from_buffers(
        arrow, block.num_values, [bitmap(valid)], children=[wrapped(items, arrow.value_type)]
    )


def _dictionary(block: Block, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    if isinstance(block, DictionaryBlock):
        width = block.indices.bits_per_value
        if width not in (8, 16, 32, 64):
            raise CorruptFileError(f"dictionary indices of {width} bits")
        raw = block.indices.data.view(f"<u{width // 8}")[: block.indices.num_values]
        numbers = raw.astype(np.int64)
        if valid is not None:
            numbers[~valid] = 0  # Arrow maps the indices of nulls, too, and does not check them
        indices = to_arrow(numbers, valid)
        items = array_of(block.items, arrow.value_type, None)
    else:
        plain = array_of(block, arrow.value_type, valid).dictionary_encode()
        indices, items = plain.indices, plain.dictionary
    if len(items) == 0:
        if indices.null_count < len(indices):
            raise CorruptFileError("indices into an empty dictionary")
        indices = pa.nulls(len(indices), arrow.index_type)
    try:
        narrowed = indices.cast(arrow.index_type)
        return pa.DictionaryArray.from_arrays(narrowed, items, ordered=arrow.ordered, safe=True)
    except pa.ArrowException as error:
        raise CorruptFileError(f"dictionary of {len(items)} values: {error}") from error


def _expanded(block: DictionaryBlock, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    """Look up the items of all indices."""
    keyed = _dictionary(block, pa.dictionary(pa.int64(), arrow), valid)
    try:
        return keyed.dictionary.take(keyed.indices)
    except pa.ArrowException as error:
        raise BatchTooLargeError(f"{error}: read fewer rows at once") from error

"""Arrow arrays of leaves as blocks, which are views of the arrays' buffers.

This is the inverse of `layouts.fields`. Levels record nulls, blocks do not: the slot of a null has
the array's arbitrary bytes, or becomes an empty string.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
    gather_valid,
)
from alance.format.numbers import (
    as_mask,
    bitmap,
    bits_of,
    bits_of_type,
    bytes_of,
    is_variable,
    items_of,
    storage_of,
    strings_of,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.base.arrays import Bytes, Mask
    from alance.format.blocks import Block


def as_type(array: pa.Array, arrow: pa.DataType, where: str) -> pa.Array:
    """Convert an array to a storage type without children."""
    array = _without_extensions(array)
    if _is_same(array.type, arrow):
        return _without_null_items(array) if pa.types.is_dictionary(arrow) else array
    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        if pa.types.is_dictionary(arrow):
            keyed = array.cast(arrow.value_type).dictionary_encode()
            indices = keyed.indices.cast(arrow.index_type)
            return pa.DictionaryArray.from_arrays(indices, keyed.dictionary)
        return array if array.type == arrow else array.cast(arrow)
    except (pa.ArrowException, NotImplementedError) as error:
        raise InvalidInputError(
            f"field {where!r}: {array.type} where {arrow} is expected: {error}"
        ) from error


def _is_same(left: pa.DataType, right: pa.DataType) -> bool:
    """True if values of both types are stored alike; ignores item names and dictionary order."""
    if pa.types.is_dictionary(left) and pa.types.is_dictionary(right):
        return bool(left.index_type == right.index_type and left.value_type == right.value_type)
    if pa.types.is_fixed_size_list(left) and pa.types.is_fixed_size_list(right):
        return left.list_size == right.list_size and _is_same(left.value_type, right.value_type)
    return bool(left == right)


def _without_extensions(array: pa.Array) -> pa.Array:
    """Replace extension types by storage types, also in items of fixed-size lists."""
    array = storage_of(array)
    if not pa.types.is_fixed_size_list(array.type):
        return array
    items = items_of(array)
    plain = _without_extensions(items)
    if plain is items:
        return array
    valid = validity_of(array)
    arrow = pa.list_(plain.type, array.type.list_size)
    return pa.Array.from_buffers(arrow, len(array), [bitmap(valid)], children=[plain])


def block_of(array: pa.Array, valid: Mask | None, where: str) -> Block:
    """Return the values of an array of a storage type as a block.

    Args:
        valid: mask of non-null slots, shape (n,); None for the array's own validity.
    """
    arrow = array.type
    if pa.types.is_null(arrow):
        return NullBlock(len(array))
    if pa.types.is_dictionary(arrow):
        items = array.dictionary
        bits = arrow.index_type.bit_width
        indices = _indices(bytes_of(array.indices), bits, len(items), valid, where)
        return DictionaryBlock(indices, block_of(items, None, where))
    if pa.types.is_struct(arrow):
        return _struct(array, valid, where)
    if pa.types.is_fixed_size_list(arrow):
        return _fixed_size_list(array, valid, where)
    if is_variable(arrow):
        return _variable(array, valid, where)
    bits = bits_of_type(arrow)
    if bits is None:
        raise UnsupportedError(f"field {where!r}: no page holds values of {arrow}")
    if bits == 1:
        content = np.frombuffer(array.buffers()[1] or b"", np.uint8)
        return FixedWidth(1, len(array), bits_of(content, array.offset, len(array)))
    return FixedWidth(bits, len(array), bytes_of(array))


def _indices(data: Bytes, bits: int, num_items: int, valid: Mask | None, where: str) -> FixedWidth:
    """Return dictionary indices; indices of nulls that are out of range become 0."""
    raw = data.view(f"<u{bits // 8}")
    if len(raw) and int(raw.max()) >= num_items:
        if valid is not None:
            raw = np.where(valid, raw, 0).astype(raw.dtype)
        if int(raw.max()) >= max(num_items, 1):
            raise InvalidInputError(
                f"field {where!r}: dictionary index {raw.max()}, there are {num_items} values"
            )
    return FixedWidth(bits, len(raw), raw.view(np.uint8))


def check_offsets(offsets: npt.NDArray[np.integer[Any]], num_values: int, where: str) -> None:
    """Check the offsets of strings or lists, which Arrow does not check by itself."""
    if offsets[0] < 0 or offsets[-1] > num_values or (offsets[1:] < offsets[:-1]).any():
        raise InvalidInputError(f"field {where!r}: offsets decrease or leave the buffer")


def _variable(array: pa.Array, valid: Mask | None, where: str) -> VariableWidth:
    """Return strings with offsets from 0; null strings become empty."""
    offsets, data = strings_of(array)
    check_offsets(offsets, len(data), where)
    start, stop = int(offsets[0]), int(offsets[-1])
    data = data[start:stop]
    if start:
        offsets = offsets - offsets[0]
    if valid is None:
        valid = validity_of(array)
    if valid is not None and (np.diff(offsets)[~valid]).any():
        return gather_valid(VariableWidth(offsets, data), np.arange(len(array)), valid)
    return VariableWidth(offsets, data)


def _fixed_size_list(array: pa.Array, valid: Mask | None, where: str) -> FixedSizeListBlock:
    dimension = array.type.list_size
    items = storage_of(items_of(array))
    if dimension == 0 or pa.types.is_dictionary(items.type) or is_variable(items.type):
        raise UnsupportedError(f"field {where!r}: no page holds values of {array.type}")
    if valid is None:
        valid = validity_of(array)
    item_valid = validity_of(items)
    bits = None
    if item_valid is not None and not _all_valid(item_valid, valid, dimension):
        bits = np.packbits(item_valid, bitorder="little")
    return FixedSizeListBlock(dimension, block_of(items, item_valid, where), bits)


def _all_valid(item_valid: Mask, valid: Mask | None, dimension: int) -> bool:
    """True if only the items of null lists are null."""
    rows = item_valid.reshape(-1, dimension).all(axis=1)
    return bool((rows if valid is None else rows | ~valid).all())


def _struct(array: pa.Array, valid: Mask | None, where: str) -> StructBlock:
    """Return packed structs, whose children must not be null."""
    if valid is None:
        valid = validity_of(array)
    children = []
    for number in range(array.type.num_fields):
        name = f"{where}.{array.type.field(number).name}"
        child = storage_of(array.field(number))
        child_valid = validity_of(child)
        if child_valid is not None:
            missing = ~child_valid if valid is None else valid & ~child_valid
            if missing.any():
                raise InvalidInputError(
                    f"field {name!r}: null in row {int(np.argmax(missing))} of a batch; "
                    "packed structs hold no nulls inside"
                )
        is_empty = pa.types.is_struct(child.type) and not child.type.num_fields
        if pa.types.is_boolean(child.type) or is_empty:
            raise UnsupportedError(f"field {name!r}: packed structs hold no {child.type}")
        children.append(block_of(child, valid, name))
    return StructBlock(len(array), tuple(children))


def _without_null_items(array: pa.Array) -> pa.Array:
    """Move the nulls of a dictionary's items to the rows that use these items."""
    items = array.dictionary
    if items.null_count == 0:
        return array
    retained = as_mask(items.is_valid())
    places = (np.cumsum(retained) - 1).clip(0)
    indices = array.indices.cast(pa.int64()).fill_null(0)
    used = np.from_dlpack(indices)
    valid = retained[used] & as_mask(array.is_valid())
    renumbered = to_arrow(places[used], valid).cast(array.type.index_type)
    return pa.DictionaryArray.from_arrays(renumbered, items.drop_null())

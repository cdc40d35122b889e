"""Arrays of fields whose type the kernel does not know: built of a simpler type, then converted.

The kernel builds fixed-size lists of numbers as bytes, JSON as the bytes that are stored, and maps
as lists of entries. Structs and lists around them are put together again, in the same memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import CorruptFileError
from alance.format.blocks import VariableWidth
from alance.format.layouts.arrays import wrapped
from alance.format.layouts.fields import owns_column, values_array
from alance.format.numbers import contents_of, storage_type, validity_of

if TYPE_CHECKING:
    from alance.format.field import Field


def list_width(field: Field) -> int:
    """Bytes of a value that is a fixed-size list of numbers; 0 for other fields."""
    if not field.is_leaf or not field.logical_type.startswith("fixed_size_list:"):
        return 0
    arrow = storage_type(field.to_arrow().type)
    if not pa.types.is_fixed_size_list(arrow) or not (
        pa.types.is_integer(arrow.value_type) or pa.types.is_floating(arrow.value_type)
    ):
        return 0
    return int(arrow.list_size * arrow.value_type.bit_width // 8)


def kernel_type(field: Field) -> pa.DataType | None:
    """The type of the array that the kernel builds of a field. None: that of the field."""
    arrow = storage_type(field.to_arrow().type)
    if owns_column(field):
        if field.is_json:
            return pa.large_binary()
        width = list_width(field)
        return pa.binary(width) if width else None
    types = [kernel_type(child) for child in field.children]
    is_map = pa.types.is_map(arrow)
    if not is_map and not any(own is not None for own in types):
        return None
    members = [
        pa.field(child.name, storage_type(child.to_arrow().type) if own is None else own)
        for child, own in zip(field.children, types, strict=True)
    ]
    if pa.types.is_struct(arrow):
        return pa.struct(members)
    return pa.large_list(members[0]) if pa.types.is_large_list(arrow) else pa.list_(members[0])


def converted(array: pa.Array, field: Field, arrow: pa.DataType) -> pa.Array:
    """An array of a field, built by the kernel, as an array of a type.

    Args:
        arrow: of the field.

    Raises:
        CorruptFileError: JSON that is none, or maps with null entries or keys.
    """
    if isinstance(arrow, pa.BaseExtensionType):
        return wrapped(converted(array, field, arrow.storage_type), arrow)
    count, nulls = len(array), array.null_count
    if field.is_json:
        content = VariableWidth(*contents_of(array))
        return values_array(field, arrow, content, validity_of(array))
    if owns_column(field):
        if not list_width(field):
            return array
        valid, content = array.buffers()
        items = pa.Array.from_buffers(arrow.value_type, count * arrow.list_size, [None, content])
        return pa.Array.from_buffers(arrow, count, [valid], nulls, children=[items])
    if pa.types.is_struct(arrow):
        children = [
            converted(array.field(at), child, arrow.field(at).type)
            for at, child in enumerate(field.children)
        ]
        return pa.Array.from_buffers(arrow, count, array.buffers()[:1], nulls, children=children)
    (child,) = field.children
    is_map = pa.types.is_map(arrow)
    items_type = pa.struct([arrow.key_field, arrow.item_field]) if is_map else arrow.value_type
    items = converted(array.values, child, items_type)
    if is_map and (items.null_count or items.field(0).null_count):
        raise CorruptFileError(f"map {field.name!r}: null entries or keys")
    return pa.Array.from_buffers(arrow, count, array.buffers()[:2], nulls, children=[items])

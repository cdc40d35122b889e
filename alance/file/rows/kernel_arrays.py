"""Arrays of fields whose type the kernel does not know: built of a simpler type, then converted.

The kernel builds fixed-size lists of numbers as bytes, JSON as the bytes that are stored, and maps
as lists of entries. Structs and lists around them are put together again, in the same memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import VariableWidth
from alance.format.layouts.arrays import wrapped
from alance.format.layouts.fields import owns_column, values_array
from alance.format.numbers import (
    contents_of,
    is_large,
    is_text,
    is_variable,
    storage_type,
    validity_of,
)
from alance.format.types import is_nested, leaf_type

if TYPE_CHECKING:
    from alance.format.field import Field


class LeafForm(NamedTuple):
    """Form of the values that the kernel builds of a leaf.

    Attributes:
        width: bytes of a value; 0: a bit; -4 or -8: strings, by the bytes of an offset; `NO_FORM`.
        is_text: values are UTF-8.
        arrow: type of the array; None if it is that of the field.
    """

    width: int
    is_text: bool = False
    arrow: pa.DataType | None = None


NO_FORM: Final = -1  # the kernel builds no array of such values
UNKNOWN: Final = LeafForm(NO_FORM)
JSONB: Final = LeafForm(-8, arrow=pa.large_binary())


def leaf_form(field: Field) -> LeafForm:
    """The form of a field that owns a column."""
    if not field.metadata:
        try:
            return _form_of_type(field.logical_type)
        except UnsupportedError:
            field.to_arrow()  # its error names the field
            raise
    if field.is_blob_v1:
        return UNKNOWN
    return JSONB if field.is_json else _form(storage_type(field.to_arrow().type))


def is_built(field: Field) -> bool:
    """True if the kernel builds arrays of a field that owns a column."""
    return field.derive("is_built", lambda own: leaf_form(own).width != NO_FORM)


@lru_cache(maxsize=256)
def _form_of_type(logical_type: str) -> LeafForm:
    """The form of fields that have nothing special about them: a table has few types."""
    if is_nested(logical_type):
        return UNKNOWN
    return JSONB if logical_type == "json" else _form(leaf_type(logical_type))


def _form(storage: pa.DataType) -> LeafForm:
    if is_variable(storage):
        return LeafForm(-8 if is_large(storage) else -4, is_text(storage))
    if pa.types.is_fixed_size_list(storage):
        items = storage.value_type
        if pa.types.is_integer(items) or pa.types.is_floating(items):
            width = int(storage.list_size * items.bit_width // 8)
            return LeafForm(width, arrow=pa.binary(width)) if width else UNKNOWN
    if pa.types.is_nested(storage) or pa.types.is_dictionary(storage):
        return UNKNOWN
    if pa.types.is_boolean(storage):
        return LeafForm(0)
    try:
        return LeafForm(int(storage.bit_width // 8))
    except ValueError:
        return UNKNOWN


def kernel_type(field: Field) -> pa.DataType | None:
    """The type of the array that the kernel builds of a field. None: that of the field."""
    if owns_column(field):
        return leaf_form(field).arrow
    arrow = storage_type(field.to_arrow().type)
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
        if leaf_form(field).arrow is None:
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

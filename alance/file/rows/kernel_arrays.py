"""Arrays of types that the kernel cannot build: it builds a simpler type, which is converted.

The kernel builds JSON as its stored bytes, arrays of the null type as null bytes, vectors of nulls
as vectors of bytes, and maps as lists of entries. Structs and lists around them are rebuilt over
the same memory. Members of structs that a fragment lacks are added as nulls.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import MAX_BITS_PER_VALUE
from alance.format.codecs.fixed import MOST_LENGTHS
from alance.format.layouts.fields import is_empty_struct, json_array, owns_column, wrapped
from alance.format.numbers import (
    is_large,
    is_text,
    is_variable,
    storage_type,
)
from alance.format.types import is_nested, leaf_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.field import Field


class LeafForm(NamedTuple):
    """Form of a leaf's values in the array that the kernel builds.

    Attributes:
        width: bytes of a value; 0 for a bit; -4 or -8 for strings and binary with offsets of 4
            or 8 bytes; -8 also for packed structs of varying length.
        is_text: True if values are UTF-8.
        arrow: type of the array; None if it is the field's type.
        shape: empty for plain values. For dictionaries the bytes of an index, negative if it is
            signed. For fixed-size lists the bits of an item, then the list lengths, outermost
            first. For packed structs 0, then of each member its width and 1 if it is UTF-8, or its
            width, 2 plus the size of its shape, and the shape; for structs without fields a single
            0.
    """

    width: int
    is_text: bool = False
    arrow: pa.DataType | None = None
    shape: tuple[int, ...] = ()


JSONB: Final = LeafForm(-8, arrow=pa.large_binary())
# Form of the null type, and of types whose values no writer stores: all values are null.
NULL_LEAF_FORM: Final = LeafForm(1, arrow=pa.int8())
NO_FIELDS: Final = LeafForm(1, shape=(0,))


def leaf_form(field: Field) -> LeafForm:
    """Return the form of a field that owns a column."""
    if not field.metadata:
        try:
            return _form_of_type(field.logical_type)
        except UnsupportedError:
            field.to_arrow()  # for the error, which names the field
            raise
    if field.is_blob_v1 or field.is_blob_v2:
        return _form_of_packed(field.arrow_type)
    if is_empty_struct(field):
        return NO_FIELDS
    if field.is_packed:
        return _form_of_packed(field.to_arrow().type)
    return JSONB if field.is_json else _form(storage_type(field.to_arrow().type))


def has_values(field: Field) -> bool:
    """True if writers store values of a field that owns a column; else all of it is null."""
    form = field.derive("leaf_form", leaf_form)
    return form != NULL_LEAF_FORM or field.arrow_type.id == pa.int8().id


@lru_cache(maxsize=256)
def _form_of_type(logical_type: str) -> LeafForm:
    """Return the form of fields without metadata; memoized by type, of which a table has few."""
    if logical_type == "struct":
        return NO_FIELDS  # a struct with fields owns no column
    if is_nested(logical_type):
        return NULL_LEAF_FORM
    return JSONB if logical_type == "json" else _form(leaf_type(logical_type))


def _form(storage: pa.DataType) -> LeafForm:
    if is_variable(storage):
        return LeafForm(-8 if is_large(storage) else -4, is_text(storage))
    if pa.types.is_fixed_size_list(storage):
        return _form_of_lists(storage)
    if pa.types.is_dictionary(storage):
        values, indices = _form(storage_type(storage.value_type)), storage.index_type
        if values.arrow is not None or values.shape:
            return NULL_LEAF_FORM
        size = indices.bit_width // 8
        return values._replace(shape=(-size if pa.types.is_signed_integer(indices) else size,))
    if pa.types.is_null(storage) or pa.types.is_nested(storage):
        return NULL_LEAF_FORM
    if pa.types.is_boolean(storage):
        return LeafForm(0)
    try:
        return LeafForm(int(storage.bit_width // 8))
    except ValueError:
        return NULL_LEAF_FORM


def _form_of_lists(storage: pa.DataType) -> LeafForm:
    """Return the form of fixed-size lists, which may be nested."""
    lengths, arrow = [], None
    while pa.types.is_fixed_size_list(storage):
        lengths.append(int(storage.list_size))
        storage = storage_type(storage.value_type)
    if pa.types.is_null(storage):
        storage = arrow = pa.int8()
        for length in reversed(lengths):
            arrow = pa.list_(arrow, length)
    try:
        item_bits = int(storage.bit_width)
    except ValueError:
        return NULL_LEAF_FORM
    bits = prod(lengths) * item_bits
    if bits < 1 or len(lengths) > MOST_LENGTHS or bits > MAX_BITS_PER_VALUE:
        return NULL_LEAF_FORM
    return LeafForm(-(-bits // 8), arrow=arrow, shape=(item_bits, *lengths))


def _form_of_packed(arrow: pa.DataType) -> LeafForm:
    """Return the form of packed structs, which may have structs as members."""
    if not pa.types.is_struct(arrow):
        return NULL_LEAF_FORM
    forms = [
        _form_of_packed(own) if pa.types.is_struct(own) else _form(own)
        for own in [storage_type(member.type) for member in arrow]
    ]
    if any(map(_is_no_member, forms)):
        return NULL_LEAF_FORM
    # A row with a list or a struct inside begins with its length, even if its width is fixed.
    are_fixed = all(form.width >= 0 and not form.shape for form in forms)
    shape = chain.from_iterable(
        (form.width, 2 + len(form.shape), *form.shape)
        if form.shape
        else (form.width, int(form.is_text))
        for form in forms
    )
    width = sum([max(form.width, 1) for form in forms])
    return LeafForm(width if are_fixed else -8, shape=(0, *shape))


def _is_no_member(form: LeafForm) -> bool:
    """True if packed structs cannot have members of a form: dictionaries, nulls, empty structs."""
    return form.arrow is not None or len(form.shape) == 1


def kernel_type(
    field: Field, arrow: pa.DataType, types: Sequence[pa.DataType | None]
) -> pa.DataType | None:
    """Return the type of array that the kernel builds for a nested field of the type `arrow`.

    Returns None for the field's type.

    Args:
        types: type that the kernel builds for each child; None for the child's type.
    """
    is_map = pa.types.is_map(arrow)
    if not is_map and not any(own is not None for own in types):
        return None
    members = [
        pa.field(child.name, storage_type(child.to_arrow().type) if own is None else own)
        for child, own in zip(field.children, types, strict=True)
    ]
    if pa.types.is_struct(arrow):
        return pa.struct(members)
    if pa.types.is_fixed_size_list(arrow):
        return pa.list_(members[0], arrow.list_size)
    return pa.large_list(members[0]) if pa.types.is_large_list(arrow) else pa.list_(members[0])


def converted(array: pa.Array, field: Field, arrow: pa.DataType) -> pa.Array:
    """Convert an array that the kernel has built to the type of its field.

    Raises:
        CorruptFileError: a JSON value is invalid, or a map has null entries or keys.
        UnsupportedError: there are values of a type whose values no writer stores.
    """
    if isinstance(arrow, pa.BaseExtensionType):
        return wrapped(converted(array, field, arrow.storage_type), arrow)
    count, nulls = len(array), array.null_count
    if field.is_json:
        return json_array(array, arrow)
    if owns_column(field):
        return _converted_leaf(array, field, arrow)
    if pa.types.is_struct(arrow):
        places = [*map(array.type.get_field_index, arrow.names)]
        children = [
            pa.nulls(count, member.type)
            if place < 0
            else converted(array.field(place), child, member.type)
            for place, child, member in zip(places, field.children, arrow, strict=True)
        ]
        return pa.Array.from_buffers(arrow, count, array.buffers()[:1], nulls, children=children)
    (child,) = field.children
    is_map = pa.types.is_map(arrow)
    items_type = pa.struct([arrow.key_field, arrow.item_field]) if is_map else arrow.value_type
    items = converted(array.values, child, items_type)
    if is_map and (items.null_count or items.field(0).null_count):
        raise CorruptFileError(f"map {field.name!r}: null entries or keys")
    buffers = array.buffers()[: 1 if pa.types.is_fixed_size_list(arrow) else 2]
    return pa.Array.from_buffers(arrow, count, buffers, nulls, children=[items])


def _converted_leaf(array: pa.Array, field: Field, arrow: pa.DataType) -> pa.Array:
    if array.type == arrow:
        return array
    count, nulls = len(array), array.null_count
    if array.type == NULL_LEAF_FORM.arrow and arrow != NULL_LEAF_FORM.arrow:
        if nulls < count:
            raise UnsupportedError(f"field {field.name!r}: values of type {arrow}: expected nulls")
        return pa.nulls(count, arrow)
    if pa.types.is_fixed_size_list(arrow) and pa.types.is_fixed_size_list(array.type):
        items = pa.nulls(count * arrow.list_size, arrow.value_type)
        inner = storage_type(arrow.value_type)
        if pa.types.is_fixed_size_list(inner):
            items = _converted_leaf(array.values, field, inner)
        return pa.Array.from_buffers(arrow, count, array.buffers()[:1], nulls, children=[items])
    return array

"""Rows of fields as pages of 0.1: plain bytes, offsets, keys. Most nulls are lost.

A null string is an empty one, a null list has no items, numbers under nulls are zeros; a struct is
what its children are.

Source: docs/format/file-0.1.md, "Pages" and "Rules for a 0.1 writer".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import FixedSizeListBlock, FixedWidth, VariableWidth
from alance.format.encode.leaves import as_type, block_of, storage_of, validity_of
from alance.format.numbers import to_arrow
from alance.format.types import is_nested, leaf_type
from alance.format.v0_1.arrays import row_bits, storage
from alance.format.v0_1.fields import is_list, is_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from alance.format.blocks import Block, Bytes
    from alance.format.field import Field
    from alance.format.v0_1.encode_dictionary import Values

    Int64s = npt.NDArray[np.int64]
    Mask = npt.NDArray[np.bool_]

NOTHING: Final = np.empty(0, np.uint8)
KEYED: Final = ("string", "large_string", "binary", "large_binary")


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a batch, before it has its place.

    Attributes:
        field: whose page it is.
        length: entries, as the page table counts them.
        data: what lies before the page's position: the bytes of strings.
        body: what begins there; None: `offsets` do.
        offsets: of strings, from 0; shape (n + 1,).
        leaf: the rows, of a leaf outside of lists.
        is_lossy: whether values were null that will not be.
    """

    field: Field
    length: int
    data: Bytes
    body: Bytes | None
    offsets: Int64s | None = None
    leaf: pa.Array | None = None
    is_lossy: bool = False


def check_types(field: Field) -> None:
    """Check that files of 0.1 hold a field.

    Raises:
        UnsupportedError: they do not.
    """
    kind = field.logical_type
    bad = field.is_json or field.is_blob_v2  # packed structs are structs like others
    if kind.startswith("dict:"):
        value = kind.split(":")[1]
        bad |= value not in KEYED and not pa.types.is_integer(leaf_type(value))
    elif is_nested(kind):
        bad |= kind != "struct" and not is_list(field)
    elif not is_text(field) and kind != "null":
        arrow = storage(leaf_type(kind))
        bad |= not row_bits(arrow) or kind.startswith(("decimal:32", "decimal:64", "interval"))
    if bad:
        name = "JSON" if field.is_json else kind
        raise UnsupportedError(f"field {field.name!r}: {name} in a file of version 0.1")
    for child in field.children:
        check_types(child)


def pages_of(
    field: Field, array: pa.Array, dictionaries: Mapping[int, Values], *, in_list: bool = False
) -> Iterator[Page]:
    """The pages of a batch of a field, depth first.

    Raises:
        InvalidInputError: values that do not fit the field.
    """
    array = storage_of(array)
    if field.logical_type == "struct":
        if not pa.types.is_struct(array.type):
            raise _misfit(field, array)
        lossy = bool(array.null_count)
        for child in field.children:
            place = array.type.get_field_index(child.name)
            if place < 0:
                raise _misfit(field, array)
            for page in pages_of(child, array.field(place), dictionaries, in_list=in_list):
                yield page if not lossy else _lossy(page)
        return
    if is_list(field):
        yield from _list(field, array, dictionaries)
        return
    if field.logical_type == "null":
        yield Page(field, len(array), NOTHING, NOTHING)
        return
    arrow = storage(leaf_type(field.logical_type))
    array = as_type(array, arrow, field.name)
    valid = validity_of(array)
    if valid is not None and not field.nullable:
        raise InvalidInputError(f"field {field.name!r}: nulls, and the field is not nullable")
    leaf = None if in_list else array
    if is_text(field):
        block = block_of(array, valid, field.name)
        assert isinstance(block, VariableWidth)
        offsets = block.offsets.astype(np.int64, copy=False)
        yield Page(field, len(array), block.data, None, offsets, leaf)
    elif pa.types.is_dictionary(arrow):
        keys = dictionaries[field.id].keys(array, valid)
        body = keys.view(np.uint8)
        yield Page(field, len(array), NOTHING, body, is_lossy=valid is not None)
    else:
        body = _plain(block_of(array, valid, field.name), valid)
        lossy = valid is not None
        yield Page(field, len(array), NOTHING, body, leaf=leaf, is_lossy=lossy)


def _lossy(page: Page) -> Page:
    return Page(page.field, page.length, page.data, page.body, page.offsets, page.leaf, True)


def _list(field: Field, array: pa.Array, dictionaries: Mapping[int, Values]) -> Iterator[Page]:
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise _misfit(field, array)
    valid = validity_of(array)
    starts = np.from_dlpack(array.offsets).astype(np.int64)
    sizes = np.diff(starts)
    if valid is not None and sizes[~valid].any():
        sizes = np.where(valid, sizes, 0)
        before = np.cumsum(sizes) - sizes
        places = np.repeat(starts[:-1] - before, sizes) + np.arange(int(sizes.sum()))
        items = array.values.take(to_arrow(places))
    else:
        items = array.values.slice(int(starts[0]), int(starts[-1] - starts[0]))
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    large = field.logical_type.startswith("large")
    if not large and int(offsets[-1]) >= 1 << 31:
        raise InvalidInputError(f"field {field.name!r}: {offsets[-1]} items in one batch")
    body = offsets.astype("<i8" if large else "<i4").view(np.uint8)
    yield Page(field, len(offsets), NOTHING, body, is_lossy=valid is not None)
    yield from pages_of(field.children[0], items, dictionaries, in_list=True)


def _plain(block: Block, valid: Mask | None) -> Bytes:
    """The bytes of values of equal width; zeros for nulls."""
    per_row = 1
    while isinstance(block, FixedSizeListBlock):
        per_row *= block.dimension
        block = block.items
    assert isinstance(block, FixedWidth)
    if valid is None:
        spare = -block.num_values * block.bits_per_value % 8
        if spare == 0:
            return block.data
        data = block.data.copy()
        data[-1] &= 0xFF >> spare  # they are of the rows behind
        return data
    if block.bits_per_value == 1:
        count = block.num_values
        bits = np.unpackbits(block.data, count=count, bitorder="little").reshape(-1, per_row)
        return np.packbits(bits & valid[:, None], bitorder="little")
    rows = block.data.reshape(len(valid), -1)
    return np.where(valid[:, None], rows, np.uint8(0)).reshape(-1)


def _misfit(field: Field, array: pa.Array) -> InvalidInputError:
    return InvalidInputError(
        f"field {field.name!r}: {array.type} where {field.logical_type} is expected"
    )

"""Split Arrow arrays into leaves: the levels and values of each column, as pages store them.

This is the inverse of `layouts.fields.assemble`. Values below nulls are dropped: children of null
lists are removed, and all values in a null struct become null.

Source: docs/format/file.md, "Columns" and "Arrow to levels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

import numpy as np
import pyarrow as pa

from alance.errors import AlanceError, InvalidInputError, UnsupportedError
from alance.format.blocks import NullBlock
from alance.format.encode.blobs import blob_rows
from alance.format.encode.leaves import as_type, block_of, check_offsets
from alance.format.encode.levels import ItemLayer, ListLayer, levels_of
from alance.format.field import BLOB_V2_TYPE
from alance.format.jsonb import jsonb
from alance.format.layouts.base import PageValues
from alance.format.layouts.fields import EMPTY_STRUCT, owns_column
from alance.format.numbers import (
    is_variable_list,
    items_of,
    lists_of,
    offsets_of,
    positions_of,
    storage_of,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from alance.base.arrays import Int64s, Mask
    from alance.format.blocks import Block
    from alance.format.encode.levels import Path
    from alance.format.field import Field

# Prefixes of the logical types of lists and maps.
LIST_PREFIXES: Final = ("list", "large_list", "map")


def leaf_values(field: Field, array: pa.Array) -> dict[int, PageValues]:
    """Return the levels and values of each leaf of a top-level field, by field id.

    Args:
        field: field of a schema from `Schema.from_arrow`, or of a table.
        array: the rows, of the field's type or a type that can be cast to it (dictionaries, views,
            large offsets, extension types of the same storage). Blobs of version 1 are given as
            their bytes. Blobs of version 2 are given as descriptions (`field.BLOB_V2_TYPE`), or in
            another form that `blobs.blob_rows` accepts; the values are then `BlobRows`.

    Returns:
        Leaves by field id, in the order of `layouts.fields.leaf_columns`. Values are views of the
        array's buffers if possible. As in pages, `num_rows` is the number of rows, times the
        dimension of each fixed-size list of structs around the leaf. But a fixed-size list of
        structs that is in a list, or contains one, is stored like a list (2.3 only), and does not
        multiply `num_rows`.

    Raises:
        InvalidInputError: the type is wrong, or the format cannot hold a value (a null in a packed
            struct, a text that is not JSON).
    """
    leaves: dict[int, PageValues] = {}
    try:
        _descend(field, array, (), None, len(array), leaves)
    except AlanceError as error:
        error.add_note(f"while field {field.name!r} was written")
        raise
    return leaves


def _descend(
    field: Field,
    array: pa.Array,
    path: Path,
    outer: Mask | None,
    num_rows: int,
    leaves: dict[int, PageValues],
) -> None:
    """Add the leaves of a field and its descendants to `leaves`.

    Args:
        path: layers above the field, outermost first.
        outer: mask of the slots whose parents, up to the nearest list, are not null; None if no
            parent is null.
        num_rows: number of rows of the whole array.
    """
    array = storage_of(array)
    if owns_column(field):
        leaves[field.id] = _leaf(field, array, path, outer, num_rows)
        return
    nulls, valid = _nulls(field, array, outer)
    if pa.types.is_struct(array.type):
        need(field, array, field.logical_type == "struct")
        layer = ItemLayer(nulls, is_nullable=field.nullable)
        for child, part in zip(field.children, children_of(field, array), strict=True):
            _descend(child, part, (*path, layer), valid, num_rows, leaves)
        return
    if pa.types.is_fixed_size_list(array.type):
        dimension = array.type.list_size
        need(field, array, field.logical_type == f"fixed_size_list:struct:{dimension}")
        items = items_of(array)
        if not any(isinstance(layer, ListLayer) for layer in path) and not _has_lists(field):
            repeated = None if valid is None else np.repeat(valid, dimension)
            layer = ItemLayer(nulls, dimension)
            _descend(field.children[0], items, (*path, layer), repeated, num_rows, leaves)
            return
        starts = np.arange(len(array) + 1, dtype=np.int64) * dimension
    else:
        is_list = is_variable_list(array.type)
        is_map = pa.types.is_map(array.type)
        kind = field.logical_type.removeprefix("large_").removesuffix(".struct")
        need(field, array, (is_list and kind == "list") or (is_map and kind == "map"))
        starts, items = lists_of(array)
        check_offsets(starts, len(items), field.name)
    sizes = np.diff(starts) if valid is None else np.diff(starts)[valid]
    offsets, items = live_lists(starts, items, valid)
    lists = ListLayer(offsets, nulls, has_empty=bool(sizes.min(initial=1) == 0))
    _descend(field.children[0], items, (*path, lists), None, num_rows, leaves)


def _leaf(
    field: Field, array: pa.Array, path: Path, outer: Mask | None, num_rows: int
) -> PageValues:
    is_blob_rows = field.is_blob_v2 and array.type != BLOB_V2_TYPE
    if not is_blob_rows:
        stored = pa.large_binary() if field.is_blob_v1 else pa.large_string()
        is_given = field.is_blob_v1 or field.is_json
        array = as_type(array, stored if is_given else field.arrow_type, field.name)
    nulls, valid = _nulls(field, array, outer)
    values: Block
    if is_blob_rows:
        values = cast("Block", blob_rows(array, valid, field.name))
    elif array.type == EMPTY_STRUCT:
        values = NullBlock(len(array))
    elif field.is_json:
        values = jsonb(array, valid, field.name)
    else:
        values = block_of(array, valid, field.name)
    layers, rep, definition = levels_of((*path, ItemLayer(nulls)), num_rows)
    rows = num_rows
    for layer in path:
        rows *= layer.repeats if isinstance(layer, ItemLayer) else 1
    return PageValues(layers, rep, definition, values, rows)


def _nulls(field: Field, array: pa.Array, outer: Mask | None) -> tuple[Mask | None, Mask | None]:
    """Return the mask of null slots and the mask of valid slots.

    A slot in a null parent is null. Both masks are None if all slots are valid.
    """
    own = validity_of(array)
    if own is None and outer is None:
        return None, None
    if (
        own is not None
        and not field.nullable
        and not (own if outer is None else own | ~outer).all()
    ):
        raise InvalidInputError(f"field {field.name!r}: nulls, and the field is not nullable")
    valid = own if outer is None else outer if own is None else own & outer
    assert valid is not None
    return (~valid, valid) if not valid.all() else (None, None)


def _has_lists(field: Field) -> bool:
    """True if a descendant of a field is a list or map."""
    return any(
        not owns_column(child)
        and (child.logical_type.startswith(LIST_PREFIXES) or _has_lists(child))
        for child in field.children
    )


def live_lists(starts: Int64s, items: pa.Array, valid: Mask | None) -> tuple[Int64s, pa.Array]:
    """Return the offsets and items of lists, without the items of null lists."""
    sizes = np.diff(starts)
    if valid is None or not sizes[~valid].any():
        return starts, items
    sizes = np.where(valid, sizes, 0)
    if "fixed_size_list" not in str(items.type):
        return offsets_of(sizes), items.take(to_arrow(positions_of(starts[:-1], sizes)))
    # Not by pyarrow's `take`, which returns wrong items for slices of nested fixed-size lists.
    runs = np.flatnonzero(sizes)
    pieces = [items.slice(int(starts[run]), int(sizes[run])) for run in runs]
    return offsets_of(sizes), pa.concat_arrays(pieces) if pieces else items[:0]


def children_of(field: Field, array: pa.Array) -> list[pa.Array]:
    """Return the children of a struct in the order of the field's children."""
    names = [array.type.field(number).name for number in range(array.type.num_fields)]
    expected = [child.name for child in field.children]
    if names != expected and (sorted(names) != sorted(expected) or len(set(names)) < len(names)):
        # Accept any names of the key and value of a map, because implementations differ.
        if len(names) != len(expected) or field.name != "entries":
            raise InvalidInputError(f"field {field.name!r}: children {names}, expected {expected}")
        expected = names
    return [array.field(names.index(name)) for name in expected]


def need(field: Field, array: pa.Array, fits: bool) -> None:
    """Check that the type of an array fits its field."""
    if not fits:
        raise InvalidInputError(
            f"field {field.name!r}: {array.type} where {field.logical_type} is expected"
        )
    if len(array) >= 1 << 31:
        raise UnsupportedError(f"field {field.name!r}: {len(array)} rows in one batch")

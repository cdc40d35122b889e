"""Arrow arrays of fields, assembled from the levels and values of pages: the writer's inverse.

The pages of each leaf have the complete structure from the row to the leaf. The array is built from
the outside in. A list takes its offsets from the first leaf below it that has pages; the other
leaves must have the same offsets.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance.errors import BatchTooLargeError, CorruptFileError, InvalidInputError
from alance.format.blocks import DictionaryBlock
from alance.format.encode.levels import Items, Lists, unravel
from alance.format.encode.rows import join_blocks
from alance.format.layouts.fields import (
    dimension_of,
    is_empty_struct,
    layer_dimensions,
    leaf_columns,
    narrow,
    owns_column,
    wrapped,
)
from alance.format.numbers import bitmap, offsets_of
from tests.reference.block_arrays import values_array

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Mask
    from alance.format.encode.levels import Structure
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn


def assemble(field: Field, leaves: Mapping[int, Sequence[PageValues]], num_rows: int) -> pa.Array:
    """Assemble the Arrow array of a field, with the type `field.to_arrow().type`.

    Args:
        leaves: pages of each leaf, in row order, by field id; leaves without an entry are null.
        num_rows: number of rows of the result.

    Raises:
        BatchTooLargeError: the values do not fit into one array.
        CorruptFileError: the pages contradict the schema, each other, or the number of rows.
    """
    arrow = field.to_arrow().type
    if num_rows == 0:
        return pa.nulls(0, arrow)
    opened: dict[int, _Leaf] = {}
    for leaf in leaf_columns(field):
        pages = leaves.get(leaf.field.id)
        if pages is not None:
            try:
                opened[leaf.field.id] = _open_leaf(field, leaf, pages)
            except CorruptFileError as error:
                error.add_note(f"in field {leaf.field.name!r}")
                raise
    return _build(field, arrow, opened, 0, num_rows)


class _Leaf(NamedTuple):
    """Pages of a leaf, with their structure."""

    pages: Sequence[PageValues]
    structure: Structure  # joined structure of all pages
    own: Sequence[Items]  # the innermost layer of each page


def _open_leaf(root: Field, leaf: LeafColumn, pages: Sequence[PageValues]) -> _Leaf:
    if is_empty_struct(leaf.field):
        depth = len(layer_dimensions(root, leaf.field))
        parts = [_without_values(page, depth) for page in pages]
    else:
        parts = [unravel(page) for page in pages]
    if not parts:
        raise CorruptFileError("no page has the rows")
    own = []
    for part in parts:
        last = part[-1]
        if not isinstance(last, Items):
            raise CorruptFileError("the innermost layer of a page is a list")
        own.append(last)
    return _Leaf(pages, joined(parts), own)


def _without_values(page: PageValues, depth: int) -> Structure:
    """Return the structure of a page of structs without members.

    The levels of such a page mark all structs as null, because these have no values. These nulls
    are ignored. A page with a single layer represents `depth` layers without nulls.
    """
    definition, own_levels = page.definition, page.layers[0].num_levels
    if definition is not None:
        definition = np.where(definition <= own_levels, np.uint16(0), definition)
    structure = unravel(page._replace(definition=definition))
    if len(structure) == 1:
        return structure * depth
    return structure


def _build(
    field: Field, arrow: pa.DataType, leaves: Mapping[int, _Leaf], depth: int, num_slots: int
) -> pa.Array:
    """Build the array of a field whose layer has index `depth`, counted from the outermost."""
    if isinstance(arrow, pa.BaseExtensionType):
        return wrapped(_build(field, arrow.storage_type, leaves, depth, num_slots), arrow)
    below = [leaf for leaf in leaf_columns(field) if leaf.field.id in leaves]
    if not below:
        return pa.nulls(num_slots, arrow)
    if owns_column(field):
        return _leaf_array(field, arrow, leaves[field.id], depth, num_slots)
    if arrow.id == pa.lib.Type_STRUCT:
        valid = _item_mask(below, leaves, depth, num_slots)
        return _struct(field, arrow, leaves, depth, num_slots, valid)
    if dimension := dimension_of(field):
        valid = _item_mask(below, leaves, depth, num_slots)
        items = _build(
            field.children[0], arrow.value_type, leaves, depth + 1, num_slots * dimension
        )
        return pa.Array.from_buffers(arrow, num_slots, [bitmap(valid)], children=[items])
    lists = _lists(field, below, leaves, depth, num_slots)
    child_slots = int(lists.offsets[-1])
    child = field.children[0]
    if arrow.id == pa.lib.Type_MAP:
        entries = pa.struct([arrow.key_field, arrow.item_field])
        items = _build(child, entries, leaves, depth + 1, child_slots)
        if items.null_count or items.field(0).null_count:
            raise CorruptFileError(f"map {field.name!r}: null entries or keys")
    else:
        items = _build(child, arrow.value_type, leaves, depth + 1, child_slots)
    large = arrow.id == pa.lib.Type_LARGE_LIST
    buffers = [bitmap(lists.valid), pa.py_buffer(narrow(lists.offsets, large=large))]
    return pa.Array.from_buffers(arrow, num_slots, buffers, children=[items])


def _struct(
    field: Field,
    arrow: pa.DataType,
    leaves: Mapping[int, _Leaf],
    depth: int,
    num_slots: int,
    valid: Mask | None,
) -> pa.Array:
    children = [
        _build(child, arrow.field(number).type, leaves, depth + 1, num_slots)
        for number, child in enumerate(field.children)
    ]
    return pa.Array.from_buffers(arrow, num_slots, [bitmap(valid)], children=children)


def _layer(leaf: LeafColumn, leaves: Mapping[int, _Leaf], depth: int) -> Items | Lists:
    structure = leaves[leaf.field.id].structure
    if depth >= len(structure):
        raise CorruptFileError(
            f"field {leaf.field.name!r}: pages of {len(structure)} layers, the schema has more"
        )
    return structure[depth]


def _item_mask(
    below: Sequence[LeafColumn], leaves: Mapping[int, _Leaf], depth: int, num_slots: int
) -> Mask | None:
    """Return the validity of a struct or fixed-size list of structs: null if null in all leaves.

    Leaves in the same file always agree. A member that was added later is in another file, which
    only has the nulls of that member.
    """
    valid: Mask | None = None
    for leaf in below:
        layer = _layer(leaf, leaves, depth)
        if not isinstance(layer, Items):
            raise CorruptFileError(f"field {leaf.field.name!r}: a list where the schema has none")
        stride, rest = divmod(layer.num_slots, num_slots) if num_slots else (1, layer.num_slots)
        if rest or leaf.multiplier % stride:
            raise CorruptFileError(
                f"field {leaf.field.name!r}: {layer.num_slots} slots, expected {num_slots}"
            )
        if layer.valid is None:
            return None
        layer_valid = layer.valid[::stride]
        valid = layer_valid if valid is None else valid | layer_valid
    return valid


def _lists(
    field: Field,
    below: Sequence[LeafColumn],
    leaves: Mapping[int, _Leaf],
    depth: int,
    num_slots: int,
) -> Lists:
    """Return the lists of a field, after checking that all leaves below have the same offsets."""
    first: Lists | None = None
    for leaf in below:
        layer = _layer(leaf, leaves, depth)
        if not isinstance(layer, Lists) or layer.num_slots != num_slots:
            raise CorruptFileError(
                f"field {leaf.field.name!r}: {layer.num_slots} slots of "
                f"{type(layer).__name__.lower()}, expected {num_slots} of lists"
            )
        if first is None:
            first = layer
        elif not np.array_equal(first.offsets, layer.offsets):
            raise CorruptFileError(f"field {field.name!r}: its leaves disagree on its lists")
    assert first is not None
    return first


def _leaf_array(
    field: Field, arrow: pa.DataType, leaf: _Leaf, depth: int, num_slots: int
) -> pa.Array:
    items = leaf.structure[-1]
    if len(leaf.structure) != depth + 1 or items.num_slots != num_slots:
        raise CorruptFileError(
            f"field {field.name!r}: {items.num_slots} slots in {len(leaf.structure)} layers, "
            f"expected {num_slots} in {depth + 1}"
        )
    for page, own in zip(leaf.pages, leaf.own, strict=True):
        if page.values.num_values != own.num_slots:
            raise CorruptFileError(
                f"field {field.name!r}: {page.values.num_values} values for {own.num_slots} slots"
            )
    blocks = [page.values for page in leaf.pages]
    if len(blocks) == 1:
        return values_array(field, arrow, blocks[0], leaf.own[0].valid)
    if not isinstance(blocks[0], DictionaryBlock):
        with suppress(InvalidInputError):  # pages of other kinds
            return values_array(field, arrow, join_blocks(blocks), items.valid)
    valid = [own.valid for own in leaf.own]
    pieces = [values_array(field, arrow, *part) for part in zip(blocks, valid, strict=True)]
    try:
        return pa.concat_arrays(pieces)
    except pa.ArrowException as error:
        raise BatchTooLargeError(
            f"field {field.name!r}: {error}; read fewer rows at once"
        ) from error


def joined(parts: Sequence[Structure]) -> Structure:
    """Concatenate the structures of consecutive pages.

    Raises:
        CorruptFileError: the structures have different layers.
    """
    if len(parts) == 1:
        return parts[0]
    shapes = {tuple(type(layer) for layer in part) for part in parts}
    if len(shapes) != 1:
        raise CorruptFileError("pages of one column have layers of different kinds")
    return tuple(_join(layers) for layers in zip(*parts, strict=True))


def join_masks(masks: Sequence[Mask | None], counts: Sequence[int]) -> Mask | None:
    """Concatenate validity masks. None means all valid, also for the result."""
    if all(mask is None for mask in masks):
        return None
    return np.concatenate(
        [
            np.ones(count, np.bool_) if mask is None else mask
            for mask, count in zip(masks, counts, strict=True)
        ]
    )


def _join(layers: Sequence[Items | Lists]) -> Items | Lists:
    valid = join_masks([layer.valid for layer in layers], [layer.num_slots for layer in layers])
    if isinstance(layers[0], Items):
        return Items(sum(layer.num_slots for layer in layers), valid)
    sizes = [np.diff(layer.offsets) for layer in layers if isinstance(layer, Lists)]
    return Lists(offsets_of(np.concatenate(sizes)), valid)

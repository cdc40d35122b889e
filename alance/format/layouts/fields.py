"""Columns of a field, and the assembly of its Arrow array from the pages of these columns.

The pages of each leaf have the complete structure from the row to the leaf. The array is built from
the outside in. A list takes its offsets from the first leaf below it that has pages; the other
leaves must have the same offsets.

Source: docs/format/file.md, "Columns" and "Layers and levels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance.errors import BatchTooLargeError, CorruptFileError, InvalidInputError
from alance.format.blocks import ConstantBlock, VariableWidth, joined_values
from alance.format.jsonb import json_text
from alance.format.layouts.arrays import array_of, narrow, wrapped
from alance.format.layouts.repdef import Items, Lists, joined, unravel
from alance.format.numbers import bitmap, contents_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance.base.arrays import Mask
    from alance.format.blocks import Block
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.repdef import Structure

EMPTY_STRUCT: Final = pa.struct([])
_STRUCTURAL_LIST: Final = "fixed_size_list:struct:"


class LeafColumn(NamedTuple):
    """Field with a column of its own. A row of the table is `multiplier` rows of the column."""

    field: Field
    multiplier: int  # product of the dimensions of the fixed-size lists of structs above the field


# Memoized for a field with a column of its own, because a memo that refers to its field would form
# a reference cycle.
ITSELF: Final[list[LeafColumn]] = []


def leaf_columns(field: Field) -> list[LeafColumn]:
    """Return the fields at or below `field` that have a column, depth-first.

    Raises:
        CorruptFileError: the product of the dimensions exceeds 2^31.
    """
    leaves = field.derive("leaves", _own_leaves)
    return [LeafColumn(field, 1)] if leaves is ITSELF else leaves


def _own_leaves(field: Field) -> list[LeafColumn]:
    return ITSELF if owns_column(field) else list(_leaf_columns(field, 1))


def owns_column(field: Field) -> bool:
    """True if a field has a column of its own: a leaf, a packed or empty struct, or blobs."""
    if field.is_blob_v1 or field.is_blob_v2 or field.is_packed:
        return True
    if field.logical_type == "struct":
        return not field.children
    return field.is_leaf and not dimension_of(field)


def is_empty_struct(field: Field) -> bool:
    """True for a struct without members; its column has no values."""
    return field.logical_type == "struct" and not (field.children or field.is_blob_v2)


def _leaf_columns(field: Field, multiplier: int) -> Iterator[LeafColumn]:
    if owns_column(field):
        yield LeafColumn(field, multiplier)
        return
    multiplier *= dimension_of(field) or 1
    if multiplier > 1 << 31:
        raise CorruptFileError(f"field {field.name!r}: {multiplier} slots a row")
    for child in field.children:
        yield from _leaf_columns(child, multiplier)


def dimension_of(field: Field) -> int | None:
    """Return the dimension of a fixed-size list of structs; None for other fields."""
    if not field.logical_type.startswith(_STRUCTURAL_LIST):
        return None
    return int(field.logical_type.removeprefix(_STRUCTURAL_LIST))


def layer_dimensions(root: Field, leaf: Field) -> tuple[int, ...]:
    """Return the dimension of each field on the path from `root` to `leaf`.

    The dimension is 0 for fields other than fixed-size lists of structs.
    """
    own = (0,) if owns_column(root) else (dimension_of(root) or 0,)
    if root.id == leaf.id:
        return own
    for child in root.children:
        if any(below.field.id == leaf.id for below in leaf_columns(child)):
            return own + layer_dimensions(child, leaf)
    raise InvalidInputError(f"field {root.name!r} has no leaf {leaf.name!r}")


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
    structure = unravel(page, own_nulls=False)
    if len(structure) == 1 and page.structure is None:
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
    buffers = [bitmap(lists.valid), narrow(lists.offsets, large=large)]
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
    together = joined_values(blocks)
    if together is not None:
        return values_array(field, arrow, together, items.valid)
    valid = [own.valid for own in leaf.own]
    pieces = [values_array(field, arrow, *part) for part in zip(blocks, valid, strict=True)]
    try:
        return pa.concat_arrays(pieces)
    except pa.ArrowException as error:
        raise BatchTooLargeError(
            f"field {field.name!r}: {error}; read fewer rows at once"
        ) from error


def values_array(field: Field, arrow: pa.DataType, values: Block, valid: Mask | None) -> pa.Array:
    """Convert the values of a leaf to an Arrow array.

    Raises:
        BatchTooLargeError: strings of more than 2^31 - 1 bytes in 32-bit offsets.
        CorruptFileError: the values do not fit the type.
    """
    if isinstance(values, ConstantBlock) and values.value is None and arrow != EMPTY_STRUCT:
        return pa.nulls(values.num_values, arrow)
    if field.is_json:
        stored = array_of(values, pa.large_binary(), valid)
        content = VariableWidth(*contents_of(stored))
        return array_of(json_text(content, valid), arrow, valid)
    if arrow == EMPTY_STRUCT:
        return pa.Array.from_buffers(arrow, values.num_values, [bitmap(valid)])
    return array_of(values, arrow, valid)

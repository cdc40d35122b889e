"""Columns of a field, and Arrow arrays of the values of a leaf.

Source: docs/format/file.md, "Columns" and "Layers and levels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from alance.errors import CorruptFileError, InvalidInputError
from alance.format.blocks import NullBlock, VariableWidth
from alance.format.jsonb import json_text
from alance.format.layouts.arrays import array_of
from alance.format.numbers import bitmap, contents_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.base.arrays import Mask
    from alance.format.blocks import Block
    from alance.format.field import Field

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
    """Return the fields at or below `field` that have a column, depth-first."""
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

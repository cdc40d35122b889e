"""Columns of a field, and Arrow arrays from the values of a leaf.

Buffers that fit are not copied. Arrow trusts widths, offsets, dictionary indices and UTF-8. They
come from files, so they are checked here.

Source: docs/format/file.md, "Columns" and "Layers and levels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import BatchTooLargeError, CorruptFileError, InvalidInputError, kernel_errors
from alance.format.blocks import VariableWidth
from alance.format.jsonb import json_text
from alance.format.numbers import (
    bitmap,
    bits_of_type,
    contents_of,
    is_large,
    is_text,
    is_variable,
    mask_bytes,
    strings_array,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int32s, Int64s, Mask
    from alance.format.field import Field

MAX_OFFSET: Final = (1 << 31) - 1


def narrow(offsets: Int32s | Int64s, *, large: bool) -> npt.NDArray[Any]:
    """Convert offsets to 64-bit integers if `large`, else to 32-bit integers."""
    if not large and int(offsets[-1]) > MAX_OFFSET:
        raise BatchTooLargeError(
            f"a batch with {offsets[-1]} bytes or items in 32-bit offsets: read fewer rows at once"
        )
    return offsets.astype(np.int64 if large else np.int32, copy=False)


def misfit(what: str, arrow: pa.DataType) -> CorruptFileError:
    """Build the error for a page whose values do not have the type of the field."""
    return CorruptFileError(f"a page of {what} for type {arrow}")


def fixed_array(
    arrow: pa.DataType, bits: int, num_rows: int, data: Bytes, valid: Mask | None
) -> pa.Array:
    """Build an array of fixed-width values.

    Args:
        data: values of `bits` bits each; booleans are packed LSB first.
    """
    if bits != bits_of_type(arrow) or pa.types.is_dictionary(arrow):
        raise misfit(f"values of {bits} bits", arrow)
    if bits > 8 and data.ctypes.data % min(bits // 8, 8):
        data = data.copy()
    return pa.Array.from_buffers(arrow, num_rows, [bitmap(valid), pa.py_buffer(data)])


def variable_array(
    arrow: pa.DataType,
    offsets: Int32s | Int64s,
    data: Bytes,
    valid: Mask | None,
    *,
    is_ascii: bool = False,
) -> pa.Array:
    """Build an array of strings or binary; strings must be UTF-8, except those of nulls.

    Args:
        is_ascii: True if the data are known to be ASCII, with valid offsets.
    """
    if is_text(arrow):
        with kernel_errors:
            bad = -1 if is_ascii else _kernels.first_bad_utf8(offsets, data, mask_bytes(valid))
        if bad >= 0:
            raise CorruptFileError(f"value {bad} of the rows read is no UTF-8")
    elif not is_variable(arrow):
        raise misfit("strings", arrow)
    elif int(offsets[-1]) > len(data):
        raise CorruptFileError(f"strings of {offsets[-1]} bytes in {len(data)}")
    return strings_array(arrow, narrow(offsets, large=is_large(arrow)), data, valid)


def json_array(stored: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Convert stored JSON values, as large binary, to an array of JSON texts."""
    valid = validity_of(stored)
    text = json_text(VariableWidth(*contents_of(stored)), valid)
    return variable_array(arrow, text.offsets, text.data, valid)


def wrapped(array: pa.Array, arrow: pa.DataType) -> pa.Array:
    """Wrap a storage array in its extension type. Returns the array unchanged for other types."""
    if isinstance(arrow, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(arrow, array)
    return array


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

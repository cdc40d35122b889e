"""The blobs at and below a field: their descriptions, and other arrays in the place of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from alance.errors import UnsupportedError
from alance.format.layouts.arrays import bitmap
from alance.format.numbers import as_mask, as_numbers
from alance.format.types import nested_type

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy.typing as npt

    from alance.format.field import Field

    Mask = npt.NDArray[np.bool_]
    U64 = npt.NDArray[np.uint64]
    Member: TypeAlias = Callable[[Field, pa.Field, pa.Array], pa.Field]

STRUCTURES: Final = ("struct", "list", "list.struct", "large_list", "large_list.struct")


def has_blobs(field: Field) -> bool:
    """Whether a field is of blobs, or has some inside."""
    return any(one.is_blob_v1 or one.is_blob_v2 for one in field.walk())


def check_structure(field: Field) -> None:
    """Make sure that blobs are where `leaves_of` and `rebuilt` find them.

    Raises:
        UnsupportedError: inside of something else than structs and lists.
    """
    if field.is_blob_v1 or field.is_blob_v2 or not has_blobs(field):
        return
    if field.logical_type not in STRUCTURES:
        raise UnsupportedError(
            f"column {field.name!r}: blobs in {field.logical_type} are neither moved nor given as "
            "bytes by this alance"
        )
    for child in field.children:
        check_structure(child)


def with_leaves(field: Field, leaf: Callable[[Field], pa.Field]) -> pa.Field:
    """The Arrow field of a read, with others for its blobs."""
    if field.is_blob_v1 or field.is_blob_v2:
        return leaf(field)
    if not has_blobs(field):
        return field.to_arrow()
    children = [with_leaves(child, leaf) for child in field.children]
    return field.to_arrow().with_type(nested_type(field.logical_type, children))


def leaves_of(field: Field, array: pa.Array, owners: U64) -> Iterator[tuple[Field, pa.Array, U64]]:
    """The arrays of descriptions at and below a field, with the owner of each slot.

    Args:
        owners: of the rows, such as their fragments; shape (n,).
    """
    if field.is_blob_v1 or field.is_blob_v2:
        yield field, array, owners
    elif not has_blobs(field):
        return
    elif pa.types.is_struct(array.type):
        for number, child in enumerate(field.children):
            yield from leaves_of(child, array.field(number), owners)
    else:
        offsets, items = _items(array)
        yield from leaves_of(field.children[0], items, np.repeat(owners, np.diff(offsets)))


def _same(_: Field, was: pa.Field, now: pa.Array) -> pa.Field:
    return was.with_type(now.type)


def rebuilt(
    field: Field, array: pa.Array, arrays: Iterator[pa.Array], member: Member = _same
) -> pa.Array:
    """An array with others in place of descriptions.

    Args:
        arrays: these others, in the order of `leaves_of`.
        member: the Arrow field of a child that has blobs.
    """
    if field.is_blob_v1 or field.is_blob_v2:
        return next(arrays)
    if not has_blobs(field):
        return array
    valid = as_mask(array.is_valid()) if array.null_count else None
    arrow = array.type
    if pa.types.is_struct(arrow):
        children = [
            rebuilt(child, array.field(number), arrays, member)
            for number, child in enumerate(field.children)
        ]
        fields = [
            member(child, was, now) if has_blobs(child) else was
            for child, was, now in zip(field.children, arrow, children, strict=True)
        ]
        return pa.Array.from_buffers(
            pa.struct(fields), len(array), [bitmap(valid)], children=children
        )
    offsets, items = _items(array)
    items = rebuilt(field.children[0], items, arrays, member)
    item = member(field.children[0], arrow.value_field, items)
    large = pa.types.is_large_list(arrow)
    ends = pa.py_buffer(offsets.astype(np.int64 if large else np.int32))
    made = pa.large_list(item) if large else pa.list_(item)
    return pa.Array.from_buffers(made, len(array), [bitmap(valid), ends], children=[items])


def binary_array(parts: Sequence[bytes | memoryview], valid: Mask | None) -> pa.Array:
    """Byte strings as one large binary array."""
    ends = np.zeros(len(parts) + 1, np.int64)
    np.cumsum([len(one) for one in parts], out=ends[1:])
    buffers = [bitmap(valid), pa.py_buffer(ends), pa.py_buffer(b"".join(parts))]
    return pa.Array.from_buffers(pa.large_binary(), len(parts), buffers)


def _items(array: pa.Array) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """The offsets of lists, from 0 on, and the items that they span."""
    offsets = as_numbers(array.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, array.values.slice(first, last - first)

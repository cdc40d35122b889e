"""Blocks: values of a column, as encoders take them.

A block does not know which values are null: validity comes from definition levels. The slot of a
null has arbitrary bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from alance import _kernels
from alance.errors import BatchTooLargeError, CorruptFileError, kernel_errors

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int32s, Int64s, Mask


class FixedWidth(NamedTuple):
    """Contiguous values of equal width; booleans (`bits_per_value` 1) are packed LSB first."""

    bits_per_value: int
    num_values: int
    data: Bytes  # shape (ceil(num_values * bits_per_value / 8),)


class VariableWidth(NamedTuple):
    """Byte strings: value i is `data[offsets[i] : offsets[i + 1]]`, and `offsets[0]` is 0."""

    offsets: Int32s | Int64s  # shape (num_values + 1,)
    data: Bytes
    is_ascii: bool = False  # True if the data are known to be ASCII, with valid offsets

    @property
    def num_values(self) -> int:
        return len(self.offsets) - 1


class FixedSizeListBlock(NamedTuple):
    """Lists of `dimension` items each, with the items' validity if it is stored."""

    dimension: int
    items: Block  # `num_values * dimension` items
    validity: Bytes | None  # LSB-first bits, 1 for a valid item; None if all items are valid

    @property
    def num_values(self) -> int:
        return self.items.num_values // self.dimension


class StructBlock(NamedTuple):
    """Children of equal length, in the order of the struct's fields."""

    num_values: int
    children: tuple[Block, ...]


class DictionaryBlock(NamedTuple):
    """Indices into distinct items, as in a page with a dictionary."""

    indices: FixedWidth  # 8, 16, 32 or 64 bits, unsigned
    items: Block

    @property
    def num_values(self) -> int:
        return self.indices.num_values


class NullBlock(NamedTuple):
    """Slots that are all null."""

    num_values: int


Block: TypeAlias = (
    FixedWidth | VariableWidth | FixedSizeListBlock | StructBlock | DictionaryBlock | NullBlock
)


def pairs_block(positions: npt.NDArray[Any], sizes: npt.NDArray[Any]) -> StructBlock:
    """Build structs of a position and a size, which describe blobs; both have 64 bits."""
    columns = [np.ascontiguousarray(column, "<u8").view(np.uint8) for column in (positions, sizes)]
    return StructBlock(
        len(sizes), tuple([FixedWidth(64, len(sizes), column) for column in columns])
    )


def gather(block: Block, indices: Int64s) -> Block:
    """Copy the values at `indices`, in that order.

    Args:
        indices: shape (n,), each in [0, block.num_values), in any order, with duplicates allowed.
    """
    match block:
        case FixedWidth(bits_per_value=bits):
            return FixedWidth(bits, len(indices), _gather_fixed(block, indices))
        case VariableWidth():
            return _gather_strings(block, indices)
        case FixedSizeListBlock():
            return _gather_lists(block, indices)
        case StructBlock():
            children = tuple(gather(child, indices) for child in block.children)
            return StructBlock(len(indices), children)
        case DictionaryBlock():
            picked = FixedWidth(
                block.indices.bits_per_value, len(indices), _gather_fixed(block.indices, indices)
            )
            return DictionaryBlock(picked, block.items)
        case NullBlock():
            return NullBlock(len(indices))


def gather_valid(strings: VariableWidth, indices: Int64s, valid: Mask) -> VariableWidth:
    """Copy the strings at `indices`. Nulls, whose index is arbitrary, become empty strings."""
    offsets: Any = np.append(strings.offsets, strings.offsets[-1:])
    chosen = gather(
        VariableWidth(offsets, strings.data), np.where(valid, indices, strings.num_values)
    )
    assert isinstance(chosen, VariableWidth)
    return chosen


def _gather_strings(block: VariableWidth, indices: Int64s) -> VariableWidth:
    _check_places(indices, block.num_values)
    starts = block.offsets[:-1][indices].astype(np.int64)
    sizes = block.offsets[1:][indices] - starts
    num_bytes = int(sizes.sum())
    if num_bytes > np.iinfo(block.offsets.dtype).max:
        raise BatchTooLargeError(f"strings of {num_bytes} bytes: read fewer rows at once")
    with kernel_errors:
        offsets, data = _kernels.concat_spans(block.data, starts, sizes)
    narrow: Any = offsets.astype(block.offsets.dtype)
    return VariableWidth(narrow, data)


def _gather_fixed(block: FixedWidth, indices: Int64s) -> Bytes:
    bits = block.bits_per_value
    if bits == 1:
        return bits_at(block.data, indices)
    if bits % 8:
        return bits_at(block.data, (indices[:, np.newaxis] * bits + np.arange(bits)).ravel())
    width = bits // 8
    values = block.data[: len(block.data) // width * width].view(f"V{width}")
    _check_places(indices, len(values))
    return values[indices].view(np.uint8)


def bits_at(data: Bytes, places: Int64s) -> Bytes:
    """Gather the bits at `places` into packed bits, LSB first."""
    _check_places(places, 8 * len(data))
    bits = data[places >> 3] >> (places & 7).astype(np.uint8)
    return np.packbits(bits & np.uint8(1), bitorder="little")


def _check_places(places: Int64s, count: int) -> None:
    if len(places) and not 0 <= int(places.min()) <= int(places.max()) < count:
        raise CorruptFileError(f"an index is not in [0, {count})")


def _gather_lists(block: FixedSizeListBlock, indices: Int64s) -> FixedSizeListBlock:
    dimension, items, validity = block.dimension, block.items, block.validity
    if (
        isinstance(items, FixedWidth)
        and validity is None
        and dimension * items.bits_per_value % 8 == 0
    ):
        # The usual case, a vector: gather each row as one wide value.
        row = FixedWidth(dimension * items.bits_per_value, block.num_values, items.data)
        picked = FixedWidth(
            items.bits_per_value, len(indices) * dimension, _gather_fixed(row, indices)
        )
        return FixedSizeListBlock(dimension, picked, None)
    places = (indices[:, np.newaxis] * dimension + np.arange(dimension)).ravel()
    bits = None if validity is None else bits_at(validity, places)
    return FixedSizeListBlock(dimension, gather(items, places), bits)

"""Dictionary encoding: indices into the distinct items of a page.

In a field of a dictionary type, a null is the index of a null item. In a string field, where the
dictionary is only a compression, index 0 is null, and index k means item k - 1.

Source: encodings_v2_0.proto, Dictionary.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import BatchTooLargeError, CorruptFileError
from alance.format.blocks import DictionaryBlock, FixedWidth, NullBlock, gather
from alance.format.plans import together
from alance.format.v2_0.base import ArrayPiece, NullableBlock, Spans

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from alance.base.arrays import Mask
    from alance.format.blocks import Block
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.v2_0.base import ArrayEncoding


def _block(raw: npt.NDArray[Any], items: Block) -> DictionaryBlock:
    data = np.ascontiguousarray(raw).view(np.uint8)
    return DictionaryBlock(FixedWidth(8 * raw.itemsize, len(raw), data), items)


def _anded(mask: Mask, other: Mask | None) -> Mask:
    return mask if other is None else mask & other


def _unsigned(block: Block) -> npt.NDArray[Any]:
    if not isinstance(block, FixedWidth) or block.bits_per_value not in (8, 16, 32, 64):
        raise CorruptFileError("dictionary: indices that are no integers")
    return block.data.view(f"<u{block.bits_per_value // 8}")


@dataclass(frozen=True, slots=True)
class DictionaryEncoding:
    """Indices with an encoding of their own; all items are read in the same round."""

    indices: ArrayEncoding
    items: ArrayEncoding
    num_items: int
    of_strings: bool  # True for a string field, where index 0 is null

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        everything = Spans.of_range(0, self.num_items)
        indices, items = yield from together(
            [self.indices.plan(place, spans), self.items.plan(place, everything)]
        )
        num_bytes = indices.num_bytes + items.num_bytes
        return ArrayPiece(num_bytes, partial(self._decoded, indices, items))

    def _decoded(self, of_indices: ArrayPiece, of_items: ArrayPiece) -> NullableBlock:
        indices, items = of_indices.decode(), of_items.decode()
        if isinstance(indices.block, NullBlock):
            return NullableBlock(indices.block, indices.valid)
        raw = _unsigned(indices.block)
        if self.of_strings:
            valid = raw > 0
            raw = raw - raw.dtype.type(1)
            return NullableBlock(_block(raw, items.block), _anded(valid, indices.valid))
        valid_items = items.valid
        if valid_items is None or valid_items.all():
            return NullableBlock(_block(raw, items.block), indices.valid)
        places = np.minimum(raw, len(valid_items) - 1)
        valid = valid_items[places] | (raw >= len(valid_items))
        used = np.flatnonzero(valid_items)
        if not len(used):
            return NullableBlock(NullBlock(len(raw)), np.zeros(len(raw), np.bool_))
        block = items.block
        if int(used[-1]) < items.num_values - 1:
            # The null item is the last one, so drop it with all items after the last used one.
            block = gather(block, np.arange(int(used[-1]) + 1))
        return NullableBlock(_block(raw, block), _anded(valid, indices.valid))


def narrowed(values: NullableBlock, arrow: pa.DataType) -> NullableBlock:
    """Reduce a dictionary to the used items if its indices cannot address all items.

    Releases up to 0.33 wrote wider indices if there were too many items for the declared type.
    """
    block = values.block
    if not isinstance(block, DictionaryBlock) or not pa.types.is_dictionary(arrow):
        return values
    bits = arrow.index_type.bit_width
    most = 1 << (bits - pa.types.is_signed_integer(arrow.index_type))
    if block.items.num_values <= most:
        return values
    raw = _unsigned(block.indices)
    used, places = np.unique(
        raw if values.valid is None else raw[values.valid], return_inverse=True
    )
    if len(used) > most or (len(used) and int(used[-1]) >= block.items.num_values):
        raise BatchTooLargeError(
            f"{len(used)} distinct values for {arrow}: read fewer rows at once"
        )
    indices = np.zeros(len(raw), np.uint64)
    indices[slice(None) if values.valid is None else values.valid] = places.reshape(-1)
    items = gather(block.items, used.astype(np.int64))
    return NullableBlock(_block(indices, items), values.valid)

"""Fixed-width encodings: flat, nullable, fixed-size lists, packed structs.

  flat              n values back to back; of 1 bit each: LSB first
  nullable          a bitmap (1 is valid) beside other values, or no nulls, or only nulls
  fixed_size_list   the items of row r are values [r * dimension, (r + 1) * dimension)
  packed_struct     rows back to back, each the values of its children, without padding

Source: encodings_v2_0.proto, Flat, Nullable, FixedSizeList, PackedStruct.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.format.layouts.fields import fixed_array, misfit, wrapped
from alance.format.numbers import bitmap, bits_of_type, storage_type
from alance.format.plans import together
from alance.format.v2_0.base import (
    ArrayPiece,
    BitPiece,
    Spans,
    fetch_bits,
    fetch_spans,
    joint,
    unpinned,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Bytes, Mask
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.v2_0.base import ArrayEncoding


@dataclass(frozen=True, slots=True)
class FlatEncoding:
    """Uncompressed values in one buffer."""

    bits_per_value: int  # 1, or a multiple of 8
    buffer: int

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        if self.bits_per_value == 1:
            bits = yield from fetch_bits(place, self.buffer, spans)
            return ArrayPiece(len(bits.content), partial(self._built, bits.num_rows, bits.bits))
        values = spans.times(self.bits_per_value // 8)
        content = yield from fetch_spans(place, self.buffer, values)
        data = partial(self._built, spans.num_rows, lambda: np.frombuffer(content, np.uint8))
        return ArrayPiece(len(content), data)

    def _built(
        self, num_rows: int, data: Callable[[], Bytes], arrow: pa.DataType, valid: Mask | None
    ) -> pa.Array:
        return fixed_array(arrow, self.bits_per_value, num_rows, data(), valid)


@dataclass(frozen=True, slots=True)
class SomeNulls:
    """Values with a validity bitmap, read in the same round."""

    validity: FlatEncoding  # bitmap: values of 1 bit
    values: ArrayEncoding

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        plans: list[Plan[Any]] = [
            fetch_bits(place, self.validity.buffer, spans),
            self.values.plan(place, spans),
        ]
        validity, values = yield from together(plans)
        num_bytes = len(validity.content) + values.num_bytes
        return ArrayPiece(num_bytes, partial(_nullable, validity, values))


def _nullable(
    validity: BitPiece, values: ArrayPiece, arrow: pa.DataType, valid: Mask | None
) -> pa.Array:
    return values.build(arrow, joint(valid, validity.mask()))


@dataclass(frozen=True, slots=True)
class FixedSizeListEncoding:
    """Fixed-size lists of `dimension` items."""

    dimension: int
    items: ArrayEncoding

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        items = yield from self.items.plan(place, spans.times(self.dimension))
        return ArrayPiece(items.num_bytes, partial(self._built, spans.num_rows, items))

    def _built(
        self, num_rows: int, items: ArrayPiece, arrow: pa.DataType, valid: Mask | None
    ) -> pa.Array:
        if not pa.types.is_fixed_size_list(arrow) or arrow.list_size != self.dimension:
            raise misfit(f"lists of {self.dimension} items", arrow)
        values = wrapped(items.build(storage_type(arrow.value_type), None), arrow.value_type)
        return pa.Array.from_buffers(arrow, num_rows, [bitmap(valid)], children=[values])


def row_bits(arrow: pa.DataType) -> int | None:
    """Return the bits per row of a type without offsets, such as fixed-size lists; else None."""
    arrow = storage_type(arrow)
    if pa.types.is_fixed_size_list(arrow):
        bits = row_bits(arrow.value_type)
        return None if bits is None else bits * int(arrow.list_size)
    return bits_of_type(arrow)


def plain_array(arrow: pa.DataType, num_rows: int, data: Bytes) -> pa.Array:
    """Build rows of `row_bits` bits from their bytes."""
    stored = storage_type(arrow)
    if pa.types.is_fixed_size_list(stored):
        items = plain_array(stored.value_type, num_rows * stored.list_size, data)
        array = pa.Array.from_buffers(stored, num_rows, [None], children=[items])
    else:
        array = fixed_array(stored, stored.bit_width, num_rows, data, None)
    return wrapped(array, arrow)


def plain_bits(encoding: ArrayEncoding) -> int:
    """Return the bits of plain values of whole bytes, perhaps in fixed-size lists; else 0."""
    if isinstance(encoding, FixedSizeListEncoding):
        return encoding.dimension * plain_bits(encoding.items)
    if isinstance(encoding, FlatEncoding) and encoding.bits_per_value % 8 == 0:
        return encoding.bits_per_value
    return 0


@dataclass(frozen=True, slots=True)
class PackedStructEncoding:
    """Packed structs: row by row, the plain values of all children, which have no nulls."""

    bits: tuple[int, ...]  # of each child's values in a row; whole bytes
    buffer: int

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        content = yield from fetch_spans(place, self.buffer, spans.times(sum(self.bits) // 8))
        return ArrayPiece(len(content), partial(self._built, spans.num_rows, content))

    def _built(
        self, num_rows: int, content: memoryview, arrow: pa.DataType, valid: Mask | None
    ) -> pa.Array:
        if not pa.types.is_struct(arrow) or self.bits != tuple(row_bits(m.type) for m in arrow):
            raise misfit(f"packed structs of values of {self.bits} bits", arrow)
        stops = np.cumsum(self.bits) // 8
        rows = np.split(unpinned(content).reshape(num_rows, stops[-1]), stops[:-1], axis=1)
        children = [
            plain_array(member.type, num_rows, np.ascontiguousarray(data).reshape(-1))
            for member, data in zip(arrow, rows, strict=True)
        ]
        return pa.Array.from_buffers(arrow, num_rows, [bitmap(valid)], children=children)

"""Leaves of 0.1 files: values of equal width, and keys of dictionaries.

    plain       the values as Arrow has them; booleans a bit each, from a whole byte in each batch
    dictionary  plain keys; the values are one block a file, or a table

What was null has the value of the bytes that were written, zeros normally.

Source: docs/format/file-0.1.md, "Pages" and "What nulls decode to".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from alance.errors import CorruptFileError
from alance.format.blocks import DictionaryBlock, FixedSizeListBlock, FixedWidth
from alance.format.layouts.arrays import wrapped
from alance.format.layouts.fields import values_array
from alance.format.layouts.place import unpinned

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    import numpy.typing as npt

    from alance.format.blocks import Block, Bytes
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v0_1.pages import Pages
    from alance.format.v2_0.fields import PagedColumn, Rows
    from alance.format.v2_0.spans import BitPiece, Spans


def storage(arrow: pa.DataType) -> pa.DataType:
    """The type whose bytes are stored."""
    return arrow.storage_type if isinstance(arrow, pa.BaseExtensionType) else arrow


def row_bits(arrow: pa.DataType) -> int | None:
    """Bits of a row of a fixed-width type or a dictionary's keys; None for others."""
    arrow = storage(arrow)
    if pa.types.is_fixed_size_list(arrow):
        bits = row_bits(arrow.value_type)
        return None if bits is None else bits * int(arrow.list_size)
    if pa.types.is_dictionary(arrow):
        return int(arrow.index_type.bit_width)
    try:
        return int(arrow.bit_width)
    except ValueError:
        return None


def is_bits(arrow: pa.DataType) -> bool:
    """Whether values are single bits, alone or in fixed-size lists."""
    arrow = storage(arrow)
    if pa.types.is_fixed_size_list(arrow):
        return is_bits(arrow.value_type)
    return bool(pa.types.is_boolean(arrow))


def plain_block(arrow: pa.DataType, num_rows: int, data: Bytes) -> Block:
    """Rows of a fixed-width type from their bytes."""
    arrow = storage(arrow)
    if pa.types.is_fixed_size_list(arrow):
        dimension = int(arrow.list_size)
        items = plain_block(arrow.value_type, num_rows * dimension, data)
        return FixedSizeListBlock(dimension, items, None)
    bits = row_bits(arrow)
    assert bits is not None
    return FixedWidth(bits, num_rows, data)


@dataclass(frozen=True, slots=True)
class Items:
    """The values of a dictionary."""

    block: Block
    valid: npt.NDArray[np.bool_] | None  # None: all are


@dataclass(frozen=True, slots=True)
class PlainRows:
    """Bytes of rows of a leaf."""

    field: Field
    num_rows: int
    content: memoryview
    items: Items | None

    @property
    def num_bytes(self) -> int:
        return len(self.content)

    def decode(self, arrow: pa.DataType) -> pa.Array:
        if isinstance(arrow, pa.BaseExtensionType):
            return wrapped(self.decode(arrow.storage_type), arrow)
        block = plain_block(arrow, self.num_rows, unpinned(self.content))
        if self.items is None:
            return values_array(self.field, arrow, block, None)
        assert isinstance(block, FixedWidth)
        keys, valid = block.data.view(f"<u{block.bits_per_value // 8}"), self.items.valid
        count = self.items.block.num_values
        if count == 0 and not keys.any():
            return pa.nulls(self.num_rows, arrow)
        if len(keys) and int(keys.max()) >= count:
            raise CorruptFileError(
                f"field {self.field.name!r}: key {keys.max()}, the dictionary has {count} values"
            )
        rows = DictionaryBlock(block, self.items.block)
        return values_array(self.field, arrow, rows, None if valid is None else valid[keys])


@dataclass(frozen=True, slots=True)
class BitRows:
    """Bits of rows of a leaf."""

    field: Field
    num_rows: int
    piece: BitPiece

    @property
    def num_bytes(self) -> int:
        return len(self.piece.content)

    def decode(self, arrow: pa.DataType) -> pa.Array:
        if isinstance(arrow, pa.BaseExtensionType):
            return wrapped(self.decode(arrow.storage_type), arrow)
        block = plain_block(arrow, self.num_rows, self.piece.bits())
        return values_array(self.field, arrow, block, None)


@dataclass(frozen=True, slots=True)
class PlainNode:
    """A leaf of equal width."""

    field: Field
    pages: Pages
    bits: int  # of a row
    of_bits: bool
    items: Items | None  # of a dictionary

    def columns(self) -> Iterator[PagedColumn]:
        return iter(())

    def plan(self, spans: Spans) -> Plan[Rows]:
        """One round."""
        parts = self.pages.parts(spans)
        if self.of_bits:
            piece = yield from self.pages.fetch_bits(parts, self.bits)
            return BitRows(self.field, parts.num_rows, piece)
        content = yield from self.pages.fetch(parts, self.bits // 8)
        return PlainRows(self.field, parts.num_rows, content, self.items)

"""Nested fixed-size lists, split into their levels and their items.

Lists are nested to any depth, with fixed-width items. In mini-blocks, the item validity of each
level has its own buffer, before the items. In full-zip pages, a row has the validity bytes of each
level, then the items.

Source: encodings_v2_1.proto, message FixedSizeList; docs/format/encodings.md, "FixedSizeList".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.format.blocks import FixedSizeListBlock, FixedWidth, NullBlock
from tests.reference import encodings

if TYPE_CHECKING:
    from alance.base.arrays import Bytes
    from alance.format.blocks import Block
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class _Level:
    """Level of nested lists."""

    dimension: int
    validity: Bytes | None  # LSB-first bits of the items; None if all are valid
    items_per_row: int  # product of the dimensions down to this level


@dataclass(frozen=True, slots=True)
class FixedLists:
    """Nested lists, split into levels from the outside in, and items."""

    num_rows: int
    levels: tuple[_Level, ...]
    items: FixedWidth | None  # None if all items are null

    @classmethod
    def of(cls, values: FixedSizeListBlock) -> FixedLists:
        """Split a block into levels and items.

        Raises:
            UnsupportedError: lists have 0 items, or items without a fixed width.
        """
        levels: list[_Level] = []
        block: Block = values
        items_per_row = 1
        num_items = values.num_values if values.dimension else 0
        while isinstance(block, FixedSizeListBlock):
            if block.dimension == 0:
                raise UnsupportedError("fixed-size lists of 0 items")
            items_per_row *= block.dimension
            num_items *= block.dimension
            validity = block.validity
            if validity is not None:
                validity = validity[: (num_items + 7) // 8]
            levels.append(_Level(block.dimension, validity, items_per_row))
            block = block.items
        if isinstance(block, NullBlock):
            return cls(values.num_values, tuple(levels), None)
        if not isinstance(block, FixedWidth):
            raise UnsupportedError(f"fixed-size lists of {type(block).__name__}")
        return cls(values.num_values, tuple(levels), block)

    @property
    def encoding(self) -> pb.CompressiveEncoding:
        encoding = (
            encodings.empty_constant()
            if self.items is None
            else encodings.flat(self.items.bits_per_value)
        )
        for level in reversed(self.levels):
            encoding = encodings.fixed_size_list(
                level.dimension, level.validity is not None, encoding
            )
        return encoding

    @property
    def item_bits(self) -> int:
        """Bits of all items per row."""
        return self.levels[-1].items_per_row * (self.items.bits_per_value if self.items else 0)

    @property
    def row_bits(self) -> int:
        """Bits per row, including the validity of each level, which is padded to whole bytes."""
        return self.item_bits + sum(
            8 * -(-level.items_per_row // 8) for level in self.levels if level.validity is not None
        )

    def rows(self) -> FixedWidth:
        """Return the rows, each with its validity and then its items.

        Raises:
            UnsupportedError: the items of a row are not whole bytes, or rows are empty.
        """
        if self.item_bits % 8:
            raise UnsupportedError(f"full-zip rows of {self.item_bits} bits")
        columns = [level.validity for level in self.levels if level.validity is not None]
        bits = [level.items_per_row for level in self.levels if level.validity is not None]
        if self.items is not None:
            if not columns:
                return FixedWidth(self.item_bits, self.num_rows, self.items.data)
            columns.append(self.items.data)
            bits.append(self.item_bits)
        if not columns:
            raise UnsupportedError("fixed-size lists without bytes")
        data = _kernels.zip_columns(columns, np.array(bits, np.int64), self.num_rows)
        return FixedWidth(self.row_bits, self.num_rows, data)

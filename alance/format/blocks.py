"""Decoded values on their way to Arrow: what codecs return and layouts hand on.

A block has no nulls; validity comes from definition levels. Slots of nulls hold arbitrary bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Bytes: TypeAlias = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """Values of equal width, contiguous; booleans (`bits_per_value` 1) LSB first without gaps."""

    bits_per_value: int
    num_values: int
    data: Bytes  # shape (ceil(num_values * bits_per_value / 8),)


@dataclass(frozen=True, slots=True)
class VariableWidth:
    """Byte strings: value i is `data[offsets[i] : offsets[i + 1]]`, and `offsets[0]` is 0."""

    offsets: npt.NDArray[np.int32] | npt.NDArray[np.int64]  # shape (num_values + 1,)
    data: Bytes
    is_ascii: bool = False  # True: who made it knows that, and that its offsets are right

    @property
    def num_values(self) -> int:
        return len(self.offsets) - 1


@dataclass(frozen=True, slots=True)
class FixedSizeListBlock:
    """Rows of `dimension` items each, and the validity of the items where it is stored."""

    dimension: int
    items: Block  # num_values * dimension of them
    validity: Bytes | None  # of the items: LSB-first bits, 1 is valid; None: all valid

    @property
    def num_values(self) -> int:
        return self.items.num_values // self.dimension


@dataclass(frozen=True, slots=True)
class StructBlock:
    """Children of equal length, in the order of the struct's fields."""

    num_values: int
    children: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class DictionaryBlock:
    """Indices into distinct items, as a page with a dictionary stores them."""

    indices: FixedWidth  # 8, 16, 32 or 64 bits, unsigned
    items: Block

    @property
    def num_values(self) -> int:
        return self.indices.num_values


@dataclass(frozen=True, slots=True)
class ConstantBlock:
    """One value for all slots; `value` None: all slots are null."""

    num_values: int
    value: Block | None  # a block of one value


Block: TypeAlias = (
    FixedWidth | VariableWidth | FixedSizeListBlock | StructBlock | DictionaryBlock | ConstantBlock
)

"""Layers of a page, and levels with values as the writer has them.

Source: encodings_v2_1.proto, PageLayout and RepDefLayer; docs/format/file.md, "Overview".
"""

from __future__ import annotations

from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from alance.base.arrays import UInt16s
    from alance.format.blocks import Block


class Layer(IntEnum):
    """Kinds of layer: nulls and empty lists that may occur at a depth of a page (RepDefLayer)."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        """True for lists; False for leaves, structs and fixed-size lists."""
        return self not in (Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM)

    @property
    def has_nulls(self) -> bool:
        return self in (Layer.NULLABLE_ITEM, Layer.NULLABLE_LIST, Layer.NULL_AND_EMPTY_LIST)

    @property
    def has_empty(self) -> bool:
        return self in (Layer.EMPTYABLE_LIST, Layer.NULL_AND_EMPTY_LIST)

    @property
    def num_levels(self) -> int:
        """Number of definition levels that the layer uses: one for null, one for empty."""
        return self.has_nulls + self.has_empty

    def like(self, *, nulls: bool, empty: bool) -> Layer:
        """Return the layer of lists or items, as this one, with these contents."""
        if not self.is_list:
            return Layer.NULLABLE_ITEM if nulls else Layer.ALL_VALID_ITEM
        if nulls:
            return Layer.NULL_AND_EMPTY_LIST if empty else Layer.NULLABLE_LIST
        return Layer.EMPTYABLE_LIST if empty else Layer.ALL_VALID_LIST


def max_repetition(layers: tuple[Layer, ...]) -> int:
    """Return the repetition level that starts a row: the number of list layers."""
    return sum(layer.is_list for layer in layers)


def max_definition(layers: tuple[Layer, ...]) -> int:
    """Return the largest definition level that can occur."""
    return sum(layer.num_levels for layer in layers)


def max_visible(layers: tuple[Layer, ...]) -> int:
    """Return the largest definition level of an entry with a value slot.

    A null below the innermost list has a slot; a null or empty list has none.
    """
    inside = takewhile(lambda layer: not layer.is_list, layers)
    return sum(layer.num_levels for layer in inside)


class PageValues(NamedTuple):
    """Rows of a page to encode: levels of all entries, and a value for each visible entry.

    An entry is visible if it has a value slot. The value of a slot with a definition level above 0
    is arbitrary. Arrays may be views of the caller's.
    """

    layers: tuple[Layer, ...]  # inner-most first
    rep: UInt16s | None  # shape (num_entries,); None if there are no lists
    definition: UInt16s | None  # shape (num_entries,); None if all levels are 0
    values: Block  # one slot per visible entry
    num_rows: int

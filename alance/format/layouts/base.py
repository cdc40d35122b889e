"""Interfaces of structural encodings: plans over a page, and tasks that decode its rows.

Source: encodings_v2_1.proto, PageLayout and RepDefLayer; docs/format/file.md, "Overview".
"""

from __future__ import annotations

from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from alance.arrays import Int64s, UInt16s
    from alance.format.blocks import Block
    from alance.format.layouts.repdef import Structure
    from alance.format.layouts.row_pages import RowPage
    from alance.format.plans import Plan


class Layer(IntEnum):
    """Nulls and empty lists that may occur at one depth of a page; the numbers of RepDefLayer."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        """True for lists; other layers are leaves, structs and fixed-size lists."""
        return self not in (Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM)

    @property
    def num_levels(self) -> int:
        """Definition levels that the layer uses: one for null, one for empty."""
        if self in (Layer.ALL_VALID_ITEM, Layer.ALL_VALID_LIST):
            return 0
        return 2 if self is Layer.NULL_AND_EMPTY_LIST else 1


def max_repetition(layers: tuple[Layer, ...]) -> int:
    """Return the repetition level that begins a row: the number of list layers."""
    return sum(layer.is_list for layer in layers)


def max_definition(layers: tuple[Layer, ...]) -> int:
    """Return the largest definition level that may occur."""
    return sum(layer.num_levels for layer in layers)


def max_visible(layers: tuple[Layer, ...]) -> int:
    """Return the largest definition level of an entry that has a value slot.

    A null inside the innermost list has a slot. A null or empty list has none.
    """
    inside = takewhile(lambda layer: not layer.is_list, layers)
    return sum(layer.num_levels for layer in inside)


class PageValues(NamedTuple):
    """Decoded rows of a page: levels of all entries, and one value per visible entry.

    Values of slots whose definition level is not 0 are arbitrary. Arrays may be views into the
    buffers that were read.
    """

    layers: tuple[Layer, ...]  # inner-most first
    rep: UInt16s | None  # shape (num_entries,); None if there are no lists
    definition: UInt16s | None  # shape (num_entries,); None if all levels are 0
    values: Block  # one slot per visible entry
    num_rows: int
    structure: Structure | None = None  # of sparse pages, which have no levels


class DecodeTask(Protocol):
    """Bytes that were read, and their decoding; runs in the pool, never waits."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        ...

    def decode(self) -> PageValues:
        """Decode the rows that were planned.

        Raises:
            CorruptFileError: the bytes contradict the page's description.
        """
        ...


class PageState(Protocol):
    """Facts from a page's small buffers that locate its rows; kept in the search cache."""

    @property
    def num_bytes(self) -> int:
        """Memory that the state holds."""
        ...


class PageLayout(Protocol):
    """A page of a column: plans to read its rows.

    Rows are offsets in the page. A plan that needs no bytes returns before its first `yield`.
    """

    @property
    def num_rows(self) -> int:
        """Rows of the page, times the dimensions of structural fixed-size lists."""
        ...

    def load(self) -> Plan[PageState]:
        """Plan the page state: at most one round."""
        ...

    def take(self, state: PageState, rows: Int64s) -> Plan[DecodeTask]:
        """Plan single rows: at most one round, or two if the state leaves an index on the store.

        Args:
            state: result of `load`.
            rows: sorted and unique, shape (n,), all in [0, num_rows).
        """
        ...

    def read(self, state: PageState, start: int, stop: int) -> Plan[DecodeTask]:
        """Plan a range of rows; cost as of `take`."""
        ...

    def row_page(self, state: PageState) -> RowPage | None:
        """Page in the form from which the kernel takes rows; None if the kernel cannot."""
        ...

    def load_and_take(self, rows: Int64s) -> Plan[tuple[PageState, DecodeTask]]:
        """Plan state and rows of a page whose state is unknown.

        Cost: one round if the place of the rows is known or guessed well, else two.
        """
        ...

    def read_page(self) -> Plan[DecodeTask]:
        """Plan the whole page, in one round."""
        ...

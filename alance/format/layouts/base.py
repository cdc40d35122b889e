"""What every structural encoding gives: plans over a page, and tasks that decode it.

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
    """What may be absent at one depth of a page: the numbers of RepDefLayer."""

    ALL_VALID_ITEM = 1
    ALL_VALID_LIST = 2
    NULLABLE_ITEM = 3
    NULLABLE_LIST = 4
    EMPTYABLE_LIST = 5
    NULL_AND_EMPTY_LIST = 6

    @property
    def is_list(self) -> bool:
        """Whether the layer groups slots; the others are leaves, structs, fixed-size lists."""
        return self not in (Layer.ALL_VALID_ITEM, Layer.NULLABLE_ITEM)

    @property
    def num_levels(self) -> int:
        """Definition levels that the layer uses: one for null, one for empty."""
        if self in (Layer.ALL_VALID_ITEM, Layer.ALL_VALID_LIST):
            return 0
        return 2 if self is Layer.NULL_AND_EMPTY_LIST else 1


def max_repetition(layers: tuple[Layer, ...]) -> int:
    """The repetition level that begins a row: the number of list layers."""
    return sum(layer.is_list for layer in layers)


def max_definition(layers: tuple[Layer, ...]) -> int:
    """The largest definition level that may occur."""
    return sum(layer.num_levels for layer in layers)


def max_visible(layers: tuple[Layer, ...]) -> int:
    """The largest definition level of an entry that has a value slot.

    Absence inside the innermost list keeps the slot, absence of that list or outside drops it.
    """
    inside = takewhile(lambda layer: not layer.is_list, layers)
    return sum(layer.num_levels for layer in inside)


class PageValues(NamedTuple):
    """Decoded rows of a page: levels of all entries, and one value a visible entry.

    Values of slots whose definition level is not 0 are arbitrary. Arrays may be views into the
    buffers that were read.
    """

    layers: tuple[Layer, ...]  # inner-most first
    rep: UInt16s | None  # shape (num_entries,); None: no lists
    definition: UInt16s | None  # shape (num_entries,); None: all present
    values: Block  # one slot a visible entry
    num_rows: int
    structure: Structure | None = None  # sparse pages have it at hand, and no levels


class DecodeTask(Protocol):
    """Bytes that were read and how to decode them; runs in the pool, never waits."""

    @property
    def num_bytes(self) -> int:
        """Bytes of the input."""
        ...

    def decode(self) -> PageValues:
        """Decode exactly the rows asked for.

        Raises:
            CorruptFileError: the bytes contradict the page's description.
        """
        ...


class PageState(Protocol):
    """What is known of a page after its small buffers were read; kept in the search cache."""

    @property
    def num_bytes(self) -> int:
        """Memory that the state holds."""
        ...


class PageLayout(Protocol):
    """A page of a column: what to read for which rows.

    Rows are offsets in the page. A plan that needs no bytes returns before its first `yield`.
    """

    @property
    def num_rows(self) -> int:
        """Rows of the page, times the dimensions of structural fixed-size lists."""
        ...

    def load(self) -> Plan[PageState]:
        """Plan the state: at most one round."""
        ...

    def take(self, state: PageState, rows: Int64s) -> Plan[DecodeTask]:
        """Plan single rows: at most one round, or two where the state was left on the store.

        Args:
            state: what `load` gave.
            rows: sorted and unique, shape (n,), all in [0, num_rows).
        """
        ...

    def read(self, state: PageState, start: int, stop: int) -> Plan[DecodeTask]:
        """Plan a range of rows: at most one round, or two where the state was left on the store."""
        ...

    def row_page(self, state: PageState) -> RowPage | None:
        """The page for the taking of single rows in one call; None for one of another kind."""
        ...

    def load_and_take(self, rows: Int64s) -> Plan[tuple[PageState, DecodeTask]]:
        """Plan state and rows of a page that is not in the cache.

        Cost: one round where the place of the rows is known or guessed well, else two.
        """
        ...

    def read_page(self) -> Plan[DecodeTask]:
        """Plan the whole page, in one round."""
        ...

"""Mini-block pages that were not met yet, of many columns and files: learned together.

One call of the kernel says which bytes have to be known of them, one more makes the pages of these
bytes. What remains for each page is a place in its table and in the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.file.columns import OpenColumn
from alance.file.open import bytes_at_hand
from alance.format.layouts import described
from alance.format.layouts.miniblock import MiniBlockState
from alance.format.layouts.row_pages import has_items
from alance.format.plans import TURN, Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.columns import States
    from alance.file.page_tables import Hole
    from alance.format.container import Container
    from alance.format.layouts.miniblock import Description
    from alance.format.layouts.place import PageAt
    from alance.format.plans import Plan

FILLED_A_TURN: Final = 256  # pages: a millisecond or two


class NewPages:
    """Pages of which nothing is known.

    Args:
        far: those whose bytes are not in the ends of files, as far as these were read; else those
            whose bytes are.

    Attributes:
        left: the others, and those that are no mini-blocks.
    """

    def __init__(self, holes: Sequence[Hole], *, far: bool) -> None:
        self.left: list[Hole] = []
        self._holes: list[Hole] = []
        self._columns: list[OpenColumn] = []
        kernels = []
        for hole in holes:
            column = hole.leaf.column
            kernel = column.column.kernel if isinstance(column, OpenColumn) else None
            if isinstance(column, OpenColumn) and kernel is not None:
                self._holes.append(hole)
                self._columns.append(column)
                kernels.append(kernel)
            else:
                self.left.append(hole)
        by_path: dict[str, Container] = {}
        for column in self._columns:
            by_path.setdefault(column.container.path, column.container)
        self._containers = [*by_path.values()]
        places = {path: place for place, path in enumerate(by_path)}
        files = [places[column.container.path] for column in self._columns]
        self._kernel = _kernels.NewPages(kernels, [hole.number for hole in self._holes], files)
        self._said: list[Description | None] = [
            None if (page := described(text)) is None else page.said
            for text in self._kernel.descriptions
        ]
        forms = [None if said is None else said.rows for said in self._said]
        tails = [container.content_start for container in self._containers]
        self._kernel.find(forms, tails, far)
        self.left += [self._holes[number] for number in self._kernel.left]

    @property
    def _pieces(self) -> Pieces | None:
        """The bytes to know; None: there are none."""
        files, ends, starts, stops, num_bytes = self._kernel.spans
        if not files:
            return None
        paths = [self._containers[file].path for file in files]
        return Pieces(paths, ends, starts, stops, num_bytes)

    def fill_held(self, states: States) -> None:
        """Fill pages from the ends of their files, as far as these were read.

        Raises:
            CorruptFileError: bytes that contradict a page's description or the search-cache buffer.
        """
        pieces = self._pieces
        if pieces is None:
            return
        content = bytes_at_hand(pieces, {file.path: file for file in self._containers})
        for _ in self._fill(content, states):
            pass  # this is no plan: there are no turns

    def learn(self, states: States) -> Plan[None]:
        """Plan pages from their files: one round, none where all are left.

        Raises:
            CorruptFileError: bytes that contradict a page's description.
        """
        pieces = self._pieces
        if pieces is not None:
            (content,) = yield [pieces]
            yield from self._fill(content, states)

    def _fill(self, content: memoryview, states: States) -> Plan[None]:
        try:
            learned = self._kernel.learn(content)
        except ValueError as error:
            place = self._kernel.page
            column, number = self._columns[place], self._holes[place].number
            failure = column.place(number).corrupt(str(error))
            column.add_place(failure, number)
            raise failure from None
        described_by = self._kernel.described_by
        for number, (hole, column, page) in enumerate(
            zip(self._holes, self._columns, learned, strict=True)
        ):
            said = self._said[described_by[number]]
            if page is not None and said is not None:
                state = _state(said, column.place(hole.number), *page)
                column.learned(hole.number, state, states)
                hole.fill(state)
            if number % FILLED_A_TURN == FILLED_A_TURN - 1:
                yield TURN


def _state(
    said: Description, place: PageAt, kernel: _kernels.RowPage, items: bytes | None
) -> MiniBlockState:
    """What is known of a page that the kernel has made.

    Raises:
        CorruptFileError: a dictionary that contradicts its description.
    """
    table = kernel.chunks
    assert table is not None
    if items is None:
        return MiniBlockState(table, None, said.row_page(kernel, place))
    dictionary = said.dictionary_of(items)
    with place.checking():
        takes_rows = has_items(kernel, dictionary.items())
    rows = said.row_page(kernel, place) if takes_rows else None
    return MiniBlockState(table, dictionary, rows)

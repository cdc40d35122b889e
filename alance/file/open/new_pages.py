"""Pages of which tables know nothing yet, of many columns and files: learned together.

A call of the kernel says which bytes have to be known of mini-block pages, and one more makes them
known, in their tables, by these bytes. Others have plans of their own.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from alance import _kernels
from alance.file.open.columns import OpenColumn
from alance.file.open.files import bytes_at_hand
from alance.file.open.page_tables import Hole
from alance.file.open.recall import kept_by
from alance.format.layouts import described
from alance.format.layouts.miniblock import MiniBlockState
from alance.format.layouts.row_pages import RowPage, has_items
from alance.format.plans import TURN, Pieces, together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.file.open.columns import States
    from alance.file.open.page_tables import PageTables
    from alance.format.container import Container
    from alance.format.layouts.miniblock import Description
    from alance.format.plans import Plan

_PATH, _CONTAINER = attrgetter("container.path"), attrgetter("container")
_CONTENT_START = attrgetter("content_start")
FILLED_A_TURN: Final = 256  # pages with dictionaries: a millisecond or two


class NewPages:
    """Pages of which nothing is known.

    Args:
        owners: the tables: the numbers of their leaves, and whose they are.
        unknown: the pages: the number of the owner, and of the page.

    Attributes:
        unknown: those of tables that are still there.
    """

    def __init__(
        self, owners: Sequence[tuple[int, PageTables]], unknown: Sequence[tuple[int, int]]
    ) -> None:
        self._owners = owners
        tables, columns = [], []
        for at, own in owners:
            tables.append(own.tables[at])
            columns.append(own.leaves[at].column)
        self.unknown = unknown
        if None in tables:
            self.unknown = [page for page in unknown if tables[page[0]] is not None]
        paths = [*map(_PATH, columns)]
        self._containers: dict[str, Container] = dict(
            zip(paths, map(_CONTAINER, columns), strict=True)
        )
        places = dict(zip(self._containers, range(len(self._containers)), strict=True))
        files = [*map(places.__getitem__, paths)]
        self._columns = dict(zip(files, columns, strict=True))
        self._kernel = _kernels.NewPages(tables, self.unknown, files)
        self._descriptions: list[Description | None] = []
        forms = []
        for text in self._kernel.descriptions:
            page = described(text)
            self._descriptions.append(None if page is None else page.said)
            forms.append(None if page is None else page.said.rows)
        self._kernel.find(forms, [*map(_CONTENT_START, self._containers.values())])
        self._singly: list[int] = self._kernel.left

    def hole(self, number: int) -> Hole:
        """One of the pages by itself."""
        owner, page = self.unknown[number]
        at, tables = self._owners[owner]
        return Hole(tables, at, page)

    def fill_known(self, states: States) -> list[int]:
        """Learn what the caches have, or the ends of files; gives the numbers of the others.

        Raises:
            CorruptFileError, UnsupportedError: the description of a page, or what is known of it.
        """
        pieces = self._pieces(far=False)
        if pieces is not None:
            content = bytes_at_hand(pieces, self._containers)
            for _ in self._learn(content, states, far=False):
                pass  # this is no plan: there are no turns
        self._leave_noted(states)
        singly, self._singly = self._singly, []
        for at in singly:
            if not self.hole(at).is_known(states):
                self._singly.append(at)
        return self._kernel.far + self._singly

    def _leave_noted(self, states: States) -> None:
        """Pages whose bytes go to the disk, too, have plans of their own."""
        if kept_by(states) is not None:
            far = self._kernel.far
            self._kernel.leave(far)
            self._singly = far + self._singly

    def leave(self, numbers: Sequence[int]) -> None:
        """Some pages are not learned here."""
        self._kernel.leave(numbers)
        if self._singly:
            self._singly = [*{*self._singly}.difference(numbers)]

    def learn(self, states: States) -> Plan[None]:
        """Plan what has to be known of pages that are not at hand: one round.

        Raises:
            CorruptFileError, UnsupportedError: the description of a page, or what is read of it.
        """
        self._leave_noted(states)
        if self._singly:
            plans = [self.hole(at).learn(states) for at in self._singly]
            yield from together([self._learn_far(states), *plans])
        else:
            yield from self._learn_far(states)

    def _learn_far(self, states: States) -> Plan[None]:
        pieces = self._pieces(far=True)
        if pieces is not None:
            (content,) = yield [pieces]
            yield from self._learn(content, states, far=True)

    def _pieces(self, *, far: bool) -> Pieces | None:
        """The bytes to know of pages that are far, or of the others; None: there are none."""
        files, ends, starts, stops, num_bytes = self._kernel.spans(far)
        if not files:
            return None
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, num_bytes)

    def _learn(self, content: memoryview, states: States, *, far: bool) -> Iterator[Any]:
        try:
            grown, with_items = self._kernel.learn(content, far)
        except ValueError as error:
            hole = self.hole(self._kernel.page)
            column = hole.leaf.column
            assert isinstance(column, OpenColumn)
            failure = column.place(hole.number).corrupt(str(error))
            column.add_place(failure, hole.number)
            raise failure from None
        for owner, _ in self.unknown:
            self._owners[owner][1].has_grown = True
        for file, num_bytes in grown:
            column = self._columns[file]
            assert isinstance(column, OpenColumn)
            column.file.has_grown(num_bytes, states)
        for count, (number, kernel, items) in enumerate(with_items, 1):
            description = self._descriptions[self._kernel.described_by(number)]
            assert description is not None
            self._fill(self.hole(number), description, kernel, items, states)
            if count % FILLED_A_TURN == 0:
                yield TURN

    def _fill(
        self,
        hole: Hole,
        description: Description,
        kernel: _kernels.RowPage,
        items: bytes,
        states: States,
    ) -> None:
        """Keep a page with a dictionary.

        Raises:
            CorruptFileError: the dictionary contradicts its description.
        """
        column = hole.leaf.column
        assert isinstance(column, OpenColumn)
        assert kernel.chunks is not None
        state = MiniBlockState(kernel.chunks, description.dictionary_of(items))
        assert state.dictionary is not None
        place = column.place(hole.number)
        with place.checking():
            state.takes_rows = has_items(kernel, state.dictionary.items())
        if state.takes_rows:
            state.rows = RowPage(kernel, description.form.shape.code, place.start)
        column.learned(hole.number, state, states)
        hole.fill(state)

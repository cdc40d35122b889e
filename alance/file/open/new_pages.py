"""Batch loading of page states that page tables lack, over many columns and files.

One kernel call lists the bytes to read, and another call parses them into the page tables. Pages of
a layout that the kernel lacks are loaded one by one, by a plan for each.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.file.open.columns import SMALL_BYTES, OpenColumn
from alance.file.open.files import bytes_at_hand
from alance.file.open.page_tables import Hole
from alance.file.open.recall import kept_by
from alance.format.layouts import page_form
from alance.format.plans import Pieces, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.open.columns import States
    from alance.file.open.page_tables import PageTables
    from alance.format.container import Container
    from alance.format.plans import ByteRange, Plan

_PATH, _CONTAINER = attrgetter("container.path"), attrgetter("container")
_CONTENT_START = attrgetter("content_start")
PADDING: Final = 64  # bytes; neighbouring pages of a file have no wider gaps
MOST_BYTES: Final = 4 << 20  # longest range: a range from two requests is copied on the loop
NOTHING: Final = memoryview(b"")  # constant pages have their value in the description


class NewPages:
    """Pages of unknown state, to load together.

    A page is near if the file's tail in memory has all bytes of its state, else far.

    Args:
        owners: tables, as pairs of a leaf's number and its `PageTables`.
        unknown: pages, as pairs of an index into `owners` and a page number.

    Attributes:
        unknown: the pages, except those whose table was dropped.
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
        forms = [*map(page_form, self._kernel.descriptions)]
        self._kernel.find(forms, [*map(_CONTENT_START, self._containers.values())])
        self._singly: list[int] = self._kernel.skipped

    def hole(self, number: int) -> Hole:
        """Return a page of `unknown` as a `Hole`, to load it by itself."""
        owner, page = self.unknown[number]
        at, tables = self._owners[owner]
        return Hole(tables, at, page)

    def fill_known(self, states: States) -> list[int]:
        """Load states from caches and tails; return the indices of the pages still unknown.

        Raises:
            CorruptFileError: a page's description or state contradicts the format.
            UnsupportedError: a page has an unknown layout or encoding.
        """
        if len(self._kernel.far) + len(self._singly) < len(self.unknown):
            pieces = self._pieces(far=False)
            content = NOTHING if pieces is None else bytes_at_hand(pieces, self._containers)
            self._learn(content, states, far=False)
        self._leave_noted(states)
        singly, self._singly = self._singly, []
        for at in singly:
            if not self.hole(at).is_known(states):
                self._singly.append(at)
        return self._kernel.far + self._singly

    def _leave_noted(self, states: States) -> None:
        """If there is a disk cache, load far pages one by one, because their plans fill it."""
        if kept_by(states) is not None:
            far = self._kernel.far
            self._kernel.leave(far)
            self._singly = far + self._singly

    def leave(self, numbers: Sequence[int]) -> None:
        """Exclude pages, so that they are not loaded here."""
        self._kernel.leave(numbers)
        if self._singly:
            self._singly = [*{*self._singly}.difference(numbers)]

    def learn(self, states: States) -> Plan[None]:
        """Plan the states of the remaining pages in one round.

        Raises:
            CorruptFileError: a page's description or state contradicts the format.
            UnsupportedError: a page has an unknown layout or encoding.
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
            self._learn(content, states, far=True)

    def large(self, numbers: Sequence[int], spans: Sequence[tuple[int, int]]) -> list[int]:
        """Select the pages that a scan of ranges of rows does not read whole.

        It reads a page whole if it has at most `SMALL_BYTES` and all of its rows are in a range.

        Args:
            spans: ranges of rows, ascending.
        """
        return self._kernel.large(numbers, spans, SMALL_BYTES)

    def small_ranges(
        self, numbers: Sequence[int], spans: Sequence[tuple[int, int]]
    ) -> list[ByteRange]:
        """Return the bytes of pages that are read whole, except those that `learn` reads.

        Args:
            spans: as for `large`.
        """
        files, ends, starts, stops = self._kernel.small_spans(
            numbers, spans, SMALL_BYTES, PADDING, MOST_BYTES
        )
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, 0).ranges()

    def _pieces(self, *, far: bool) -> Pieces | None:
        """Return the byte ranges of the states of far or near pages; None if there are none."""
        files, ends, starts, stops, num_bytes = self._kernel.spans(far)
        if not files:
            return None
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, num_bytes)

    def _learn(self, content: memoryview, states: States, *, far: bool) -> None:
        try:
            grown = self._kernel.learn(content, far)
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

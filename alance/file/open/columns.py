"""Plans over a column for the codecs: the pages of requested rows, and the missing page states.

Learned page states are kept with the columns of their file, as one entry of the session's search
cache. A scan works on a copy of the columns if its page states would only fill the cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from alance.errors import AlanceError
from alance.file.open.recall import held, kept_by, noted, recalled
from alance.format.column_metadata import FileColumn
from alance.format.layouts import page_layout
from alance.format.layouts.place import PagePlace, at_once
from alance.format.plans import together

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from alance import _kernels
    from alance.base.arrays import Int64s
    from alance.file.open.recall import Kept
    from alance.format.container import Container
    from alance.format.layouts.base import DecodeTask, PageLayout, PageState
    from alance.format.plans import Plan

SMALL_BYTES: Final = 256 << 10  # a scan reads a page up to this size whole, in one round


class States(Protocol):
    """Cache of what plans know about files, such as opened columns."""

    def peek(self, key: Hashable) -> Any | None: ...

    def peek_all(self, keys: Sequence[Hashable]) -> list[Any | None]: ...

    def put(self, key: Hashable, value: Any, num_bytes: int) -> None: ...


def keep_grown(container: Container, num_bytes: int, states: States) -> None:
    """Add the memory of new page states to the size of their file, and update the cache."""
    container.columns.grow(num_bytes)
    states.put(("file", container.path), container, container.num_bytes)


class OpenColumn(FileColumn):
    """A column of an open file, for the codecs.

    Args:
        is_own: True for a copy that is in no cache.
    """

    __slots__ = ("_layouts", "container", "is_own")

    def __init__(
        self,
        container: Container,
        index: int,
        kernel: _kernels.ColumnPages,
        is_own: bool = False,
    ) -> None:
        super().__init__(index, kernel)
        self.container = container
        self.is_own = is_own
        self._layouts: list[PageLayout | None] | None = None

    @property
    def layouts(self) -> list[PageLayout | None]:
        """Layouts of the column's pages; None for pages that are not parsed yet."""
        if self._layouts is None:
            self._layouts = [None] * self.num_pages
        return self._layouts

    def layout(self, number: int) -> PageLayout:
        """Return the layout of a page, which is parsed on first use.

        Raises:
            CorruptFileError: the page's description contradicts the format.
            UnsupportedError: the description has an unknown layout or encoding.
        """
        layout = self.layouts[number]
        if layout is None:
            page = self.page(number)
            try:
                layout = page_layout(
                    page.encoding,
                    path=self.container.path,
                    buffers=page.buffers,
                    num_rows=page.num_rows,
                )
            except AlanceError as error:
                self.add_place(error, number)
                raise
            self.layouts[number] = layout
        return layout

    def take(self, rows: Int64s, states: States, *, guess: bool = True) -> Plan[list[DecodeTask]]:
        """Plan single rows.

        Cost: one round if page states are known or positions were guessed right, else two.

        Args:
            rows: sorted and unique, below `num_rows`; shape (n,).
            guess: True to guess the positions of rows in pages of unknown state, which saves a
                round but may read more bytes.
        """
        plans = [
            self._take_page(number, of_page, states, guess) for number, of_page in self.hit(rows)
        ]
        return (yield from together(plans))

    def hit(self, rows: Int64s) -> list[tuple[int, Int64s]]:
        """Return the numbers of the pages that contain rows, each with its rows as page offsets."""
        first_rows = self.first_rows
        if len(first_rows) == 2:
            return [(0, rows)] if len(rows) else []
        cuts = np.searchsorted(rows, first_rows).tolist()
        return [
            (number, rows[cuts[number] : cuts[number + 1]] - first)
            for number, first in enumerate(first_rows[:-1].tolist())
            if cuts[number] < cuts[number + 1]
        ]

    def read(self, start: int, stop: int, states: States) -> Plan[list[DecodeTask]]:
        """Plan the rows from `start` to `stop`, in order; one round if page states are known."""
        return (
            yield from together(
                [
                    self._read_page(number, first, last, states)
                    for number, first, last in self._overlaps(start, stop)
                ]
            )
        )

    def load(self, start: int, stop: int, states: States) -> Plan[None]:
        """Plan the unknown states of the pages that contain a range of rows, in at most one round.

        Skips small pages inside the range, because `read` reads them completely.
        """
        missing = [
            self._state(number, states)
            for number, first, last in self._overlaps(start, stop)
            if not self.is_read_whole(number, first, last)
        ]
        if missing:
            yield from together(missing)

    def _overlaps(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """Yield (page, start, stop) for each page in a range of rows, as offsets in the page."""
        if start >= stop:
            return
        if self.num_pages == 1:
            yield 0, start, min(stop, self.num_rows)
            return
        first_rows, num_pages = self.first_rows, self.num_pages
        number = int(np.searchsorted(first_rows, start, "right")) - 1
        while number < num_pages and first_rows[number] < stop:
            first, last = int(first_rows[number]), int(first_rows[number + 1])
            if last > max(first, start):
                yield number, max(start, first) - first, min(stop, last) - first
            number += 1

    def known_state(self, number: int, states: States) -> PageState | None:
        """Return a page's state from memory, the file's tail or the disk cache; None if unknown."""
        state = self.learned_state(number)
        return self.at_hand(number, states) if state is None else state

    def learned_state(self, number: int) -> PageState | None:
        """Return the state of a page from memory; None if unknown."""
        state: PageState | None = self.kernel.state(number)
        return state

    def at_hand(self, number: int, states: States) -> PageState | None:
        """Return a page's state from the file's tail or the disk cache, and store it in memory.

        Returns None if neither has it.
        """
        state: PageState | None = None
        if self.container.search is not None and not self.container.is_whole:
            state = held(self.layout(number).load(), self.container)
        if state is None and (disk := self._disk(states)) is not None:
            state = recalled(lambda: self.layout(number).load(), self.container.path, disk)
        if state is not None:
            self.learned(number, state, states)
        return state

    def _disk(self, states: States) -> Kept | None:
        """Return the disk cache of the states; None for a file that is completely in memory."""
        return None if self.container.is_whole else kept_by(states)

    def _state(self, number: int, states: States) -> Plan[PageState]:
        state = self.known_state(number, states)
        return (yield from self.learn(number, states)) if state is None else state

    def _take_page(
        self, number: int, rows: Int64s, states: States, guess: bool
    ) -> Plan[DecodeTask]:
        state = self.known_state(number, states)
        taking = self._learn_and_take(number, state, rows, states)
        if state is None and guess and (place := self.place(number)).num_bytes <= SMALL_BYTES:
            taking = at_once(place, taking)
        try:
            return (yield from taking)
        except AlanceError as error:
            self.add_place(error, number)
            raise

    def _learn_and_take(
        self, number: int, state: PageState | None, rows: Int64s, states: States
    ) -> Plan[DecodeTask]:
        if state is None:
            state = yield from self.learn(number, states)
        return (yield from self.layout(number).take(state, rows))

    def is_read_whole(self, number: int, start: int, stop: int) -> bool:
        """True if a range covers all of a small page, so that its state is not worth caching."""
        buffers, num_rows, _ = self.page(number)
        return stop - start == num_rows and sum([size for _, size in buffers]) <= SMALL_BYTES

    def _read_page(self, number: int, start: int, stop: int, states: States) -> Plan[DecodeTask]:
        state: PageState | None = None
        is_whole = self.is_read_whole(number, start, stop)
        if is_whole:
            state = self.learned_state(number)
        if state is None and not is_whole:
            state = yield from self._state(number, states)
        try:
            if state is None:
                return (yield from self.layout(number).read_page())
            return (yield from self.layout(number).read(state, start, stop))
        except AlanceError as error:
            self.add_place(error, number)
            raise

    def place(self, number: int) -> PagePlace:
        """Return the location of a page: its file and buffers."""
        buffers, num_rows, _ = self.page(number)
        return PagePlace(self.container.path, buffers, num_rows)

    def learn(self, number: int, states: States) -> Plan[PageState]:
        """Plan the state of a page that is not in memory, and store it there; at most one round."""
        try:
            state = yield from noted(self.layout(number).load(), self._disk(states))
        except AlanceError as error:
            self.add_place(error, number)
            raise
        self.learned(number, state, states)
        return state

    def learned(self, number: int, state: PageState, states: States) -> None:
        """Store the state of a page in memory."""
        num_bytes = self.kernel.set_state(number, state, state.num_bytes)
        if not self.is_own:
            keep_grown(self.container, num_bytes, states)

    def add_place(self, error: AlanceError, number: int) -> None:
        """Add the page to the notes of an error."""
        error.add_note(f"in page {number} of column {self.index} of {self.container.path}")

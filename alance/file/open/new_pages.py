"""Batch loading of page states that page tables lack, over many columns and files.

One kernel call lists the bytes to read, and another call parses them into the page tables. Pages of
a layout that the kernel lacks are loaded one by one, by a plan for each.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.file.open.columns import SMALL_BYTES, OpenColumn, keep_grown
from alance.file.open.files import bytes_at_hand, from_content
from alance.file.open.recall import kept_by
from alance.format.layouts import page_form
from alance.format.plans import ByteRange, Pieces, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.older.v2_0 import FieldColumn
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.layouts.base import PageState
    from alance.format.plans import Plan

_CONTAINER_PATH, _CONTENT_START = map(attrgetter, ("path", "content_start"))
_OWNER, _IS_OWN = itemgetter(0), attrgetter("is_own")
PAGE_GAP_BYTES: Final = 64  # bytes; neighbouring pages of a file have no wider gaps
MOST_BYTES: Final = 4 << 20  # longest range; the loop would copy one that takes two requests
CONSTANT_CONTENT: Final = memoryview(b"")  # constant pages have their value in the description


class NewPages:
    """Pages of unknown state, to load together.

    A page is near if the file's tail in memory has all bytes of its state, else far.

    Args:
        owners: leaves as pairs of a place and the fragment that has the leaf.
        unknown: pages as pairs of a number in `owners` and a page number.
        states: cache for what is learned. If there is a disk cache behind it, far pages are learned
            one by one, by plans that fill that cache.

    Attributes:
        unknown: the pages of the argument `unknown` whose leaf has a usable table.
    """

    def __init__(
        self,
        owners: Sequence[tuple[int, OpenFragment]],
        unknown: Sequence[tuple[int, int]],
        states: States,
    ) -> None:
        self._owners = owners
        self._states = states
        tables = [own.tables.usable(at) for at, own in owners]
        containers = [own.containers[at] for at, own in owners]
        self.unknown = unknown
        if None in tables:
            self.unknown = [page for page in unknown if tables[page[0]] is not None]
        paths = [*map(_CONTAINER_PATH, containers)]
        self._containers: dict[str, Container] = dict(zip(paths, containers, strict=True))
        places = dict(zip(self._containers, range(len(self._containers)), strict=True))
        files = [*map(places.__getitem__, paths)]
        self._files = [*self._containers.values()]
        self._kernel = _kernels.NewPages(tables, self.unknown, files)
        forms = [*map(page_form, self._kernel.descriptions)]
        self._kernel.find(forms, [*map(_CONTENT_START, self._files)])
        self._near = len(self.unknown) - len(self._kernel.far) - len(self._kernel.skipped)
        if kept_by(states) is not None:
            self._kernel.leave(self._kernel.far)
        self._singly: list[int] = self._kernel.skipped

    def hole(self, number: int) -> Hole:
        """Return a page of `unknown` as a `Hole`, to load it by itself."""
        owner, page = self.unknown[number]
        at, fragment = self._owners[owner]
        return Hole(fragment, at, page)

    def fill_known(self) -> list[int]:
        """Load states from caches and tails; return the indices of the pages still unknown.

        Raises:
            CorruptFileError: a page's description or state contradicts the format.
            UnsupportedError: a page has an unknown layout or encoding.
        """
        if self._near:
            pieces = self._pieces(far=False)
            content = (
                CONSTANT_CONTENT if pieces is None else bytes_at_hand(pieces, self._containers)
            )
            self._learn(content, far=False)
        self._singly = [at for at in self._singly if not self.hole(at).is_known(self._states)]
        return self._kernel.far + self._singly

    def leave(self, numbers: Sequence[int]) -> None:
        """Exclude pages, so that they are not loaded here."""
        self._kernel.leave(numbers)
        if self._singly:
            self._singly = [*{*self._singly}.difference(numbers)]

    def learn(self) -> Plan[None]:
        """Plan the states of the remaining pages in one round.

        Raises:
            CorruptFileError: a page's description or state contradicts the format.
            UnsupportedError: a page has an unknown layout or encoding.
        """
        if self._singly:
            plans = [self.hole(at).learn(self._states) for at in self._singly]
            yield from together([self._learn_far(), *plans])
        else:
            yield from self._learn_far()

    def _learn_far(self) -> Plan[None]:
        pieces = self._pieces(far=True)
        if pieces is not None:
            (content,) = yield [pieces]
            self._learn(content, far=True)

    def small(self, spans: Sequence[tuple[int, int]]) -> list[int]:
        """Return the small far pages inside ranges of rows; these pages are to be read whole."""
        return self._kernel.small(spans, SMALL_BYTES)

    def rest(self, numbers: Sequence[int]) -> list[ByteRange]:
        """Return the byte ranges of these pages, except the ranges that `learn` reads."""
        return [
            ByteRange(self._files[file].path, start, stop)
            for file, start, stop in self._kernel.rest(numbers, PAGE_GAP_BYTES, MOST_BYTES)
        ]

    def _pieces(self, *, far: bool) -> Pieces | None:
        """Return the byte ranges of the states of far or near pages; None if there are none."""
        files, ends, starts, stops, num_bytes = self._kernel.spans(far)
        if not files:
            return None
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, num_bytes)

    def _learn(self, content: memoryview, *, far: bool) -> None:
        try:
            grown = self._kernel.learn(content, far)
        except ValueError as error:
            hole = self.hole(self._kernel.page)
            column = hole.column
            assert isinstance(column, OpenColumn)
            failure = column.place(hole.number).corrupt(str(error))
            column.add_place(failure, hole.number)
            raise failure from None
        fragments = [self._owners[owner][1] for owner in {*map(_OWNER, self.unknown)}]
        for fragment in fragments:
            fragment.has_grown = True
        if not all(map(_IS_OWN, fragments)):
            for file, num_bytes in grown:
                keep_grown(self._files[file], num_bytes, self._states)


class Hole(NamedTuple):
    """A page of a table whose state is unknown."""

    fragment: OpenFragment
    at: int  # place of the leaf
    number: int  # number of the page

    @property
    def column(self) -> OpenColumn | FieldColumn:
        """Column of the page, for the codecs."""
        return self.fragment.leaf(self.at).column

    def fill(self, state: PageState | None) -> None:
        """Put the page into its table, or drop the table if the kernel cannot take its rows.

        Args:
            state: None if pages of this kind of column have no state.

        Raises:
            CorruptFileError: the state contradicts the page's description.
        """
        table = self.fragment.tables.usable(self.at)
        if table is None:
            return
        page = self.column.row_page(self.number, state)
        if page is None:
            self.fragment.drop([self.at])
        else:
            inner, outer = page.layers
            table.set(self.number, page.kernel, inner, page.start, outer)
        self.fragment.has_grown = True

    def is_known(self, states: States) -> bool:
        """Fill the hole from memory, the file's end or the disk cache; return False if unknown."""
        column = self.column
        if not isinstance(column, OpenColumn):
            self.fill(None)
            return True
        state = column.known_state(self.number, states)
        if state is not None:
            self.fill(state)
        return state is not None

    def learn(self, states: States) -> Plan[None]:
        """Plan the state of the page and fill the hole: at most one round."""
        column = self.column
        assert isinstance(column, OpenColumn)  # other pages are always known
        learning = column.learn(self.number, states)
        self.fill((yield from from_content(learning, column.container)))

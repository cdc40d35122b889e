"""Batch loading of page states that page tables lack, over many columns and files.

One kernel call lists the bytes to read, and another call parses them into the page tables. The
bytes come from the files' tails, from the disk cache, or from a round of reads.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.file.open.columns import SMALL_BYTES, keep_grown, kept_by
from alance.format.layouts import page_form
from alance.format.layouts.fields import leaf_columns
from alance.format.layouts.place import PagePlace
from alance.format.plans import TURN, ByteRange, Pieces, T

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan
    from alance.io.caches.disk_cache import DiskCache

_CONTAINER_PATH, _SEARCH, _IS_OWN = map(attrgetter, ("path", "search", "is_own"))
_OWNER = itemgetter(0)
FORMS_A_TURN: Final = 128  # descriptions to parse between turns; those of sparse pages take 17 us
PAGES_A_TURN: Final = 1 << 10  # pages to learn between turns; a page takes 1 to 3 us
PAGE_GAP_BYTES: Final = 64  # bytes; neighbouring pages of a file have no wider gaps
MOST_BYTES: Final = 4 << 20  # longest range; the loop would copy one that takes two requests


class NewPages:
    """Pages whose states are loaded together; call `find` first, which parses descriptions.

    Args:
        owners: leaves, each as its place in a fragment, and the fragment.
        unknown: pages to load, at most `PAGES_A_TURN`, each as an index into `owners` and a page
            number.
        states: cache for page states. If it has a disk cache, the bytes of states are looked up
            and stored there.

    Raises:
        CorruptFileError: a page's description or state contradicts the format, or the page.
        UnsupportedError: a page has an unknown layout or encoding.
    """

    def __init__(
        self,
        owners: Sequence[tuple[int, OpenFragment]],
        unknown: Sequence[tuple[int, int]],
        states: States,
    ) -> None:
        self.owners = owners
        self.unknown = unknown
        self._states = states
        containers = [own.containers[at] for at, own in owners]
        paths = [*map(_CONTAINER_PATH, containers)]
        self._containers: dict[str, Container] = dict(zip(paths, containers, strict=True))
        places = dict(zip(self._containers, range(len(self._containers)), strict=True))
        self._files = [*self._containers.values()]
        tables = [own.tables.column(at) for at, own in owners]
        self._kernel = _kernels.NewPages(tables, unknown, [*map(places.__getitem__, paths)])

    def find(self) -> Plan[None]:
        """Plan the parsing of the pages' descriptions: no round, but turns if there are many."""
        forms: list[_kernels.PageForm] = []
        for number, description in enumerate(self._kernel.descriptions, 1):
            if number % FORMS_A_TURN == 0:
                yield TURN
            try:
                forms.append(page_form(description))
            except AlanceError as error:
                self._add_place(error, self._kernel.described_by(number - 1))
                raise
        try:
            self._kernel.find(forms)
        except ValueError as error:
            raise self._corrupt(error) from None

    def fill_known(self) -> list[int]:
        """Load states from tails and the disk cache; return the indices of the missing pages."""
        if any(map(_SEARCH, self._files)):
            for path, start, stop in self._pieces().ranges():
                self._containers[path].check(start, stop)
        held = [_kernels.HeldFile([file.content_start], [file.content]) for file in self._files]
        self._learn(self._kernel.learn, held)
        disk = kept_by(self._states)
        if disk is not None and self._kernel.missing:
            self._recall(disk)
        return self._kernel.missing

    def _recall(self, disk: DiskCache) -> None:
        """Load states from the disk cache.

        Ranges of a file with a damaged state are removed from the cache, so that they are read from
        the store again.
        """
        held = {path: _kernels.HeldFile([], []) for path in self._containers}
        for path, start, stop in self._pieces().ranges():
            content = disk.get(path, start, stop)
            if content is not None:
                held[path].add(start, content)
        while True:
            try:
                self._learn(self._kernel.learn, [*held.values()])
            except CorruptFileError:
                path = self._place().path
                disk.discard(path)
                held[path] = _kernels.HeldFile([], [])
            else:
                return

    def num_bytes(self, number: int) -> int:
        """Return the bytes of a page's state."""
        return self._kernel.num_bytes(number)

    def learn(self) -> Plan[None]:
        """Plan to read and parse the states of all missing pages, in one round."""
        if not self._kernel.missing:
            return
        pieces, disk = self._pieces(), kept_by(self._states)
        (content,) = yield [pieces]
        self._learn(self._kernel.learn_read, content)
        if disk is not None:
            _store(disk, pieces, content)
        if len(self.unknown) >= PAGES_A_TURN:
            yield TURN

    def guesses(self, rows: Sequence[Int64s]) -> list[ByteRange]:
        """Return the byte ranges in which rows of missing pages probably are.

        Args:
            rows: rows of each page, counted from the page's first row.
        """
        return [
            ByteRange(self._path_of(number), start, stop)
            for number in self._kernel.missing
            for start, stop in self._kernel.guess(number, rows[number])
        ]

    def small(self, spans: Sequence[tuple[int, int]]) -> list[int]:
        """Return the small missing pages inside ranges of rows; such pages are read whole."""
        return self._kernel.small(spans, SMALL_BYTES)

    def rest(self, numbers: Sequence[int]) -> list[ByteRange]:
        """Return the byte ranges of these pages, except the ranges that `learn` reads."""
        return [
            ByteRange(self._files[file].path, start, stop)
            for file, start, stop in self._kernel.rest(numbers, PAGE_GAP_BYTES, MOST_BYTES)
        ]

    def _pieces(self) -> Pieces:
        """Return the byte ranges of the states of missing pages."""
        files, ends, starts, stops, num_bytes = self._kernel.spans()
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, num_bytes)

    def _learn(self, learn: Callable[[T], list[tuple[int, int]]], content: T) -> None:
        try:
            grown = learn(content)
        except ValueError as error:
            raise self._corrupt(error) from None
        if not grown:
            return
        fragments = [self.owners[owner][1] for owner in {*map(_OWNER, self.unknown)}]
        for fragment in fragments:
            fragment.has_grown = True
        if not all(map(_IS_OWN, fragments)):
            for file, num_bytes in grown:
                keep_grown(self._files[file], num_bytes, self._states)

    def _path_of(self, number: int) -> str:
        at, fragment = self.owners[self.unknown[number][0]]
        return fragment.containers[at].path

    def _place(self) -> PagePlace:
        """Return the location of the page in which the kernel has found an error."""
        owner, number = self.unknown[self._kernel.page]
        at, fragment = self.owners[owner]
        column = fragment.tables.column(at)
        assert column is not None
        buffers, num_rows, _ = column.page(number)
        return PagePlace(fragment.containers[at].path, buffers, num_rows)

    def _corrupt(self, error: ValueError) -> CorruptFileError:
        failure = self._place().corrupt(str(error))
        self._add_place(failure, self._kernel.page)
        return failure

    def _add_place(self, error: AlanceError, number: int) -> None:
        """Add a page to the notes of an error."""
        owner, page = self.unknown[number]
        at, fragment = self.owners[owner]
        column, path = fragment.tables.number(at), fragment.containers[at].path
        error.add_note(f"in page {page} of column {column} of {path}")
        own = fragment.own.ids[at]
        for field in fragment.schema.fields:
            if any(leaf.field.id == own for leaf in leaf_columns(field)):
                error.add_note(f"in field {field.name!r}")


def new_pages(
    owners: Sequence[tuple[int, OpenFragment]],
    unknown: Sequence[tuple[int, int]],
    states: States,
) -> Plan[list[NewPages]]:
    """Divide any number of unknown pages into `NewPages`, and parse their descriptions.

    No round, but turns if there are many pages. Arguments and errors are those of `NewPages`.
    """
    new: list[NewPages] = []
    for first in range(0, len(unknown), PAGES_A_TURN):
        of_part, part = owners, unknown
        if len(unknown) > PAGES_A_TURN:  # with the owners of these pages alone
            part = unknown[first : first + PAGES_A_TURN]
            numbers = dict.fromkeys(map(_OWNER, part))
            places = dict(zip(numbers, range(len(numbers)), strict=True))
            of_part = [*map(owners.__getitem__, numbers)]
            part = [(places[owner], page) for owner, page in part]
        if first:
            yield TURN
        new.append(NewPages(of_part, part, states))
        yield from new[-1].find()
    return new


def _store(disk: DiskCache, pieces: Pieces, content: memoryview) -> None:
    """Store pieces in the disk cache.

    Args:
        content: bytes of all pieces, concatenated.
    """
    position = 0
    for path, start, stop in pieces.ranges():
        disk.put(path, start, stop, content[position : position + stop - start])
        position += stop - start

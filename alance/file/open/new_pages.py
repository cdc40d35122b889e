"""Batch loading of page states that page tables lack, over many columns and files.

One kernel call lists the bytes to read, and another call parses them into the page tables. The
bytes come from the files' tails, from the disk cache, or from a round of reads.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.file.open.columns import SMALL_BYTES, keep_grown
from alance.file.open.files import bytes_at_hand
from alance.file.open.recall import kept_by
from alance.format.layouts import page_form
from alance.format.layouts.fields import leaf_columns
from alance.format.layouts.place import PagePlace
from alance.format.plans import TURN, ByteRange, Pieces

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.open.recall import Kept
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan

_CONTAINER_PATH, _CONTENT_START = map(attrgetter, ("path", "content_start"))
_OWNER, _IS_OWN = itemgetter(0), attrgetter("is_own")
FORMS_A_TURN: Final = 128  # descriptions to parse between turns; those of sparse pages take 17 us
PAGES_A_TURN: Final = 1 << 10  # pages to learn between turns; a page takes 1 to 3 us
PAGE_GAP_BYTES: Final = 64  # bytes; neighbouring pages of a file have no wider gaps
MOST_BYTES: Final = 4 << 20  # longest range; the loop would copy one that takes two requests
CONSTANT_CONTENT: Final = memoryview(b"")  # constant pages have their value in the description


class _Group(NamedTuple):
    """Consecutive pages that are parsed by one kernel call.

    Attributes:
        first: index of the first page in `NewPages.unknown`.
    """

    first: int
    num_pages: int
    kernel: _kernels.NewPages


class NewPages:
    """Pages whose states are loaded together; call `find` first, which parses descriptions.

    A page is near if the bytes of its state are in memory, else far.

    Args:
        owners: leaves, each as its place in a fragment, and the fragment.
        unknown: pages to load, each as an index into `owners` and a page number.
        states: cache for page states. If it has a disk cache, the bytes of states are looked up
            and stored there.

    Raises:
        CorruptFileError: a page's description contradicts the format, or the page.
        UnsupportedError: a page has an unknown layout or encoding.
    """

    def __init__(
        self,
        owners: Sequence[tuple[int, OpenFragment]],
        unknown: Sequence[tuple[int, int]],
        states: States,
    ) -> None:
        self._owners = owners
        self._states = states
        self.unknown = unknown
        containers = [own.containers[at] for at, own in owners]
        paths = [*map(_CONTAINER_PATH, containers)]
        self._containers: dict[str, Container] = dict(zip(paths, containers, strict=True))
        places = dict(zip(self._containers, range(len(self._containers)), strict=True))
        self._file_of = [*map(places.__getitem__, paths)]
        self._files = [*self._containers.values()]
        self._tables = [own.tables.column(at) for at, own in owners]
        self._groups: list[_Group] = []

    def find(self) -> Plan[None]:
        """Plan the parsing of the pages' descriptions: no round, but turns if there are many."""
        tails = [*map(_CONTENT_START, self._files)]
        for first in range(0, len(self.unknown), PAGES_A_TURN):
            if first:
                yield TURN
            pages, tables, files = self.unknown, self._tables, self._file_of
            if len(pages) > PAGES_A_TURN:  # the kernel gets the tables of these pages alone
                pages = pages[first : first + PAGES_A_TURN]
                owners = dict.fromkeys(map(_OWNER, pages))
                places = dict(zip(owners, range(len(owners)), strict=True))
                pages = [(places[owner], page) for owner, page in pages]
                tables = [*map(tables.__getitem__, owners)]
                files = [*map(files.__getitem__, owners)]
            kernel = _kernels.NewPages(tables, pages, files)
            group = _Group(first, len(pages), kernel)
            self._groups.append(group)
            forms: list[_kernels.PageForm] = []
            for number, description in enumerate(kernel.descriptions, 1):
                if number % FORMS_A_TURN == 0:
                    yield TURN
                try:
                    forms.append(page_form(description))
                except AlanceError as error:
                    self._add_place(error, first + kernel.described_by(number - 1))
                    raise
            try:
                kernel.find(forms, tails)
            except ValueError as error:
                raise self._corrupt(group, error) from None

    def fill_known(self) -> Plan[list[int]]:
        """Load states from tails and the disk cache; return the indices of the unknown pages.

        Plan without a round, but with turns if there are many pages.

        Raises:
            CorruptFileError: a page's state contradicts the format.
        """
        disk = kept_by(self._states)
        unknown: list[int] = []
        for group in self._groups:
            if group.first:
                yield TURN
            far = group.kernel.far
            if len(far) < group.num_pages:
                pieces = self._pieces(group, far=False)
                content = (
                    CONSTANT_CONTENT if pieces is None else bytes_at_hand(pieces, self._containers)
                )
                self._learn(group, content, far=False)
            if disk is not None and far:
                self._recall(group, disk)
                far = group.kernel.far
            unknown += [group.first + number for number in far] if group.first else far
        return unknown

    def _recall(self, group: _Group, disk: Kept) -> None:
        """Load states from the disk cache.

        Ranges of a file with a damaged state are removed from the cache, so that they are read from
        the store again.
        """
        pieces = self._pieces(group, far=True)
        held = {path: _kernels.HeldFile([], []) for path in self._containers}
        for path, start, stop in pieces.ranges() if pieces is not None else ():
            content = disk.get(path, start, stop)
            if content is not None:
                held[path].add(start, content)
        while True:
            try:
                self._learn_held(group, [*held.values()])
            except CorruptFileError:
                path = self._place(group).path
                disk.discard(path)
                held[path] = _kernels.HeldFile([], [])
            else:
                return

    def _at(self, number: int) -> tuple[_kernels.NewPages, int]:
        """Return the kernel of a page, and the page's number there."""
        group = self._groups[number // PAGES_A_TURN]
        return group.kernel, number - group.first

    def num_bytes(self, number: int) -> int:
        """Return the bytes of a page's state."""
        kernel, own = self._at(number)
        return kernel.num_bytes(own)

    def learn(self) -> Plan[None]:
        """Plan to read and parse the states of all far pages, in one round.

        Raises:
            CorruptFileError: a page's state contradicts the format.
        """
        pieces = [(group, self._pieces(group, far=True)) for group in self._groups]
        needed = [(group, own) for group, own in pieces if own is not None]
        if not needed:
            return
        disk = kept_by(self._states)
        contents = yield [own for _, own in needed]
        for place, ((group, own), content) in enumerate(zip(needed, contents, strict=True)):
            if place:
                yield TURN
            self._learn(group, content, far=True)
            if disk is not None:
                _store(disk, own, content)

    def guesses(self, rows: Sequence[Int64s]) -> list[ByteRange]:
        """Return the byte ranges in which rows of far pages probably are.

        Args:
            rows: rows of each page, counted from the page's first row.
        """
        return [
            ByteRange(self._path_of(group.first + number), start, stop)
            for group in self._groups
            for number in group.kernel.far
            for start, stop in group.kernel.guess(number, rows[group.first + number])
        ]

    def small(self, spans: Sequence[tuple[int, int]]) -> Plan[list[int]]:
        """Plan the list of small far pages inside ranges of rows; such pages are read whole.

        No round, but turns if there are many pages.
        """
        numbers: list[int] = []
        for group in self._groups:
            if group.first:
                yield TURN
            numbers += [group.first + own for own in group.kernel.small(spans, SMALL_BYTES)]
        return numbers

    def rest(self, numbers: Sequence[int]) -> Plan[list[ByteRange]]:
        """Plan the byte ranges of these pages, except the ranges that `learn` reads.

        No round, but turns if there are many pages.
        """
        of_groups: dict[int, list[int]] = {}
        for number in numbers:
            of_groups.setdefault(number // PAGES_A_TURN, []).append(number % PAGES_A_TURN)
        ranges: list[ByteRange] = []
        for place, own in of_groups.items():
            if ranges:
                yield TURN
            kernel = self._groups[place].kernel
            ranges += [
                ByteRange(self._files[file].path, start, stop)
                for file, start, stop in kernel.rest(own, PAGE_GAP_BYTES, MOST_BYTES)
            ]
        return ranges

    def _pieces(self, group: _Group, *, far: bool) -> Pieces | None:
        """Return the byte ranges of the states of all far or all near pages; None if empty."""
        files, ends, starts, stops, num_bytes = group.kernel.spans(far)
        if not files:
            return None
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, num_bytes)

    def _learn_held(self, group: _Group, held: Sequence[_kernels.HeldFile]) -> None:
        """Learn the far pages whose bytes are held.

        Args:
            held: bytes of each file, in the order of `_containers`.

        Raises:
            CorruptFileError: a page's state contradicts the format.
        """
        group.kernel.hold(held)
        files, ends, starts, stops, _ = group.kernel.spans(far=False)
        of_files = [*map(held.__getitem__, files)]
        self._learn(group, _kernels.gather(of_files, ends, starts, stops).data, far=False)

    def _learn(self, group: _Group, content: memoryview, *, far: bool) -> None:
        try:
            grown = group.kernel.learn(content, far)
        except ValueError as error:
            raise self._corrupt(group, error) from None
        if not grown:
            return
        pages = self.unknown[group.first : group.first + group.num_pages]
        fragments = [self._owners[owner][1] for owner in {*map(_OWNER, pages)}]
        for fragment in fragments:
            fragment.has_grown = True
        if not all(map(_IS_OWN, fragments)):
            for file, num_bytes in grown:
                keep_grown(self._files[file], num_bytes, self._states)

    def _path_of(self, number: int) -> str:
        at, fragment = self._owners[self.unknown[number][0]]
        return fragment.containers[at].path

    def _place(self, group: _Group) -> PagePlace:
        """Return the location of the page in which the kernel has found an error."""
        owner, number = self.unknown[group.first + group.kernel.page]
        at, fragment = self._owners[owner]
        column = fragment.tables.column(at)
        assert column is not None
        buffers, num_rows, _ = column.page(number)
        return PagePlace(fragment.containers[at].path, buffers, num_rows)

    def _corrupt(self, group: _Group, error: ValueError) -> CorruptFileError:
        failure = self._place(group).corrupt(str(error))
        self._add_place(failure, group.first + group.kernel.page)
        return failure

    def _add_place(self, error: AlanceError, number: int) -> None:
        """Add a page to the notes of an error."""
        owner, page = self.unknown[number]
        at, fragment = self._owners[owner]
        column, path = fragment.tables.number(at), fragment.containers[at].path
        error.add_note(f"in page {page} of column {column} of {path}")
        own = fragment.own.ids[at]
        for field in fragment.schema.fields:
            if any(leaf.field.id == own for leaf in leaf_columns(field)):
                error.add_note(f"in field {field.name!r}")


def _store(disk: Kept, pieces: Pieces, content: memoryview) -> None:
    """Store pieces in the disk cache.

    Args:
        content: bytes of all pieces, concatenated.
    """
    position = 0
    for path, start, stop in pieces.ranges():
        disk.put(path, start, stop, content[position : position + stop - start])
        position += stop - start

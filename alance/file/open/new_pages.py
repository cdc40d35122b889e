"""Batch loading of page states that page tables lack, over many columns and files.

One kernel call lists the bytes to read, and another call parses them into the page tables. The
bytes come from the files' tails, from the disk cache, or from a round of reads.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final

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
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.open.recall import Kept
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan

_CONTAINER_PATH, _CONTENT_START = map(attrgetter, ("path", "content_start"))
_OWNER, _IS_OWN = itemgetter(0), attrgetter("is_own")
FORMS_A_TURN: Final = 128  # descriptions to parse between turns; those of sparse pages take 17 us
PAGE_GAP_BYTES: Final = 64  # bytes; neighbouring pages of a file have no wider gaps
MOST_BYTES: Final = 4 << 20  # longest range; the loop would copy one that takes two requests
CONSTANT_CONTENT: Final = memoryview(b"")  # constant pages have their value in the description


def new_pages(
    owners: Sequence[tuple[int, OpenFragment]],
    unknown: Sequence[tuple[int, int]],
    states: States,
) -> Plan[NewPages]:
    """Wrap pages of unknown state whose descriptions are parsed; no round. See `NewPages`."""
    pages = NewPages(owners, unknown, states)
    yield from pages.find()
    return pages


class NewPages:
    """Pages of unknown state, to load together, once `find` has parsed their descriptions.

    A page is near if the bytes of its state are in memory, else far. The leaves of pages of 2.0
    that the kernel cannot build are dropped from their fragments.

    Args:
        owners: leaves as pairs of a place and the fragment that has the leaf.
        unknown: pages as pairs of a number in `owners` and a page number.
        states: cache for page states. If it has a disk cache, the bytes of states are looked up
            and stored there.

    Attributes:
        has_dropped: True if leaves were dropped.
        unknown: the pages of the argument `unknown` whose leaf has a usable table of 2.1 or later.

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
        tables: Sequence[Any] = [own.tables.usable(at) for at, own in owners]
        containers = [own.containers[at] for at, own in owners]
        self.unknown = unknown
        self.has_dropped = False
        if {*map(type, tables)} != {_kernels.ColumnPages}:
            columns = [own if isinstance(own, _kernels.ColumnPages) else None for own in tables]
            for owner, number in unknown:
                if columns[owner] is None and tables[owner] is not None:
                    self.has_dropped |= not _fill_older(*owners[owner], number)
            self.unknown = [page for page in unknown if columns[page[0]] is not None]
            tables = columns
        paths = [*map(_CONTAINER_PATH, containers)]
        self._containers: dict[str, Container] = dict(zip(paths, containers, strict=True))
        places = dict(zip(self._containers, range(len(self._containers)), strict=True))
        files = [*map(places.__getitem__, paths)]
        self._files = [*self._containers.values()]
        self._kernel = _kernels.NewPages(tables, self.unknown, files)

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
            self._kernel.find(forms, [*map(_CONTENT_START, self._files)])
        except ValueError as error:
            raise self._corrupt(error) from None

    def fill_known(self) -> list[int]:
        """Load states from tails and the disk cache; return the indices of the unknown pages.

        Raises:
            CorruptFileError: a page's state contradicts the format.
        """
        far = self._kernel.far
        if len(far) < len(self.unknown):
            pieces = self._pieces(far=False)
            content = (
                CONSTANT_CONTENT if pieces is None else bytes_at_hand(pieces, self._containers)
            )
            self._learn(content, far=False)
        disk = kept_by(self._states)
        if disk is None or not far:
            return far
        self._recall(disk)
        return self._kernel.far

    def _recall(self, disk: Kept) -> None:
        """Load states from the disk cache.

        Ranges of a file with a damaged state are removed from the cache, so that they are read from
        the store again.
        """
        pieces = self._pieces(far=True)
        held = {path: _kernels.HeldFile([], []) for path in self._containers}
        for path, start, stop in pieces.ranges() if pieces is not None else ():
            content = disk.get(path, start, stop)
            if content is not None:
                held[path].add(start, content)
        while True:
            try:
                self._learn_held([*held.values()])
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
        """Plan the states of the remaining pages in one round.

        Raises:
            CorruptFileError: a page's state contradicts the format.
        """
        pieces = self._pieces(far=True)
        if pieces is not None:
            (content,) = yield [pieces]
            self._learn(content, far=True)
            self._store(pieces.ranges(), content)

    def _store(self, ranges: Sequence[ByteRange], content: memoryview) -> None:
        """Store ranges in the disk cache, if there is one.

        Args:
            content: bytes of all ranges, concatenated.
        """
        disk, position = kept_by(self._states), 0
        if disk is None:
            return
        for path, start, stop in ranges:
            disk.put(path, start, stop, content[position : position + stop - start])
            position += stop - start

    def guesses(self, rows: Mapping[tuple[int, int], Int64s]) -> list[ByteRange]:
        """Return the byte ranges in which rows of far pages probably are.

        Args:
            rows: rows of each far page, counted from the page's first row; the keys are items of
                `unknown`.
        """
        return [
            ByteRange(self._path_of(number), start, stop)
            for number in self._kernel.far
            for start, stop in self._kernel.guess(number, rows[self.unknown[number]])
        ]

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
        """Return the byte ranges of the states of all far or all near pages; None if empty."""
        files, ends, starts, stops, num_bytes = self._kernel.spans(far)
        if not files:
            return None
        paths = [*self._containers]
        return Pieces([*map(paths.__getitem__, files)], ends, starts, stops, num_bytes)

    def _learn_held(self, held: Sequence[_kernels.HeldFile]) -> None:
        """Learn the far pages whose bytes are held.

        Args:
            held: bytes of each file, in the order of `_containers`.

        Raises:
            CorruptFileError: a page's state contradicts the format.
        """
        self._kernel.hold(held)
        files, ends, starts, stops, _ = self._kernel.spans(far=False)
        of_files = [*map(held.__getitem__, files)]
        self._learn(_kernels.gather(of_files, ends, starts, stops).data, far=False)

    def _learn(self, content: memoryview, *, far: bool) -> None:
        try:
            grown = self._kernel.learn(content, far)
        except ValueError as error:
            raise self._corrupt(error) from None
        if not grown:
            return
        fragments = [self._owners[owner][1] for owner in {*map(_OWNER, self.unknown)}]
        for fragment in fragments:
            fragment.has_grown = True
        if not all(map(_IS_OWN, fragments)):
            for file, num_bytes in grown:
                keep_grown(self._files[file], num_bytes, self._states)

    def _path_of(self, number: int) -> str:
        at, fragment = self._owners[self.unknown[number][0]]
        return fragment.containers[at].path

    def _place(self) -> PagePlace:
        """Return the location of the page in which the kernel has found an error."""
        owner, number = self.unknown[self._kernel.page]
        at, fragment = self._owners[owner]
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
        at, fragment = self._owners[owner]
        column, path = fragment.tables.number(at), fragment.containers[at].path
        error.add_note(f"in page {page} of column {column} of {path}")
        own = fragment.own.ids[at]
        for field in fragment.schema.fields:
            if any(leaf.field.id == own for leaf in leaf_columns(field)):
                error.add_note(f"in field {field.name!r}")


def _fill_older(at: int, fragment: OpenFragment, number: int) -> bool:
    """Put a page of 2.0 into its leaf's table, or drop the table if the kernel cannot read it.

    Returns False if this call dropped the table.

    Raises:
        CorruptFileError: the page's description contradicts the format.
        UnsupportedError: the page has an unknown encoding.
    """
    column, table = fragment.older(at), fragment.tables.usable(at)
    assert column is not None
    if table is None:
        return True
    fragment.has_grown = True
    if column.fill(table, number):
        return True
    fragment.drop([at])
    return False

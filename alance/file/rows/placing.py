"""Placing of rows: kernel calls look rows up in the page tables of open fragments."""

from __future__ import annotations

from itertools import chain, islice, pairwise, product
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.files import bytes_at_hand
from alance.file.open.new_pages import MOST_BYTES, PAGE_GAP_BYTES, NewPages, new_pages
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.format.plans import PLANS_A_TURN, TURN, ByteRange, Pieces, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.rows.field_forms import FieldForms
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan

FEW_PIECES: Final = 16  # maximum number of pieces to request as ranges even if small
LARGE_BYTES: Final = 32 << 10  # mean piece size above which a copy costs more than a request
_CONTAINERS, _PATH_OF, _TABLES_OF = map(attrgetter, ("containers", "path", "tables"))


class PageBytes:
    """Bytes read from the pages of files; each byte is requested once."""

    def __init__(self, containers: Iterable[Container]) -> None:
        self._containers = {container.path: container for container in containers}
        self._files = {
            path: _kernels.HeldFile([0], [container.content])
            if container.is_whole
            else _kernels.HeldFile([], [])
            for path, container in self._containers.items()
        }

    def of(self, paths: Sequence[str]) -> list[_kernels.HeldFile]:
        """Return the bytes read so far of the files at these paths."""
        return [*map(self._files.__getitem__, paths)]

    def read(self, ranges: Sequence[ByteRange]) -> Plan[None]:
        """Plan ranges: one round."""
        for part, content in zip(ranges, (yield ranges), strict=True):
            kept_bytes = memoryview(content.obj).nbytes  # of the response that it is a part of
            self._files[part.path].add(part.start, content, kept_bytes)

    def read_rows(
        self, plan: _kernels.RowPlan, paths: Sequence[str], *, places: bool = False
    ) -> Plan[None]:
        """Plan the bytes that a row plan needs and that were not read yet: at most one round.

        Few or large pieces are requested as ranges, and used without a copy. Many small pieces are
        requested as one buffer per file, because a range costs about as much as a request.

        Args:
            paths: file of each table of the row plan.
            places: True to read the index entries that the row plan lacks, instead of its rows.
        """
        numbers = dict(zip(self._files, range(len(self._files)), strict=True))
        files = [*map(numbers.__getitem__, paths)]
        ends, starts, stops = plan.missing([*self._files.values()], files, PAGE_GAP_BYTES, places)
        by_path = [
            (path, starts[first:end], stops[first:end])
            for path, (first, end) in zip(self._files, pairwise([0, *ends]), strict=True)
            if first < end and not self._containers[path].is_whole
        ]
        if not by_path:
            return
        if len(starts) <= FEW_PIECES or (stops - starts).sum() >= LARGE_BYTES * len(starts):
            parts = [
                ByteRange(path, begin, min(begin + MOST_BYTES, stop))
                for path, first, last in by_path
                for start, stop in zip(first.tolist(), last.tolist(), strict=True)
                for begin in range(start, stop, MOST_BYTES)
            ]
            yield from self.read(parts)
        else:
            contents = yield [Pieces.of(*of_file) for of_file in by_path]
            for content, (path, first, last) in zip(contents, by_path, strict=True):
                self._files[path].add_pieces(first, last, content)


class Placing(NamedTuple):
    """Rows of fields of similar fragments, which one kernel call places.

    Attributes:
        containers: file of each table of the plan.
        rows: row offsets of all fragments, concatenated; or ranges of rows, ascending, not empty.
        ends: end of each fragment's items in `rows`.
        is_whole: True if the fields' files are completely in memory.
    """

    fragments: Sequence[OpenFragment]
    containers: Sequence[Container]
    rows: Int64s | Sequence[tuple[int, int]]
    ends: Sequence[int]
    fields: FieldForms
    is_whole: bool = False

    @classmethod
    def of(
        cls,
        fragments: Sequence[OpenFragment],
        rows: Int64s | Sequence[tuple[int, int]],
        ends: Sequence[int],
        fields: FieldForms,
        is_whole: bool = False,
    ) -> Placing:
        by_leaf = [*zip(*map(_CONTAINERS, fragments), strict=True)]
        containers = [*chain.from_iterable(map(by_leaf.__getitem__, fields.leaves))]
        return cls(fragments, containers, rows, ends, fields, is_whole)

    @property
    def paths(self) -> list[str]:
        """Path of the file of each table of the plan."""
        return [*map(_PATH_OF, self.containers)]

    def place(
        self, content: PageBytes | None = None, *, is_partial: bool = False
    ) -> _kernels.RowPlan:
        """Place the rows. The plan's `unknown` has the pages of unknown state.

        Args:
            content: bytes read so far, including entries of pages' indices; None if there are none.
            is_partial: True to place single rows of known pages even if there are unknown ones.

        Raises:
            CorruptFileError: the pages contradict each other.
        """
        leaves, tables = self.fields.leaves, [*map(_TABLES_OF, self.fragments)]
        held = [] if content is None else content.of(self.paths)
        try:
            if isinstance(self.rows, np.ndarray):
                return _kernels.plan_rows(tables, leaves, self.rows, self.ends, held, is_partial)
            return _kernels.plan_spans(tables, leaves, self.rows, self.ends, held)
        except ValueError as error:
            files = self.paths[:1] if len(self.fragments) > 1 else dict.fromkeys(self.paths)
            raise CorruptFileError(f"{', '.join(files)}: {error}") from error

    def columns(self, plan: _kernels.RowPlan, content: PageBytes | None = None) -> PlacedColumns:
        """Return the placed rows.

        They have their bytes if the files are completely in memory, or if `content` has the bytes.

        Raises:
            CorruptFileError: a page does not have values of its field's type.
        """
        paths = self.paths
        self.fields.check(plan, paths)
        rows = PlacedRows(plan, paths, content.of(paths) if content is not None else None)
        if self.is_whole and not rows.is_read:
            by_path = dict(zip(paths, self.containers, strict=True))
            rows.content = bytes_at_hand(rows.pieces, by_path)
        return PlacedColumns(rows, self.fields, range(len(self.fields.leaves)))


def unknown_pages(
    placings: Sequence[Placing], unknown: Iterable[Sequence[tuple[int, int]]], states: States
) -> Plan[list[NewPages]]:
    """Wrap pages of unknown state, to load them together; no round, but turns if there are many.

    Args:
        unknown: for each of `placings`, pages as in `RowPlan.unknown`.
    """
    owners: list[tuple[int, OpenFragment]] = []
    pages: list[tuple[int, int]] = []
    for placing, own in zip(placings, unknown, strict=True):
        pages += [(len(owners) + table, page) for table, page in own] if owners else own
        owners += product(placing.fields.leaves, placing.fragments)
    return (yield from new_pages(owners, pages, states))


def complete_plans(
    placings: Sequence[Placing],
    states: States,
    content: PageBytes | None = None,
    *,
    spans: Sequence[tuple[int, int]] = (),
    guess: bool = False,
) -> Plan[tuple[list[_kernels.RowPlan], PageBytes | None]]:
    """Place rows, and learn what is unknown of their pages.

    Returns complete plans, and the bytes of rows that were read together with page states; None if
    there are none.

    Cost: no round if page states are known, else one; one more if a page's index is too large to
    hold in memory, and for items of sparse pages.

    Args:
        content: reads rows of known pages in the same round as states, and also small pages inside
            of `spans`.
        guess: True to read rows of known pages, and where rows of unknown pages probably are, in
            the same round as states.
    """
    held: PageBytes | None = None
    while True:
        plans: list[_kernels.RowPlan] = []
        unknown: list[Sequence[tuple[int, int]]] = []
        lacking: list[tuple[_kernels.RowPlan, Sequence[str]]] = []
        num_unknown = 0
        for placing in placings:
            if plans:
                yield TURN
            plan = placing.place(held, is_partial=guess)
            plans.append(plan)
            unknown.append(plan.unknown)
            num_unknown += len(unknown[-1])
            if plan.lacks_places:
                lacking.append((plan, placing.paths))
        if not (num_unknown or lacking):
            return plans, content
        held = held or content
        if held is None and (guess or not num_unknown):
            held = PageBytes(chain.from_iterable(map(_CONTAINERS, placings)))
        if not num_unknown:
            assert held is not None
            yield from together([held.read_rows(*own, places=True) for own in lacking])
            continue
        if num_unknown > PLANS_A_TURN:
            yield TURN
        new, missing = (yield from unknown_pages(placings, unknown, states)), list[NewPages]()
        for pages in new:
            if num_unknown > PLANS_A_TURN:
                yield TURN
            if pages.fill_known():
                missing.append(pages)
        if not missing:
            continue
        loads, ranges = [pages.learn() for pages in missing], list[ByteRange]()
        if guess:
            content, guess = held, False
            rows = iter([plan.unknown_rows(n) for plan in plans for n in range(len(plan.unknown))])
            for pages in new:
                ranges += pages.guesses([*islice(rows, len(pages.unknown))])
        elif content is not None:
            for pages in missing:
                if ranges:
                    yield TURN
                ranges += pages.rest(pages.small(spans))
        if content is not None:
            pairs = zip(plans, placings, strict=True)
            loads += [content.read_rows(plan, placing.paths) for plan, placing in pairs]
        if content is not None and ranges:
            loads.append(content.read(ranges))
        yield from together(loads)
        if num_unknown > PLANS_A_TURN:
            yield TURN

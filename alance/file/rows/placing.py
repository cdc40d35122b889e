"""Plans that find and read rows of open fragments, single ones or ranges.

One kernel call places rows: it looks them up in all page tables of similar fragments, and returns
the bytes to read, and the pages of unknown state. Those states are read from the caches, or in
another round. Another call decodes the bytes into a record batch, so the Python work does not
depend on the number of columns. Fields of 2.0 and 0.1 that the kernel cannot decode have separate
plans, which run concurrently.

Every take uses `placed_rows`. On stores where a round is expensive, it guesses the positions of
rows in pages of unknown state. Scans, which read a fragment in parts, and lookups use
`read_ranges`.
"""

from __future__ import annotations

from itertools import accumulate, chain, groupby, islice, pairwise, product
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.open.new_pages import MOST_BYTES, PAGE_GAP_BYTES, NewPages, new_pages
from alance.file.rows.leaves import FieldForms
from alance.file.rows.tasks import FragmentTask, PlacedColumns
from alance.format.plans import PLANS_A_TURN, TURN, ByteRange, Pieces, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.open.columns import States
    from alance.file.rows.fragment import OpenFragment
    from alance.format.container import Container
    from alance.format.plans import Plan
    from alance.format.schema import Schema
    from alance.format.v2_0.fields import FieldPiece

FEW_PIECES: Final = 16  # maximum number of pieces to request as ranges even if small
TABLES_A_TURN: Final = 2 << 10  # tables of a plan that has turns of its own; 16 000 take 2 to 5 ms
FEW_FRAGMENTS: Final = 512  # fragments whose rows are placed and decoded in 2 ms
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
    def is_large(self) -> bool:
        """True if the plan has so many tables that a call takes a turn of the loop."""
        return len(self.containers) >= TABLES_A_TURN

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
        """Return the placed rows, with their bytes if `content` or the files have these in memory.

        Raises:
            CorruptFileError: a page does not have values of its field's type.
        """
        paths = self.paths
        self.fields.check(plan, paths)

        def files() -> Sequence[_kernels.HeldFile]:
            return (content or PageBytes(self.containers)).of(paths)

        are_held = content is not None or self.is_whole
        return PlacedColumns(plan, paths, self.fields, files if are_held else None)


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
            if plans or placing.is_large:
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


def load_states(
    fragment: OpenFragment,
    spans: Sequence[tuple[int, int]],
    states: States,
    *,
    with_small: bool = False,
    most_bytes: int | None = None,
) -> Plan[None]:
    """Plan the unknown page states of ranges of rows: at most one round.

    Args:
        spans: ascending, not empty.
        with_small: False to skip small pages inside a range, because `read_ranges` reads these
            whole.
        most_bytes: maximum bytes of a state to load; None for no limit.
    """
    rows, fields = joined_spans(spans), fragment.forms
    if not (rows and fields.forms):
        return
    placing = Placing.of([fragment], rows, [len(rows)], fields)
    loads: list[Plan[None]] = []
    for pages in (yield from unknown_pages([placing], [placing.place().unknown], states)):
        if loads:
            yield TURN
        far = pages.fill_known()
        skipped = () if with_small else {*pages.small(spans)}
        chosen = [
            number
            for number in far
            if number not in skipped
            and (most_bytes is None or pages.num_bytes(number) <= most_bytes)
        ]
        if len(chosen) < len(far):
            pages = NewPages(pages.owners, [pages.unknown[number] for number in chosen], states)
            yield from pages.find()
        loads.append(pages.learn())
    yield from together(loads)


def page_states(
    fragment: OpenFragment, states: States, most_bytes: int | None = None
) -> Plan[None]:
    """Plan the unknown page states of all rows; see `load_states`."""
    rows = [(0, fragment.num_rows)] if fragment.num_rows else []
    return load_states(fragment, rows, states, with_small=True, most_bytes=most_bytes)


def read_ranges(
    fragment: OpenFragment,
    parts: Sequence[Sequence[tuple[int, int]]],
    states: States,
    *,
    is_read: bool = True,
) -> Plan[list[PlacedColumns] | None]:
    """Plan ranges of rows with their bytes, in parts that are decoded separately.

    A small page inside the ranges is read once, completely. Returns None if there are no ranges, or
    if the kernel can build no field.

    Cost: one round if the plans of `load_states` have run, else two; one more if a page's index is
    too large to hold in memory.

    Args:
        parts: ranges of each part; ascending over all parts, not empty.
        is_read: False to find where the bytes of a single part are, without reading them; the last
            round is saved.
    """
    rows, fields = [*chain.from_iterable(parts)], fragment.forms
    if not (rows and fields.forms):
        return None
    placing = Placing.of([fragment], rows, [len(rows)], fields)
    content = PageBytes(placing.containers) if is_read else None
    plans, _ = yield from complete_plans([placing], states, content, spans=joined_spans(rows))
    if content is not None:
        yield from content.read_rows(plans[0], placing.paths)
    if len(parts) > 1:
        of_parts = [placing._replace(rows=part, ends=[len(part)]) for part in parts]
        plans = [own.place(content) for own in of_parts]
    return [placing.columns(own, content) for own in plans]


PLACED_AT_ONCE: Final = 1 << 17  # rows times columns that a call places: 1 to 4 milliseconds
# Fragments for which these are equal can be read by the same plans.
_KEYS: Final = [*map(attrgetter, ("own.ids", "placed", "whole"))]
# Above this number of guesses, wasted bytes cost more than a round of 30 ms.
GUESSED_PLACES: Final = 64


def placed_rows(
    schema: Schema,
    fragments: Sequence[OpenFragment],
    rows: Int64s,
    ends: Sequence[int],
    states: States,
    *,
    guess: bool,
) -> Plan[list[FragmentTask]]:
    """Plan single rows, with one task per group of similar consecutive fragments.

    Cost: no round if page states are known, else one, or two for some kinds of pages; and one more
    if a page's index is too large to hold in memory. The bytes of the tasks' `unread` rows are not
    read, except with `guess` if fields that the kernel does not decode have to be read.

    Args:
        rows: physical row offsets of all fragments, concatenated; sorted and unique in each
            fragment.
        ends: end of each fragment's offsets in `rows`.
        guess: True to guess the positions of a few rows in pages of unknown state, because a round
            is expensive.

    Raises:
        CorruptFileError: a page's description or state contradicts the format.
        UnsupportedError: a page has an unknown layout or encoding.
    """
    are_many = len(fragments) > FEW_FRAGMENTS
    if are_many:
        yield TURN
    runs = _runs(fragments, rows, ends)
    if are_many:
        yield TURN
    batches = [*map(_FragmentRun.batches, runs)]
    beside = [*map(_FragmentRun.beside, runs)]
    is_guessed = guess and sum([run.num_places for run in runs]) <= GUESSED_PLACES
    reading: list[Plan[Any]] = [
        _placed(
            [*chain.from_iterable(batches)],
            states,
            guess=is_guessed,
            is_read=guess and any(beside),
        )
    ]
    if any(beside):
        reading += map(read_beside, beside)
    placed, *others = yield from together(reading)
    columns = iter(placed)
    return [
        FragmentTask(schema, len(run.rows), of_run, [*islice(columns, len(own))])
        for run, own, of_run in zip(runs, batches, others or [{}] * len(runs), strict=True)
    ]


class _FragmentRun(NamedTuple):
    """Rows of consecutive fragments that the same plans can read.

    The fragments have tables for the same leaves, and have the same leaves in files that are
    completely in memory.

    Attributes:
        rows: row offsets of all fragments, concatenated.
        ends: end of each fragment's offsets in `rows`.
    """

    fragments: Sequence[OpenFragment]
    rows: Int64s
    ends: Sequence[int]

    @property
    def num_places(self) -> int:
        """Number of columns times the number of runs of consecutive rows."""
        num_spans = 1 + int(np.count_nonzero(np.diff(self.rows) != 1))
        return num_spans * len(self.fragments[0].containers)

    def batches(self) -> list[Placing]:
        """Split the fields into batches, each for one kernel call."""
        if not len(self.rows):
            return []
        batches, step = [], max(1, PLACED_AT_ONCE // len(self.rows))
        for part, is_whole in self.fragments[0].by_file():
            several = [part]
            if len(part.leaves) > step:
                cuts = [at // step for at in accumulate([len(form.leaves) for form in part.forms])]
                groups = groupby(zip(cuts, part.forms, strict=True), itemgetter(0))
                several = [FieldForms.of([form for _, form in group]) for _, group in groups]
            batches += [
                Placing.of(self.fragments, self.rows, self.ends, fields, is_whole)
                for fields in several
            ]
        return batches

    def beside(self) -> dict[int, list[Plan[FieldPiece]]]:
        """Return plans of the fields that the kernel does not decode, by field id."""
        if not (self.fragments[0].older and len(self.rows)):
            return {}
        rows = [self.rows[first:last] for first, last in pairwise([0, *self.ends])]
        taken = [pair for pair in zip(self.fragments, rows, strict=True) if len(pair[1])]
        return {
            self.fragments[0].own.ids[at]: [own.older[at].take(rows) for own, rows in taken]
            for at in self.fragments[0].beside
        }


def _runs(
    fragments: Sequence[OpenFragment], rows: Int64s, ends: Sequence[int]
) -> list[_FragmentRun]:
    """Group consecutive fragments that the same plans can read."""
    if len(fragments) == 1:
        return [_FragmentRun(fragments, rows, ends)]
    runs, first, begin = [], 0, 0
    for _, alike in groupby(zip(*[map(key, fragments) for key in _KEYS], strict=True)):
        last = first + len([*alike])
        own_ends = [end - begin for end in ends[first:last]] if first else ends[:last]
        end = ends[last - 1]
        runs.append(_FragmentRun(fragments[first:last], rows[begin:end], own_ends))
        first, begin = last, end
    return runs


def _placed(
    batches: Sequence[Placing], states: States, *, guess: bool, is_read: bool
) -> Plan[list[PlacedColumns]]:
    """Plan single rows of fields; their bytes are not read unless positions had to be guessed.

    Args:
        is_read: True to read the bytes in any case.
    """
    plans, content = yield from complete_plans(batches, states, guess=guess)
    columns: list[PlacedColumns] = []
    for batch, plan in zip(batches, plans, strict=True):
        if columns or batch.is_large:
            yield TURN
        columns.append(batch.columns(plan, content))
    if content is not None:
        yield from together([content.read_rows(own.plan, own.paths) for own in columns])
    elif is_read:
        yield from fetch_placed([own for own in columns if not own.is_read])
    return columns


def read_beside(
    plans: Mapping[int, Sequence[Plan[FieldPiece]]],
) -> Plan[dict[int, Sequence[FieldPiece]]]:
    """Run the plans of fields in files of 2.0 and 0.1, by field id, in the same rounds."""
    pieces = iter((yield from together([*chain.from_iterable(plans.values())])))
    return {field_id: [next(pieces) for _ in own] for field_id, own in plans.items()}


def fetch_placed(unread: Sequence[PlacedColumns]) -> Plan[None]:
    """Plan the bytes of placed columns in one round; no round if `unread` is empty."""
    if unread:
        contents = yield [columns.pieces for columns in unread]
        for columns, content in zip(unread, contents, strict=True):
            columns.content = content

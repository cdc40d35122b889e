"""Rows of a fragment: the columns of all its data files, decoded as one Arrow batch.

Fields are looked up by id in the fragment's files; a field that no file has is null. All files of a
fragment have the same rows.
"""

from __future__ import annotations

import threading
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from alance import _kernels
from alance.errors import CorruptFileError
from alance.file.older.entry import open_older
from alance.file.open.columns import ScanStates
from alance.file.open.files import FILES_A_TURN, FileOf, open_columns_of, open_files
from alance.file.rows.leaves import LeafSet
from alance.file.rows.placing import fetch_placed, placed_rows, read_beside, read_ranges
from alance.file.rows.tasks import FragmentTask
from alance.file_version import FileVersion
from alance.format.plans import PLANS_A_TURN, TURN, together

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.file.older.v2_0 import FieldColumn
    from alance.file.open.columns import States
    from alance.file.rows.leaves import FieldForms
    from alance.format.container import Container
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Plan
    from alance.format.schema import Schema

    _Part: TypeAlias = tuple[Container, Sequence[int | None], int | None]

_CONTENT_START, _COLUMNS = map(attrgetter, ("content_start", "columns"))


class FileSource(NamedTuple):
    """Data file of a fragment: its location, and the column index of each field."""

    location: str
    file_bytes: int  # exact
    columns: Mapping[int, int]  # field id -> column index


class OpenFragment:
    """A fragment with open columns of a projection. Immutable, but learns page states.

    Attributes:
        num_rows: physical rows, deleted ones included.
        own: leaves of the projection that the fragment has.
        containers: file of each leaf.
        tables: page table of each leaf.
        is_own: True if the tables are copies of which no cache knows.
        placed: places of the leaves with tables, from which the kernel can take rows.
        older: fields in files of 2.0 and 0.1, by the place of the leaf.
        whole: True for each leaf whose file is in memory whole; a single bool if all leaves agree.
        encoded_bytes: bytes of all pages of the projection.
        row_bytes: estimated memory of a decoded row: of each leaf the larger of its encoded and
            fixed-width bytes, because a constant page has no encoded bytes.
        has_grown: True if pages were learned since the memory of the tables was last measured.
        lock: held by a thread while it learns pages.
    """

    __slots__ = (
        "_forms",
        "containers",
        "encoded_bytes",
        "has_grown",
        "is_own",
        "lock",
        "num_rows",
        "older",
        "own",
        "placed",
        "row_bytes",
        "schema",
        "tables",
        "whole",
    )

    def __init__(
        self,
        schema: Schema,
        num_rows: int,
        own: LeafSet,
        containers: Sequence[Container],
        tables: _kernels.LeafTables,
        *,
        is_own: bool = False,
        older: Mapping[int, FieldColumn] | None = None,
    ) -> None:
        self.schema = schema
        self.num_rows = num_rows
        self.own = own
        self.containers = containers
        self.tables = tables
        self.is_own = is_own
        self.placed = tables.placed
        self.whole: bool | Sequence[bool] = not any(map(_CONTENT_START, containers))
        if not (self.whole or all(map(_CONTENT_START, containers))):
            self.whole = [container.is_whole for container in containers]
        self.older = older or {}
        self.encoded_bytes = sum(tables.sizes)
        self.row_bytes = tables.row_bytes(num_rows, own.row_bytes)
        self.has_grown = True
        self.lock = threading.Lock()
        self._forms: FieldForms | None = None

    @property
    def beside(self) -> list[int]:
        """Places of the leaves that the kernel cannot decode, in files of 2.0 and 0.1."""
        decoded = {*self.forms.leaves}
        return [at for at in self.older if at not in decoded]

    @property
    def forms(self) -> FieldForms:
        """Fields whose rows the kernel can decode with the current page tables."""
        if self._forms is None:
            forms = self.own.forms
            if len(self.placed) < len(self.own.ids):
                placed = {*self.placed}
                forms = forms.only([placed.issuperset(form.leaves) for form in forms.forms])
            self._forms = forms
        return self._forms

    def by_file(self) -> list[tuple[FieldForms, bool]]:
        """Split `forms` into those with all files in memory whole (True), and the others (False).

        Omits an empty part.
        """
        forms = self.forms
        if isinstance(self.whole, bool):
            return [(forms, self.whole)] if forms.forms else []
        are_whole = [all(map(self.whole.__getitem__, form.leaves)) for form in forms.forms]
        parts = [
            (forms.only([way is is_whole for way in are_whole]), is_whole)
            for is_whole in (True, False)
        ]
        return [part for part in parts if part[0].forms]

    @property
    def num_bytes(self) -> int:
        """Memory of the columns and their page states in bytes."""
        return 400 + 8 * len(self.containers) + self.tables.num_bytes

    @property
    def page_rows(self) -> int:
        """Rows of the first page of the first column; all rows if there is no such page."""
        column = self.tables.column(0) if self.containers else None
        return self.num_rows if column is None or not len(column) else max(1, column.page(0)[1])

    def take(self, rows: Int64s, states: States, *, guess: bool = True) -> Plan[FragmentTask]:
        """Plan single rows with all their bytes; see `placed_rows`."""
        placing = placed_rows(self.schema, [self], rows, [len(rows)], states, guess=guess)
        (task,) = yield from placing
        yield from fetch_placed(task.unread)
        return task

    def read(
        self, start: int, stop: int, states: States, *, is_read: bool = True
    ) -> Plan[FragmentTask]:
        """Plan the physical rows from `start` to `stop`; arguments are those of `read_parts`."""
        return self.read_spans([(start, stop)] if start < stop else [], states, is_read=is_read)

    def read_spans(
        self, spans: Sequence[tuple[int, int]], states: States, *, is_read: bool = True
    ) -> Plan[FragmentTask]:
        """Plan ranges of physical rows as consecutive rows of one task.

        Args:
            spans: ascending, not empty.
            is_read: as for `read_parts`.
        """
        (task,) = yield from self.read_parts([spans], states, is_read=is_read)
        return task

    def read_parts(
        self, parts: Sequence[Sequence[tuple[int, int]]], states: States, *, is_read: bool = True
    ) -> Plan[list[FragmentTask]]:
        """Plan ranges of physical rows that are fetched together, but decoded as several tasks.

        Args:
            parts: ranges of each task, as for `read_spans`; ascending over all parts.
            is_read: False to leave the bytes of a single part to the tasks' `unread`.
        """
        plans: list[Plan[Any]] = [read_ranges(self, parts, states, is_read=is_read)]
        if self.older:
            columns = [self.older[at] for at in self.beside]
            plans += [
                read_beside({column.field.id: [column.read(spans)] for column in columns})
                for spans in parts
            ]
        ranged, *others = yield from together(plans)
        placed = [(own,) for own in ranged] if ranged else [()] * len(parts)
        return [
            FragmentTask(self.schema, sum(stop - start for start, stop in spans), own, rows)
            for spans, own, rows in zip(parts, others or [{}] * len(parts), placed, strict=True)
        ]


class ToOpen(NamedTuple):
    """A fragment to open: its files, its physical rows, and the cache for facts about the files.

    Fragments that are opened together have caches that are views of the same cache.
    """

    files: Sequence[FileSource]
    num_rows: int
    states: States


def open_fragment(
    schema: Schema, files: Sequence[FileSource], num_rows: int, states: States
) -> Plan[OpenFragment]:
    """Plan the opening of a fragment; see `open_fragments`."""
    (opened,) = yield from open_fragments(schema, [ToOpen(files, num_rows, states)])
    return opened


def open_fragments(schema: Schema, to_open: Sequence[ToOpen]) -> Plan[list[OpenFragment]]:
    """Plan the opening of fragments for a projection.

    Cost: no round if the caches have the files; else one, or two if a file's tail lacks metadata.

    Raises:
        CorruptFileError: a column does not have as many rows as its fragment.
    """
    every = LeafSet.of_schema(schema)
    are_many = len(to_open) > FILES_A_TURN
    if are_many:
        yield TURN
    files: list[tuple[int, FileSource]] = [
        (number, source)
        for number, (sources, _, _) in enumerate(to_open)
        for source in sources
        if not (
            every.places.keys().isdisjoint(source.columns)
            and every.packed.isdisjoint(source.columns)
        )
    ]
    if not files:
        return [_of_columns(schema, every, (), fragment) for fragment in to_open]
    cache = to_open[0].states
    if are_many:
        yield TURN
    containers = yield from open_files([FileOf(*source[:2]) for _, source in files], cache)
    if are_many:
        yield TURN
    newer: list[tuple[Container, Sequence[int]]] = []
    older: list[Plan[Any]] = []
    # Of each fragment: its files, the columns of their leaves, and the numbers of plans in `older`.
    parts: list[list[_Part]] = [[] for _ in to_open]
    for (number, source), container in zip(files, containers, strict=True):
        place = None
        indices = [*map(source.columns.get, every.ids)]
        if container.version < FileVersion.V2_1:  # columns store whole fields, not leaves
            place = len(older)
            older.append(open_older(schema.fields, source.columns, container, cache))
        else:
            own = [at for at in indices if at is not None] if None in indices else indices
            newer.append((container, cast("list[int]", own)))
        parts[number].append((container, indices, place))
        if number % FILES_A_TURN == FILES_A_TURN - 1:
            yield TURN
    fields: list[list[FieldColumn]] = []
    if older:
        _, *fields = yield from together([open_columns_of(newer, cache), *older])
    else:
        yield from open_columns_of(newer, cache)
    if len(every.ids) * len(files) > PLANS_A_TURN:
        yield TURN
    fragments = []
    for number, (own_parts, fragment) in enumerate(zip(parts, to_open, strict=True), 1):
        if older and any(place is not None for _, _, place in own_parts):
            fragments.append(_with_older(schema, every, own_parts, fields, fragment.num_rows))
        else:
            fragments.append(_of_columns(schema, every, own_parts, fragment))
        if number % PLANS_A_TURN == 0:
            yield TURN
    return fragments


def _of_columns(
    schema: Schema, every: LeafSet, parts: Sequence[_Part], fragment: ToOpen
) -> OpenFragment:
    """Build a fragment of files of 2.1 and later, in which each leaf has its own column."""
    num_rows, states = fragment[1:]
    files, columns, _ = zip(*parts, strict=True) if parts else [()] * 3
    tables = _kernels.LeafTables([*map(_COLUMNS, files)], columns, every.times)
    own = every.part(schema, tables.leaves)
    containers = [*map(files.__getitem__, tables.files)]
    misfit = tables.misfit(num_rows)
    if misfit is not None:
        at, rows = misfit
        raise _other_rows(own.columns[at], containers[at], rows, num_rows)
    is_own = isinstance(states, ScanStates) and not states.shares(tables)
    if is_own:
        tables = tables.copy()
    return OpenFragment(schema, num_rows, own, containers, tables, is_own=is_own)


def _with_older(
    schema: Schema,
    every: LeafSet,
    parts: Sequence[_Part],
    older: Sequence[Sequence[FieldColumn]],
    num_rows: int,
) -> OpenFragment:
    """Build a fragment with files of 2.0 or 0.1, which store whole fields."""
    from alance.file.older.v2_0 import FieldColumn, merged, refuse_mixed

    by_field: dict[int, FieldColumn | _NewerLeaf] = {}
    for container, columns, number in parts:
        own = [
            _NewerLeaf(leaf, container, container.columns.column(index))
            for leaf, index in zip(every.columns, columns, strict=True)
            if number is None and index is not None
        ]
        for leaf in own if number is None else older[number]:
            twin = by_field.get(leaf.leaf.field.id)
            if isinstance(leaf, FieldColumn) and isinstance(twin, FieldColumn):
                leaf = merged(twin, leaf)
            by_field[leaf.leaf.field.id] = leaf
    if len(parts) > 1:
        refuse_mixed(schema.fields, by_field)
    ids = dict.fromkeys([*every.ids, *[field.id for field in schema.fields]])
    leaves = [by_field[field_id] for field_id in ids if field_id in by_field]
    for leaf in leaves:
        if leaf.num_rows != num_rows * leaf.leaf.multiplier:
            raise _other_rows(leaf.leaf, leaf.container, leaf.num_rows, num_rows)
    leaf_set = LeafSet.of_columns(schema, [leaf.leaf for leaf in leaves])
    tables = _kernels.LeafTables([leaf.listed() for leaf in leaves])
    containers = [leaf.container for leaf in leaves]
    fields = {at: leaf for at, leaf in enumerate(leaves) if isinstance(leaf, FieldColumn)}
    return OpenFragment(schema, num_rows, leaf_set, containers, tables, older=fields)


class _NewerLeaf(NamedTuple):
    """Leaf in a file of 2.1 or later, of a fragment that has older files, too."""

    leaf: LeafColumn
    container: Container
    pages: _kernels.ColumnPages

    @property
    def num_rows(self) -> int:
        return self.pages.num_rows

    def listed(self) -> tuple[_kernels.ColumnPages, int, int]:
        """Return the same facts as `FieldColumn.listed`."""
        self.pages.set_times(self.leaf.multiplier)
        return self.pages, self.pages.buffer_bytes, self.pages.num_bytes


def _other_rows(
    leaf: LeafColumn, container: Container, rows: int, num_rows: int
) -> CorruptFileError:
    return CorruptFileError(
        f"field {leaf.field.name!r} in {container.path}: {rows} rows, the fragment has {num_rows}"
    )

"""Rows of a fragment: the columns of all its data files, decoded as one Arrow batch.

Fields are looked up by id in the fragment's files; a field that no file has is null. All files of a
fragment have the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from alance.errors import AlanceError, CorruptFileError
from alance.file.batches import completed, empty_columns, in_order, leaf_bytes, one_array
from alance.file.older.entry import holds_packed_lists, is_older, merged, open_older, refuse_mixed
from alance.file.open.columns import OpenColumn
from alance.file.open.files import ColumnsOf, FileOf, open_columns_of, open_files
from alance.file.open.page_tables import PageTables
from alance.file.rows.leaves import OpenLeaf, Parts
from alance.file.rows.placed_rows import fetch_placed, placed_rows
from alance.file.rows.ranged import loads_of_range, read_ranges
from alance.format.layouts.fields import LeafColumn, assemble, leaf_columns
from alance.format.plans import PLANS_A_TURN, TURN, all_read, joined_spans, together

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa

    from alance.arrays import Int64s
    from alance.file.older.v2_0 import FieldRows
    from alance.file.open.columns import States
    from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
    from alance.format.field import Field
    from alance.format.layouts.base import DecodeTask, PageValues
    from alance.format.plans import Pieces, Plan, Reader
    from alance.format.schema import Schema

    Found: TypeAlias = list[DecodeTask] | FieldRows | Parts


class FileSource(NamedTuple):
    """Data file of a fragment: its location, and the column index of each field."""

    location: str
    file_bytes: int  # exact size
    columns: dict[int, int]  # field id -> column index


class FragmentTask(NamedTuple):
    """Rows of a fragment to decode in the pool, fetched or in a local file."""

    schema: Schema
    num_rows: int
    leaves: dict[int, Found]  # by field id of the leaf; for files of 2.0, of the top-level field
    columns: Sequence[PlacedColumns] = ()  # all other leaves, which the kernel decodes

    @property
    def num_bytes(self) -> int:
        """Number of encoded bytes to decode."""
        at_once = sum([columns.num_bytes for columns in self.columns])
        return at_once + sum(map(encoded_bytes, self.leaves.values()))

    @property
    def unread(self) -> list[PlacedRows]:
        """Distinct placed rows whose bytes have not been read yet."""
        placed: dict[int, PlacedRows] = {}
        for columns in self.columns:
            if not columns.placed.is_read:
                placed[id(columns.placed)] = columns.placed
        return [*placed.values()]

    @property
    def unread_pieces(self) -> list[Pieces]:
        """Byte ranges that have not been read yet, for the fields of this task."""
        columns = [own for own in self.columns if not own.placed.is_read]
        return [own.placed.pieces_of_columns(own.columns) for own in columns]

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows.

        Args:
            read: opens the bytes of `unread` rows.
            order: numbers of the rows to return, in this order; None for all rows.

        Raises:
            CorruptFileError: the bytes contradict the format.
            BatchTooLargeError: strings have more bytes than 32-bit offsets can address.
        """
        if not self.schema.fields:
            return empty_columns(self.num_rows if order is None else len(order))
        decoded = []
        for own in self.columns:
            if own.placed.plan.is_ranges:
                batch = in_order(own.decode(read, self.schema), order)
            else:
                batch = own.decode(read, self.schema, order)
            decoded.append((own.fields.fields, batch))
        batch = completed(self.schema, decoded, lambda field: in_order(self.column(field), order))
        assert batch is not None
        return batch

    def only(self, schema: Schema) -> FragmentTask:
        """Return a task for the same rows, with fewer fields."""
        ids = {field.id for field in schema.fields}
        columns = [part for own in self.columns if (part := own.only(ids)).columns]
        leaves = self.leaves
        if leaves:
            own = ids.union(
                leaf.field.id for field in schema.fields for leaf in leaf_columns(field)
            )
            leaves = {field_id: rows for field_id, rows in leaves.items() if field_id in own}
        return self._replace(schema=schema, leaves=leaves, columns=columns)

    def sizes(self) -> dict[int, int]:
        """Return the encoded bytes of each field in `columns`, and of each other leaf, by id."""
        sizes = {field_id: encoded_bytes(rows) for field_id, rows in self.leaves.items()}
        for columns in self.columns:
            sizes.update(columns.sizes)
        return sizes

    def column(self, field: Field) -> pa.Array:
        """Decode a field whose array the kernel cannot build."""
        try:
            arrays = [
                part.decode()
                for part in _parts(self.leaves.get(field.id, []))
                if not isinstance(part, list | Parts)
            ]
            if arrays:
                return one_array(arrays)
            pages = {
                leaf.field.id: [
                    page for part in _parts(self.leaves[leaf.field.id]) for page in _pages(part)
                ]
                for leaf in leaf_columns(field)
                if leaf.field.id in self.leaves
            }
            return assemble(field, pages, self.num_rows)
        except AlanceError as error:
            error.add_note(f"in field {field.name!r}")
            raise


def _parts(rows: Found) -> Sequence[Found]:
    return rows.parts if isinstance(rows, Parts) else (rows,)


def _pages(rows: Found) -> list[PageValues]:
    assert isinstance(rows, list)
    return [task.decode() for task in rows]


def encoded_bytes(rows: Found) -> int:
    """Return the encoded bytes of a leaf's rows."""
    if isinstance(rows, Parts):
        return sum(map(encoded_bytes, rows.parts))
    if isinstance(rows, list):
        return sum(task.num_bytes for task in rows)
    return rows.num_bytes


@dataclass(eq=False)
class OpenFragment:
    """Fragment with opened columns of a projection.

    Immutable, except that page states are added.
    """

    schema: Schema
    num_rows: int  # number of physical rows, including deleted rows
    leaves: tuple[OpenLeaf, ...]
    leaf_ids: tuple[int, ...]  # field id of each leaf

    @cached_property
    def leaf_sizes(self) -> list[int]:
        """Bytes of the pages of each leaf."""
        return [leaf.column.encoded_bytes for leaf in self.leaves]

    @cached_property
    def encoded_bytes(self) -> int:
        """Total bytes of the pages of all leaves."""
        return sum(self.leaf_sizes)

    @property
    def num_bytes(self) -> int:
        """Memory of the columns and their page states in bytes."""
        return 100 + self.tables.num_bytes

    @property
    def page_rows(self) -> int:
        """Rows of the first page of the first column; all rows if there is no such page."""
        column = self.leaves[0].column if self.leaves else None
        if not isinstance(column, OpenColumn) or not column.column.num_pages:
            return self.num_rows
        return max(1, column.column.pages[0].num_rows)

    @cached_property
    def row_bytes(self) -> float:
        """Estimated bytes of memory per decoded row.

        It is the sum over all leaves of the encoded bytes or the fixed width, whichever is larger,
        because a constant page has no encoded bytes.
        """
        rows = max(1, self.num_rows)
        fixed = self.schema.remember(
            (leaf_bytes, self.leaf_ids), lambda: [leaf_bytes(leaf.leaf) for leaf in self.leaves]
        )
        return sum(map(max, [size / rows for size in self.leaf_sizes], fixed))

    @cached_property
    def tables(self) -> PageTables:
        """Page tables of the leaves."""
        return PageTables(self.schema, self.leaves, self.leaf_ids)

    def take(self, rows: Int64s, states: States, *, guess: bool = True) -> Plan[FragmentTask]:
        """Plan single rows with all their bytes; see `take_rows`."""
        task = yield from self.place(rows, states, guess=guess)
        yield from fetch_placed(task.unread)
        return task

    def place(self, rows: Int64s, states: States, *, guess: bool) -> Plan[FragmentTask]:
        """Plan single rows; the task's `unread` lists bytes that remain to be read.

        See `take_rows`.
        """
        (task,) = yield from take_rows(self.schema, [self], rows, [len(rows)], states, guess=guess)
        return task

    def read(self, start: int, stop: int, states: States) -> Plan[FragmentTask]:
        """Plan the physical rows from `start` to `stop`."""
        return self.read_spans([(start, stop)] if start < stop else [], states)

    def read_spans(self, spans: Sequence[tuple[int, int]], states: States) -> Plan[FragmentTask]:
        """Plan ranges of physical rows as consecutive rows of one task.

        Args:
            spans: ascending, not empty.
        """
        (task,) = yield from self.read_parts([spans], states)
        return task

    def read_parts(
        self, parts: Sequence[Sequence[tuple[int, int]]], states: States
    ) -> Plan[list[FragmentTask]]:
        """Plan ranges of physical rows that are fetched together, but decoded as several tasks.

        Args:
            parts: ranges of each task, as for `read_spans`; ascending over all parts.
        """
        leaves: list[dict[int, Found]] = [{} for _ in parts]
        if beside := self.leaves_beside():
            plans: list[Plan[Any]] = [
                read_ranges(self, parts, states),
                *[self._read(beside, spans, states) for spans in parts],
            ]
            ranged, *leaves = yield from together(plans)
        else:
            ranged = yield from read_ranges(self, parts, states)
        # Loading page states may have shown that the kernel cannot take more of the columns.
        ids = {leaf.leaf.field.id for leaf in beside}
        numbers = ranged[0].fields.leaves if ranged else ()
        others = [leaf for leaf in self._others(numbers) if leaf.leaf.field.id not in ids]
        if others:
            more = yield from together([self._read(others, spans, states) for spans in parts])
            leaves = [{**own, **later} for own, later in zip(leaves, more, strict=True)]
        columns = [(own,) for own in ranged] if ranged else [()] * len(parts)
        return [
            FragmentTask(self.schema, sum(stop - start for start, stop in spans), own, rows)
            for spans, own, rows in zip(parts, leaves, columns, strict=True)
        ]

    def leaves_of(self, ids: Iterable[int]) -> list[OpenLeaf]:
        """Return the leaves with these field ids; ids without a leaf are skipped."""
        by_field = self.tables.by_field
        return [by_field[field_id] for field_id in ids if field_id in by_field]

    def leaves_beside(self) -> list[OpenLeaf]:
        """Return the leaves whose ranges of rows are decoded without the kernel."""
        return self._others(self.tables.ranged.fields.leaves)

    def _others(self, numbers: Iterable[int]) -> list[OpenLeaf]:
        left_out = frozenset(numbers)
        if len(left_out) == len(self.leaves):
            return []
        return [leaf for number, leaf in enumerate(self.leaves) if number not in left_out]

    def _read(
        self, leaves: Sequence[OpenLeaf], spans: Sequence[tuple[int, int]], states: States
    ) -> Plan[dict[int, Found]]:
        """Plan ranges of rows of leaves, by field id."""
        spans = spans or [(0, 0)]
        plans = [leaf.read(*span, states) for leaf in leaves for span in spans]
        tasks = yield from together(plans)
        count = len(spans)
        parts = [tasks[at : at + count] for at in range(0, len(tasks), count)]
        return {
            leaf.leaf.field.id: own[0] if count == 1 else Parts(own)
            for leaf, own in zip(leaves, parts, strict=True)
        }

    def loads(self, parts: Sequence[tuple[int, int]], states: States) -> Iterator[Plan[None]]:
        """Yield plans for the unknown page states that a read of parts of the rows needs.

        Together, the plans take at most one round. Each plan is short, so that other tasks can run
        in between.

        Args:
            parts: ranges of physical rows, ascending, not empty.
        """
        yield from loads_of_range(self, parts, states)
        runs = joined_spans(parts)
        for leaf in self.leaves_beside():
            for run in runs:
                yield leaf.load(*run, states)


def take_rows(
    schema: Schema,
    fragments: Sequence[OpenFragment],
    rows: Int64s,
    ends: Sequence[int],
    states: States,
    *,
    guess: bool,
) -> Plan[list[FragmentTask]]:
    """Plan single rows of fragments, with one task per group of similar consecutive fragments.

    The bytes of the tasks' `unread` rows are not read yet. Arguments, cost and errors are those of
    `placed_rows`.
    """
    placed = yield from placed_rows(fragments, rows, ends, states, guess=guess)
    return [
        FragmentTask(schema, rows_of.num_rows, rows_of.leaves, rows_of.columns)
        for rows_of in placed
    ]


class ToOpen(NamedTuple):
    """Fragment to open: its files, its number of physical rows, and the cache for the files."""

    files: Sequence[FileSource]
    num_rows: int
    states: States


class _FileToOpen(NamedTuple):
    """File to open: the number of its fragment, and the leaves in the file."""

    fragment: int
    source: FileSource
    leaves: Sequence[LeafColumn]


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
    leaves, ids, top = schema.remember(open_fragments, lambda: _columns_of(schema))
    files: list[_FileToOpen] = []
    for number, (sources, _, _) in enumerate(to_open):
        for source in sources:
            own = [leaf for leaf in leaves if leaf.field.id in source.columns]
            if own or holds_packed_lists(schema.fields, source.columns):
                files.append(_FileToOpen(number, source, own))
    opened = yield from _open_leaves(schema, to_open, files, top)
    if sum(map(len, opened)) > PLANS_A_TURN:
        yield TURN
    groups: list[list[list[OpenLeaf]]] = [[] for _ in to_open]
    for file, own_leaves in zip(files, opened, strict=True):
        groups[file.fragment].append(own_leaves)
    fragments = []
    for number, (group, (_, num_rows, _)) in enumerate(zip(groups, to_open, strict=True), 1):
        by_field = _by_field(schema, group, num_rows)
        own_ids = tuple(by_field)
        if own_ids == ids:
            own_ids = ids  # share one object between all fragments
        else:
            by_field = {field: by_field[field] for field in (*ids, *top) if field in by_field}
            own_ids = tuple(by_field)
        fragments.append(OpenFragment(schema, num_rows, tuple(by_field.values()), own_ids))
        if number % PLANS_A_TURN == 0:
            yield TURN
    return fragments


def _by_field(
    schema: Schema, files: Sequence[Sequence[OpenLeaf]], num_rows: int
) -> dict[int, OpenLeaf]:
    """Return the leaves in a fragment's files by field id."""
    by_field: dict[int, OpenLeaf] = {}
    for leaves in files:
        for leaf in leaves:
            twin = by_field.get(leaf.leaf.field.id)
            by_field[leaf.leaf.field.id] = leaf if twin is None else merged(twin, leaf)
    if len(files) > 1:
        refuse_mixed(schema.fields, by_field)
    for leaf in by_field.values():
        if leaf.column.num_rows != num_rows * leaf.leaf.multiplier:
            raise CorruptFileError(
                f"field {leaf.leaf.field.name!r} in {leaf.column.container.path}: "
                f"{leaf.column.num_rows} rows, the fragment has {num_rows}"
            )
    return by_field


def _columns_of(schema: Schema) -> tuple[Sequence[LeafColumn], tuple[int, ...], Collection[int]]:
    """Return the leaves of a schema, their field ids, and the ids of the top-level fields."""
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    ids = tuple([leaf.field.id for leaf in leaves])
    return leaves, ids, {field.id: None for field in schema.fields}


def _open_leaves(
    schema: Schema, to_open: Sequence[ToOpen], files: Sequence[_FileToOpen], top: Collection[int]
) -> Plan[list[list[OpenLeaf]]]:
    """Plan the leaves of each file: files of 2.1 and later together, older files one by one."""
    containers = yield from open_files(
        [
            FileOf(source.location, source.file_bytes, to_open[number].states)
            for number, source, _ in files
        ]
    )
    newer: list[ColumnsOf] = []
    older: dict[int, Plan[list[OpenLeaf]]] = {}
    for place, (file, container) in enumerate(zip(files, containers, strict=True)):
        states, columns = to_open[file.fragment].states, file.source.columns
        if is_older(container):
            older[place] = open_older(schema.fields, columns, container, states)
        else:
            indices = [columns[leaf.field.id] for leaf in file.leaves]
            newer.append(ColumnsOf(container, indices, states))
    of_older: list[list[OpenLeaf]] = []
    if older:
        plans: list[Plan[Any]] = [open_columns_of(newer), together([*older.values()])]
        opened, of_older = yield from together(plans)
    else:
        opened = yield from open_columns_of(newer)
    old, new = dict(zip(older, of_older, strict=True)), iter(opened)
    return [
        old[place]
        if place in old
        else [
            OpenLeaf(leaf, column, leaf.field.id in top)
            for leaf, column in zip(file.leaves, next(new), strict=True)
        ]
        for place, file in enumerate(files)
    ]

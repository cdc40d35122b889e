"""All rows of many small fragments, by one plan and in one batch for any number of files.

A scan usually reads the tail of a file, then its page states, then its pages. For a small file, one
request for the whole file is cheaper. A thread then decodes these bytes, without another request or
another turn of the event loop.

In one call, the kernel parses the column metadata of all files (`FileTables`). It loads the page
states from memory, plans all rows (`RowPlan`), and decodes them (`RowBatch`). There are no Python
objects per file, column or page. Columns that the kernel cannot decode are read by the codecs,
fragment by fragment. So are all columns if the kernel fails, because codecs raise precise errors.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.file.batches import in_order, one_batch
from alance.file.older.entry import holds_packed_lists
from alance.file.open.columns import OpenColumn
from alance.file.open.recall import OwnStates
from alance.file.rows.field_forms import forms_of
from alance.file.rows.fragment import FragmentTask, open_fragment
from alance.file.rows.leaves import Parts
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.file_version import FileVersion
from alance.format.column_metadata import COLUMN_ENCODING, any_url
from alance.format.layouts import page_form
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import ByteRange, all_read, answered, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import FileSource, Found, OpenFragment
    from alance.format.container import Container
    from alance.format.field import Field
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Extent, Plan, Reader, T
    from alance.format.schema import Schema

# Bytes; narrower gaps between pages (padding) are read, too. Stores may merge wider gaps.
GAP_BYTES: Final = 256


class FragmentFiles(NamedTuple):
    """Files of a fragment."""

    id: int | None  # fragment id; None for a file that belongs to no table
    sources: Sequence[FileSource]
    num_rows: int


def rows_of(file: PlainFile, content: memoryview, columns: Sequence[str] | None) -> pa.RecordBatch:
    """Decode all rows of a file in memory, at least one row. CPU work.

    Args:
        content: bytes of the whole file.
        columns: names of the columns to decode; None for all.

    Raises:
        CorruptFileError: the bytes contradict the format.
    """
    path, search = file.source.location, file.container.search
    if search is not None:
        search.check_all(path, content)
    schema = file.schema if columns is None else file.schema.project(columns)
    files = FragmentFiles(None, [file.source], file.num_rows)
    return WholeFragments(schema, [files], {path: content}).decode()


def read_whole(schema: Schema, fragments: Sequence[FragmentFiles]) -> Plan[WholeFragments]:
    """Plan all rows of small fragments, in order; one round, with one range per file."""
    sources = [source for fragment in fragments for source in fragment.sources]
    contents = yield [ByteRange(source.location, 0, source.file_bytes) for source in sources]
    locations = [source.location for source in sources]
    return WholeFragments(schema, fragments, dict(zip(locations, contents, strict=True)))


def group_key(fragment: OpenFragment) -> tuple[int, ...] | None:
    """Return the leaf ids of a fragment; fragments with equal ids can be read together.

    Returns None if the fragment cannot be read together with others.
    """
    if all(isinstance(leaf.column, OpenColumn) for leaf in fragment.leaves):
        return fragment.leaf_ids
    return None


def read_together(fragments: Sequence[OpenFragment]) -> Plan[WholeRows]:
    """Plan all rows of open fragments, in order; at most one round, with few ranges per file.

    Args:
        fragments: at least one, with the same schema and the same `group_key`.
    """
    columns = [
        column
        for number in range(len(fragments[0].leaves))
        for fragment in fragments
        if isinstance(column := fragment.leaves[number].column, OpenColumn)
    ]
    containers = {column.container.path: column.container for column in columns}
    places = dict(zip(containers, range(len(containers)), strict=True))
    tables = _kernels.FileTables.of_columns(
        [column.kernel for column in columns],
        [places[column.container.path] for column in columns],
        len(fragments),
    )
    held = yield from _held([*containers.values()], tables)
    first, num_rows = fragments[0], sum([fragment.num_rows for fragment in fragments])
    return WholeRows(first.schema, num_rows, first.leaf_ids, tables, held, lambda: fragments)


def _held(
    containers: Sequence[Container], tables: _kernels.FileTables
) -> Plan[dict[str, _kernels.HeldFile]]:
    """Plan the bytes of all pages of files, by path; at most one round."""
    are_whole = [container.is_whole for container in containers]
    held = {
        container.path: _kernels.HeldFile([0], [container.content])
        if container.is_whole
        else _kernels.HeldFile([], [])
        for container in containers
    }
    if all(are_whole):
        return held
    ends, starts, stops = tables.spans(are_whole, GAP_BYTES)
    numbers = np.repeat(np.arange(len(held)), np.diff(ends, prepend=0)).tolist()
    spans = [
        ByteRange(containers[number].path, start, stop)
        for number, start, stop in zip(numbers, starts.tolist(), stops.tolist(), strict=True)
    ]
    contents = (yield spans) if spans else ()
    for span, content in zip(spans, contents, strict=True):
        if len(content) != span.num_bytes:
            raise CorruptFileError(
                f"{len(content)} bytes of {span.path} from {span.start}, expected {span.num_bytes}"
            )
        held[span.path].add(span.start, content)
    return held


class WholeRows(NamedTuple):
    """All rows of fragments with the same fields, whose bytes are in memory.

    Attributes:
        ids: field ids of the leaves, in the order of their columns in the tables.
        held: bytes of the pages, by path of the file.
        opened: opens the fragments, for columns that the kernel cannot decode.
    """

    schema: Schema
    num_rows: int
    ids: tuple[int, ...]
    tables: _kernels.FileTables
    held: Mapping[str, _kernels.HeldFile]
    opened: Callable[[], Sequence[OpenFragment]]

    @property
    def unread(self) -> list[PlacedRows]:
        return []

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows. CPU work. Arguments and errors are those of `FragmentTask.decode`."""
        try:
            columns = self._placed()
            fields = {form.field.id for own in columns for form in own.fields.forms}
            others = [field for field in self.schema.fields if field.id not in fields]
            task = FragmentTask(self.schema, self.num_rows, self._leaves(others), columns)
            return task.decode(read, order)
        except (CorruptFileError, ValueError):
            task = FragmentTask(self.schema, self.num_rows, self._leaves(self.schema.fields))
            return in_order(task.decode(read), order)

    def _placed(self) -> list[PlacedColumns]:
        """Place all rows of the fields whose pages can all be decoded by the kernel."""
        schema, tables, files = self.schema, self.tables, self.tables.files
        forms = schema.remember((forms_of, self.ids), lambda: forms_of(schema.fields, self.ids))
        if not forms.forms:
            return []
        pages_as = [*map(page_form, tables.descriptions)]
        held = [*self.held.values()]
        plan = tables.plan(forms.leaves, pages_as, held, self.num_rows)
        count = len(files) // len(self.ids)
        others = {table // count for table, _ in plan.unknown}
        others.update(forms.unfit(plan, range(len(forms.leaves))))
        paths = [*map([*self.held].__getitem__, files)]
        placed = PlacedRows(plan, paths, [*map(held.__getitem__, files)])
        columns = PlacedColumns(placed, forms, range(len(forms.leaves)))
        if others:
            columns = columns.only(
                {form.field.id for form in forms.forms if others.isdisjoint(form.leaves)}
            )
        return [columns] if columns.fields.forms else []

    def _leaves(self, fields: Iterable[Field]) -> dict[int, Found]:
        """Plan fields for the codecs; return the decode tasks of their leaves by field id."""
        own = [(field, leaf.field.id) for field in fields for leaf in leaf_columns(field)]
        own = [(field, leaf_id) for field, leaf_id in own if leaf_id in self.ids]
        opened = self.opened() if own else ()
        leaves: dict[int, Found] = {}
        for field, leaf_id in own:
            reading = [
                (leaf, fragment.num_rows)
                for fragment in opened
                for leaf in fragment.leaves_of([leaf_id])
            ]
            try:
                leaves[leaf_id] = Parts(
                    [
                        answered(leaf.read(0, num_rows, OwnStates()), self._cut)
                        for leaf, num_rows in reading
                    ]
                )
            except AlanceError as error:
                error.add_note(f"in field {field.name!r}")
                raise
        return leaves

    def _cut(self, extents: Sequence[Extent]) -> list[memoryview]:
        """Cut ranges of the files out of the bytes in memory.

        Raises:
            CorruptFileError: a range is outside of the bytes in memory.
        """
        return [
            self._bytes(extent)
            if isinstance(extent, ByteRange)
            else memoryview(b"".join(map(self._bytes, extent.ranges())))
            for extent in extents
        ]

    def _bytes(self, span: ByteRange) -> memoryview:
        try:
            return self.held[span.path].cut(span.start, span.stop).data
        except ValueError as error:
            raise CorruptFileError(f"{span.path}: {error}") from error


class WholeFragments(NamedTuple):
    """Fragments whose files are completely in memory; `contents` has their bytes by location."""

    schema: Schema
    fragments: Sequence[FragmentFiles]
    contents: Mapping[str, memoryview]

    def decode(self) -> pa.RecordBatch:
        """Decode all rows.

        Raises:
            BatchTooLargeError: the rows do not fit into one batch.
            CorruptFileError: the bytes contradict the format.
        """
        batches: list[pa.RecordBatch] = []
        for fragments in _alike(self.fragments):
            together = self._together(fragments)
            batches += self._one_by_one(fragments) if together is None else [together.decode()]
        return one_batch(batches)

    def _together(self, fragments: Sequence[FragmentFiles]) -> WholeRows | None:
        """Return the rows of fragments whose files have the same columns, for one kernel call.

        Returns None if the fragments must be opened one by one: for files of 2.0 or 0.1, unknown
        column encodings, and duplicate fields or locations.
        """
        sources = fragments[0].sources
        if any(holds_packed_lists(self.schema.fields, source.columns) for source in sources):
            return None
        leaves = [
            (leaf, number)
            for number, source in enumerate(sources)
            for leaf in _leaves_of(self.schema, source.columns)
        ]
        ids = tuple([leaf.field.id for leaf, _ in leaves])
        locations = [
            fragment.sources[number].location
            for number in range(len(sources))
            for fragment in fragments
        ]
        if len({*ids}) < len(ids) or len({*locations}) < len(locations):
            return None
        contents = [self.contents[location] for location in locations]
        num_rows = [fragment.num_rows for fragment in fragments]
        columns = [sources[number].columns[leaf.field.id] for leaf, number in leaves]
        tables = _kernels.FileTables.of_files(
            contents,
            np.array([number for _, number in leaves], np.int64),
            np.array(columns, np.int64),
            np.array([leaf.multiplier for leaf, _ in leaves], np.int64),
            np.array(num_rows, np.int64),
        )
        if tables is None or not _are_known(tables):
            return None
        held = {
            location: _kernels.HeldFile([0], [content])
            for location, content in zip(locations, contents, strict=True)
        }
        opening = partial(self._open, fragments)
        return WholeRows(self.schema, sum(num_rows), ids, tables, held, opening)

    def _one_by_one(self, fragments: Sequence[FragmentFiles]) -> Iterator[pa.RecordBatch]:
        """Open fragments of any kind one by one, and yield their rows as batches."""
        for key, run in groupby(self._open(fragments), group_key):
            if key is not None:
                yield self._run(read_together([*run])).decode()
            else:
                for single in run:
                    yield self._run(single.read(0, single.num_rows, OwnStates())).decode()

    def _open(self, fragments: Sequence[FragmentFiles]) -> list[OpenFragment]:
        opened: list[OpenFragment] = []
        for fragment in fragments:
            opening = open_fragment(self.schema, fragment.sources, fragment.num_rows, OwnStates())
            try:
                opened.append(self._run(opening))
            except AlanceError as error:
                if fragment.id is not None:
                    error.add_note(f"in fragment {fragment.id}")
                raise
        return opened

    def _run(self, plan: Plan[T]) -> T:
        """Run a plan over the files in memory."""
        return answered(
            plan, lambda ranges: [cut(span, self.contents[span.path]) for span in ranges]
        )


def _alike(fragments: Sequence[FragmentFiles]) -> Iterator[list[FragmentFiles]]:
    """Yield runs of consecutive fragments whose files have the same columns."""
    for _, run in groupby(fragments, lambda files: [source.columns for source in files.sources]):
        yield list(run)


def _leaves_of(schema: Schema, columns: Mapping[int, int]) -> list[LeafColumn]:
    """Return the leaves of a schema that a file has, by its columns."""
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    return [leaf for leaf in leaves if leaf.field.id in columns]


def _are_known(tables: _kernels.FileTables) -> bool:
    """True if the kernel can read all file versions and column encodings."""
    try:
        versions = [FileVersion.from_footer(*version) for version in tables.versions]
        if any(version <= FileVersion.V2_0 for version in versions):
            return False
        return all(any_url(own, "").endswith(COLUMN_ENCODING) for own in tables.column_encodings)
    except AlanceError:
        return False

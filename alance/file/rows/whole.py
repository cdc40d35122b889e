"""All rows of many small fragments, by one plan and in one batch for any number of files.

A scan usually reads the tail of a file, then its page states, then its pages. For a small file, one
request for the whole file is cheaper. A thread then decodes these bytes, without another request or
another turn of the event loop.

In one call, the kernel parses the column metadata of all files (`FileTables`). It loads the page
states from memory, plans all rows (`RowPlan`), and decodes them (`RowBatch`). There are no Python
objects per file, column or page. If the kernel cannot build a column, or finds an error, the rows
are read fragment by fragment, so that the error names the page and its file.
"""

from __future__ import annotations

from functools import partial
from itertools import chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.file.batches import one_batch
from alance.file.open.recall import OwnStates
from alance.file.rows.field_forms import forms_of
from alance.file.rows.fragment import FragmentTask, open_fragment
from alance.file.rows.leaves import LeafSet
from alance.file.rows.placed_columns import PlacedColumns, PlacedRows
from alance.file.rows.ranged import PageBytes
from alance.file.rows.taken import TakenRows
from alance.format.layouts import page_form
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import ByteRange, all_read, answered, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import FileSource, OpenFragment
    from alance.format.plans import Extent, Plan, Reader, T
    from alance.format.schema import Schema

_CONTAINERS = attrgetter("containers")
GAP_BYTES: Final = 256  # widest gap between pages (padding) to include; stores may join wider ones


class FragmentFiles(NamedTuple):
    """Files of a fragment."""

    id: int | None  # fragment id; None for a file that belongs to no table
    sources: Sequence[FileSource]
    num_rows: int


def rows_of(file: PlainFile, content: memoryview, columns: Sequence[str] | None) -> pa.RecordBatch:
    """Decode all rows of a file in memory. CPU work.

    Args:
        file: has at least one row.
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
    return fragment.own.ids if fragment.is_listed else None


def read_together(fragments: Sequence[OpenFragment]) -> Plan[WholeRows]:
    """Plan all rows of open fragments, in order; at most one round, with few ranges per file.

    Args:
        fragments: at least one, with the same schema and the same `group_key`.
    """
    first, num_rows = fragments[0], sum([fragment.num_rows for fragment in fragments])
    files = [*chain.from_iterable(zip(*map(_CONTAINERS, fragments), strict=True))]
    containers = {container.path: container for container in files}
    places = dict(zip(containers, range(len(containers)), strict=True))
    tables = _kernels.FileTables.of_leaves(
        [fragment.tables for fragment in fragments],
        len(first.containers),
        [places[container.path] for container in files],
    )
    content, paths = PageBytes([*containers.values()]), [*containers]
    spans = tables.spans([file.is_whole for file in containers.values()], GAP_BYTES)
    if spans:
        yield from content.read([ByteRange(paths[at], *span) for at, *span in spans])
    held = dict(zip(paths, content.of(paths), strict=True))
    return WholeRows(first.schema, num_rows, first.own.ids, tables, held, lambda: fragments)


class WholeRows(NamedTuple):
    """All rows of fragments with the same fields, whose bytes are in memory.

    Attributes:
        ids: field ids of the leaves, in the order of their columns in the tables.
        held: bytes of the pages, by path of the file.
        opened: opens the fragments, to read them one by one.
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
        except (CorruptFileError, UnsupportedError, ValueError):
            return self._one_by_one().decode(read, order)
        fields = {form.field.id for own in columns for form in own.fields.forms}
        others = [field for field in self.schema.fields if field.id not in fields]
        if any(leaf.field.id in self.ids for field in others for leaf in leaf_columns(field)):
            return self._one_by_one().decode(read, order)
        try:
            return FragmentTask(self.schema, self.num_rows, {}, columns).decode(read, order)
        except (CorruptFileError, ValueError):
            return self._one_by_one().decode(read, order)

    def _one_by_one(self) -> TakenRows:
        """Read the rows fragment by fragment: errors then name the page and its file."""
        tasks = []
        for fragment in self.opened():
            with fragment.lock:  # so that threads do not learn the same pages
                reading = fragment.read(0, fragment.num_rows, OwnStates())
                tasks.append(answered(reading, self._cut))
        return TakenRows(self.schema, tasks)

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
        paths = [*map([*self.held].__getitem__, files)]
        forms.check(plan, paths)
        placed = PlacedRows(plan, paths, [*map(held.__getitem__, files)])
        columns = PlacedColumns(placed, forms, range(len(forms.leaves)))
        if others:
            columns = columns.only(
                {form.field.id for form in forms.forms if others.isdisjoint(form.leaves)}
            )
        return [columns] if columns.fields.forms else []

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
        every, sources = LeafSet.of_schema(self.schema), fragments[0].sources
        leaves, sets, columns = [], [], []
        for number, source in enumerate(sources):
            if not every.packed.isdisjoint(source.columns):
                return None
            for at, field_id in enumerate(every.ids):
                if field_id in source.columns:
                    leaves.append(at)
                    sets.append(number)
                    columns.append(source.columns[field_id])
        locations = [
            fragment.sources[number].location
            for number in range(len(sources))
            for fragment in fragments
        ]
        if len({*leaves}) < len(leaves) or len({*locations}) < len(locations):
            return None
        ids = tuple(map(every.ids.__getitem__, leaves))
        contents = [*map(self.contents.__getitem__, locations)]
        num_rows = [fragment.num_rows for fragment in fragments]
        times = [*map(every.times.__getitem__, leaves)]
        tables = _kernels.FileTables.of_files(
            contents, *[np.array(part, np.int64) for part in (sets, columns, times, num_rows)]
        )
        if tables is None:
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

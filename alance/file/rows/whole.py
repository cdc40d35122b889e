"""All rows of many small fragments, by one plan and in one batch for any number of files.

A scan usually reads the tail of a file, then its page states, then its pages. For a small file, one
request for the whole file is cheaper. A thread then decodes these bytes, without another request or
another turn of the event loop.

All files are regarded as parts of one file, and all fragments as one. One kernel call builds the
page tables of files that were not opened (`whole_tables`), or joins those of open files. Then the
pages are learned (`NewPages`), all rows are planned (`plan_spans`), and decoded (`RowBatch`), as in
any other read. There are no Python objects per column or page. If bytes are missing, or the kernel
finds an error, the rows are read fragment by fragment, so that the error names the page.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate, chain, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.file.batches import one_batch
from alance.file.open.columns import OwnStates
from alance.file.rows.fragment import open_fragment
from alance.file.rows.leaves import LeafSet
from alance.file.rows.tasks import FragmentTask, PlacedColumns, TakenRows
from alance.format.layouts import page_form
from alance.format.plans import ByteRange, all_read, answered, cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    import pyarrow as pa

    from alance.base.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import FileSource, OpenFragment
    from alance.format.plans import Extent, Plan, Reader
    from alance.format.schema import Schema

_CONTAINERS, _TABLES, _NUM_ROWS = map(attrgetter, ("containers", "tables", "num_rows"))
_PATH, _FILE_BYTES, _CONTENT = map(attrgetter, ("path", "file_bytes", "content"))
_SOURCES, _LOCATION = map(attrgetter, ("sources", "location"))
APART_BYTES: Final = 1 << 10  # between files that are regarded as one; more than `GAP_BYTES`
GAP_BYTES: Final = 256  # widest gap between pages (padding) to include; stores may join wider ones


class FragmentFiles(NamedTuple):
    """Files of a fragment to read completely."""

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
    return None if fragment.older else fragment.own.ids


def read_together(fragments: Sequence[OpenFragment]) -> Plan[WholeRows]:
    """Plan all rows of open fragments, in order; at most one round, with few ranges per file.

    Args:
        fragments: at least one, with the same schema and the same `group_key`.
    """
    first, by_leaf = fragments[0], zip(*map(_CONTAINERS, fragments), strict=True)
    files = [*chain.from_iterable(by_leaf)]
    containers = dict(zip(map(_PATH, files), files, strict=True))
    begins = _begins(containers, map(_FILE_BYTES, containers.values()))
    of_leaves = [*map(begins.__getitem__, map(_PATH, files))]
    tables = _kernels.joined_tables([*map(_TABLES, fragments)], of_leaves)
    whole = [container for container in containers.values() if container.is_whole]
    contents, starts = [*map(_CONTENT, whole)], [*map(begins.__getitem__, map(_PATH, whole))]
    held, paths, bounds = _kernels.HeldFile(starts, contents), [*begins], [*begins.values()]
    if spans := _kernels.page_spans(tables, bounds, held, GAP_BYTES):
        contents += yield [
            ByteRange(paths[at], start - bounds[at], stop - bounds[at]) for at, start, stop in spans
        ]
        held = _kernels.HeldFile(starts + [start for _, start, _ in spans], contents)
    num_rows = sum(map(_NUM_ROWS, fragments))
    return WholeRows(first.schema, num_rows, first.own, tables, begins, held, lambda: fragments)


def _begins(paths: Iterable[str], sizes: Iterable[int]) -> dict[str, int]:
    """Return the start of each file in the imaginary file that all files form together."""
    return dict(zip(paths, accumulate(map(APART_BYTES.__add__, sizes), initial=0), strict=False))


class WholeRows(NamedTuple):
    """All rows of fragments with the same fields, whose bytes are in memory.

    The files of all fragments are regarded as one file, so each leaf has one page table.

    Attributes:
        own: leaves of the fragments.
        tables: page tables of the leaves; decoding adds the pages' states. None for files of 2.0 or
            0.1, and for unknown column encodings.
        begins: start of each file in the imaginary file, by path.
        held: bytes of the pages.
        opened: opens the fragments, to read them one by one.
    """

    schema: Schema
    num_rows: int
    own: LeafSet
    tables: _kernels.LeafTables | None
    begins: Mapping[str, int]
    held: _kernels.HeldFile
    opened: Callable[[], Sequence[OpenFragment]]

    @property
    def unread(self) -> list[PlacedColumns]:
        return []

    def decode(self, read: Reader = all_read, order: Int64s | None = None) -> pa.RecordBatch:
        """Decode the rows. CPU work. Arguments and errors are as for `FragmentTask.decode`."""
        try:
            task = self._placed()
            if task is not None:
                return task.decode(read, order)
        except (CorruptFileError, ValueError):
            pass
        return self._one_by_one().decode(read, order)

    def _placed(self) -> FragmentTask | None:
        """Place all rows. Returns None without tables, or if bytes of a page are not held."""
        schema, tables = self.schema, self.tables
        if tables is None:
            return None
        forms = self.own.forms
        leaves = forms.leaves
        if not leaves:
            return FragmentTask(schema, self.num_rows, {})
        pages = _kernels.NewPages(tables, leaves)
        pages.find([*map(page_form, pages.descriptions)])
        pages.learn([self.held])
        spans = [(0, self.num_rows)] if self.num_rows else []
        plan = _kernels.plan_spans([tables], leaves, spans, [len(spans)])
        if plan.unknown:
            return None
        paths = [*self.begins][:1] * len(leaves)
        forms.check(plan, paths)
        columns = PlacedColumns(plan, paths, forms, lambda: [self.held] * len(leaves))
        return FragmentTask(schema, self.num_rows, {}, [columns])

    def _one_by_one(self) -> TakenRows:
        """Read the rows fragment by fragment, so that errors name the page and its file."""
        tasks = []
        for fragment in self.opened():
            with fragment.lock:  # so that threads do not learn the same pages
                reading = fragment.read(0, fragment.num_rows, OwnStates())
                tasks.append(answered(reading, self._cut))
        return TakenRows(self.schema, tasks)

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
        begin = self.begins[span.path]
        try:
            return self.held.cut(begin + span.start, begin + span.stop).data
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
        # Runs of consecutive fragments whose files have the same columns.
        runs = groupby(self.fragments, lambda files: [source.columns for source in files.sources])
        return one_batch([self._rows([*run]).decode() for _, run in runs])

    def _rows(self, fragments: Sequence[FragmentFiles]) -> WholeRows:
        """Return the rows of fragments whose files have the same columns."""
        every, sources = LeafSet.of_schema(self.schema), fragments[0].sources
        # The last file that has a leaf has its values.
        owners = {
            at: (number, source.columns[field_id])
            for number, source in enumerate(sources)
            for at, field_id in enumerate(every.ids)
            if field_id in source.columns
        }
        leaves = sorted(owners)
        by_set = zip(*map(_SOURCES, fragments), strict=True)
        paths = [*map(_LOCATION, chain.from_iterable(by_set))]
        contents = [*map(self.contents.__getitem__, paths)]
        begins = _begins(paths, map(len, contents))
        starts, rows = [*map(begins.__getitem__, paths)], [*map(_NUM_ROWS, fragments)]
        own, times = [*map(owners.__getitem__, leaves)], [*map(every.times.__getitem__, leaves)]
        tables = _kernels.whole_tables(contents, starts, own, times, rows)
        leaf_set = every.part(self.schema, leaves)
        held = _kernels.HeldFile(starts, contents)
        opening = partial(self._open, fragments)
        return WholeRows(self.schema, sum(rows), leaf_set, tables, begins, held, opening)

    def _open(self, fragments: Sequence[FragmentFiles]) -> list[OpenFragment]:
        def answer(extents: Sequence[Extent]) -> list[memoryview]:
            return [cut(extent, self.contents[extent.path]) for extent in extents]

        opened: list[OpenFragment] = []
        for fragment in fragments:
            opening = open_fragment(self.schema, fragment.sources, fragment.num_rows, OwnStates())
            try:
                opened.append(answered(opening, answer))
            except AlanceError as error:
                if fragment.id is not None:
                    error.add_note(f"in fragment {fragment.id}")
                raise
        return opened

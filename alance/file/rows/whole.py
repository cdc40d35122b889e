"""Whole small files, many at once: one kernel call parses their tables, and pages are joined.

A scan reads the end of a file, then its page tables, then its pages. For a small file, one request
for all of it is cheaper. A thread then does everything over these bytes, without another request or
another turn of the event loop.

Files of one table with the same columns differ only in positions and numbers. So no file has an
object of its own: pages are rows of arrays, and neighbouring pages of one kind are decoded as one.
Unusual files, damaged ones included, are opened one by one, and the error comes from there.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import AlanceError
from alance.file.batches import one_batch
from alance.file.older.entry import holds_packed_lists
from alance.file.open.recall import OwnStates
from alance.file.rows.file_pages import Content, FilePages
from alance.file.rows.fragment import FragmentTask, open_fragment
from alance.file.rows.grouped import group_key, read_together
from alance.file.rows.joined_rows import JoinedRows, joined
from alance.file_version import FileVersion
from alance.format.column_metadata import COLUMN_ENCODING, any_url
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import ByteRange, answered, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance.arrays import Int64s
    from alance.file.open.plain import PlainFile
    from alance.file.rows.fragment import FileSource, Found, OpenFragment
    from alance.file.rows.joined_rows import JoinedLeaves
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Plan, T
    from alance.format.schema import Schema


class FragmentFiles(NamedTuple):
    """The files of a fragment."""

    id: int | None  # None: of a file by itself
    sources: Sequence[FileSource]
    num_rows: int


def rows_of(file: PlainFile, content: memoryview, columns: Sequence[str] | None) -> pa.RecordBatch:
    """All rows of a file, one at least, of which all bytes are in memory; CPU work.

    Args:
        columns: some of its columns; None: all.

    Raises:
        CorruptFileError: bytes that contradict the format.
    """
    path, search = file.source.location, file.container.search
    if search is not None:
        search.check_all(path, content)
    schema = file.schema if columns is None else file.schema.project(columns)
    files = FragmentFiles(None, [file.source], file.num_rows)
    return WholeFragments(schema, [files], {path: content}).decode()


def read_whole(schema: Schema, fragments: Sequence[FragmentFiles]) -> Plan[WholeFragments]:
    """Plan all rows of small fragments, one behind the other: one round, one range a file."""
    sources = [source for fragment in fragments for source in fragment.sources]
    contents = yield [ByteRange(source.location, 0, source.file_bytes) for source in sources]
    locations = [source.location for source in sources]
    return WholeFragments(schema, fragments, dict(zip(locations, contents, strict=True)))


class WholeFragments(NamedTuple):
    """Fragments whose files are in memory, by location."""

    schema: Schema
    fragments: Sequence[FragmentFiles]
    contents: Mapping[str, memoryview]

    def decode(self) -> pa.RecordBatch:
        """All rows.

        Pages of one field are decoded one after the other, and assembled once for all fragments.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        batches = [
            task.decode()
            for fragments in _alike(self.fragments)
            for task in self._together(fragments) or self._one_by_one(fragments)
        ]
        return one_batch(batches)

    def _together(self, fragments: Sequence[FragmentFiles]) -> list[FragmentTask] | None:
        """The rows of fragments whose files have the same columns, as one; None: one by one."""
        rows = np.array([fragment.num_rows for fragment in fragments], np.int64)
        num_rows = int(rows.sum())
        leaves: dict[int, Found] = {}
        parts: list[JoinedLeaves] = []
        ids: set[int] = set()
        for number, first in enumerate(fragments[0].sources):
            here = _leaves_of(self.schema, first.columns)
            if holds_packed_lists(self.schema.fields, first.columns):
                return None
            if not here:
                continue
            if not ids.isdisjoint(own := [leaf.field.id for leaf in here]):
                return None
            ids.update(own)
            sources = [fragment.sources[number] for fragment in fragments]
            contents = [self.contents[source.location] for source in sources]
            pages = _pages_of(here, sources, contents, rows)
            if pages is None:
                return None
            columns = [[first.columns[field_id]] * len(sources) for field_id in own]
            fields = [leaf.field for leaf in here]
            part, others = joined(self.schema, fields, columns, pages, num_rows)
            parts += [part] if part else []
            leaves |= others
        return [FragmentTask(self.schema, num_rows, leaves, joined=JoinedRows(parts, num_rows))]

    def _one_by_one(self, fragments: Sequence[FragmentFiles]) -> Iterator[FragmentTask]:
        """The rows of fragments of any kind, opened one by one."""
        opened: list[OpenFragment] = []
        for fragment in fragments:
            opening = open_fragment(self.schema, fragment.sources, fragment.num_rows, OwnStates())
            try:
                opened.append(self._run(opening))
            except AlanceError as error:
                if fragment.id is not None:
                    error.add_note(f"in fragment {fragment.id}")
                raise
        for key, run in groupby(opened, group_key):
            if key is not None:
                yield self._run(read_together(list(run)))
            else:
                for single in run:
                    yield self._run(single.read(0, single.num_rows, OwnStates()))

    def _run(self, plan: Plan[T]) -> T:
        """The result of a plan over the files."""
        return answered(
            plan, lambda ranges: [cut(span, self.contents[span.path]) for span in ranges]
        )


def _alike(fragments: Sequence[FragmentFiles]) -> Iterator[list[FragmentFiles]]:
    """Runs of fragments whose files have the same columns."""
    for _, run in groupby(fragments, lambda files: [source.columns for source in files.sources]):
        yield list(run)


def _leaves_of(schema: Schema, columns: dict[int, int]) -> list[LeafColumn]:
    """The leaves of a schema that a file with such columns has."""
    leaves = [leaf for field in schema.fields for leaf in leaf_columns(field)]
    return [leaf for leaf in leaves if leaf.field.id in columns]


def _pages_of(
    leaves: Sequence[LeafColumn],
    sources: Sequence[FileSource],
    contents: list[memoryview],
    num_rows: Int64s,
) -> FilePages | None:
    """The pages of leaves in files that have the same columns; CPU work.

    None where anything is unusual: then open them one by one.

    Args:
        leaves: those that the files have; at least one.
        sources: the files; at least one.
        contents: all bytes of each.
        num_rows: of the fragment that each is of.
    """
    columns = [sources[0].columns[leaf.field.id] for leaf in leaves]
    kernel = _kernels.FilePages.of_files(contents, np.array(columns, np.int64))
    if kernel is None:
        return None
    try:
        version = FileVersion.from_footer(kernel.version >> 16, kernel.version & 0xFFFF)
        if version <= FileVersion.V2_0:
            return None
        encodings = kernel.column_encodings
        if not all(any_url(encoding, "").endswith(COLUMN_ENCODING) for encoding in encodings):
            return None
    except AlanceError:
        return None
    multipliers = np.array([leaf.multiplier for leaf in leaves], np.int64)
    if not np.array_equal(kernel.stored.reshape(len(leaves), -1), multipliers[:, None] * num_rows):
        return None
    if len(sources) == 1:
        numbers = np.zeros(kernel.num_pages, np.int64)
    else:
        files = np.tile(np.arange(len(sources), dtype=np.int64), len(leaves))
        numbers = np.repeat(files, kernel.tables[0])
    return FilePages(
        kernel,
        [
            Content(source.location, version, content)
            for source, content in zip(sources, contents, strict=True)
        ],
        numbers,
    )

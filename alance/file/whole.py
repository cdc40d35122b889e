"""Whole small files, many at once: one kernel call parses their tables, and pages are joined.

A scan reads the end of a file, then its page tables, then its pages. For a small file, one request
for all of it is cheaper. A thread then does everything over these bytes, without another request or
another turn of the event loop.

Files of one table with the same columns differ only in positions and numbers. So no file has an
object of its own: pages are rows of arrays, and neighbouring pages of one kind are decoded as one.
Unusual files, damaged ones included, are opened one by one, and the error comes from there.
"""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import AlanceError
from alance.file.batches import one_batch
from alance.file.fragment import FragmentTask, open_fragment
from alance.file.grouped import (
    Content,
    FilePages,
    LeafPages,
    PageTables,
    group_key,
    read_together,
)
from alance.file.older import holds_packed_lists
from alance.file.recall import OwnStates
from alance.file_version import FileVersion
from alance.format.column_metadata import COLUMN_ENCODING, any_url
from alance.format.layouts.fields import leaf_columns
from alance.format.plans import ByteRange, answered, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from alance.arrays import Int64s
    from alance.file.fragment import FileSource, Found, OpenFragment
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Plan, T
    from alance.format.schema import Schema


class FragmentFiles(NamedTuple):
    """The files of a fragment."""

    id: int
    sources: Sequence[FileSource]
    num_rows: int


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
            for task in self._together(fragments) or self._each(fragments)
        ]
        return one_batch(batches)

    def _together(self, fragments: Sequence[FragmentFiles]) -> list[FragmentTask] | None:
        """The rows of fragments whose files have the same columns, as one; None: one by one."""
        rows = np.array([fragment.num_rows for fragment in fragments], np.int64)
        leaves: dict[int, Found] = {}
        for number, first in enumerate(fragments[0].sources):
            here = _leaves_of(self.schema, first.columns)
            if holds_packed_lists(self.schema.fields, first.columns):
                return None
            if not here:
                continue
            sources = [fragment.sources[number] for fragment in fragments]
            contents = [self.contents[source.location] for source in sources]
            pages = _pages_of(here, sources, contents, rows)
            if pages is None or not leaves.keys().isdisjoint(pages):
                return None
            leaves |= pages
        return [FragmentTask(self.schema, int(rows.sum()), leaves)]

    def _each(self, fragments: Sequence[FragmentFiles]) -> Iterator[FragmentTask]:
        """The rows of fragments of any kind, opened one by one."""
        opened: list[OpenFragment] = []
        for fragment in fragments:
            opening = open_fragment(self.schema, fragment.sources, fragment.num_rows, OwnStates())
            try:
                opened.append(self._run(opening))
            except AlanceError as error:
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
) -> dict[int, LeafPages] | None:
    """The pages of leaves in files that have the same columns, by field id; CPU work.

    None where anything is unusual: then open them one by one.

    Args:
        leaves: those that the files have; at least one.
        sources: the files; at least one.
        contents: all bytes of each.
        num_rows: of the fragment that each is of.
    """
    columns = [sources[0].columns[leaf.field.id] for leaf in leaves]
    parsed = _kernels.file_pages(contents, np.array(columns, np.int64))
    if parsed is None:
        return None
    numbers, columns_are = parsed[0], parsed[8]
    try:
        version = FileVersion.from_footer(numbers >> 16, numbers & 0xFFFF)
        if version <= FileVersion.V2_0:
            return None
        if not all(any_url(encoding, "").endswith(COLUMN_ENCODING) for encoding in columns_are):
            return None
    except AlanceError:
        return None
    tables = PageTables(*parsed[1:8])
    pages = FilePages(
        tables,
        [
            Content(source.location, version, content)
            for source, content in zip(sources, contents, strict=True)
        ],
    )
    bounds = tables.bounds
    before = np.zeros(len(tables.rows) + 1, np.int64)
    np.cumsum(tables.rows, out=before[1:])
    by_leaf = tables.counts.reshape(len(leaves), len(sources))
    stored = np.diff(before[bounds]).reshape(by_leaf.shape)
    expected = np.array([leaf.multiplier for leaf in leaves], np.int64)[:, None] * num_rows
    if not np.array_equal(stored, expected):
        return None
    files = np.arange(len(sources), dtype=np.int64)
    return {
        leaf.field.id: LeafPages(
            leaf.field, np.full(stop - start, column), pages, start, np.repeat(files, counts)
        )
        for leaf, column, (start, stop), counts in zip(
            leaves, columns, pairwise(bounds[:: len(sources)].tolist()), by_leaf, strict=True
        )
    }

"""Whole small files, many at once: tables parsed in one call, pages of one field joined.

A scan looks at the end of a file, then at its page tables, then at its pages. Of a small file that
is read as a whole anyway one request does; all else is done over its bytes by a thread, so that
neither the store nor the event loop is asked again.

Files of one table that have the same columns differ in places and numbers only. Here none of them
has an object of its own: pages are rows of arrays, and neighbouring pages of one kind are decoded
as one. Whatever is unusual, wrong bytes too, is left to the opening of single fragments.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.errors import AlanceError
from alance.file.fragment import FragmentTask, open_fragment
from alance.file.grouped import group_key, read_together
from alance.file.older import holds_packed_lists
from alance.file.states import OwnStates
from alance.file_version import FileVersion
from alance.format.container import COLUMN_ENCODING, any_url
from alance.format.layouts import MAX_SHARED_BYTES, mini_block, page_layout
from alance.format.layouts.fields import leaf_columns
from alance.format.layouts.miniblock_join import AlikePages, Joined, decode_together
from alance.format.plans import ByteRange, answered, cut

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from alance.arrays import Int64s
    from alance.file.fragment import FileSource, Found, OpenFragment
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn
    from alance.format.layouts.miniblock import MiniBlockPage
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


@dataclass(frozen=True, slots=True)
class WholeFragments:
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
        return batches[0] if len(batches) == 1 else pa.concat_batches(batches)

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
                for one in run:
                    yield self._run(one.read(0, one.num_rows, OwnStates()))

    def _run(self, plan: Plan[T]) -> T:
        """The result of a plan over the files."""
        return answered(plan, lambda ranges: [cut(one, self.contents[one.path]) for one in ranges])


def _alike(fragments: Sequence[FragmentFiles]) -> Iterator[list[FragmentFiles]]:
    """Runs of fragments whose files have the same columns."""
    for _, run in groupby(fragments, lambda one: [source.columns for source in one.sources]):
        yield list(run)


@dataclass(frozen=True, slots=True)
class WholeFiles:
    """Files of one version, in memory, and the pages of some of their columns."""

    paths: Sequence[str]
    contents: list[memoryview]
    version: FileVersion
    rows: Int64s  # of each page
    kinds: Int64s  # of each page: which of the descriptions is its
    ends: Int64s  # shape (pages + 1,): buffers before each page, and all
    starts: Int64s  # of each buffer: byte offset in its file
    sizes: Int64s
    encodings: list[bytes]  # descriptions of pages

    def decode(self, page: int, file: int) -> PageValues:
        """The rows of a page by itself.

        Raises:
            CorruptFileError, UnsupportedError: its description or its bytes.
        """
        path, content = self.paths[file], self.contents[file]
        buffers = slice(self.ends[page], self.ends[page + 1])
        places = zip(self.starts[buffers].tolist(), self.sizes[buffers].tolist(), strict=True)
        layout = page_layout(
            self.encodings[self.kinds[page]],
            path=path,
            buffers=list(places),
            num_rows=int(self.rows[page]),
            version=self.version,
        )
        task = answered(layout.read_page(), lambda ranges: [cut(one, content) for one in ranges])
        return task.decode()


@dataclass(frozen=True, slots=True)
class LeafPages:
    """All pages of a field in some files, in row order."""

    field: Field
    column: int
    whole: WholeFiles
    first: int  # the first of its pages
    files: Int64s  # of each page: the number of its file

    is_array = False

    @property
    def num_bytes(self) -> int:
        """Encoded bytes to decode."""
        ends = self.whole.ends
        return int(self.whole.sizes[ends[self.first] : ends[self.first + len(self.files)]].sum())

    def decode_pages(self) -> list[PageValues]:
        """The rows of all pages; some stand together in one.

        Raises:
            CorruptFileError: bytes that contradict the format.
        """
        kinds = self.whole.kinds[self.first : self.first + len(self.files)]
        known = {
            number: _described(self.whole.encodings[number]) for number in np.unique(kinds).tolist()
        }
        names = [None if one is None else one.said.kind for one in known.values()]
        numbers = {kind: number for number, kind in enumerate(names)}
        alike = dict(zip(known, (numbers[kind] for kind in names), strict=True))
        kind_of_page = np.array([alike[one] for one in kinds.tolist()], np.int64)
        changes = np.flatnonzero(kind_of_page[1:] != kind_of_page[:-1]) + 1
        found: list[PageValues] = []
        for start, stop in pairwise([0, *changes.tolist(), len(kinds)]):
            joined = self._joined(start, stop, known)
            found += self._one_by_one(start, stop) if joined is None else [joined]
        return found

    def _joined(
        self, start: int, stop: int, known: dict[int, MiniBlockPage | None]
    ) -> PageValues | None:
        """Neighbouring pages of one kind decoded as one; None: they must be decoded one by one."""
        whole, pages = self.whole, slice(self.first + start, self.first + stop)
        kinds = whole.kinds[pages]
        first = known[int(kinds[0])]
        if first is None or stop - start < 2 or pa.types.is_dictionary(self.field.arrow_type):
            return None
        firsts = whole.ends[pages]
        counts = whole.ends[self.first + start + 1 : self.first + stop + 1] - firsts
        if counts.min() < first.said.num_buffers:
            return None
        files = self.files[start:stop]

        def buffer(number: int) -> Joined:
            starts, sizes = whole.starts[firsts + number], whole.sizes[firsts + number]
            return Joined(_kernels.gather_spans(whole.contents, files, starts, sizes), sizes)

        def numbers(name: str) -> Int64s:
            values = np.zeros(len(whole.encodings), np.int64)
            for kind, page in known.items():
                if page is not None:
                    values[kind] = min(getattr(page.said, name), 1 << 40)
            return values[kinds]

        items, dictionary_items = numbers("num_items"), numbers("num_dictionary_items")
        return decode_together(
            AlikePages(first, whole.rows[pages], items, dictionary_items, buffer)
        )

    def _one_by_one(self, start: int, stop: int) -> list[PageValues]:
        found = []
        for number in range(start, stop):
            file = int(self.files[number])
            try:
                found.append(self.whole.decode(self.first + number, file))
            except AlanceError as error:
                place = int((self.files[:number] == file).sum())
                path = self.whole.paths[file]
                error.add_note(f"in page {place} of column {self.column} of {path}")
                raise
        return found


def _described(encoding: bytes) -> MiniBlockPage | None:
    return mini_block(encoding) if len(encoding) <= MAX_SHARED_BYTES else None


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
    numbers, counts, rows, kinds, ends, starts, sizes, encodings, columns_are = parsed
    try:
        version = FileVersion.from_footer(numbers >> 16, numbers & 0xFFFF)
        if version <= FileVersion.V2_0:
            return None
        if not all(any_url(one, "").endswith(COLUMN_ENCODING) for one in columns_are):
            return None
    except AlanceError:
        return None
    paths = [source.location for source in sources]
    whole = WholeFiles(paths, contents, version, rows, kinds, ends, starts, sizes, encodings)
    by_leaf = counts.reshape(len(leaves), len(sources))
    bounds = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=bounds[1:])
    before = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(rows, out=before[1:])
    stored = np.diff(before[bounds]).reshape(by_leaf.shape)
    wanted = np.array([leaf.multiplier for leaf in leaves], np.int64)[:, None] * num_rows
    if not np.array_equal(stored, wanted):
        return None
    files = np.arange(len(sources), dtype=np.int64)
    return {
        leaf.field.id: LeafPages(
            leaf.field,
            columns[number],
            whole,
            int(bounds[number * len(sources)]),
            np.repeat(files, by_leaf[number]),
        )
        for number, leaf in enumerate(leaves)
    }

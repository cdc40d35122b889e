"""Files of one field, built from the bytes of their pages or written by pylance."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from lance.file import LanceFileWriter

from alance import _kernels
from alance.file.open.describe import FileDescription, describe
from alance.file.open.files import FileOf, open_files
from alance.file.rows.fragment import FileSource, open_fragment
from alance.file.rows.placing import page_states
from alance.file.rows.whole import FragmentFiles, WholeFragments
from alance.file_version import FileVersion
from alance.format.container import open_container
from alance.format.encode.container import FOOTER_NUMBERS, column_encoding, file_descriptor, padded
from alance.format.layouts import PAGE_LAYOUT
from alance.format.layouts.fields import leaf_columns
from alance.format.layouts.place import PLANAR_LAYOUT
from alance.format.plans import Pieces, run
from alance.format.schema import Schema
from tests.reference.driven import Known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from alance.file.rows.fragment import OpenFragment
    from alance.file.rows.tasks import FragmentTask
    from alance.format.plans import ByteRange, Plan

PATH: Final = "memory://1/file"
FOOTER_BYTES: Final = 40


class PageBytes(NamedTuple):
    """A page as its bytes: the description is a `PageLayout`, or a `PlanarLayout` in 2.3."""

    description: bytes
    buffers: Sequence[bytes]
    num_rows: int


class ReadFile:
    """A file in memory with one field, to read in every way.

    Attributes:
        rounds: rounds of the last read.
        ranges: byte ranges of the last read.
    """

    def __init__(self, schema: Schema, num_rows: int, content: bytes) -> None:
        self.schema = schema
        self.num_rows = num_rows
        self.content = content
        self.rounds = 0
        self.ranges: list[ByteRange] = []
        leaves = leaf_columns(schema.fields[0])
        columns = {leaf.field.id: number for number, leaf in enumerate(leaves)}
        self._source = FileSource(PATH, len(content), columns)

    def run(self, plan: Plan[Any]) -> Any:
        """Run a plan over the file, and count its rounds and ranges."""
        result, rounds = run(plan, self.content)
        self.rounds = len(rounds)
        self.ranges = [
            each
            for requested in rounds
            for item in requested
            for each in (item.ranges() if isinstance(item, Pieces) else [item])
        ]
        return result

    def open(self, states: Known, *, is_far: bool = True) -> OpenFragment:
        """Open the file with a cache.

        Args:
            is_far: True to have no page in memory, though the file is small.
        """
        if is_far:
            (metadata,) = struct.unpack_from("<Q", self.content, len(self.content) - FOOTER_BYTES)
            tail_bytes = len(self.content) - metadata
            self.run(open_files([FileOf(*self._source[:2])], states, tail_bytes))
        return self.run(open_fragment(self.schema, [self._source], self.num_rows, states))

    def description(self) -> FileDescription:
        """Describe the file."""
        container = self.run(open_container(PATH, len(self.content)))
        return self.run(describe(container, self.schema, self.num_rows, self._source.columns))

    @property
    def layouts(self) -> set[str]:
        """Names of the layouts of the pages of all leaves."""
        columns = self.description().columns
        return {page.layout for column in columns for page in column.pages}

    def all_rows(self) -> list[Any]:
        """Read all rows of the newly opened file."""
        return self.range(0, self.num_rows)

    def range(self, start: int, stop: int, *, warm: bool = False) -> list[Any]:
        """Read a range of rows of the newly opened file.

        Args:
            warm: True to learn the states of the pages before, so that the read takes one round.
        """
        states = Known()
        opened = self.open(states)
        if warm:
            self.run(page_states(opened, states))
        return values_of(self.run(opened.read(start, stop, states)))

    def taken(self, numbers: Sequence[int], *, guess: bool = True) -> list[Any]:
        """Take rows of the newly opened file.

        Args:
            numbers: rows, ascending.
        """
        states = Known()
        opened, rows = self.open(states), np.array(numbers, np.int64)
        return values_of(self.run(opened.take(rows, states, guess=guess)))

    def ways(self, numbers: Sequence[int]) -> Iterator[list[Any]]:
        """Read the same rows in every way.

        Args:
            numbers: rows, ascending.
        """
        rows = np.array(numbers, np.int64)
        yield self.taken(numbers, guess=True)
        yield self.taken(numbers, guess=False)
        states = Known()
        opened = self.open(states)
        for guess in (False, True):
            yield values_of(self.run(opened.take(rows, states, guess=guess)))
        spans = [(number, number + 1) for number in numbers]
        yield values_of(self.run(opened.read_spans(spans, states)))
        yield values_of(self.run(self.open(states).read_spans(spans, states)))
        if numbers and [*numbers] == [*range(numbers[0], numbers[-1] + 1)]:
            yield self.range(numbers[0], numbers[-1] + 1)
            yield self.range(numbers[0], numbers[-1] + 1, warm=True)
        near = self.open(Known(), is_far=False)
        yield values_of(self.run(near.take(rows, Known())))
        for whole in (values_of(self.run(near.read(0, self.num_rows, Known()))), self.whole()):
            yield [whole[number] for number in numbers]

    def whole(self) -> list[Any]:
        """Read all rows of the file as one that is in memory."""
        files = FragmentFiles(None, [self._source], self.num_rows)
        contents = {PATH: memoryview(self.content)}
        return WholeFragments(self.schema, [files], contents).decode().column(0).to_pylist()


def values_of(task: FragmentTask) -> list[Any]:
    """Decode the rows of the only field."""
    (column,) = task.decode().columns
    column.validate(full=True)
    return column.to_pylist()


def built_file(
    arrow: pa.DataType | pa.Field,
    pages: Sequence[PageBytes],
    version: FileVersion = FileVersion.V2_1,
) -> ReadFile:
    """Build a file of one column from the bytes of its pages."""
    field = arrow if isinstance(arrow, pa.Field) else pa.field("c", arrow)
    schema = Schema.from_arrow(pa.schema([field]))
    (leaf,) = leaf_columns(schema.fields[0])
    num_rows = sum(page.num_rows for page in pages) // leaf.multiplier
    container = _kernels.Container([column_encoding()], *FOOTER_NUMBERS[version], 0)
    url = PLANAR_LAYOUT if version >= FileVersion.V2_3 else PAGE_LAYOUT
    chunks, first = [], 0
    for page in pages:
        buffers = [np.frombuffer(buffer, np.uint8) for buffer in page.buffers]
        starts = container.add_page(0, url, page.description, buffers, [], page.num_rows, first)
        first += page.num_rows
        placed = zip(buffers, starts, strict=True)
        chunks += [chunk for buffer, start in placed if start >= 0 for chunk in padded(buffer)]
    descriptor = file_descriptor(schema, num_rows).SerializeToString()
    content = b"".join(chunk.tobytes() for chunk in chunks) + container.end(descriptor)
    return ReadFile(schema, num_rows, content)


def pylance_file(table: pa.Table, version: str, path: Path, **options: Any) -> ReadFile:
    """Write a table of one column with pylance, each batch as it is, and return the file."""
    with LanceFileWriter(str(path), table.schema, version=version, **options) as writer:
        for batch in table.to_batches():
            writer.write_batch(batch)
    return ReadFile(Schema.from_arrow(table.schema), table.num_rows, path.read_bytes())

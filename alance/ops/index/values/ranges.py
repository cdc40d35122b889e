"""Merge of an index by ranges of its values, shared by several processes or machines.

Parts hold the first values of their blocks. These values divide the index into ranges of about
equal bytes, and show which blocks of each run overlap a range. For a B-tree, each range becomes a
file of pages; one process joins their page tables. For a bitmap index, which is a single file, each
range becomes a run with one row set per value; one process concatenates them. For vector indices
with graphs, each range of partitions becomes a run of graphs.
"""

from __future__ import annotations

import json
import uuid
from bisect import bisect_left
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base.calls import public
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.index import btree
from alance.format.index.bitmap import RowSetBuilder
from alance.format.index.btree import PageTableBuilder
from alance.format.index.hnsw import Links
from alance.format.numbers import to_arrow
from alance.format.proto import table_pb2
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.index.values.merge import RunMerger, keys_of
from alance.ops.index.values.runs import IndexPart, write_run
from alance.ops.index.vectors.parts import write_graphs
from alance.ops.lookup.files import sort_key
from alance.ops.lookup.kinds import KINDS
from alance.ops.lookup.kinds.btree import write_lookup, write_pages
from alance.ops.lookup.kinds.keys import row_schema
from alance.ops.lookup.kinds.row_sets import set_batches
from alance.ops.version.opening import at_version

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from alance.datasets import Dataset
    from alance.format.index.bitmap import KeyedSets
    from alance.ops.version.snapshot import Snapshot

MAX_INDEX_RANGES: Final = 128
FIRST_BYTES: Final = 64 << 10  # limit of a part's first values; beyond it, some blocks have none
NUMBER_SHIFT: Final = 128 - 53  # file numbers are written in JSON, which is exact up to 53 bits


@public
@dataclass(frozen=True, slots=True)
class IndexRange:
    """A range of an index's values to merge. Can be pickled.

    Attributes:
        segment: id of the segment, which names the folder of the files.
        number: position among the ranges.
        type: type of the values.
        parts: blocks of the runs that may have values of the range.
        low, high: bounds of the values, as for `RunMerger.merged`.
        memory_bytes: approximate memory of the merge.
        links: for vectors, options of the graphs: m, ef_construction, max_level.
    """

    column: str
    kind: str
    read_version: int
    segment: str
    number: int
    type: pa.DataType
    parts: tuple[IndexPart, ...]
    low: Any
    high: Any
    memory_bytes: int
    links: tuple[int, int, int] | None = None

    async def execute(self, dataset: Dataset) -> IndexPages:
        """Merge the range and write it. If it is executed twice, only one result is used.

        Cost: a read of the blocks, and for graphs of the training; an upload of the file; a GET of
        the version's manifest if `dataset` is another version. Memory: `memory_bytes`, but at least
        512 KiB per part.

        Args:
            dataset: any version of the table.

        Raises:
            NotFoundError: the version or a part has been removed.
            CorruptFileError: the bytes of a part have changed since it was written.
            StoreError: the store failed; the file is removed.
        """
        base = await at_version(dataset._snapshot, self.read_version)
        if self.links is not None:
            return await self._graphs(base, Links(*self.links))
        form = KINDS[self.kind].form
        if form is not None:
            return await self._sets(base, form)
        files = SegmentFiles(base, uuid.UUID(self.segment))
        file, counts = uuid.uuid4().int >> NUMBER_SHIFT, list[int]()
        merger = RunMerger(base, row_schema(self.type), self.memory_bytes, counts.append)
        async with aclosing(merger.merged(self.parts, self.low, self.high)) as rows:
            table = await write_pages(files, btree.part_file(file), self.type, rows)
        (written,) = files.files
        content = table.serialize().to_pybytes()
        return IndexPages(self.segment, self.number, sum(counts), file, written.size_bytes, content)

    async def _sets(self, base: Snapshot, form: KeyedSets) -> IndexPages:
        """Write a run with the joined row set of each value, in the folder of the parts."""
        counts = list[int]()
        sets = RowSetBuilder(self.type, sort_key, form, of_sets=True)
        merger = RunMerger(base, form.schema(self.type), self.memory_bytes, counts.append)
        build = self.parts[0].build if self.parts else self.segment
        async with aclosing(merger.merged(self.parts, self.low, self.high)) as rows:
            joined = set_batches(base.engine.pool, rows, sets)
            path, blocks, _ = await write_run(base, build, joined)
        part = IndexPart(self.column, self.kind, self.read_version, (), path, sum(counts), blocks)
        return IndexPages(self.segment, self.number, sum(counts), run=part)

    async def _graphs(self, base: Snapshot, links: Links) -> IndexPages:
        """Write a run with the graph of each partition, in the folder of the parts."""
        counts = list[int]()

        def merged(schema: pa.Schema) -> AsyncGenerator[pa.RecordBatch, None]:
            merger = RunMerger(base, schema, self.memory_bytes, counts.append)
            return merger.merged(self.parts, self.low, self.high)

        build = self.parts[0].build
        path, blocks, shapes = await write_graphs(base, self.column, build, links, merged)
        part = IndexPart(self.column, self.kind, self.read_version, (), path, sum(counts), blocks)
        return IndexPages(self.segment, self.number, sum(counts), run=part, shapes=shapes)


@dataclass(frozen=True, slots=True)
class IndexPages:
    """A merged range, in a file that no version has yet. Can be pickled.

    Attributes:
        number: number of the range.
        num_rows: number of rows in the merged blocks.
        file, size_bytes: for a B-tree: number of its page file, and the file's size.
        table: for a B-tree: rows of its page table, as an Arrow batch in the IPC format.
        run: for a bitmap index: values and their row sets; for vectors: the graphs.
        shapes: for vectors: number of each partition, entry row of its graph, and offsets of its
            levels.
    """

    segment: str
    number: int
    num_rows: int
    file: int = 0
    size_bytes: int = 0
    table: bytes = b""
    run: IndexPart | None = None
    shapes: tuple[tuple[int, int, tuple[int, ...]], ...] = ()

    @property
    def path(self) -> str:
        """Name of the page file in the segment's folder."""
        return btree.part_file(self.file)


def pack_firsts(firsts: Sequence[pa.Array], max_bytes: int = FIRST_BYTES) -> tuple[bytes, int]:
    """Return the first values of blocks as Arrow IPC bytes, and the stride.

    If the values exceed `max_bytes`, only every `stride`-th block has its value.
    """
    if not firsts:
        return b"", 1
    stride = max(1, -(-sum(value.nbytes for value in firsts) // max_bytes))
    values = pa.concat_arrays(firsts[::stride])
    return pa.record_batch({btree.VALUES_COLUMN: values}).serialize().to_pybytes(), stride


@dataclass(frozen=True, slots=True)
class _Fences:
    """First keys of a run's blocks: `nulls` blocks begin with null, the others with `keys`."""

    part: IndexPart
    nulls: int
    keys: list[Any]

    @classmethod
    def of(cls, part: IndexPart, type_: pa.DataType) -> _Fences:
        if not part.firsts:
            return cls(part, 0, [])
        stored = part.schema.field(0).type if part.schema is not None else type_
        schema = pa.schema([pa.field(btree.VALUES_COLUMN, stored)])
        batch = pa.ipc.read_record_batch(pa.py_buffer(part.firsts), schema)
        values = batch.column(0).cast(type_, safe=False)
        nulls = values.null_count
        keys = keys_of(values.slice(nulls))
        return cls(part, nulls, [keys[at] for at in range(len(keys))])

    def between(self, low: Any, high: Any) -> IndexPart:
        """Return the blocks that may have values of a range."""
        stride, start, stop = self.part.stride, 0, len(self.part.blocks)
        if low is not None:
            start = stride * max(0, self.nulls + bisect_left(self.keys, low) - 1)
        if high is not None and (place := bisect_left(self.keys, high)) < len(self.keys):
            stop = stride * (self.nulls + place)
        return self.part.cut(start, stop)


def cut_ranges(
    column: str,
    kind: str,
    read_version: int,
    type_: pa.DataType,
    parts: Sequence[IndexPart],
    *,
    range_bytes: int,
    memory_bytes: int,
    links: Links | None = None,
) -> list[IndexRange]:
    """Split an index into ranges of about equal bytes; empty if one range is enough. CPU work.

    Args:
        type_: type of the values.
        parts: parts, in the order in which the index lists rows of equal values.
    """
    fences = [_Fences.of(part, type_) for part in parts]
    lows = [None, *_splitters(fences, range_bytes)]
    if len(lows) == 1:
        return []
    segment, highs = str(uuid.uuid4()), [*lows[1:], None]
    ranges = []
    for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
        cut = [fence.between(low, high) for fence in fences]
        blocks = tuple(part for part in cut if part.blocks)
        ranges.append(
            IndexRange(
                column,
                kind,
                read_version,
                segment,
                number,
                type_,
                blocks,
                low,
                high,
                memory_bytes,
                links,
            )
        )
    return ranges


def _splitters(fences: Sequence[_Fences], range_bytes: int) -> list[Any]:
    """Return the first keys of all ranges except the first, ascending."""
    total = sum(fence.part.num_bytes for fence in fences)
    num_ranges = min(MAX_INDEX_RANGES, -(-total // range_bytes))
    weighted = sorted(
        (key, fence.part.num_bytes * fence.part.stride / len(fence.part.blocks))
        for fence in fences
        for key in fence.keys
    )
    if num_ranges < 2 or not weighted:
        return []
    reached = np.cumsum([weight for _, weight in weighted])
    places = np.searchsorted(reached, np.arange(1, num_ranges) * reached[-1] / num_ranges)
    keys = [weighted[place][0] for place in places.tolist()]
    return sorted({key for key in keys if key > weighted[0][0]})


def in_order(pages: Sequence[IndexPages], parts: Sequence[IndexPart]) -> list[IndexPages]:
    """Return merged ranges by number, and check that they have all rows of the parts.

    Raises:
        InvalidInputError: a range is missing or occurs twice.
    """
    num_rows = sum(count for part in parts for count, _, _ in part.blocks)
    pages = sorted(pages, key=lambda part: part.number)
    numbers, rows = [part.number for part in pages], sum(part.num_rows for part in pages)
    is_single = len({part.segment for part in pages}) == 1
    if numbers != list(range(len(pages))) or rows != num_rows or not is_single:
        raise InvalidInputError(
            f"index pages: {rows} rows in ranges {numbers}; expected each range of one list once, "
            f"{num_rows} rows"
        )
    return pages


async def join_pages(
    base: Snapshot, pages: Sequence[IndexPages], type_: pa.DataType
) -> SegmentFiles:
    """Write the page table of all ranges and return the files of the segment. Cost: a PUT.

    Args:
        pages: merged ranges, from `in_order`.
        type_: type of the values.

    Raises:
        StoreError: the store failed; the page files remain.
    """
    schema = PageTableBuilder(type_).schema

    def joined() -> tuple[pa.RecordBatch, list[int]]:
        tables = [pa.ipc.read_record_batch(pa.py_buffer(part.table), schema) for part in pages]
        whole = pa.concat_batches(tables)
        places = to_arrow(np.arange(whole.num_rows, dtype=np.uint32))
        columns = [*whole.columns[:-1], places]
        return pa.RecordBatch.from_arrays(columns, schema=schema), [t.num_rows for t in tables]

    table, counts = await base.engine.pool.run(joined)
    listed = [table_pb2.IndexFile(path=part.path, size_bytes=part.size_bytes) for part in pages]
    files = SegmentFiles(base, uuid.UUID(pages[0].segment), listed)
    file_pages = [[part.file, count] for part, count in zip(pages, counts, strict=True)]
    await write_lookup(
        files, table, {btree.RANGE_PARTITIONED: "true", btree.FILE_PAGES: json.dumps(file_pages)}
    )
    return files

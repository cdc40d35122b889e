"""Vector index builds in parts: the plan trains, tasks encode, the merge writes the segment.

The training is stored beside the parts, in the folder of the plan, as the files of a segment
without rows. A task encodes the vectors of its fragments with it and writes them sorted by
partition. For an index with graphs, further tasks each link the rows of some partitions and write
the graphs.
"""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError, NotFoundError
from alance.format.index import hnsw, ivf
from alance.format.numbers import as_numbers, to_arrow
from alance.format.proto import table_pb2
from alance.format.table.indices import Index
from alance.format.table.naming import INDICES
from alance.ops.index.segment_files import SegmentFiles
from alance.ops.index.values.merge import RunMerger
from alance.ops.index.values.runs import write_run
from alance.ops.index.values.sort import SORT_MEMORY_BYTES
from alance.ops.index.vectors.build import (
    PARTITION_COLUMN,
    CodedRows,
    VectorSegmentBuilder,
    whole_partitions,
)
from alance.ops.index.vectors.graphs import NewGraphs
from alance.ops.index.vectors.train import train, training_of
from alance.ops.version.objects import discard_objects

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Collection, Sequence
    from typing import TypeAlias

    from alance.format.field import Field
    from alance.ops.index.values.ranges import IndexPages
    from alance.ops.index.values.runs import Block
    from alance.ops.index.vectors.graphs import Graph
    from alance.ops.index.vectors.new import CheckedVectors
    from alance.ops.index.vectors.train import Training
    from alance.ops.version.snapshot import Snapshot

    Merge: TypeAlias = Callable[[pa.Schema], AsyncGenerator[pa.RecordBatch, None]]

# Schema of a run of graph rows.
GRAPH_SCHEMA: Final = pa.schema([pa.field(PARTITION_COLUMN, pa.int64()), *hnsw.FIELDS])
LINKING: Final = 16  # linking rows takes about 16 times as long as merging them


async def write_training(base: Snapshot, checked: CheckedVectors, build: str) -> None:
    """Train a vector index and store the training in the folder of a build.

    Cost: a take of the sample, k-means, two PUTs.
    """

    async def trained() -> Training:
        return replace(await train(base, checked), links=None)  # there are no rows to link

    builder = VectorSegmentBuilder(base, checked.column, checked.leaf, checked.name, trained)
    builder.files = SegmentFiles(base, uuid.UUID(build))
    try:
        await builder.build([])
    except BaseException:
        await builder.discard()
        raise


async def training_at(snapshot: Snapshot, build: str, leaf: Field) -> Training:
    """Return the training that `write_training` stored.

    Cost: at most three rounds, the first of them HEADs, because no record has the files' sizes.

    Raises:
        NotFoundError: the training is gone.
        CorruptFileError: the files do not hold a training for the column.
    """
    record = table_pb2.IndexMetadata(fields=[leaf.id])
    record.uuid.uuid = uuid.UUID(build).bytes
    training = await training_of(snapshot, Index.from_protobuf(record), leaf)
    if training is None:
        raise CorruptFileError(f"index build {build}: its training is not that of {leaf.name!r}")
    return training


async def has_training(snapshot: Snapshot, build: str, leaf: Field) -> bool:
    """Return True if the training of a build still exists."""
    try:
        await training_at(snapshot, build, leaf)
    except NotFoundError:
        return False
    return True


async def coded_rows(
    snapshot: Snapshot,
    column: str,
    leaf: Field,
    build: str,
    fragment_ids: Collection[int],
    memory: int,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Return the encoded vectors of some fragments, sorted by partition: the run of a task."""
    training = await training_at(snapshot, build, leaf)
    rows = CodedRows(snapshot, column, training, memory)
    return rows.sorted(rows.scanned(fragment_ids))


async def merge_coded(
    base: Snapshot,
    checked: CheckedVectors,
    build: str,
    merge: Merge,
    fragment_ids: Collection[int],
    graphs: MergedGraphs | None = None,
) -> table_pb2.IndexMetadata:
    """Merge encoded runs into a segment and return its record. An error removes all files."""

    async def trained() -> Training:
        return replace(await training_at(base, build, checked.leaf), links=checked.links)

    builder = VectorSegmentBuilder(base, checked.column, checked.leaf, checked.name, trained)
    try:
        graph_of = None if graphs is None else graphs.next
        return await builder.build_from(merge, fragment_ids, graph_of)
    except BaseException:
        await builder.discard()
        raise
    finally:
        if graphs is not None:
            await graphs.aclose()


async def write_graphs(
    base: Snapshot, column: str, build: str, links: hnsw.Links, merge: Merge
) -> tuple[str, tuple[Block, ...], tuple[tuple[int, int, tuple[int, ...]], ...]]:
    """Link the rows of some partitions and write their graphs as a run.

    Cost: the training, a read of the rows, a PUT. Memory: see `NewGraphs.linked`.

    Args:
        merge: returns the rows in a schema, sorted by partition.

    Returns:
        Path and blocks of the run, and the shapes for `IndexPages`.

    Raises:
        NotFoundError: the training or a part has been removed.
        StoreError: the store failed; the file is removed.
    """
    training = await training_at(base, build, base.schema.field(column))
    training = replace(training, links=links)
    rows = CodedRows(base, column, training, SORT_MEMORY_BYTES)
    graphs = NewGraphs.of(training, SegmentFiles(base))
    shapes = []

    async def linked() -> AsyncGenerator[pa.RecordBatch, None]:
        batches = rows.by_partition([merge(rows.coded_schema)])
        async with aclosing(graphs.linked(batches, rows.lengths)) as linked:
            async for (number, shape, graph), _ in linked:
                shapes.append((number, shape.entry, shape.levels))
                labels = to_arrow(np.full(graph.num_rows, number, np.int64))
                yield pa.RecordBatch.from_arrays([labels, *graph.columns], schema=GRAPH_SCHEMA)

    path, blocks, _ = await write_run(base, build, linked())
    return path, blocks, tuple(shapes)


class MergedGraphs:
    """Graphs of all ranges of partitions, in order. Call `aclose` at the end.

    Args:
        ranges: merged ranges, in partition order.
        links: options with which the graphs were built.
        memory: approximate number of bytes that are read at once.
    """

    def __init__(
        self, base: Snapshot, ranges: Sequence[IndexPages], links: hnsw.Links, memory: int
    ) -> None:
        self._graphs = self._read(base, ranges, links, memory)
        self._turn = asyncio.Lock()  # callers get graphs in the order of their calls

    async def next(self, number: int, num_rows: int) -> Graph:
        """Return the next graph, which must be that of `number` and have `num_rows` rows.

        Raises:
            CorruptFileError: the next graph belongs to another partition, or there is none.
        """
        async with self._turn:
            graph = await anext(self._graphs, None)
        if graph is None or graph[0] != number or graph[1].levels[1] != num_rows:
            actual = "none" if graph is None else f"one of {graph[1].levels[1]} rows of {graph[0]}"
            raise CorruptFileError(
                f"index pages: {actual}; expected the graph of partition {number}, {num_rows} rows"
            )
        return graph

    async def aclose(self) -> None:
        """Stop reading the graphs."""
        await self._graphs.aclose()

    @staticmethod
    async def _read(
        base: Snapshot, ranges: Sequence[IndexPages], links: hnsw.Links, memory: int
    ) -> AsyncGenerator[Graph, None]:
        for part in ranges:
            assert part.run is not None
            shapes = iter(part.shapes)
            runs = RunMerger(base, GRAPH_SCHEMA, memory).merged([part.run])
            async with aclosing(runs), aclosing(whole_partitions(runs)) as batches:
                async for batch in batches:
                    row = 0
                    while row < batch.num_rows:
                        number, entry, levels = next(shapes, (-1, 0, (0,)))
                        graph = batch.slice(row, levels[-1])
                        labels = as_numbers(graph.column(0))
                        if not len(labels) or (labels != number).any():
                            raise CorruptFileError(
                                f"index run {part.run.path!r}: not the graph of {number}"
                            )
                        row += graph.num_rows
                        columns = graph.columns[1:]
                        rows = pa.RecordBatch.from_arrays(columns, schema=pa.schema(hnsw.FIELDS))
                        yield number, hnsw.GraphShape(entry, levels, links), rows


async def discard_training(snapshot: Snapshot, build: str) -> None:
    """Remove the training of a build. Errors of the store are ignored."""
    names = (ivf.INDEX_FILE, ivf.STORAGE_FILE)
    places = [snapshot.table.folder(f"{INDICES}/{build}/{name}") for name in names]
    await discard_objects(snapshot.engine, places)

"""HNSW graphs of a new vector index segment, built while its rows are written.

The rows are passed on to their own file. The graph of each partition is written to the index file
at the same time. Several partitions are linked concurrently, in threads, some rows at a time.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.format.index import hnsw, ivf
from alance.format.numbers import to_arrow
from alance.io.loop.readahead import in_turn
from alance.io.loop.tasks import all_of
from alance.ops.lookup.stored import SegmentEnd

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from typing import Any

    import numpy.typing as npt

    from alance.base.arrays import Int64s
    from alance.format.index.quantizers import Quantizer
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.index.vectors.train import Training

    Graph = tuple[int, hnsw.GraphShape, pa.RecordBatch]
    GraphOf = Callable[[int, int], Awaitable[Graph | None]]

GRAPH_SEED: Final = 42  # the same rows give the same graph
LINKED_STEP_ROWS: Final = 1024  # rows linked per job of the pool: some tenths of a second


class NewGraphs:
    """Graphs of a segment under construction.

    Args:
        centroids: centroids in the type of the vectors; shape (partitions, dimension).
        aimed: mean rows of a partition at the training, as text for the file's metadata.
        graph_of: returns the existing graph of a partition with this number of rows; None if there
            is none to reuse.
    """

    def __init__(
        self,
        files: SegmentFiles,
        quantizer: Quantizer,
        centroids: npt.NDArray[Any],
        links: hnsw.Links,
        aimed: str,
        graph_of: GraphOf | None = None,
    ) -> None:
        self._files = files
        self._quantizer = quantizer
        self._centroids = centroids
        self._links = links
        self._aimed = aimed
        self._graph_of = graph_of
        self._queue: asyncio.Queue[Graph | None] = asyncio.Queue(1)
        self._shapes: dict[int, hnsw.GraphShape] = {}
        self._sizes = np.zeros(len(centroids), np.int64)

    @classmethod
    def of(
        cls, training: Training, files: SegmentFiles, graph_of: GraphOf | None = None
    ) -> NewGraphs:
        """Return the graphs of a new segment. The training must have `links`."""
        assert training.links is not None
        aimed = str(training.partition_rows)
        quantizer, centroids = training.quantizer, training.centroids
        return cls(files, quantizer, centroids, training.links, aimed, graph_of)

    async def write(self, storage: Awaitable[None]) -> None:
        """Write `index.idx` while `storage` writes the rows that `passed` yields.

        Raises:
            StoreError: the store failed.
        """
        schema = pa.schema(hnsw.FIELDS)
        index = self._files.write(ivf.INDEX_FILE, schema, self._batches(), self._end)
        await all_of([storage, index])

    async def passed(
        self, batches: AsyncGenerator[pa.RecordBatch, None], lengths: Int64s
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the same batches, each as soon as its partitions are linked; see `linked`."""
        async with aclosing(self.linked(batches, lengths)) as linked:
            async for graph, batch in linked:
                await self._queue.put(graph)
                if batch is not None:
                    yield batch
        await self._queue.put(None)

    async def linked(
        self, batches: AsyncGenerator[pa.RecordBatch, None], lengths: Int64s
    ) -> AsyncGenerator[tuple[Graph, pa.RecordBatch | None], None]:
        """Yield a pair for each non-empty partition: its graph, and a batch or None.

        The batch comes with the last of its partitions; the other pairs have None.

        Memory: about 24 * m bytes for each row of the partitions being linked (one partition per
        thread), plus the batches.

        Args:
            batches: stored rows; each batch has whole partitions.
            lengths: number of rows of each partition that have passed so far.
        """

        async def works() -> AsyncGenerator[Awaitable[tuple[Graph, pa.RecordBatch | None]], None]:
            number = 0
            async for batch in batches:
                row = 0
                while row < batch.num_rows:
                    size = int(lengths[number])
                    if size:
                        part, row = batch.slice(row, size), row + size
                        yield self._linked(number, part, batch if row == batch.num_rows else None)
                    number += 1

        ahead = max(1, self._files.snapshot.session.decode_threads - 1)
        async with aclosing(batches), aclosing(in_turn(works(), ahead)) as linked:
            async for graph in linked:
                yield graph

    async def _linked(
        self, number: int, part: pa.RecordBatch, last: pa.RecordBatch | None
    ) -> tuple[Graph, pa.RecordBatch | None]:
        """Return the graph of a partition, and `last` unchanged.

        Args:
            part: rows of the partition.
            last: batch to yield with this graph, because all graphs of its partitions are then
                built; None for no batch.
        """
        pool = self._files.snapshot.engine.pool
        if self._graph_of is not None:
            stored = await self._graph_of(number, part.num_rows)
            if stored is not None:
                return stored, last
        builder = await pool.run(lambda: self._builder(part))
        while not await pool.run(lambda: builder.grow(LINKED_STEP_ROWS)):
            pass
        return (number, *await pool.run(lambda: self._finished(builder))), last

    def _builder(self, part: pa.RecordBatch) -> _kernels.GraphBuilder:
        rows = self._quantizer.graph_rows(part.columns[1:])
        m, ef, levels = self._links
        return _kernels.GraphBuilder(rows, m, ef, levels, GRAPH_SEED)

    def _finished(self, builder: _kernels.GraphBuilder) -> tuple[hnsw.GraphShape, pa.RecordBatch]:
        rows, starts, links, distances, levels, entry = builder.finish()
        offsets = to_arrow(starts)
        columns = [
            to_arrow(rows),
            pa.ListArray.from_arrays(offsets, to_arrow(links)),
            pa.ListArray.from_arrays(offsets, to_arrow(distances)),
        ]
        shape = hnsw.GraphShape(entry, tuple(levels.tolist()), self._links)
        return shape, pa.RecordBatch.from_arrays(columns, schema=pa.schema(hnsw.FIELDS))

    async def _batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        while (graph := await self._queue.get()) is not None:
            number, shape, batch = graph
            self._shapes[number], self._sizes[number] = shape, batch.num_rows
            yield batch

    def _end(self) -> SegmentEnd:
        kind = {"type": f"IVF_HNSW_{self._quantizer.KIND}", ivf.METRIC: self._quantizer.metric}
        shapes = map(self._shapes.get, range(len(self._sizes)))
        metadata = {
            ivf.TYPE: json.dumps(kind, separators=(",", ":")),
            ivf.BUFFER: "1",
            ivf.AIMED: self._aimed,
            hnsw.GRAPHS_KEY: json.dumps(
                ["" if shape is None else shape.text() for shape in shapes], separators=(",", ":")
            ),
        }
        content = ivf.ivf_bytes(self._sizes, self._centroids)
        return SegmentEnd(metadata, [np.frombuffer(content, np.uint8)])

"""Searching the segments of an index: their centroids, and the partitions nearest to the queries.

The metadata of a segment's files is read once, in one or two rounds, and kept in the cache. So are
partitions. All partitions that the cache lacks, of all segments and queries, are requested at once,
within the budget of a scan.
"""

from __future__ import annotations

import math
from contextlib import aclosing
from dataclasses import field, replace
from functools import partial
from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.format.index.hnsw import described
from alance.format.index.ivf import (
    INDEX_FILE,
    ROW_IDS,
    STORAGE_FILE,
    Partition,
    Storage,
    told_tail,
)
from alance.format.index.quantizers import quantizer_of
from alance.format.index.values import METRICS, NO_MASK, TYPES
from alance.format.plans import together
from alance.io.events import trace
from alance.io.loop.readahead import Job, grouped, readahead
from alance.ops.search.heads import read_head, read_storage_head
from alance.ops.version.index_files import located_files
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from typing import Any

    import pyarrow as pa

    from alance.arrays import Bytes, Float64s, Int32s, Int64s
    from alance.file.fragment import OpenFragment
    from alance.format.index.hnsw import Graphs
    from alance.format.index.ivf import Centroids, Quantizer
    from alance.format.plans import Plan
    from alance.io.reading.engine import Engine
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.heads import Head, StorageHead
    from alance.ops.search.options import Search
    from alance.ops.search.segments import SearchSegment
    from alance.ops.version.snapshot import Snapshot


GROUP_BYTES: Final = 4 << 20  # of partitions that one job looks into
GROUP_WORK: Final = 16 << 20  # bytes that it looks at for all queries: 0.3 ms, and some for itself
# Rows and bytes that are looked into on the loop: 0.1 to 0.4 ms, where a hop to a thread and back
# takes the processor 0.1 ms.
INLINE_ROWS: Final = 64 << 10
INLINE_BYTES: Final = 2 << 20
PART_BYTES: Final = 1 << 10  # that what is read of a partition is told by, about
KEPT_BYTES: Final = 5  # of a row beside its columns: a mask, and what its quantiser keeps
FAR: Final = 1e30


@dataclass(frozen=True, slots=True)
class Ivf:
    """A segment, opened.

    Attributes:
        opened: the columns of its rows that are read.
        row_bytes: memory of a row.
        graphs: of its partitions; None: all rows of a partition are compared.
        linked: the columns of the graphs.
        ways: the centroids as queries are compared with them.
        sizes: rows of each partition.
        told: what was asked by `parts`.
    """

    where: str
    centroids: Centroids
    storage: Storage
    quantizer: Quantizer
    opened: OpenFragment
    row_bytes: int
    graphs: Graphs | None
    linked: OpenFragment | None
    ways: Bytes
    sizes: Int64s
    told: dict[tuple[int, int], list[FilePart]] = field(default_factory=dict)

    @property
    def num_partitions(self) -> int:
        return len(self.sizes)

    @property
    def num_bytes(self) -> int:
        """Memory; that of a codebook is guessed."""
        partitions = self.num_partitions * (16 + PART_BYTES)
        return 2 * int(self.centroids.values.nbytes) + partitions + (1 << 19)

    def num_bytes_of(self, partitions: Int64s, ef: int) -> Int64s:
        """Memory of partitions, with their graphs where those are followed; 0 of empty ones."""
        num_rows = self.sizes[partitions]
        num_bytes: Int64s = num_rows * self.row_bytes
        if self.graphs is not None:
            graphs, counts = self.graphs, zip(partitions.tolist(), num_rows.tolist(), strict=True)
            num_bytes += [
                graphs.num_bytes(number) if graphs.pays(number, count, ef) else 0
                for number, count in counts
            ]
        return num_bytes

    def parts(self, number: int, ef: int) -> list[FilePart]:
        """What a search reads of a partition: its rows, and its graph where that is followed."""
        parts = self.told.get((number, ef))
        if parts is None:
            if len(self.told) >= self.num_partitions:  # there are those of another `ef`
                self.told.clear()
            parts = self.told[number, ef] = self._parts(number, ef)
        return parts

    def _parts(self, number: int, ef: int) -> list[FilePart]:
        first, stop = self.storage.offsets[number : number + 2].tolist()
        names = self.quantizer.columns

        def rows(batch: pa.RecordBatch) -> Partition:
            return self.quantizer.kept(Partition.of(number, batch, names))

        parts = [FilePart(("partition", self.where, number), self.opened, (first, stop), rows)]
        graphs = self.graphs
        if graphs is not None and graphs.pays(number, stop - first, ef):
            assert self.linked is not None
            links = partial(graphs.graph, number)
            key = ("graph", self.where, number)
            parts.append(FilePart(key, self.linked, graphs.span(number), links))
        return parts

    def all_parts(self, ef: int) -> Iterator[list[FilePart]]:
        """What searches of that `ef` read of all partitions, in groups of some bytes."""
        partitions = np.flatnonzero(self.sizes)
        sizes = self.num_bytes_of(partitions, ef).tolist()
        sized = zip(partitions.tolist(), sizes, strict=True)
        for group in grouped(sized, itemgetter(1), GROUP_BYTES):
            yield [part for number, _ in group for part in self.parts(number, ef)]

    def add(
        self,
        nearest: _kernels.Nearest,
        queries: Int32s,
        partition: Partition,
        graph: _kernels.Graph | None,
        rows: Eligible,
        ef: int,
    ) -> None:
        """Add the rows of a partition that may be given to the nearest of some queries."""
        mask = rows.mask_of_part((self.where, partition.number), partition.ids)
        count = int(np.count_nonzero(mask)) if len(mask) else len(partition.ids)
        if graph is not None and self.graphs and self.graphs.pays(partition.number, count, ef):
            partition = replace(partition, graph=graph, ef=ef)
        self.quantizer.add(nearest, queries, partition, mask)

    def nearest_partitions(self, queries: Float64s, count: int) -> Int64s:
        """So many partitions of each query, in the order in which they are searched: (q, count)."""
        metric = self.centroids.metric
        kind = TYPES["uint8" if metric == "hamming" else "float32"]
        by = METRICS.index("l2" if metric == "cosine" else metric)  # the queries have length one
        num_queries, dim = queries.shape
        nearest = _kernels.Nearest(queries.reshape(-1), dim, count, -math.inf, math.inf)
        numbers = np.arange(num_queries, dtype=np.int32)
        ids = np.arange(self.num_partitions, dtype=np.uint64)
        _kernels.add_vectors(nearest, numbers, ids, NO_MASK, self.ways, kind, by)
        return nearest.result()[2].reshape(num_queries, count).astype(np.int64)


def _ways(centroids: Centroids) -> Bytes:
    """The centroids as queries are compared with them, row after row."""
    # Those that are no numbers, of partitions without rows, come last.
    values = np.nan_to_num(centroids.values, nan=FAR, posinf=FAR, neginf=-FAR)
    if centroids.metric == "hamming":
        return np.clip(values, 0, 255).astype(np.uint8).reshape(-1)
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


async def open_segment(
    snapshot: Snapshot, segment: SearchSegment, value_type: str, dim: int
) -> Ivf:
    """A segment's centroids, partitions and quantiser. Cost: two rounds, of own files one, once.

    Raises:
        CorruptFileError: files that contradict the format, the column or each other.
        UnsupportedError: valid, but not read here.
        NotFoundError: a file is missing.
    """
    index = segment.index
    engine = snapshot.engine

    async def load() -> Ivf:
        try:
            first, second = await located_files(snapshot, index, (INDEX_FILE, STORAGE_FILE))
            details = index.message.index_details.value
            graphs, far = described(details) is not None, snapshot.is_remote
            opening: list[Plan[Any]] = [
                read_head(*first, engine.cache, has_graphs=graphs, is_remote=far),
                read_storage_head(*second, engine.cache, told_tail(details), is_remote=far),
            ]
            head, storage = await engine.drive(together(opening), "open index")
            return await engine.pool.run(lambda: _joined(second[0], head, storage))
        except AlanceError as error:
            error.add_note(f"index {index.name} of {snapshot.uri}: use_index=False does without")
            raise

    def _joined(path: str, head: Head, rows: StorageHead) -> Ivf:
        centroids, opened, file = head.centroids, rows.opened, rows.file
        if centroids.dim != dim:
            raise CorruptFileError(f"vector index: dimension {centroids.dim}, the column has {dim}")
        partitions = len(centroids.values)
        storage = Storage.parse(file.schema.metadata, rows.message, partitions, file.num_rows)
        quantizer = quantizer_of(centroids, storage.told, rows.content, value_type)
        schema = file.schema.to_arrow()
        missing = [name for name in (ROW_IDS, *quantizer.columns) if name not in schema.names]
        if missing or str(schema.field(ROW_IDS).type) != "uint64":
            raise CorruptFileError(f"vector index: columns {schema.names}")
        quantizer.check(schema)
        row_bytes = int(opened.row_bytes) + KEPT_BYTES
        graphs = head.graphs(np.diff(storage.offsets))
        ways = _ways(centroids)
        sizes = np.diff(storage.offsets)
        return Ivf(
            path, centroids, storage, quantizer, opened, row_bytes, graphs, head.opened, ways, sizes
        )

    where = snapshot.table.index_file(snapshot.manifest, index, STORAGE_FILE)
    return await engine.cache.get(("vector index", where), load, lambda ivf: ivf.num_bytes)


class FilePart(NamedTuple):
    """Rows of a file of a segment that are kept in memory.

    Attributes:
        key: in the search cache.
        span: the rows.
        value_of: what is kept of them; CPU work.
    """

    key: Hashable
    opened: OpenFragment
    span: tuple[int, int]
    value_of: Callable[[pa.RecordBatch], Partition | _kernels.Graph]


class Probe(NamedTuple):
    """A partition of a segment, and the queries that look into it.

    Attributes:
        num_rows, num_bytes: of the partition.
    """

    segment: int
    partition: int
    queries: Int32s
    num_rows: int
    num_bytes: int

    @property
    def work(self) -> int:
        """Bytes that the queries look at."""
        return self.num_bytes * len(self.queries)


async def search_segments(
    snapshot: Snapshot,
    search: Search,
    segments: Sequence[tuple[Ivf, Eligible]],
    queries: Float64s,
    k: int,
    kernel: Kernels,
) -> None:
    """Add the rows of the partitions nearest to the queries.

    Partitions are searched beyond the least number as long as a query has fewer than k rows.

    Cost: a round for the partitions that are not cached; one more each time that their number is
    doubled.
    """
    limits = [search.probing.partitions(ivf.num_partitions) for ivf, _ in segments]
    done = [0] * len(segments)
    stops = [least for least, _ in limits]
    short = np.arange(len(queries))
    num_bytes = sum(int(ivf.centroids.values.nbytes) for ivf, _ in segments)
    while len(short) and any(first < stop for first, stop in zip(done, stops, strict=True)):
        bounds = list(zip(done, stops, strict=True))
        probes = await snapshot.engine.decode(
            partial(_probes, segments, queries, short, bounds, kernel.ef),
            num_bytes * len(short) // 16,  # floats, compared at 16 times what decoding takes
        )
        await _search(snapshot, segments, probes, kernel)
        done = stops
        stops = [min(2 * stop, most) for stop, (_, most) in zip(stops, limits, strict=True)]
        if done != stops:
            short = np.flatnonzero(kernel.counts() < k)


def _probes(
    segments: Sequence[tuple[Ivf, Eligible]],
    queries: Float64s,
    short: Int64s,
    bounds: Sequence[tuple[int, int]],
    ef: int,
) -> list[Probe]:
    """The partitions from one place to another of each query's order, each once; none is empty."""
    probes: list[Probe] = []
    asking = queries[short]
    for segment, ((ivf, _), (first, stop)) in enumerate(zip(segments, bounds, strict=True)):
        partitions = ivf.nearest_partitions(asking, stop)[:, first:].reshape(-1)
        filled = ivf.sizes[partitions] > 0
        if len(short) == 1:
            chosen = partitions[filled]  # the nearest first: fewer rows of the others are near
            asked_by = [short.astype(np.int32)] * len(chosen)
        else:
            numbers = np.repeat(short, stop - first).astype(np.int32)
            order = np.argsort(partitions[filled], kind="stable")
            partitions, numbers = partitions[filled][order], numbers[filled][order]
            starts = np.flatnonzero(np.diff(partitions, prepend=-1))
            chosen = partitions[starts]
            ends = [*starts[1:].tolist(), len(numbers)]
            asked_by = [numbers[at:end] for at, end in zip(starts.tolist(), ends, strict=False)]
        counts, sizes = ivf.sizes[chosen].tolist(), ivf.num_bytes_of(chosen, ef).tolist()
        probes += map(Probe, repeat(segment), chosen.tolist(), asked_by, counts, sizes)
    return probes


class Kernels:
    """The nearest rows of the queries, as each segment's quantiser compares them.

    Of most quantisers that is one for all segments; rotations are a segment's own.

    Attributes:
        ef: rows that are looked for on a graph.
    """

    def __init__(self, of_segments: Sequence[_kernels.Nearest], ef: int) -> None:
        self.of_segments = of_segments
        self.ef = ef

    @property
    def distinct(self) -> list[_kernels.Nearest]:
        """Each of them once."""
        return list({id(nearest): nearest for nearest in self.of_segments}.values())

    def counts(self) -> Int64s:
        """The rows of each query so far."""
        counts = [nearest.result()[0] for nearest in self.distinct]
        total: Int64s = np.sum(counts, axis=0, dtype=np.int64)
        return total


async def _search(
    snapshot: Snapshot,
    segments: Sequence[tuple[Ivf, Eligible]],
    probes: Sequence[Probe],
    kernel: Kernels,
) -> None:
    groups = _grouped(probes)
    if len(groups) == 1:  # a task would only cost turns of the loop
        await _search_group(snapshot, segments, groups[0], kernel)
        return
    jobs = (
        Job(
            sum(probe.num_bytes for probe in group),
            partial(_search_group, snapshot, segments, group, kernel),
        )
        for group in groups
    )
    done = readahead(jobs, budget_bytes=snapshot.read_ahead_bytes, max_jobs=64, ordered=False)
    async with aclosing(done):
        async for _ in done:
            pass


def _grouped(probes: Sequence[Probe]) -> list[list[Probe]]:
    """Probes in groups of some bytes and work."""
    groups: list[list[Probe]] = []
    num_bytes, work = GROUP_BYTES, GROUP_WORK
    for probe in probes:
        if num_bytes + probe.num_bytes > GROUP_BYTES or work + probe.work > GROUP_WORK:
            groups.append([])
            num_bytes = work = 0
        groups[-1].append(probe)
        num_bytes += probe.num_bytes
        work += probe.work
    return groups


async def _search_group(
    snapshot: Snapshot,
    segments: Sequence[tuple[Ivf, Eligible]],
    group: Sequence[Probe],
    kernel: Kernels,
) -> None:
    """Look into partitions, in one job; those that are not cached are read before."""
    engine = snapshot.engine
    ef = kernel.ef
    parts = [segments[probe.segment][0].parts(probe.partition, ef) for probe in group]
    kept = await read_parts(engine, [part for of_probe in parts for part in of_probe])

    def work() -> None:
        for probe, (rows_part, *graph_part) in zip(group, parts, strict=True):
            ivf, rows = segments[probe.segment]
            graph = kept[graph_part[0].key] if graph_part else None
            nearest, partition = kernel.of_segments[probe.segment], kept[rows_part.key]
            ivf.add(nearest, probe.queries, partition, graph, rows, ef)

    num_rows = sum(probe.num_rows * len(probe.queries) for probe in group)
    trace.compare(num_rows)
    num_bytes = sum(probe.work for probe in group)
    is_small = num_rows <= INLINE_ROWS and num_bytes <= INLINE_BYTES
    await engine.pool.run(work, inline=is_small)


async def read_parts(engine: Engine, parts: Sequence[FilePart]) -> dict[Hashable, Any]:
    """Parts of segments by their keys; those that several searches want are read once.

    Cost: a round for those that the search cache has not.
    """
    of_keys = {part.key: part for part in parts}

    async def load(keys: Sequence[Hashable]) -> list[Any]:
        by_file: dict[int, list[FilePart]] = {}
        for key in keys:
            by_file.setdefault(id(of_keys[key].opened), []).append(of_keys[key])
        missing = [sorted(of_file, key=lambda part: part.span) for of_file in by_file.values()]
        plans = [
            of_file[0].opened.read_spans([part.span for part in of_file], engine.cache)
            for of_file in missing
        ]
        tasks = await engine.drive(together(plans), "partitions")

        def decode() -> list[Any]:
            values: dict[Hashable, Any] = {}
            for of_file, task in zip(missing, tasks, strict=True):
                batch, row = task.decode(), 0
                for part in of_file:
                    first, stop = part.span
                    values[part.key] = part.value_of(batch.slice(row, stop - first))
                    row += stop - first
            return [values[key] for key in keys]

        return await engine.decode(decode, sum(task.num_bytes for task in tasks))

    values = await engine.cache.get_many([*of_keys], load, lambda value: value.num_bytes)
    return dict(zip(of_keys, values, strict=True))

"""Search of an index's segments: centroids, then the partitions nearest to the queries.

The metadata of a segment's files is read in one or two rounds and cached. Partitions are cached,
too. All uncached partitions, of all segments and queries, are requested at once, within the
read-ahead budget of a scan.
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
from alance.base.records import dataclass
from alance.errors import AlanceError, CorruptFileError
from alance.format.index.hnsw import described
from alance.format.index.ivf import (
    INDEX_FILE,
    STORAGE_FILE,
    VECTOR_ROW_IDS,
    Partition,
    hinted_tail_bytes,
    partition_offsets,
    storage_metadata,
)
from alance.format.index.quantizers import quantizer_of
from alance.format.index.values import METRICS, NO_MASK, TYPES
from alance.format.plans import together
from alance.io.events import trace
from alance.io.loop.readahead import Job, grouped, readahead
from alance.ops.search.heads import read_head, read_storage_head
from alance.ops.version.index_files import located_files

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence
    from typing import Any

    import pyarrow as pa

    from alance.base.arrays import Bytes, Float64s, Int32s, Int64s
    from alance.file.rows.fragment import OpenFragment
    from alance.format.index.hnsw import Graphs
    from alance.format.index.ivf import Centroids
    from alance.format.index.quantizers import Quantizer
    from alance.format.index.values import VectorType
    from alance.format.plans import Plan
    from alance.io.reading.engine import Engine
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.heads import Head, StorageHead
    from alance.ops.search.options import VectorSearch
    from alance.ops.search.segments import SearchSegment
    from alance.ops.version.snapshot import Snapshot


PROBE_GROUP_BYTES: Final = 4 << 20  # bytes of the partitions that one job searches
PROBE_GROUP_WORK: Final = 16 << 20  # bytes that a job compares for all queries: 0.3 ms
# Limits of a search on the event loop: it takes 0.1 to 0.4 ms. A hop to a thread and back takes
# 0.1 ms of CPU.
INLINE_SEARCH_ROWS: Final = 64 << 10
INLINE_SEARCH_BYTES: Final = 2 << 20
PARTITION_ENTRY_BYTES: Final = 1 << 10  # approximate memory of an entry of `parts_memo`
# Memory of a row in addition to its columns: its mask, and the quantizer's values.
ROW_EXTRA_BYTES: Final = 5
FAR: Final = 1e30  # replaces coordinates that are not finite


@dataclass(frozen=True, slots=True)
class Ivf:
    """An opened segment of an index.

    Attributes:
        where: path of the file of the rows.
        offsets: first row of each partition, then the number of rows; shape (partitions + 1,).
        opened: row columns that a search reads.
        row_bytes: memory of a row.
        graphs: graphs of the partitions; None if the index has no graphs.
        linked: columns of the graphs' file; None if there are no graphs.
        centroid_bytes: centroids in the form for comparisons with queries.
        sizes: number of rows of each partition.
        parts_memo: results of `parts` by partition and `ef`.
    """

    where: str
    centroids: Centroids
    offsets: Int64s
    quantizer: Quantizer
    opened: OpenFragment
    row_bytes: int
    graphs: Graphs | None
    linked: OpenFragment | None
    centroid_bytes: Bytes
    sizes: Int64s
    parts_memo: dict[tuple[int, int], list[FilePart]] = field(default_factory=dict)

    @property
    def num_partitions(self) -> int:
        return len(self.sizes)

    @property
    def num_bytes(self) -> int:
        """Approximate memory, including a codebook."""
        partitions = self.num_partitions * (16 + PARTITION_ENTRY_BYTES)
        return 2 * int(self.centroids.values.nbytes) + partitions + (1 << 19)

    def num_bytes_of(self, partitions: Int64s, ef: int) -> Int64s:
        """Return the memory of partitions, with the graphs that a search follows."""
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
        """Return the parts to read of a partition: its rows, then its graph if it is used."""
        parts = self.parts_memo.get((number, ef))
        if parts is None:
            if len(self.parts_memo) >= self.num_partitions:  # some entries are for another `ef`
                self.parts_memo.clear()
            parts = self.parts_memo[number, ef] = self._parts(number, ef)
        return parts

    def _parts(self, number: int, ef: int) -> list[FilePart]:
        first, stop = self.offsets[number : number + 2].tolist()
        names = self.quantizer.columns

        def rows(batch: pa.RecordBatch) -> Partition:
            partition = Partition.of(number, batch, names)
            return self.quantizer.prepared(partition, self.centroids.values[number])

        parts = [FilePart(("partition", self.where, number), self.opened, (first, stop), rows)]
        graphs = self.graphs
        if graphs is not None and graphs.pays(number, stop - first, ef):
            assert self.linked is not None
            links = partial(graphs.graph, number)
            key = ("graph", self.where, number)
            parts.append(FilePart(key, self.linked, graphs.span(number), links))
        return parts

    def all_parts(self, ef: int) -> Iterator[list[FilePart]]:
        """Yield the parts of all partitions to read for an `ef`, in groups of limited bytes."""
        partitions = np.flatnonzero(self.sizes)
        sizes = self.num_bytes_of(partitions, ef).tolist()
        sized = zip(partitions.tolist(), sizes, strict=True)
        for group in grouped(sized, itemgetter(1), PROBE_GROUP_BYTES):
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
        """Compare the eligible rows of a partition with queries, and collect them in `nearest`."""
        mask = rows.mask_of_part((self.where, partition.number), partition.ids)
        count = int(np.count_nonzero(mask)) if len(mask) else len(partition.ids)
        if graph is not None and self.graphs and self.graphs.pays(partition.number, count, ef):
            partition = replace(partition, graph=graph, ef=ef)
        self.quantizer.add(nearest, queries, partition, mask)

    def nearest_partitions(self, queries: Float64s, count: int) -> Int64s:
        """Return the nearest partitions of each query, nearest first; shape (q, count)."""
        metric = self.centroids.metric
        kind = TYPES["uint8" if metric == "hamming" else "float32"]
        by = METRICS.index("l2" if metric == "cosine" else metric)  # the queries have unit length
        num_queries, dim = queries.shape
        nearest = _kernels.Nearest(queries.reshape(-1), dim, count, -math.inf, math.inf)
        numbers = np.arange(num_queries, dtype=np.int32)
        ids = np.arange(self.num_partitions, dtype=np.uint64)
        _kernels.add_vectors(nearest, numbers, ids, NO_MASK, self.centroid_bytes, kind, by)
        return nearest.result()[2].reshape(num_queries, count).astype(np.int64)


def _centroid_bytes(centroids: Centroids) -> Bytes:
    """Return centroids in the form for comparisons with queries, row by row."""
    # Centroids of empty partitions may be NaN or infinite; such partitions must come last.
    values = np.nan_to_num(centroids.values, nan=FAR, posinf=FAR, neginf=-FAR)
    if centroids.metric == "hamming":
        return np.clip(values, 0, 255).astype(np.uint8).reshape(-1)
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


async def open_segment(snapshot: Snapshot, segment: SearchSegment, type_: VectorType) -> Ivf:
    """Open a segment, through the search cache. Cost: two rounds; one if alance wrote the files.

    Args:
        type_: type of the column's vectors.

    Raises:
        CorruptFileError: the files contradict the format, the column or each other.
        UnsupportedError: the files are valid, but alance cannot read them.
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
                read_storage_head(*second, engine.cache, hinted_tail_bytes(details), is_remote=far),
            ]
            head, storage = await engine.drive(together(opening), "open index")
            return await engine.pool.run(lambda: _ivf_of(second[0], head, storage, type_))
        except AlanceError as error:
            error.add_note(f"index {index.name} of {snapshot.uri}: use_index=False does without")
            raise

    where = snapshot.table.index_file(snapshot.manifest, index, STORAGE_FILE)
    return await engine.cache.get(("vector index", where), load, lambda ivf: ivf.num_bytes)


def _ivf_of(path: str, head: Head, rows: StorageHead, type_: VectorType) -> Ivf:
    """Join the parsed headers of a segment's two files.

    Raises:
        CorruptFileError: the headers do not match the column or each other.
        UnsupportedError: the quantizer is unknown.
    """
    centroids, opened, file = head.centroids, rows.opened, rows.file
    if centroids.dim != type_.dim:
        raise CorruptFileError(
            f"vector index: dimension {centroids.dim}, the column has {type_.dim}"
        )
    partitions = len(centroids.values)
    offsets = partition_offsets(rows.message, partitions, file.num_rows)
    metadata = storage_metadata(file.schema.metadata)
    quantizer = quantizer_of(centroids, metadata, rows.content, type_)
    schema = file.schema.to_arrow()
    missing = [name for name in (VECTOR_ROW_IDS, *quantizer.columns) if name not in schema.names]
    if missing or str(schema.field(VECTOR_ROW_IDS).type) != "uint64":
        raise CorruptFileError(f"vector index: columns {schema.names}")
    quantizer.check(schema)
    row_bytes = int(opened.row_bytes) + ROW_EXTRA_BYTES
    sizes = np.diff(offsets)
    return Ivf(
        where=path,
        centroids=centroids,
        offsets=offsets,
        quantizer=quantizer,
        opened=opened,
        row_bytes=row_bytes,
        graphs=head.graphs(sizes),
        linked=head.opened,
        centroid_bytes=_centroid_bytes(centroids),
        sizes=sizes,
    )


class FilePart(NamedTuple):
    """Rows of a file of a segment, cached as one value.

    Attributes:
        key: key in the search cache.
        span: first and end row.
        value_of: converts the rows to the cached value; CPU work.
    """

    key: Hashable
    opened: OpenFragment
    span: tuple[int, int]
    value_of: Callable[[pa.RecordBatch], Partition | _kernels.Graph]


class Probe(NamedTuple):
    """A partition of a segment, and the queries that search it.

    Attributes:
        segment: position of the segment in the search.
        queries: numbers of the queries.
        num_rows: number of rows of the partition.
        num_bytes: memory of the partition.
    """

    segment: int
    partition: int
    queries: Int32s
    num_rows: int
    num_bytes: int

    @property
    def work(self) -> int:
        """Bytes that the queries of this partition compare, all together."""
        return self.num_bytes * len(self.queries)


async def search_segments(
    snapshot: Snapshot,
    search: VectorSearch,
    segments: Sequence[tuple[Ivf, Eligible]],
    queries: Float64s,
    k: int,
    kernel: Kernels,
) -> None:
    """Search the partitions nearest to the queries; the kernels collect their rows.

    While a query has fewer than k rows, the number of its partitions is doubled, up to the limit.

    Cost: a round for the uncached partitions, and one more for each doubling.
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
            num_bytes * len(short) // 16,  # comparing floats is 16 times as fast as decoding
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
    """Return the probes of non-empty partitions, each partition once.

    Args:
        short: numbers of the queries that need more rows.
        bounds: for each segment, the first and end position in each query's list of partitions.
    """
    probes: list[Probe] = []
    vectors = queries[short]
    for segment, ((ivf, _), (first, stop)) in enumerate(zip(segments, bounds, strict=True)):
        partitions = ivf.nearest_partitions(vectors, stop)[:, first:].reshape(-1)
        filled = ivf.sizes[partitions] > 0
        if len(short) == 1:
            chosen = partitions[filled]  # nearest first, because later ones contain few near rows
            numbers_of = [short.astype(np.int32)] * len(chosen)
        else:
            numbers = np.repeat(short, stop - first).astype(np.int32)
            order = np.argsort(partitions[filled], kind="stable")
            partitions, numbers = partitions[filled][order], numbers[filled][order]
            starts = np.flatnonzero(np.diff(partitions, prepend=-1))
            chosen = partitions[starts]
            ends = [*starts[1:].tolist(), len(numbers)]
            numbers_of = [numbers[at:end] for at, end in zip(starts.tolist(), ends, strict=False)]
        counts, sizes = ivf.sizes[chosen].tolist(), ivf.num_bytes_of(chosen, ef).tolist()
        probes += map(Probe, repeat(segment), chosen.tolist(), numbers_of, counts, sizes)
    return probes


class Kernels:
    """Kernels that collect the nearest rows of the queries.

    For most quantizers, all segments share one kernel. A quantizer that rotates queries has a
    rotation, and so a kernel, for each segment.

    Attributes:
        of_segments: kernel of each segment.
        ef: number of candidates of a graph search.
    """

    def __init__(self, of_segments: Sequence[_kernels.Nearest], ef: int) -> None:
        self.of_segments = of_segments
        self.ef = ef

    @property
    def distinct(self) -> list[_kernels.Nearest]:
        """Kernels without duplicates."""
        return list({id(nearest): nearest for nearest in self.of_segments}.values())

    def counts(self) -> Int64s:
        """Return the number of rows found so far for each query."""
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
    """Split probes into groups of limited bytes and work."""
    groups: list[list[Probe]] = []
    num_bytes, work = PROBE_GROUP_BYTES, PROBE_GROUP_WORK
    for probe in probes:
        is_full = num_bytes + probe.num_bytes > PROBE_GROUP_BYTES
        if is_full or work + probe.work > PROBE_GROUP_WORK:
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
    """Read the uncached partitions of a group, and search the group in one job."""
    engine = snapshot.engine
    ef = kernel.ef
    parts = [segments[probe.segment][0].parts(probe.partition, ef) for probe in group]
    values = await read_parts(engine, [part for of_probe in parts for part in of_probe])

    def work() -> None:
        for probe, (rows_part, *graph_part) in zip(group, parts, strict=True):
            ivf, rows = segments[probe.segment]
            graph = values[graph_part[0].key] if graph_part else None
            nearest, partition = kernel.of_segments[probe.segment], values[rows_part.key]
            ivf.add(nearest, probe.queries, partition, graph, rows, ef)

    num_rows = sum(probe.num_rows * len(probe.queries) for probe in group)
    trace.compare(num_rows)
    num_bytes = sum(probe.work for probe in group)
    is_small = num_rows <= INLINE_SEARCH_ROWS and num_bytes <= INLINE_SEARCH_BYTES
    await engine.pool.run(work, inline=is_small)


async def read_parts(engine: Engine, parts: Sequence[FilePart]) -> dict[Hashable, Any]:
    """Return the values of parts by key; concurrent searches share the read of a part.

    Cost: a round for the uncached parts.
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

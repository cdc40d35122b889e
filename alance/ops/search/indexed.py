"""Searching the segments of an index: their centroids, and the partitions nearest to the queries.

What a segment's files say of themselves is read once, in two rounds, and kept in the search cache,
as are the partitions that were read. All partitions of all segments and queries that are not there
are asked for at once, as far as the budget of a scan goes.
"""

from __future__ import annotations

import math
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final, cast

import numpy as np

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError
from alance.file.columns import OpenColumn
from alance.file.fragment import open_fragment
from alance.file.open import open_file
from alance.file.plain import open_plain
from alance.format.container import open_container
from alance.format.index.ivf import (
    INDEX_FILE,
    ROW_IDS,
    STORAGE_FILE,
    Centroids,
    Partition,
    Storage,
    buffer_number,
    storage_metadata,
)
from alance.format.index.quantizers import buffer_of, columns_of, quantizer_of
from alance.format.index.values import METRICS, NO_MASK, TYPES
from alance.format.plans import ByteRange, together
from alance.format.schema import Schema
from alance.io.readahead import Job, readahead
from alance.ops.version.index_files import located_files

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence
    from typing import Any

    from alance.arrays import Bytes, Float64s, Int32s, Int64s
    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.file.plain import PlainFile
    from alance.format.index.ivf import Quantizer
    from alance.format.plans import Plan
    from alance.io.engine import Engine
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.options import Search
    from alance.ops.search.segments import Segment
    from alance.ops.version.snapshot import Snapshot


WHOLE_BYTES: Final = 4 << 20  # files of centroids up to here are read by one request
GROUP_BYTES: Final = 4 << 20  # of partitions that one job looks into, for each query
FAR: Final = 1e30


@dataclass(frozen=True, slots=True)
class Ivf:
    """A segment, opened.

    Attributes:
        opened: the columns of its rows that are read.
        row_bytes: memory of a row.
        ways: the centroids as queries are compared with them.
    """

    where: str
    centroids: Centroids
    storage: Storage
    quantizer: Quantizer
    opened: OpenFragment
    row_bytes: int
    ways: Bytes

    @property
    def num_partitions(self) -> int:
        return len(self.storage.offsets) - 1

    @property
    def num_bytes(self) -> int:
        """Memory; that of a codebook is guessed."""
        return 2 * int(self.centroids.values.nbytes) + int(self.storage.offsets.nbytes) + (1 << 19)

    def num_bytes_of(self, partitions: Int64s) -> Int64s:
        """Memory of some partitions; 0 of those without rows."""
        return np.diff(self.storage.offsets)[partitions] * self.row_bytes

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


async def open_segment(snapshot: Snapshot, segment: Segment, value_type: str, dim: int) -> Ivf:
    """A segment's centroids, partitions and quantiser. Cost: two rounds, once.

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
            opening: list[Plan[Any]] = [
                _centroids(*first, engine.cache),
                _storage(*second, engine.cache),
            ]
            centroids, storage = await engine.drive(together(opening), "open index")
            return await engine.pool.run(lambda: _joined(second[0], centroids, *storage))
        except AlanceError as error:
            error.add_note(f"index {index.name} of {snapshot.uri}: use_index=False does without")
            raise

    def _joined(
        path: str,
        centroids: Centroids,
        file: PlainFile,
        message: memoryview,
        content: memoryview | None,
        opened: OpenFragment,
    ) -> Ivf:
        if centroids.dim != dim:
            raise CorruptFileError(f"vector index: dimension {centroids.dim}, the column has {dim}")
        metadata = file.schema.metadata
        partitions = len(centroids.values)
        storage = Storage.parse(metadata, message, partitions, file.num_rows)
        quantizer = quantizer_of(centroids, storage.told, content, value_type)
        schema = file.schema.to_arrow()
        missing = [name for name in (ROW_IDS, *quantizer.columns) if name not in schema.names]
        if missing or str(schema.field(ROW_IDS).type) != "uint64":
            raise CorruptFileError(f"vector index: columns {schema.names}")
        quantizer.check(schema)
        row_bytes = int(opened.row_bytes) + 1
        return Ivf(path, centroids, storage, quantizer, opened, row_bytes, _ways(centroids))

    where = snapshot.table.index_file(snapshot.manifest, index, STORAGE_FILE)
    return await engine.cache.get(("vector index", where), load, lambda ivf: ivf.num_bytes)


def _centroids(path: str, size: int, states: Any) -> Plan[Centroids]:
    """Plan what `index.idx` says: one round where the file is small, else two."""
    if size <= WHOLE_BYTES:
        (content,) = yield [ByteRange(path, 0, size)]
        container = yield from open_container(path, size, content)
    else:
        container = yield from open_file(path, size, states)
    descriptor = yield from container.read_descriptor()
    schema = Schema.from_protobuf(descriptor.schema.fields, descriptor.schema.metadata)
    message = yield from container.read_buffer(buffer_number(schema.metadata))
    return Centroids.parse(schema.metadata, message)


def _storage(
    path: str, size: int, states: Any
) -> Plan[tuple[PlainFile, memoryview, memoryview | None, OpenFragment]]:
    """Plan what `auxiliary.idx` says, and the page tables of its columns: two rounds."""
    file = yield from open_plain(path, size, states)
    metadata = file.schema.metadata
    told = storage_metadata(metadata)
    kind = "PQ" if "codebook_position" in told else "RQ" if "rotation_type" in told else ""
    buffers = [buffer_number(metadata)]
    more = buffer_of(kind, told)
    if more is not None:
        buffers.append(more)
    schema = file.schema.project(columns_of([field.name for field in file.schema.fields]))
    opened = yield from open_fragment(schema, [file.source], file.num_rows, states)
    plans: list[Plan[Any]] = [file.container.read_buffer(number) for number in buffers]
    loaded: list[Any] = yield from together([*plans, _page_states(opened, states)])
    message, *contents = loaded[:-1]
    return file, message, contents[0] if contents else None, opened


def _page_states(opened: OpenFragment, states: Any) -> Plan[None]:
    """Plan what must be known of all pages before some of their rows can be read: one round."""
    plans: list[Plan[None]] = []
    for leaf in opened.leaves:
        if not isinstance(leaf.column, OpenColumn):
            continue  # of files of 2.0: pages have no state
        cuts = leaf.column.column.first_rows.tolist()
        # All rows but one: of a small page that is read whole nothing would be learned.
        plans += [
            leaf.column.load(first, last - 1, states)
            for first, last in pairwise(cuts)
            if last - first > 1
        ]
    yield from together(plans)


@dataclass(frozen=True, slots=True)
class Probe:
    """A partition of a segment, and the queries that look into it.

    Attributes:
        num_bytes: memory of the partition.
    """

    segment: int
    partition: int
    queries: Int32s
    num_bytes: int


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
            partial(_probes, segments, queries, short, bounds), num_bytes * len(short) // 4
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
) -> list[Probe]:
    """The partitions from one place to another of each query's order, each once; none is empty."""
    probes = []
    asking = queries[short]
    for segment, ((ivf, _), (first, stop)) in enumerate(zip(segments, bounds, strict=True)):
        partitions = ivf.nearest_partitions(asking, stop)[:, first:].reshape(-1)
        numbers = np.repeat(short, stop - first).astype(np.int32)
        filled = np.flatnonzero(ivf.num_bytes_of(partitions))
        order = filled[np.argsort(partitions[filled], kind="stable")]
        partitions, numbers = partitions[order], numbers[order]
        starts = np.flatnonzero(np.diff(partitions, prepend=-1))
        chosen = partitions[starts]
        probes += [
            Probe(segment, partition, numbers[start:stop], num_bytes)
            for partition, start, stop, num_bytes in zip(
                chosen.tolist(),
                starts.tolist(),
                [*starts[1:].tolist(), len(numbers)],
                ivf.num_bytes_of(chosen).tolist(),
                strict=False,
            )
        ]
    return probes


class Kernels:
    """The nearest rows of the queries, as each segment's quantiser compares them.

    Of most quantisers that is one for all segments; rotations are a segment's own.
    """

    def __init__(self, of_segments: Sequence[_kernels.Nearest]) -> None:
        self.of_segments = of_segments

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
    jobs = (
        Job(
            sum(probe.num_bytes for probe in group),
            partial(_search_group, snapshot, segments, group, kernel),
        )
        for group in _grouped(probes)
    )
    done = readahead(jobs, budget_bytes=snapshot.read_ahead_bytes, max_jobs=64, ordered=False)
    async with aclosing(done):
        async for _ in done:
            pass


def _grouped(probes: Sequence[Probe]) -> Iterator[list[Probe]]:
    """Probes in groups of some work, in bytes that queries look at."""
    group: list[Probe] = []
    work = 0
    for probe in probes:
        more = probe.num_bytes * len(probe.queries)
        if group and work + more > GROUP_BYTES:
            yield group
            group, work = [], 0
        group.append(probe)
        work += more
    if group:
        yield group


async def _search_group(
    snapshot: Snapshot,
    segments: Sequence[tuple[Ivf, Eligible]],
    group: Sequence[Probe],
    kernel: Kernels,
) -> None:
    """Look into partitions, in one job; those that are not cached are read before."""
    engine = snapshot.engine
    partitions = await _partitions(engine, [(segments[probe.segment][0], probe) for probe in group])

    def work() -> None:
        for probe, partition in zip(group, partitions, strict=True):
            ivf, rows = segments[probe.segment]
            mask = rows.mask_of_part((ivf.where, probe.partition), partition.ids)
            ivf.quantizer.add(kernel.of_segments[probe.segment], probe.queries, partition, mask)

    await engine.decode(work, sum(probe.num_bytes * len(probe.queries) for probe in group))


async def _partitions(engine: Engine, wanted: Sequence[tuple[Ivf, Probe]]) -> list[Partition]:
    """Partitions by the search cache; those that several searches want are read once.

    Cost: a round for those that are not there.
    """
    asked = {("partition", ivf.where, probe.partition): (ivf, probe) for ivf, probe in wanted}

    async def load(keys: Sequence[Hashable]) -> list[Partition]:
        missing = [asked[cast("tuple[str, str, int]", key)] for key in keys]
        plans = [_read(ivf, probe, engine.cache) for ivf, probe in missing]
        tasks = await engine.drive(together(plans), "partitions")

        def decode() -> list[Partition]:
            return [
                Partition.of(probe.partition, task.decode(), ivf.quantizer.columns)
                for (ivf, probe), task in zip(missing, tasks, strict=True)
            ]

        return await engine.decode(decode, sum(probe.num_bytes for _, probe in missing))

    return await engine.cache.get_many([*asked], load, lambda partition: partition.num_bytes)


def _read(ivf: Ivf, probe: Probe, states: Any) -> Plan[FragmentTask]:
    first, stop = ivf.storage.offsets[probe.partition : probe.partition + 2].tolist()
    return ivf.opened.read(first, stop, states)

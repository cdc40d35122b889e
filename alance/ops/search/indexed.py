"""Searching the segments of an index: their centroids, and the partitions nearest to the queries.

What a segment's files say of themselves is read once, in two rounds, and kept in the search cache,
as are the partitions that were read. All partitions of all segments and queries that are not there
are asked for at once, as far as the budget of a scan goes.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

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
from alance.format.plans import ByteRange, together
from alance.format.schema import Schema
from alance.io.readahead import Job, readahead
from alance.ops.version.index_files import located_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from alance import _kernels
    from alance.arrays import Float64s, Int32s, Int64s
    from alance.file.fragment import FragmentTask, OpenFragment
    from alance.file.plain import PlainFile
    from alance.format.index.ivf import Quantizer
    from alance.format.plans import Plan
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.options import Search
    from alance.ops.search.segments import Segment
    from alance.ops.version.snapshot import Snapshot


WHOLE_BYTES: Final = 4 << 20  # files of centroids up to here are read by one request
GROUP_BYTES: Final = 4 << 20  # of partitions that are decoded and searched by one job


@dataclass(frozen=True, slots=True)
class Ivf:
    """A segment, opened.

    Attributes:
        opened: the columns of its rows that are read.
        row_bytes: memory of a row.
    """

    where: str
    centroids: Centroids
    storage: Storage
    quantizer: Quantizer
    opened: OpenFragment
    row_bytes: int

    @property
    def num_partitions(self) -> int:
        return len(self.storage.offsets) - 1

    @property
    def num_bytes(self) -> int:
        """Memory; that of a codebook is guessed."""
        return 2 * int(self.centroids.values.nbytes) + int(self.storage.offsets.nbytes) + (1 << 19)

    def partition_bytes(self, number: int) -> int:
        """Memory of a partition; 0 of one without rows."""
        offsets = self.storage.offsets
        return int(offsets[number + 1] - offsets[number]) * self.row_bytes

    def nearest_partitions(self, queries: Float64s) -> Int64s:
        """The partitions of each query in the order in which they are searched; shape (q, p)."""
        centroids, asked = self.centroids.values, queries.astype(np.float32)
        if self.centroids.metric == "hamming":
            bits = asked.astype(np.uint8)[:, None] ^ centroids.astype(np.uint8)[None]
            distances = np.unpackbits(bits, axis=2).sum(axis=2).astype(np.float32)
        elif self.centroids.metric == "dot":
            distances = 1 - asked @ centroids.T
        else:
            distances = (centroids**2).sum(axis=1) - 2 * (asked @ centroids.T)
        return np.argsort(distances, axis=1, kind="stable")


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
        return Ivf(path, centroids, storage, quantizer, opened, row_bytes)

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
    """A partition of a segment, and the queries that look into it."""

    segment: int
    partition: int
    queries: Int32s


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
    orders = await snapshot.engine.decode(
        lambda: [ivf.nearest_partitions(queries) for ivf, _ in segments],
        sum(int(ivf.centroids.values.nbytes) for ivf, _ in segments) * len(queries),
    )
    limits = [search.probing.partitions(ivf.num_partitions) for ivf, _ in segments]
    done = [0] * len(segments)
    stops = [least for least, _ in limits]
    short = np.arange(len(queries))
    while len(short) and any(first < stop for first, stop in zip(done, stops, strict=True)):
        probes = [
            probe
            for number, order in enumerate(orders)
            for probe in _probes(number, order, short, done[number], stops[number])
        ]
        await _search(snapshot, segments, probes, kernel)
        done = stops
        stops = [min(2 * stop, most) for stop, (_, most) in zip(stops, limits, strict=True)]
        if done != stops:
            short = np.flatnonzero(kernel.counts() < k)


def _probes(
    segment: int,
    order: Int64s,
    queries: Int64s,
    first: int,
    stop: int,
) -> Iterator[Probe]:
    """The partitions from place `first` to `stop` of each query's order, each once."""
    asked = order[queries, first:stop]
    partitions = asked.reshape(-1)
    numbers = np.repeat(queries, asked.shape[1]).astype(np.int32)
    places = np.argsort(partitions, kind="stable")
    partitions, numbers = partitions[places], numbers[places]
    cuts = np.flatnonzero(np.diff(partitions)) + 1
    starts = [0, *cuts.tolist()] if len(partitions) else []
    for start, part in zip(starts, np.split(numbers, cuts), strict=False):
        yield Probe(segment, int(partitions[start]), part)


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
        Job(num_bytes, partial(_search_group, snapshot, segments, group, kernel))
        for num_bytes, group in _grouped(segments, probes)
    )
    done = readahead(jobs, budget_bytes=snapshot.read_ahead_bytes, max_jobs=64, ordered=False)
    async with aclosing(done):
        async for _ in done:
            pass


def _grouped(
    segments: Sequence[tuple[Ivf, Eligible]], probes: Sequence[Probe]
) -> Iterator[tuple[int, list[Probe]]]:
    """Probes in groups of some bytes; empty partitions are left out."""
    group: list[Probe] = []
    held = 0
    for probe in probes:
        ivf, _ = segments[probe.segment]
        num_bytes = ivf.partition_bytes(probe.partition)
        if not num_bytes:
            continue
        if group and held + num_bytes > GROUP_BYTES:
            yield held, group
            group, held = [], 0
        group.append(probe)
        held += num_bytes
    if group:
        yield held, group


async def _search_group(
    snapshot: Snapshot,
    segments: Sequence[tuple[Ivf, Eligible]],
    group: Sequence[Probe],
    kernel: Kernels,
) -> None:
    """Read the partitions that are not cached, and look into all of them, in one job."""
    engine = snapshot.engine
    keys = [("partition", segments[probe.segment][0].where, probe.partition) for probe in group]
    cached: list[Partition | None] = [engine.cache.peek(key) for key in keys]
    missing = [place for place, partition in enumerate(cached) if partition is None]
    tasks: list[FragmentTask] = []
    if missing:
        plans = [
            _read(segments[group[place].segment][0], group[place], engine.cache)
            for place in missing
        ]
        tasks = await engine.drive(together(plans), "partitions")

    def work() -> list[Partition]:
        for place, task in zip(missing, tasks, strict=True):
            ivf, _ = segments[group[place].segment]
            names = ivf.quantizer.columns
            cached[place] = Partition.of(group[place].partition, task.decode(), names)
        for probe, partition in zip(group, cached, strict=True):
            assert partition is not None
            ivf, rows = segments[probe.segment]
            mask = rows.mask(partition.ids)
            ivf.quantizer.add(kernel.of_segments[probe.segment], probe.queries, partition, mask)
        return [partition for partition in cached if partition is not None]

    num_bytes = sum(
        segments[probe.segment][0].partition_bytes(probe.partition) * len(probe.queries)
        for probe in group
    )
    partitions = await engine.decode(work, num_bytes)
    for place in missing:
        engine.cache.put(keys[place], partitions[place], partitions[place].num_bytes)


def _read(ivf: Ivf, probe: Probe, states: Any) -> Plan[FragmentTask]:
    first, stop = ivf.storage.offsets[probe.partition : probe.partition + 2].tolist()
    return ivf.opened.read(first, stop, states)

"""Build of a vector index segment: vectors are assigned to partitions, encoded, and sorted.

Rows are read once. They are encoded batch by batch, in threads, and sorted by partition in memory
or on the local disk. Then each partition is laid out as a whole.
"""

from __future__ import annotations

import json
import logging
from contextlib import AsyncExitStack, aclosing
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import InvalidInputError, NotFoundError, UnsupportedError
from alance.format.index import hnsw, ivf
from alance.format.index.quantizers import ProductQuantizer, Rabitq
from alance.format.index.values import METRICS, NUMBER_WIDTHS, VectorType, whole_vectors
from alance.format.numbers import as_numbers, to_arrow
from alance.format.proto import vector_index_pb2
from alance.format.table.indices import Index
from alance.io.loop.readahead import in_turn
from alance.ops.index.new import commit_segments, indexed_column
from alance.ops.index.segment_files import NewSegment
from alance.ops.index.values.sort import LEAST_AHEAD, SORT_AHEAD_SHARE, SORT_MEMORY_BYTES, RowSorter
from alance.ops.index.vectors.carried import CarriedSegment, joined
from alance.ops.index.vectors.graphs import NewGraphs
from alance.ops.index.vectors.new import CheckedVectors, VectorIndexOptions, check_new_vectors
from alance.ops.index.vectors.split import split_large
from alance.ops.index.vectors.train import TooFewVectorsError, train, training_of
from alance.ops.lookup.stored import SegmentEnd
from alance.ops.read.options import ScanOptions
from alance.ops.read.scan import scanned
from alance.ops.read.take import flat_rows
from alance.ops.version.commits import with_retries
from alance.ops.version.projection import ROW_ID, project

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Sequence

    import numpy.typing as npt

    from alance.base.arrays import Int64s
    from alance.format.field import Field
    from alance.format.proto import table_pb2
    from alance.ops.index.vectors.graphs import GraphOf
    from alance.ops.index.vectors.new import NewVectorIndex
    from alance.ops.index.vectors.train import Training
    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)

VECTOR_DETAILS: Final = "/lance.index.pb.VectorIndexDetails"
PARTITION_COLUMN: Final = "partition"
CODED_BYTES: Final = 16 << 20  # vectors per batch when rows are taken by id


async def create_vector_index(
    snapshot: Snapshot, new: NewVectorIndex, options: CommitOptions
) -> Snapshot:
    """Commit a new vector index; see `Dataset.create_index`."""

    async def attempt(base: Snapshot) -> Snapshot:
        checked = check_new_vectors(base, new)
        place = base, checked.column, checked.leaf, checked.name
        builder: NewSegment
        try:
            training = await train(base, checked)
        except TooFewVectorsError as error:
            _log.warning("index %r covers no rows until optimize_indices: %s", checked.name, error)
            builder = UntrainedSegment(*place, checked)
            return await commit_segments(base, {builder: ()}, checked.old, options)

        async def trained() -> Training:
            return training

        builder = VectorSegmentBuilder(*place, trained, checked.options.memory_bytes)
        covered = base.handles.ids
        return await commit_segments(base, {builder: covered}, checked.old, options)

    return await with_retries(snapshot, attempt, options.max_retries)


async def vectors_like(
    base: Snapshot,
    segments: Sequence[table_pb2.IndexMetadata],
    replaced: Sequence[table_pb2.IndexMetadata],
    fragment_ids: Collection[int],
    *,
    retrain: bool,
) -> VectorSegmentBuilder | None:
    """Return a builder like an index's latest segment; None if it cannot be written.

    If the rows have outgrown the number of partitions, centroids and codes are trained again. If
    only some partitions are too large, these are split.

    Args:
        replaced: segments that the new one replaces; their codes are carried over if they have the
            same centroids and codes.
        fragment_ids: fragments to cover.
        retrain: True to train centroids and codes again in any case.

    Raises:
        CorruptFileError, NotFoundError: files cannot be read.
    """
    index = Index.from_protobuf(segments[-1])
    column = indexed_column(base, index)
    if index.kind != "Vector" or column is None:
        return None
    leaf = base.schema.field(column)
    try:
        training = await training_of(base, index, leaf)
    except UnsupportedError:
        return None
    except NotFoundError:
        if index.fragment_ids:
            raise
        return await _first_like(base, column, leaf, index)
    if training is None:
        return None

    places = np.flatnonzero(np.isin(base.manifest.fragments.ids, list(fragment_ids)))
    num_rows = int((await base.live_counts())[places].sum())
    num_partitions = training.suited_partitions(num_rows)
    retrain = retrain or (num_partitions > len(training.centroids) and bool(replaced))

    async def trained() -> Training:
        if not retrain:
            return split.training
        checked = _as_before(column, leaf, index.name, training, num_partitions)
        anew = await train(base, checked)
        return replace(anew, partition_rows=training.partition_rows)

    carried = await _carried(base, () if retrain else replaced, training, leaf)
    split = await split_large(base, column, training, carried)
    builder = VectorSegmentBuilder(base, column, leaf, index.name, trained)
    builder.carried, builder.parted = split.carried, split.ids
    return builder


async def _carried(
    base: Snapshot, replaced: Sequence[table_pb2.IndexMetadata], training: Training, leaf: Field
) -> list[CarriedSegment]:
    """Open the replaced segments that have the same training.

    A segment that shares a fragment with an earlier one is omitted.
    """
    carried: list[CarriedSegment] = []
    covered: set[int] = set()
    for message in replaced:
        segment = await CarriedSegment.open(base, message, training, leaf)
        if segment is not None and not covered & segment.covered:
            carried.append(segment)
            covered |= segment.covered
    return carried


async def _first_like(
    base: Snapshot, column: str, leaf: Field, index: Index
) -> VectorSegmentBuilder | None:
    """Return a builder of the first trained segment of an index that has only a record, no files.

    `UntrainedSegment` writes such a record. Returns None while there are too few vectors to train,
    or if the record's settings are not supported.
    """
    details = vector_index_pb2.VectorIndexDetails.FromString(index.message.index_details.value)
    compression, links = (
        details.WhichOneof("compression"),
        hnsw.described(index.message.index_details.value),
    )
    type_, metric = VectorType.of(leaf.to_arrow().type), METRICS[details.metric_type]
    kind = "" if compression is None else compression.upper()
    if type_ is None or not kind or (kind == Rabitq.KIND and links is not None):
        return None
    options = VectorIndexOptions(**{} if links is None else links._asdict())
    if kind == ProductQuantizer.KIND:
        parts, bits = details.pq.num_sub_vectors or None, details.pq.num_bits or None
        options = replace(options, num_sub_vectors=parts, num_bits=bits)
    elif kind == Rabitq.KIND:
        options = replace(options, num_bits=details.rq.num_bits or None)
    checked = CheckedVectors(
        column, leaf, type_, index.name, kind, links is not None, metric, options
    )
    try:
        training = await train(base, checked)
    except InvalidInputError:
        return None

    async def trained() -> Training:
        return training

    return VectorSegmentBuilder(base, column, leaf, index.name, trained)


def _as_before(
    column: str, leaf: Field, name: str, training: Training, num_partitions: int
) -> CheckedVectors:
    quantizer, options = training.quantizer, VectorIndexOptions(num_partitions=num_partitions)
    if isinstance(quantizer, ProductQuantizer):
        options = replace(options, num_sub_vectors=quantizer.parts, num_bits=quantizer.bits)
    elif isinstance(quantizer, Rabitq):
        options = replace(options, num_bits=quantizer.bits)
    if training.links is not None:
        options = replace(options, **training.links._asdict())
    has_graphs = training.links is not None
    return CheckedVectors(
        column, leaf, training.type, name, quantizer.KIND, has_graphs, training.metric, options
    )


@dataclass(slots=True, eq=False)
class UntrainedSegment(NewSegment):
    """Record without files, for a PQ index whose column has too few vectors to train.

    pylance writes the same record. It covers no fragment, so searches compare every vector until
    `optimize_indices` trains the index.
    """

    checked: CheckedVectors

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """Return the record; nothing is written."""
        checked = self.checked
        metric = METRICS.index(checked.metric)
        details = vector_index_pb2.VectorIndexDetails(metric_type=metric)  # type: ignore[arg-type]
        details.pq.num_bits = checked.num_bits
        details.pq.num_sub_vectors = checked.num_sub_vectors
        if checked.links is not None:
            hnsw.describe(checked.links, details)
        return self.record(
            fragment_ids,
            version=ProductQuantizer.VERSION,
            details=(VECTOR_DETAILS, details.SerializeToString(deterministic=True)),
        )


@dataclass(slots=True, eq=False)
class VectorSegmentBuilder(NewSegment):
    """Builder of a vector index segment.

    Attributes:
        training: returns the centroids and the quantizer.
        memory_bytes: bytes of codes that are sorted at once; more are spilled to the local disk.
        carried: segments whose fragments are not scanned.
        parted: ids of carried rows that are encoded anew.
    """

    training: Callable[[], Awaitable[Training]]
    memory_bytes: int = SORT_MEMORY_BYTES
    carried: tuple[CarriedSegment, ...] = ()
    parted: Int64s = field(default_factory=lambda: np.empty(0, np.int64))

    async def build(self, fragment_ids: Collection[int]) -> table_pb2.IndexMetadata:
        """Write the files of the segment and return its record.

        Cost: the training; a scan of the column in the fragments that no carried segment covers; a
        read of the carried codes; the files' PUTs. Memory: about twice `memory_bytes`, the largest
        partition, and the read-ahead.

        Raises:
            InvalidInputError: too few vectors to train.
            StoreError: the store failed.
            OSError: the local disk is full.
        """
        training = await self.training()
        rows = CodedRows(self.snapshot, self.column, training, self.memory_bytes)
        carried = frozenset[int]().union(*(segment.covered for segment in self.carried))
        sources = [segment.rows(rows.coded_schema) for segment in self.carried]
        sources.append(rows.sorted(rows.scanned(set(fragment_ids) - carried)))
        if len(self.parted):
            sources.append(rows.sorted(rows.taken(self.parted)))
        return await self._write(rows, sources, fragment_ids)

    async def build_from(
        self,
        merge: Callable[[pa.Schema], AsyncGenerator[pa.RecordBatch, None]],
        fragment_ids: Collection[int],
        graph_of: GraphOf | None = None,
    ) -> table_pb2.IndexMetadata:
        """Build the segment from encoded rows of all these fragments, without a scan.

        Args:
            merge: returns the rows in a schema, sorted by partition.
            graph_of: returns graphs that are already built.
        """
        rows = CodedRows(self.snapshot, self.column, await self.training(), self.memory_bytes)
        return await self._write(rows, [merge(rows.coded_schema)], fragment_ids, graph_of)

    async def _write(
        self,
        rows: CodedRows,
        sources: Sequence[AsyncGenerator[pa.RecordBatch, None]],
        fragment_ids: Collection[int],
        graph_of: GraphOf | None = None,
    ) -> table_pb2.IndexMetadata:
        batches = rows.by_partition(sources)
        training = rows.training
        if training.links is None:
            await self.files.write(ivf.STORAGE_FILE, rows.schema, batches, rows.end)
            await self._write_centroids(training)
        else:
            graphs = NewGraphs.of(training, self.files, graph_of)
            passed = graphs.passed(batches, rows.lengths)
            await graphs.write(self.files.write(ivf.STORAGE_FILE, rows.schema, passed, rows.end))
        return self._record(training, fragment_ids, rows.buffer_bytes)

    async def _write_centroids(self, training: Training) -> None:
        kind = {"type": f"IVF_{training.quantizer.KIND}", ivf.METRIC: training.metric}
        metadata = {
            ivf.TYPE: json.dumps(kind, separators=(",", ":")),
            ivf.BUFFER: "1",
            ivf.NO_GRAPHS: json.dumps([""] * len(training.centroids)),
            ivf.AIMED: str(training.partition_rows),
        }
        marker = pa.field(ivf.MARKER, pa.uint64(), nullable=False)

        async def nothing() -> AsyncGenerator[pa.RecordBatch, None]:
            return
            yield

        def end() -> SegmentEnd:
            content = ivf.ivf_bytes(np.zeros(len(training.centroids), np.int64), training.centroids)
            return SegmentEnd(metadata, [np.frombuffer(content, np.uint8)])

        name = ivf.INDEX_FILE
        await self.files.write(name, pa.schema([marker]), nothing(), end)

    def _record(
        self, training: Training, fragment_ids: Collection[int], buffer_bytes: int
    ) -> table_pb2.IndexMetadata:
        metric = METRICS.index(training.metric)
        details = vector_index_pb2.VectorIndexDetails(metric_type=metric)  # type: ignore[arg-type]
        training.quantizer.describe(details)
        if training.links is not None:
            hnsw.describe(training.links, details)
        ivf.hint_tail_bytes(details, buffer_bytes)
        return self.record(
            fragment_ids,
            version=training.quantizer.VERSION,
            details=(VECTOR_DETAILS, details.SerializeToString(deterministic=True)),
        )


class CodedRows:
    """Rows of `auxiliary.idx`, sorted by partition.

    Attributes:
        schema: schema of the stored rows.
        coded_schema: partition number, row id, and codes row by row.
        lengths: number of rows of each partition that `by_partition` has yielded so far.
        buffer_bytes: bytes of the buffers at the file's end; 0 until they are written.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        column: str,
        training: Training,
        memory_bytes: int,
    ) -> None:
        self._snapshot = snapshot
        self._column = column
        self.training = training
        self._points = training.points
        self._memory_bytes = memory_bytes
        self._num_coded = 0
        self.buffer_bytes = 0
        self.lengths = np.zeros(len(training.centroids), np.int64)
        row_id = pa.field(ivf.VECTOR_ROW_IDS, pa.uint64(), nullable=False)
        self.schema = pa.schema([row_id, *training.quantizer.fields])
        self.coded_schema = self.schema.insert(0, pa.field(PARTITION_COLUMN, pa.int64()))

    async def by_partition(
        self, sources: Sequence[AsyncGenerator[pa.RecordBatch, None]]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the rows of sources in stored form; each batch has whole partitions.

        Args:
            sources: batches of `coded_schema`, sorted by partition; the sources are closed at the
                end.
        """
        pool = self._snapshot.engine.pool
        stage: Stage | None = None
        async with AsyncExitStack() as stack:
            for source in sources:
                await stack.enter_async_context(aclosing(source))
            parts = whole_partitions(joined(sources, pool))
            async for part in await stack.enter_async_context(aclosing(parts)):
                num_rows = part.num_rows
                part = await pool.run(lambda part=part: self._laid_out(part))  # type: ignore[misc]
                yield part
                if stage is None:  # all rows are encoded
                    total = self._num_coded if len(sources) == 1 else None
                    stage = stack.enter_context(Stage("write", total or None, "rows"))
                stage.add(num_rows)

    async def sorted(
        self, rows: AsyncGenerator[pa.RecordBatch, None]
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """Sort encoded rows by partition."""
        sorter = RowSorter(self._snapshot.engine.pool, self._memory_bytes)
        async with (
            aclosing(rows) as coded,
            aclosing(sorter.sorted(coded, self.coded_schema)) as ordered,
        ):
            async for batch in ordered:
                yield batch

    def end(self) -> SegmentEnd:
        """Return the metadata and buffers for the end of the file; call it after the last row."""
        quantizer = self.training.quantizer
        metadata = {
            ivf.METRIC: self.training.metric,
            ivf.BUFFER: "1",
            ivf.STORAGE: ivf.storage_text(quantizer.storage()),
        }
        contents = [ivf.ivf_bytes(self.lengths), *quantizer.buffers()]
        self.buffer_bytes = sum(map(len, contents))
        return SegmentEnd(metadata, [np.frombuffer(content, np.uint8) for content in contents])

    async def taken(self, ids: Int64s) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield rows by id, with partitions and codes; all of these rows must have vectors."""
        snapshot = self._snapshot
        projection = project(snapshot.schema, [self._column], flat=True)
        type_ = self.training.type
        step = max(1, CODED_BYTES // (type_.dim * NUMBER_WIDTHS[type_.name]))
        for start in range(0, len(ids), step):
            own = ids[start : start + step]
            batch = await flat_rows(snapshot, own, projection)
            numbers = to_arrow(own.astype(np.uint64))
            rows = pa.RecordBatch.from_arrays([batch.column(0), numbers], names=["", ROW_ID])
            yield await snapshot.engine.pool.run(lambda rows=rows: self._code(rows))  # type: ignore[misc]
            self._num_coded += len(own)

    async def scanned(self, fragment_ids: Collection[int]) -> AsyncGenerator[pa.RecordBatch, None]:
        """Yield the fragments' rows that have vectors, in scan order, with partitions and codes."""
        if not fragment_ids:
            return
        snapshot = self._snapshot
        ahead_bytes = max(LEAST_AHEAD, self._memory_bytes // SORT_AHEAD_SHARE)
        options = ScanOptions(
            fragments=fragment_ids, batch_readahead=1, io_buffer_bytes=ahead_bytes
        )
        num_rows = await snapshot.watched_rows(fragment_ids)

        async def works() -> AsyncGenerator[Awaitable[pa.RecordBatch], None]:
            rows = scanned(snapshot, [self._column, ROW_ID], options)
            with Stage("code", num_rows, "rows") as stage:
                async with aclosing(rows) as batches:
                    async for batch in batches:
                        stage.add(batch.num_rows)
                        yield snapshot.engine.pool.run(lambda batch=batch: self._code(batch))  # type: ignore[misc]

        ahead = max(1, snapshot.session.decode_threads - 1)
        async with aclosing(in_turn(works(), ahead)) as coded:
            async for batch in coded:
                if batch.num_rows:
                    self._num_coded += batch.num_rows
                    yield batch

    def _code(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        training = self.training
        vectors, rows = whole_vectors(batch.column(0), training.type, training.metric)
        ids = batch.column(1).take(to_arrow(rows))
        labels = vectors.nearest(self._points)
        codes = training.quantizer.encode(vectors, labels, self._points)
        columns = [to_arrow(labels), ids, *codes]
        return pa.RecordBatch.from_arrays(columns, schema=self.coded_schema)

    def _laid_out(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return whole partitions in stored form, and add their sizes to `lengths`."""
        labels = as_numbers(batch.column(0))
        counts = np.bincount(labels, minlength=len(self.lengths))
        self.lengths += counts
        stops = np.cumsum(counts[counts > 0])
        parts = []
        start = 0
        for stop in stops.tolist():
            part = batch.slice(start, stop - start)
            columns = self.training.quantizer.laid_out(part.columns[2:])
            parts.append(pa.RecordBatch.from_arrays([part.column(1), *columns], schema=self.schema))
            start = stop
        return pa.concat_batches(parts)


async def whole_partitions(
    batches: AsyncGenerator[pa.RecordBatch, None],
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Cut rows into batches so that no partition is in two batches. Memory: the largest partition.

    Args:
        batches: rows sorted by partition; the first column is the partition number.
    """
    held: list[pa.RecordBatch] = []
    async for batch in batches:
        labels: npt.NDArray[Any] = as_numbers(batch.column(0))
        cut = int(np.searchsorted(labels, labels[-1]))
        if cut:
            yield pa.concat_batches([*held, batch.slice(0, cut)])
            held = []
        held.append(batch.slice(cut))
    if held:
        yield pa.concat_batches(held)

"""Training of a vector index from a sample: centroids and quantizer."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.base.progress import Stage
from alance.base.records import dataclass
from alance.errors import CorruptFileError, InvalidInputError
from alance.format.index import ivf
from alance.format.index.hnsw import described
from alance.format.index.quantizers import (
    SQ_BITS,
    FlatQuantizer,
    ProductQuantizer,
    Quantizer,
    Rabitq,
    Rotation,
    ScalarQuantizer,
    buffer_of,
    origin_of,
    quantizer_of,
)
from alance.format.index.values import NUMBER_WIDTHS, Vectors, VectorType, whole_vectors
from alance.io.loop.tasks import all_of
from alance.ops.index.vectors.kmeans import Clustering
from alance.ops.index.vectors.new import VECTOR_PARTITION_ROWS, numbers_of_shape
from alance.ops.lookup.stored import StoredFile
from alance.ops.read.take import batch_of, drawn, take
from alance.ops.version.projection import project

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

    from alance.base.arrays import Float32s
    from alance.format.field import Field
    from alance.format.index.hnsw import Links
    from alance.format.table.indices import Index
    from alance.io.reading.pool import DecodePool
    from alance.ops.index.vectors.new import CheckedVectors
    from alance.ops.version.snapshot import Snapshot


class TooFewVectorsError(InvalidInputError):
    """The column has fewer vectors than a codebook has entries."""


GRAPH_ROWS: Final = 1 << 20  # default rows of a partition with a graph, as in pylance
TRAINING_SEED: Final = 42  # the same rows give the same index
GROWN: Final = 4  # a partition with over 4 times the target rows is split or trained again
SAMPLE_PART_BYTES: Final = 4 << 20  # of the sample, per take
MIXED_BYTES: Final = 16 << 20  # of the sample, shuffled at once
CODED_ROWS: Final = 4096  # sampled rows from which centroids are subtracted at once
SAMPLED_LISTS: Final = 1024  # lists sampled to estimate the vectors per row


@dataclass(frozen=True, slots=True)
class Training:
    """Centroids and quantizer of a vector index.

    Attributes:
        centroids: centroids in the column's type (float32 for bfloat16); shape (partitions,
            dimension).
        links: options of the graphs; None without graphs.
        partition_rows: mean rows of a partition when the centroids were trained; the default target
            size if the file does not record it.
    """

    centroids: npt.NDArray[Any]
    quantizer: Quantizer
    links: Links | None = None
    partition_rows: int = 0

    @property
    def type(self) -> VectorType:
        """Type of the column's vectors."""
        return self.quantizer.type

    @property
    def metric(self) -> str:
        return self.quantizer.metric

    def suited_partitions(self, num_rows: int) -> int:
        """Return the number of partitions for `num_rows` rows.

        The current number is returned unless partitions would have more than `GROWN` times
        `partition_rows` rows on average; then there is a partition for each `partition_rows` rows.
        """
        count = len(self.centroids)
        is_grown = num_rows > GROWN * self.partition_rows * count
        return num_rows // self.partition_rows if is_grown else count

    @property
    def points(self) -> Float32s:
        """Centroids in the form that is compared with vectors. CPU work."""
        values, dim = self.centroids.reshape(-1).view(np.uint8), self.centroids.shape[1]
        metric = "hamming" if self.metric == "hamming" else "l2"  # also for cosine
        return Vectors(values, self.centroids.dtype.name, dim, metric).points()

    def is_like(self, other: Training) -> bool:
        """Return True if both trainings give every vector the same partition and the same codes."""
        ours, theirs = self.quantizer, other.quantizer
        return (
            ours.metric == theirs.metric
            and ours.KIND == theirs.KIND
            and np.array_equal(self.centroids, other.centroids)
            and ours.storage() == theirs.storage()
            and ours.buffers() == theirs.buffers()
        )


async def train(snapshot: Snapshot, checked: CheckedVectors) -> Training:
    """Train centroids and the quantizer on a sample of the rows.

    Cost: a take of `sample_rate` rows for each partition or codebook entry, whichever are more; and
    k-means.

    Raises:
        InvalidInputError: fewer vectors than partitions or codebook entries, or the caller's
            centroids or codebook do not fit.
    """
    options, pool = checked.options, snapshot.engine.pool
    num_rows = await snapshot.num_live()
    of_row = await _vectors_of_row(snapshot, checked, num_rows)
    size = options.target_partition_size or VECTOR_PARTITION_ROWS
    count = options.num_partitions or max(1, int(num_rows * of_row) // size)
    values = _num_values(checked)
    most = max(options.memory_bytes // (4 * checked.dim), count, values)
    num_sampled = math.ceil(min(options.sample_rate * max(count, values), most) / of_row)
    sampled = await _sampled(snapshot, checked, min(num_rows, num_sampled))
    points = await pool.run(sampled.points)
    is_trained = checked.kind == ProductQuantizer.KIND and options.pq_codebook is None
    if is_trained and len(points) < values:
        raise TooFewVectorsError(
            f"num_bits={checked.num_bits}: the column has {len(points)} vectors, expected "
            f"{values} at least"
        )
    centroids = await _centroids(pool, checked, points, count)
    quantizer = await _quantizer(pool, checked, sampled, points, centroids)
    rows_each = max(1, int(num_rows * of_row) // len(centroids))
    return Training(centroids, quantizer, checked.links, rows_each)


async def _sampled(snapshot: Snapshot, checked: CheckedVectors, num_rows: int) -> Vectors:
    """Return the vectors of a random sample of rows, shuffled."""
    pool, chosen = snapshot.engine.pool, await drawn(snapshot, num_rows, TRAINING_SEED)
    type_, metric = checked.type, checked.metric
    projection = project(snapshot.schema, [checked.column], flat=True)
    width = type_.dim * NUMBER_WIDTHS[type_.name]
    values, filled = np.empty((num_rows, width), np.uint8), 0

    def add(rows: pa.Table) -> None:
        nonlocal values, filled
        column = projection.apply(batch_of(rows)).column(0)
        whole, _ = whole_vectors(column, type_, metric)
        stop = filled + len(whole.rows)
        if stop > len(values):  # lists have several vectors
            more = np.empty((stop + len(values), width), np.uint8)
            more[:filled], values = values[:filled], more
        values[filled:stop], filled = whole.rows, stop

    step = max(1, SAMPLE_PART_BYTES // width)
    for start in range(0, num_rows, step):
        rows = await take(snapshot, chosen[start : start + step], projection.fields)
        await pool.run(partial(add, rows))

    def mixed() -> Vectors:
        # Rows are in table order. Without a shuffle, the first rows would not be a random sample.
        order = np.random.default_rng(TRAINING_SEED).permutation(filled)
        rows = values[:filled]
        step = max(1, MIXED_BYTES // max(1, filled))
        for first in range(0, width, step):  # in place; otherwise there would be two samples
            columns = slice(first, first + step)
            rows[:, columns] = rows[order, columns]
        return Vectors(rows.reshape(-1), type_.name, type_.dim, metric)

    return await pool.run(mixed)


async def _vectors_of_row(snapshot: Snapshot, checked: CheckedVectors, num_rows: int) -> float:
    """Estimate the number of vectors per row; at least 0.01."""
    if not checked.type.is_multi:
        return 1.0
    num_sampled = min(num_rows, SAMPLED_LISTS)
    vectors = await _sampled(snapshot, checked, num_sampled)
    return max(0.01, len(vectors.rows) / max(1, num_sampled))


def _num_values(checked: CheckedVectors) -> int:
    """Return the number of values of a PQ or SQ code, which sets the sample size; else 1."""
    if checked.kind == ScalarQuantizer.KIND:
        return 1 << SQ_BITS
    return 1 << checked.num_bits if checked.kind == ProductQuantizer.KIND else 1


async def _centroids(
    pool: DecodePool, checked: CheckedVectors, points: Float32s, count: int
) -> npt.NDArray[Any]:
    options, metric = checked.options, checked.metric
    if options.ivf_centroids is not None:
        centroids = numbers_of_shape(
            options.ivf_centroids, (options.num_partitions, checked.dim), "ivf_centroids"
        )
        if not len(centroids):
            raise InvalidInputError("ivf_centroids: none, expected one at least")
        return centroids.astype(checked.dtype)
    if len(points) < count:
        raise InvalidInputError(
            f"num_partitions={count}: the column has {len(points)} vectors, expected no more"
        )
    with Stage("centroids", options.max_iters, "rounds") as stage:
        means = await Clustering(
            points[: options.sample_rate * count],
            count,
            0,
            points.shape[1],
            options.max_iters,
            by_angle=metric == "dot",
            seed=TRAINING_SEED,
            least_gain=options.min_gain,
            on_round=stage.at,
        ).centroids(pool)
    return stored_centroids(means, metric, checked.dtype)


def stored_centroids(means: Float32s, metric: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Convert means to centroids in the type of the vectors; bits for hamming."""
    return np.packbits(means >= 0.5, axis=1) if metric == "hamming" else means.astype(dtype)


async def _quantizer(
    pool: DecodePool,
    checked: CheckedVectors,
    sampled: Vectors,
    points: Float32s,
    centroids: npt.NDArray[Any],
) -> Quantizer:
    options, kind = checked.options, (checked.metric, checked.type)
    if checked.kind == FlatQuantizer.KIND:
        return FlatQuantizer(*kind)
    if checked.kind == ScalarQuantizer.KIND:
        if not len(points):
            raise InvalidInputError("IVF_SQ: the column has no vectors, expected one at least")
        bounds = await pool.run(lambda: (float(points.min()), float(points.max())))
        return ScalarQuantizer(*kind, *bounds)
    if checked.kind == Rabitq.KIND:  # which needs no training
        return Rabitq(*kind, Rotation.drawn(checked.dim, TRAINING_SEED), checked.num_bits)
    origin = origin_of(centroids.astype(np.float32))
    parts, values = checked.num_sub_vectors, 1 << checked.num_bits
    if options.pq_codebook is not None:
        book = _checked_codebook(checked, parts, values)
        return ProductQuantizer(*kind, book, origin)

    rest, width = points[: options.sample_rate * values], checked.dim // parts
    if checked.metric != "dot":  # codes of residuals; in place: the sample is not needed again
        await pool.run(partial(_subtract_centroids, rest, sampled, centroids))
    books = [
        Clustering(rest, values, part * width, width, options.max_iters, seed=part)
        for part in range(parts)
    ]

    async def centres_of(book: Clustering) -> Float32s:
        centres = await book.centroids(pool)
        stage.add(1)
        return centres

    with Stage("codebook", parts, "sub-vectors") as stage:
        centres = await all_of(centres_of(book) for book in books)
    # Readers compare with the stored values, so round to the stored type.
    codebook = np.stack(centres).astype(checked.dtype).astype(np.float32)
    return ProductQuantizer(*kind, codebook, origin)


def _subtract_centroids(points: Float32s, sampled: Vectors, centroids: npt.NDArray[Any]) -> None:
    """Subtract from each point its nearest centroid. CPU.

    Args:
        sampled: vectors of the sample; its first vectors are the points.
    """
    means = centroids.astype(np.float32)
    first = replace(sampled, values=sampled.rows[: len(points)].reshape(-1))
    labels = first.nearest(means)
    for start in range(0, len(points), CODED_ROWS):
        part = slice(start, start + CODED_ROWS)
        points[part] -= means[labels[part]]


def _checked_codebook(checked: CheckedVectors, parts: int, values: int) -> Float32s:
    book, width = checked.options.pq_codebook, checked.dim // parts
    flat = np.ndim(book) == 2 if isinstance(book, np.ndarray) else True
    shape = (values, checked.dim) if flat else (parts, values, width)
    numbers = numbers_of_shape(book, shape, "pq_codebook")
    stored = numbers.astype(checked.dtype).astype(np.float32)
    return stored.reshape(parts, values, width)


async def training_of(snapshot: Snapshot, index: Index, leaf: Field) -> Training | None:
    """Return the training of an existing segment; None if its kind cannot be written here.

    Cost: at most three rounds.

    Raises:
        CorruptFileError, NotFoundError, UnsupportedError: files cannot be read.
    """
    type_ = VectorType.of(leaf.to_arrow().type)
    if type_ is None:
        return None
    head, rows = await asyncio.gather(
        StoredFile.open(snapshot, index, ivf.INDEX_FILE),
        StoredFile.open(snapshot, index, ivf.STORAGE_FILE),
    )
    content = memoryview(await head.buffer(ivf.buffer_number(head.metadata)))
    centroids = ivf.Centroids.parse(head.metadata, content)
    metadata = ivf.storage_metadata(rows.metadata)
    if centroids.dim != type_.dim:
        raise CorruptFileError(
            f"vector index: centroids of {centroids.dim} numbers for {leaf.arrow_type}"
        )
    number = buffer_of(metadata)
    extra = None if number is None else memoryview(await rows.buffer(number))
    quantizer = quantizer_of(centroids, metadata, extra, type_).as_written()
    links = described(index.message.index_details.value)
    if quantizer is None or (centroids.has_graphs and links is None):
        return None
    recorded_rows = head.metadata.get(ivf.AIMED, "0")
    by_default = VECTOR_PARTITION_ROWS if links is None else GRAPH_ROWS
    rows_each = (int(recorded_rows) if recorded_rows.isdecimal() else 0) or by_default
    values = ivf.parse_centroids(content)
    return Training(values, quantizer, links, rows_each)

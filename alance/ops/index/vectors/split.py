"""Split of partitions that have grown too large; only their rows are read again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.base.records import dataclass
from alance.format.index.values import whole_vectors
from alance.format.row_set import RowSet
from alance.ops.index.vectors.kmeans import Clustering
from alance.ops.index.vectors.new import VectorIndexOptions
from alance.ops.index.vectors.train import GROWN, TRAINING_SEED, stored_centroids
from alance.ops.read.take import flat_rows
from alance.ops.version.projection import project

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.base.arrays import Float32s, Int64s
    from alance.ops.index.vectors.carried import CarriedSegment
    from alance.ops.index.vectors.train import Training
    from alance.ops.version.snapshot import Snapshot

OPTIONS: Final = VectorIndexOptions()
# Maximum squared distance of nearly equal means, as a share of a mean's squared length. For a
# cluster without rows, k-means splits another mean in two, which lie 1/1024 before and after it.
COINCIDENT: Final = 1e-5


@dataclass(frozen=True, slots=True)
class PartedSegments:
    """Segments whose large partitions are split.

    Attributes:
        training: training with the centroids of the split partitions; codes are unchanged.
        carried: the segments without the rows of split partitions.
        ids: ids of the rows of split partitions, ascending.
    """

    training: Training
    carried: tuple[CarriedSegment, ...]
    ids: Int64s


async def split_large(
    base: Snapshot, column: str, training: Training, carried: Sequence[CarriedSegment]
) -> PartedSegments:
    """Split each partition with more than `GROWN` times the intended rows, by k-means of a sample.

    Returns the segments unchanged if no partition is too large. For lists of vectors, all vectors
    of a row are encoded again if one of them is in a split partition.

    Cost: a read of these partitions' codes; a take of the sampled vectors. Memory: the sample, and
    8 bytes for each row of these partitions.
    """
    aimed = training.partition_rows
    sizes = np.zeros(len(training.centroids), np.int64)
    for segment in carried:
        sizes += np.diff(segment.ends, prepend=0)
    centroids, parted, ids_of = [training.centroids], [], []
    for partition in np.flatnonzero(sizes > GROWN * aimed).tolist():
        ids = np.concatenate([await segment.ids_of(partition) for segment in carried])
        if len(ids) <= GROWN * aimed:
            continue
        points = await _sampled(base, column, training, partition, ids)
        if not len(points):
            continue
        count = min(-(-len(ids) // aimed), len(points))
        means = _apart(await _means(base, training, points, count))
        if len(means) > 1:  # else all its vectors are nearly equal
            centroids.append(means)
            parted.append(partition)
            ids_of.append(ids)
    if not parted:
        return PartedSegments(training, tuple(carried), np.empty(0, np.int64))
    # The first part gets the number of the split partition, so that all other numbers are
    # unchanged.
    whole = training.centroids.copy()
    whole[parted] = [means[0] for means in centroids[1:]]
    more = np.concatenate([whole, *(means[1:] for means in centroids[1:])])
    coded_anew = RowSet(np.concatenate(ids_of))
    rest = tuple(replace(segment, excluded=coded_anew) for segment in carried)
    return PartedSegments(replace(training, centroids=more), rest, coded_anew.to_numpy())


async def _means(
    base: Snapshot, training: Training, points: Float32s, count: int
) -> npt.NDArray[Any]:
    """Return the centroids of `count` parts of a partition."""
    clustering = Clustering(
        points,
        count,
        0,
        points.shape[1],
        OPTIONS.max_iters,
        by_angle=training.metric == "dot",
        seed=TRAINING_SEED,
    )
    means = await clustering.centroids(base.engine.pool)
    return stored_centroids(means, training.metric, training.centroids.dtype)


def _apart(means: np.ndarray) -> np.ndarray:
    """Drop means that are nearly equal to an earlier one, as k-means returns for equal vectors.

    Which of two such means is nearest to a vector is chance, so a search of one partition could
    miss the vector.
    """
    points = means.astype(np.float64)
    apart: list[int] = []
    for number, point in enumerate(points):
        away = ((points[apart] - point) ** 2).sum(axis=1)
        if not (away <= COINCIDENT * (point**2).sum()).any():
            apart.append(number)
    return means[apart]


async def _sampled(
    base: Snapshot, column: str, training: Training, partition: int, ids: Int64s
) -> Float32s:
    """Return the vectors of a sample of a partition's rows, in the form that is compared."""
    count = OPTIONS.sample_rate * -(-len(ids) // training.partition_rows)
    if count < len(ids):
        ids = np.random.default_rng(TRAINING_SEED).choice(ids, count, replace=False)
    batch = await flat_rows(base, ids, project(base.schema, [column], flat=True))

    def points() -> Float32s:
        vectors, _ = whole_vectors(batch.column(0), training.type, training.metric)
        if training.type.is_multi:  # drop vectors of the lists that lie in other partitions
            is_here = vectors.nearest(training.points) == partition
            vectors = replace(vectors, values=vectors.rows[is_here].reshape(-1))
        return vectors.points()

    return await base.engine.pool.run(points)

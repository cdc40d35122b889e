"""K-means (Lloyd) in the threads of the pool.

The result depends on the points and the seed, not on the number of threads. The work is split into
jobs of a few milliseconds; a cancellation takes effect between two jobs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.io.loop.tasks import all_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Float32s
    from alance.io.reading.pool import DecodePool


LEAST_KMEANS_GAIN: Final = 1e-4
PIECES: Final = 8  # parts of the points in a long round, shared by threads
WORK: Final = 1 << 26  # multiplications per job, about 2 ms


@dataclass(frozen=True, slots=True)
class Clustering:
    """Points to cluster, and the options of the clustering.

    Attributes:
        points: shape (n, dimension).
        count: number of clusters, at most the number of points.
        first, dim: first column and number of columns that are compared.
        by_angle: True to compare points by dot product; centroids then have length one.
        least_gain: relative decrease of the loss below which the rounds end.
        on_round: called with the number of finished rounds.
    """

    points: Float32s
    count: int
    first: int
    dim: int
    max_iters: int
    by_angle: bool = False
    seed: int = 0
    least_gain: float = LEAST_KMEANS_GAIN
    on_round: Callable[[int], object] | None = None

    async def centroids(self, pool: DecodePool) -> Float32s:
        """Return the centroids; shape (count, dim). The same points always give the same result."""
        work = self.points.shape[0] * self.count * self.dim
        pieces = PIECES if work > WORK else 1
        means = await pool.run(partial(self._start, pieces))
        rounds = _KmeansRounds(means, pieces, self.least_gain)
        num_rounds = 0
        while num_rounds < self.max_iters and not rounds.is_over:
            if pieces > 1:
                await all_of(pool.run(partial(rounds.means.add, n)) for n in range(pieces))
            step = min(self.max_iters - num_rounds, max(1, WORK // max(1, work)))
            await pool.run(partial(rounds.run, step))
            num_rounds += step
            if self.on_round is not None:
                self.on_round(num_rounds)
        return rounds.means.centroids().reshape(self.count, self.dim)

    def _start(self, pieces: int) -> _kernels.KMeans:
        points, columns = self.points, slice(self.first, self.first + self.dim)
        places = np.random.default_rng(self.seed).choice(len(points), self.count, replace=False)
        start = np.ascontiguousarray(points[np.sort(places), columns])
        return _kernels.KMeans(
            points.reshape(-1),
            points.shape[1],
            self.first,
            self.dim,
            start.reshape(-1),
            self.by_angle,
            pieces,
        )


@dataclass(slots=True)
class _KmeansRounds:
    means: _kernels.KMeans
    pieces: int
    least_gain: float
    loss: float = np.inf
    is_over: bool = False

    def run(self, count: int) -> None:
        """Run up to `count` rounds, but stop when the gain is too small.

        If the points are split into several pieces, `count` must be 1, and the caller must have
        added all pieces to `means`.
        """
        for _ in range(count):
            if self.pieces == 1:
                self.means.add(0)
            last, self.loss = self.loss, self.means.update()
            least = self.least_gain * abs(last)
            self.is_over = last - self.loss <= least and bool(np.isfinite(last))
            if self.is_over:
                break

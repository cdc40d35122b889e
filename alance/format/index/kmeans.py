"""Centroids of vectors by k-means (Lloyd), and the nearest centroid of each vector.

All is numpy on float32, most of it one matrix product, which runs without the interpreter's lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.arrays import Float32s, Int64s


CHUNK: Final = 4 << 20  # products that are held at once; of less BLAS wakes its threads too often
LEAST_GAIN: Final = 1e-4  # of the loss: an iteration that gains less is the last one
SPLIT: Final = 1 / 1024  # how far the halves of a split cluster begin from each other


def nearest(
    points: Float32s, centroids: Float32s, *, by_angle: bool = False
) -> tuple[Int64s, Float32s]:
    """The number of each point's nearest centroid, and how near: greater is nearer.

    Args:
        points: shape (n, dimension); centroids: shape (k, dimension).
        by_angle: the greatest product counts; else the least squared distance.
    """
    # A last component takes half of the centroid's square away, within the product.
    half = np.zeros(len(centroids)) if by_angle else (centroids.astype(np.float64) ** 2).sum(1) / 2
    columns = np.ascontiguousarray(np.vstack([centroids.T, -half]), np.float32)
    labels = np.empty(len(points), np.int64)
    scores = np.empty(len(points), np.float32)
    step = max(1, CHUNK // len(centroids))
    for start in range(0, len(points), step):
        rows = points[start : start + step]
        products = np.hstack([rows, np.ones((len(rows), 1), np.float32)]) @ columns
        best = products.argmax(1)
        labels[start : start + step] = best
        scores[start : start + step] = products[np.arange(len(rows)), best]
    return labels, scores


def trained(
    points: Float32s, count: int, *, max_iters: int, by_angle: bool = False, seed: int = 0
) -> Float32s:
    """So many centroids of points; the same ones for the same points.

    Args:
        points: at least `count` of them; shape (n, dimension).
        by_angle: points are compared by their product, and centroids have length one.

    Returns:
        shape (count, dimension).
    """
    generator = np.random.default_rng(seed)
    centroids = points[np.sort(generator.choice(len(points), count, replace=False))]
    norms = float((points.astype(np.float64) ** 2).sum())
    loss = np.inf
    for _ in range(max_iters):
        labels, scores = nearest(points, centroids, by_angle=by_angle)
        centroids = _means(points, labels, centroids, generator)
        if by_angle:
            centroids = unit(centroids)
        last, loss = loss, norms - 2 * float(scores.sum(dtype=np.float64))
        if last - loss <= LEAST_GAIN * abs(last) and np.isfinite(last):
            break
    return centroids


def _means(
    points: Float32s, labels: Int64s, centroids: Float32s, generator: np.random.Generator
) -> Float32s:
    """The mean of each cluster; an empty one takes half of a large one."""
    order = np.argsort(labels, kind="stable")
    counts = np.bincount(labels, minlength=len(centroids))
    filled = np.flatnonzero(counts)
    starts = (np.cumsum(counts) - counts)[filled]
    sums = np.add.reduceat(points[order], starts, axis=0)
    means = centroids.copy()
    means[filled] = sums / counts[filled, None]
    for empty in np.flatnonzero(counts == 0).tolist():
        large = int(counts.argmax())
        offset = generator.standard_normal(means.shape[1], np.float32)
        offset *= np.float32(SPLIT) * np.abs(means[large]).max()
        means[empty], means[large] = means[large] + offset, means[large] - offset
        counts[empty] = counts[large] // 2
        counts[large] -= counts[empty]
    return means


def unit(points: npt.NDArray[Any]) -> Float32s:
    """Points at length one; zero stays zero."""
    lengths = np.sqrt((points.astype(np.float64) ** 2).sum(1, keepdims=True))
    return (points / np.where(lengths > 0, lengths, 1)).astype(np.float32)

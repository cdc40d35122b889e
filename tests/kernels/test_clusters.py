"""Nearest centroids, rounds of k-means and codes of vectors, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.index.codes import bytes_of_list
from alance.format.index.quantizers import ScalarQuantizer
from alance.format.index.values import METRICS, TYPES, Vectors, VectorType, whole_vectors
from alance.format.types import BFLOAT16, EXTENSION_NAME

LANES = (4, 8, 16)


def vector_type(kind: str, dim: int) -> VectorType:
    item = pa.field("item", pa.type_for_alias(kind) if kind != "bfloat16" else pa.float16())
    if kind == "bfloat16":
        item = pa.field("item", pa.binary(2), metadata={EXTENSION_NAME: BFLOAT16})
    type_ = VectorType.of(pa.list_(item, dim))
    assert type_ is not None
    return type_


def stored(values: npt.NDArray[Any], kind: str) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """The bytes of numbers, and the numbers."""
    if kind == "bfloat16":
        words = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        numbers: npt.NDArray[Any] = (words.astype(np.uint32) << 16).view(np.float32)
        return words.reshape(-1).view(np.uint8), numbers
    if kind == "uint8":
        values = np.clip(values * 40 + 128, 0, 255)
    numbers = np.ascontiguousarray(values.astype(kind))
    return numbers.reshape(-1).view(np.uint8), numbers


def points_of(numbers: npt.NDArray[Any], metric: str) -> npt.NDArray[np.float64]:
    if metric == "hamming":
        return np.unpackbits(numbers, axis=1).astype(np.float64)
    points = numbers.astype(np.float64)
    if metric == "cosine":
        lengths = np.sqrt((points**2).sum(1, keepdims=True))
        points = points / np.where(lengths > 0, lengths, 1)
    return points


def scores(points: npt.NDArray[Any], centroids: npt.NDArray[Any], metric: str) -> npt.NDArray[Any]:
    """Greater is nearer; shape (n, k)."""
    nearness: npt.NDArray[Any] = points @ centroids.T
    if metric != "dot":
        nearness = -((points[:, None, :] - centroids[None]) ** 2).sum(2)
    return nearness


def drawn(count: int, dim: int, seed: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=(count, dim))


@given(
    st.sampled_from(sorted(TYPES)),
    st.sampled_from(METRICS),
    st.integers(1, 70),
    st.integers(0, 250),
    st.integers(1, 90),
    st.sampled_from(LANES),
    st.integers(0, 1 << 30),
)
def test_the_nearest_centroid_is_that_of_numpy(
    kind: str, metric: str, dim: int, count: int, num_centroids: int, lanes: int, seed: int
) -> None:
    if metric == "hamming":
        kind = "uint8"
    content, numbers = stored(drawn(count, dim, seed), kind)
    points = points_of(numbers, metric)
    arguments = (content, TYPES[kind], dim, METRICS.index(metric))
    loaded = _kernels.vector_points(*arguments).reshape(points.shape)
    assert np.allclose(loaded, points, rtol=1e-6)
    spread = points.std() if count else 1.0
    centroids = (drawn(num_centroids, points.shape[1], seed + 1) * spread).astype(np.float32)
    labels = _kernels.nearest_centroids(*arguments, centroids.reshape(-1), lanes)
    expected = scores(points, centroids.astype(np.float64), metric)
    assert labels.shape == (count,)
    if count:
        best, here = expected.max(1), expected[np.arange(count), labels]
        assert np.allclose(here, best, rtol=1e-4, atol=1e-4 * (1 + np.abs(expected).max()))


def test_rounding_hides_no_centroid_far_from_zero() -> None:
    steps = np.arange(16, dtype=np.float32)[:, None] / np.float32(8)
    centroids = steps + np.full((16, 8), 5000, np.float32)
    content, _ = stored(np.repeat(centroids, 3, axis=0), "float32")
    labels = _kernels.nearest_centroids(content, TYPES["float32"], 8, 0, centroids.reshape(-1))
    assert labels.tolist() == np.repeat(np.arange(16), 3).tolist()


def test_of_equally_near_centroids_it_is_the_first() -> None:
    centroids = np.ones((40, 5), np.float32)
    content, _ = stored(drawn(30, 5, 1), "float32")
    for lanes in LANES:
        labels = _kernels.nearest_centroids(content, 2, 5, 0, centroids.reshape(-1), lanes)
        assert not labels.any()


@given(
    st.integers(1, 20),
    st.integers(1, 400),
    st.integers(1, 30),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from(LANES),
    st.integers(0, 1 << 30),
)
def test_a_round_gives_the_means_of_the_clusters(
    dim: int, count: int, num_centroids: int, pieces: int, by_angle: bool, lanes: int, seed: int
) -> None:
    first, stride = seed % 3, dim + seed % 3 + seed % 2
    points = drawn(count, stride, seed).astype(np.float32)
    start = drawn(num_centroids, dim, seed + 1).astype(np.float32)
    arguments = (points.reshape(-1), stride, first, dim, start.reshape(-1), by_angle, pieces)
    means = _kernels.KMeans(*arguments, lanes)
    for piece in reversed(range(pieces)):
        means.add(piece)
    loss = means.update()
    here = points[:, first : first + dim].astype(np.float64)
    metric = "dot" if by_angle else "l2"
    expected = scores(here, start.astype(np.float64), metric)
    labels = expected.argmax(1)
    expected_loss = -expected.max(1).sum()
    if by_angle:
        expected_loss = (here**2).sum() - 2 * expected.max(1).sum()
    assert np.isclose(loss, expected_loss, rtol=1e-3, atol=1e-2)
    centroids = means.centroids().reshape(num_centroids, dim)
    assert np.isfinite(centroids).all()
    counts = np.bincount(labels, minlength=num_centroids)
    if counts.min() == 0:
        return  # the largest are parted, see below
    for number in range(num_centroids):
        mean = here[labels == number].mean(0)
        if by_angle:
            mean /= np.sqrt((mean**2).sum())
        assert np.allclose(centroids[number], mean, rtol=1e-2, atol=1e-2)


def test_what_comes_out_does_not_depend_on_the_order_of_pieces() -> None:
    points = drawn(5000, 12, 3).astype(np.float32).reshape(-1)
    start = points[: 20 * 12]
    results = []
    for order in (range(8), reversed(range(8))):
        means = _kernels.KMeans(points, 12, 0, 12, start, False, 8)
        for piece in order:
            means.add(piece)
        results.append((means.update(), means.centroids().tobytes()))
    assert results[0] == results[1]


@pytest.mark.parametrize("by_angle", [False, True])
def test_an_empty_cluster_takes_half_of_a_large_one(by_angle: bool) -> None:
    points = np.concatenate([np.ones((90, 2)), drawn(10, 2, 0) + 5]).astype(np.float32)
    start = np.full((8, 2), 2, np.float32)
    means = _kernels.KMeans(points.reshape(-1), 2, 0, 2, start.reshape(-1), by_angle, 1)
    for _ in range(20):
        means.add(0)
        means.update()
    centroids = means.centroids().reshape(8, 2)
    assert np.isfinite(centroids).all()
    metric = "dot" if by_angle else "l2"
    labels = scores(points.astype(np.float64), centroids.astype(np.float64), metric).argmax(1)
    assert len(np.unique(labels)) > 1


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_vectors_with_numbers_that_are_not_finite_are_not_whole(kind: str, value: float) -> None:
    values = drawn(20, 7, 5)
    values[4, 6] = values[11, 0] = value
    type_ = vector_type(kind, 7)
    content, _ = stored(values, kind)
    array = Vectors(content, kind, 7, "l2").to_arrow(type_.arrow)
    whole, rows = whole_vectors(array, type_, "l2")
    assert rows.tolist() == np.delete(np.arange(20), [4, 11]).tolist()
    assert np.array_equal(whole.rows, content.reshape(20, -1)[rows])


def test_vectors_that_float32_cannot_hold_are_not_whole() -> None:
    """They are compared in float32, where these would be infinite."""
    most = float(np.finfo(np.float32).max)
    half = np.ldexp(1.0, 103)  # half a step behind it
    values = np.array([most, -most, most + half, -1e300, np.nextafter(most + half, 0)])
    type_ = vector_type("float64", 1)
    array = Vectors(values.view(np.uint8), "float64", 1, "l2").to_arrow(type_.arrow)
    for metric in ("l2", "cosine", "dot"):
        assert whole_vectors(array, type_, metric)[1].tolist() == [0, 1, 4]


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.sampled_from(["l2", "cosine", "dot"]),
    st.sampled_from([(1, 8), (2, 4), (3, 8), (8, 4), (8, 8)]),
    st.integers(1, 9),
    st.integers(0, 150),
    st.integers(0, 1 << 30),
)
def test_product_codes_are_those_of_numpy(
    kind: str, metric: str, form: tuple[int, int], width: int, count: int, seed: int
) -> None:
    parts, bits = form
    dim = parts * width
    content, numbers = stored(drawn(count, dim, seed), kind)
    points = points_of(numbers, metric)
    centroids = drawn(5, dim, seed + 1).astype(np.float32)
    labels = np.random.default_rng(seed).integers(0, 5, count)
    book = drawn(parts << bits, width, seed + 2).astype(np.float32)
    arguments = (content, TYPES[kind], dim, METRICS.index(metric), labels)
    for means in (centroids, centroids[:0]):
        codes = _kernels.encode_pq(*arguments, means.reshape(-1), book.reshape(-1), parts, bits)
        codes = codes.reshape(count, parts * bits // 8)
        if bits == 4:
            codes = np.stack([codes & 15, codes >> 4], axis=2).reshape(count, parts)
        rest = points - means[labels] if len(means) else points
        for part in range(parts):
            piece = rest[:, part * width : (part + 1) * width]
            values = book.reshape(parts, 1 << bits, width)[part]
            distances = ((piece[:, None] - values[None]) ** 2).sum(2)
            here = distances[np.arange(count), codes[:, part]]
            assert np.allclose(here, distances.min(1), rtol=1e-4, atol=1e-5)


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.sampled_from(["l2", "cosine"]),
    st.integers(1, 40),
    st.integers(0, 150),
    st.integers(0, 1 << 30),
)
def test_scaled_bytes_are_those_of_numpy(
    kind: str, metric: str, dim: int, count: int, seed: int
) -> None:
    content, numbers = stored(drawn(count, dim, seed), kind)
    points = points_of(numbers, metric)
    vectors, labels = Vectors(content, kind, dim, metric), np.zeros(count, np.int64)
    means, before = np.zeros((1, dim), np.float32), content.tobytes()
    for low, high in ((-1.5, 2.0), (0.25, 0.25)):
        quantizer = ScalarQuantizer(metric, vector_type(kind, dim), low, high)
        (codes,) = quantizer.encode(vectors, labels, means)
        assert codes.type == pa.list_(pa.uint8(), dim)
        expected = np.clip((points - low) / ((high - low) / 255 or 1), 0, 255)
        assert np.abs(bytes_of_list(codes) + 0.5 - expected).max(initial=0) <= 0.5 + 1e-3
    assert content.tobytes() == before


def test_arrays_that_do_not_fit_are_refused() -> None:
    content, _ = stored(drawn(10, 4, 0), "float32")
    floats, labels = np.zeros(8, np.float32), np.zeros(10, np.int64)
    bad: list[tuple[Any, ...]] = [
        (_kernels.vector_points, content, 9, 4, 0),
        (_kernels.vector_points, content, 2, 0, 0),
        (_kernels.vector_points, content, 2, 3, 0),
        (_kernels.vector_points, content, 2, 4, 3),
        (_kernels.vector_points, content, 2, 4, 4),
        (_kernels.nearest_centroids, content, 2, 4, 0, floats[:6]),
        (_kernels.nearest_centroids, content, 2, 4, 0, floats[:0]),
        (_kernels.encode_pq, content, 2, 4, 0, labels[:9], floats, floats, 1, 8),
        (_kernels.encode_pq, content, 2, 4, 0, labels + 2, floats, np.zeros(1024, "f4"), 1, 8),
        (_kernels.encode_pq, content, 2, 4, 0, labels - 1, floats, np.zeros(1024, "f4"), 1, 8),
        (_kernels.encode_pq, content, 2, 4, 0, labels, floats, floats, 1, 8),
        (_kernels.encode_pq, content, 2, 4, 0, labels, floats, np.zeros(64, "f4"), 1, 4),
        (_kernels.KMeans, floats, 4, 2, 3, floats[:3], False, 1),
        (_kernels.KMeans, floats, 3, 0, 2, floats[:2], False, 1),
        (_kernels.KMeans, floats, 4, 0, 4, floats[:0], False, 1),
        (_kernels.KMeans, floats, 4, 0, 4, floats[:4], False, 0),
        (_kernels.KMeans(floats, 4, 0, 4, floats[:4], False, 1).add, 1),
    ]
    for kernel, *arguments in bad:
        with pytest.raises(ValueError, match=r"vector|centroid|points|codes|piece"):
            kernel(*arguments)

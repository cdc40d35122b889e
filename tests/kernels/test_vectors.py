"""Exact distances and the nearest rows, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.index import quantizers
from alance.format.index.values import METRICS, TYPES

ALL = np.empty(0, np.uint8)


def nearest(
    queries: npt.NDArray[Any], k: int, lower: float = -np.inf, upper: float = np.inf
) -> Any:
    flat = np.ascontiguousarray(queries, np.float64).reshape(-1)
    return _kernels.Nearest(flat, queries.shape[1], k, lower, upper)


def expected(
    queries: npt.NDArray[Any], rows: npt.NDArray[Any], metric: str
) -> npt.NDArray[np.float64]:
    """The distances of all rows from all queries; shape (queries, rows)."""
    q, x = queries.astype(np.float64), rows.astype(np.float64)
    if metric == "hamming":
        bits = np.unpackbits(
            queries.astype(np.uint8)[:, None, :] ^ rows.astype(np.uint8)[None], axis=-1
        )
        return bits.sum(axis=-1).astype(np.float64)
    if metric == "l2":
        return ((q[:, None, :] - x[None]) ** 2).sum(axis=-1)
    products = q @ x.T
    if metric == "dot":
        return 1 - products
    lengths = np.sqrt((q**2).sum(axis=1))[:, None] * np.sqrt((x**2).sum(axis=1))[None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return 1 - products / lengths


def stored(values: npt.NDArray[np.float64], kind: str) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The values as they are stored, and as numbers."""
    if kind == "bfloat16":
        words = (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return words, (words.astype(np.uint32) << 16).view(np.float32)
    typed = values.astype(kind)
    return typed, typed


@given(
    st.sampled_from(sorted(TYPES)),
    st.sampled_from(sorted(METRICS)),
    st.integers(1, 75),
    st.integers(0, 600),
    st.integers(1, 20),
    st.booleans(),
    st.integers(0, 1 << 30),
)
def test_the_nearest_rows_are_those_of_numpy(
    kind: str, metric: str, dim: int, num_rows: int, k: int, baseline: bool, seed: int
) -> None:
    if metric == "hamming" and kind != "uint8":
        return
    rng = np.random.default_rng(seed)
    scale = 255.0 if kind == "uint8" else 1.0
    queries = rng.random((3, dim)) * scale
    if kind == "uint8":
        queries = np.floor(queries)
    content, rows = stored(rng.random((num_rows, dim)) * scale, kind)
    ids = rng.permutation(num_rows).astype(np.uint64) + np.uint64(1 << 33)
    mask = (rng.random(num_rows) < 0.7).view(np.uint8) if seed % 2 else ALL
    search = nearest(queries, k)
    half = num_rows // 2
    for part in (slice(0, half), slice(half, num_rows)):
        _kernels.add_vectors(
            search,
            np.array([2, 0], np.int32),
            ids[part],
            mask[part] if len(mask) else ALL,
            np.ascontiguousarray(content[part]).reshape(-1).view(np.uint8),
            TYPES[kind],
            METRICS.index(metric),
            baseline=baseline,
        )
    counts, distances, result = search.result()
    retained = np.flatnonzero(mask) if len(mask) else np.arange(num_rows)
    right = expected(queries, rows, metric)
    assert counts.tolist() == [min(k, len(retained)), 0, min(k, len(retained))]
    places = {int(item): row for row, item in enumerate(ids)}
    for query, part in ((0, slice(0, counts[0])), (2, slice(counts[0], None))):
        expected_distances = right[query][[places[int(item)] for item in result[part]]]
        assert set(result[part].tolist()) <= set(ids[retained].tolist())
        np.testing.assert_allclose(
            distances[part], expected_distances, rtol=2e-5, atol=2e-5 * scale**2
        )
        nearest_ones = np.sort(right[query][retained])[:k]
        np.testing.assert_allclose(distances[part], nearest_ones, rtol=2e-5, atol=2e-5 * scale**2)
        pairs = list(zip(distances[part].tolist(), result[part].tolist(), strict=True))
        assert pairs == sorted(pairs)


def test_rows_at_the_same_distance_are_ordered_by_id() -> None:
    rows = np.zeros((500, 4), np.float32)
    ids = np.arange(500, dtype=np.uint64)[::-1].copy()
    search = nearest(np.ones((1, 4)), 3)
    _kernels.add_vectors(
        search, np.zeros(1, np.int32), ids, ALL, rows.reshape(-1).view(np.uint8), 2, 0
    )
    assert search.result()[2].tolist() == [0, 1, 2]


def test_a_range_of_distances_has_its_lower_end_and_not_its_upper_one() -> None:
    rows = np.arange(5, dtype=np.float32).reshape(5, 1)
    ids = np.arange(5, dtype=np.uint64)
    search = nearest(np.zeros((1, 1)), 10, 1, 9)
    _kernels.add_vectors(
        search, np.zeros(1, np.int32), ids, ALL, rows.reshape(-1).view(np.uint8), 2, 0
    )
    assert search.result()[2].tolist() == [1, 2]


def test_nan_is_never_near() -> None:
    rows = np.array([[np.nan, 1], [1, 1], [0, 0]], np.float32)
    for metric, remaining in (("l2", [1, 2]), ("cosine", [1]), ("dot", [1, 2])):
        search = nearest(np.ones((1, 2)), 10)
        _kernels.add_vectors(
            search,
            np.zeros(1, np.int32),
            np.arange(3, dtype=np.uint64),
            ALL,
            rows.reshape(-1).view(np.uint8),
            2,
            METRICS.index(metric),
        )
        assert sorted(search.result()[2].tolist()) == remaining


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"numbers": np.array([1], np.int32)}, "query 1 of 1"),
        ({"numbers": np.array([-1], np.int32)}, "query -1 of 1"),
        ({"mask": np.ones(3, np.uint8)}, "a mask of 3 for 2 rows"),
        ({"values": np.zeros(31, np.uint8)}, "31 bytes for 2 vectors of 16"),
        ({"type": 9}, "type 9"),
        ({"metric": 3}, "by metric 3"),
        ({"metric": 7}, "by metric 7"),
    ],
)
def test_wrong_sizes_are_refused(change: dict[str, Any], message: str) -> None:
    arguments = {
        "numbers": np.zeros(1, np.int32),
        "ids": np.arange(2, dtype=np.uint64),
        "mask": ALL,
        "values": np.zeros(32, np.uint8),
        "type": 2,
        "metric": 0,
    }
    with pytest.raises(ValueError, match=message):
        _kernels.add_vectors(nearest(np.ones((1, 4)), 2), **(arguments | change))


@pytest.mark.parametrize("metric", sorted(METRICS))
@pytest.mark.parametrize("dim", [3, 32, 300])
def test_lists_are_compared_by_the_nearest_of_their_vectors(metric: str, dim: int) -> None:
    rng = np.random.default_rng(dim)
    counts = rng.integers(0, 9, 700)
    counts[5] = 400  # more than a block
    ends, width = np.cumsum(counts), 4
    offsets = np.append(0, ends)
    rows = rng.integers(0, 256, (int(ends[-1]), dim)).astype(np.uint8)
    queries = rng.integers(0, 256, (3 * width, dim)).astype(np.uint8)
    flat = queries.astype(np.float64).reshape(-1)
    kernel = _kernels.Nearest(flat, dim, 700, -np.inf, np.inf, width=width)
    numbers, ids = np.arange(3, dtype=np.int32), np.arange(700, dtype=np.uint64)
    kind, by = TYPES["uint8"], METRICS.index(metric)
    _kernels.add_vectors(kernel, numbers, ids, ALL, rows.reshape(-1), kind, by, offsets)
    distances = expected(queries, rows, metric)
    sums = np.stack(
        [
            distances[:, end - count : end]
            .min(axis=1, initial=np.inf)
            .reshape(3, width)
            .sum(axis=1)
            for end, count in zip(ends.tolist(), counts.tolist(), strict=True)
        ]
    )
    filled, result, result_rows = kernel.result()
    assert filled.tolist() == [int((counts > 0).sum())] * 3
    owners = np.repeat(np.arange(3), filled)
    np.testing.assert_allclose(result, sums[result_rows, owners], rtol=1e-4, atol=1e-5)


def test_lists_that_contradict_their_values_are_refused() -> None:
    rows, ids = np.zeros(8 * 4, np.uint8), np.arange(2, dtype=np.uint64)
    numbers = np.zeros(1, np.int32)
    kernel = _kernels.Nearest(np.zeros(8), 4, 1, -np.inf, np.inf, width=2)
    for offsets in ([0, 3, 7], [0, 3, 9], [0, 9, 8], [-1, 3, 8], [1, 3, 8], [0, 8], []):
        lists = np.array(offsets, np.int64)
        with pytest.raises(ValueError, match=r"lists of vectors|vectors of 4 in 2 rows"):
            _kernels.add_vectors(kernel, numbers, ids, ALL, rows, TYPES["uint8"], 0, lists)
    with pytest.raises(ValueError, match="queries of 2 vectors"):
        _kernels.add_vectors(kernel, numbers, ids, ALL, rows[:8], TYPES["uint8"], 0)
    with pytest.raises(ValueError, match="query 1 of 1"):
        _kernels.add_vectors(kernel, numbers + 1, ids, ALL, rows, 4, 0, np.array([0, 3, 8]))
    for width in (0, -1, 3, 1 << 60):
        with pytest.raises(ValueError, match="queries"):
            _kernels.Nearest(np.zeros(8), 4, 1, -np.inf, np.inf, width=width)


def test_wide_and_narrow_registers_give_the_same_codes_of_bits() -> None:
    values = np.random.default_rng(0).standard_normal((200, 48)).astype(np.float32)
    centroids = np.zeros((1, 48), np.float32)
    rotation = quantizers.Rotation.drawn(48, 1).signs.astype(np.float32).reshape(-1)
    arguments = (
        values.reshape(-1).view(np.uint8),
        TYPES["float32"],
        48,
        METRICS.index("l2"),
        np.zeros(200, np.int64),
        centroids.reshape(-1),
        rotation,
    )
    for extra in range(9):
        wide, narrow = (
            _kernels.encode_rabitq(*arguments, extra, baseline) for baseline in (False, True)
        )
        assert (wide[0] == narrow[0]).all()
        assert len(wide[1]) == len(narrow[1]) == 200 * 8 * extra
        assert (wide[1] != narrow[1]).sum() <= len(wide[1]) / 20  # by rounding alone
        for ours, other in zip(wide[2:5], narrow[2:5], strict=True):
            assert np.allclose(ours, other, rtol=1e-3, atol=1e-4)


def test_vectors_that_do_not_fit_have_no_codes_of_bits() -> None:
    values = np.zeros(64, np.uint8)
    labels, floats = np.zeros(1, np.int64), np.zeros(16, np.float32)
    rotation = np.ones(64, np.float32)
    bad: list[tuple[Any, ...]] = [
        (values, 2, 16, 0, labels, floats, rotation[:60], 4),
        (values, 2, 16, 0, labels, floats, rotation, 9),
        (values, 2, 16, 0, labels, floats, rotation, -1),
        (values, 2, 16, 0, labels, floats[:0], rotation, 4),
        (values, 2, 16, 0, labels + 1, floats, rotation, 4),
        (values, 2, 4, 0, np.zeros(4, np.int64), floats, rotation[:16], 4),
        (values, 2, 16, 3, labels, floats, rotation, 4),
    ]
    for arguments in bad:
        with pytest.raises(ValueError, match=r"codes|labels|centroid|metric"):
            _kernels.encode_rabitq(*arguments)


@pytest.mark.parametrize("dim", [8, 64, 136])
def test_codes_of_bits_are_compared_as_the_vectors_that_they_stand_for(dim: int) -> None:
    rng, count = np.random.default_rng(dim), 300
    queries = rng.standard_normal((2, dim)).astype(np.float32)
    add, factor = rng.standard_normal((2, count)).astype(np.float32)
    centroid = rng.standard_normal(dim).astype(np.float32)
    signs = rng.integers(0, 256, (count, dim // 8)).astype(np.uint8)
    blocks = -(-dim // 64)
    extra = {ex: rng.integers(0, 256, (count, blocks * 8 * ex)).astype(np.uint8) for ex in range(9)}
    bits = np.unpackbits(signs, axis=1, bitorder="little").astype(np.float64)
    further = {
        0: np.zeros((count, dim)),
        1: np.unpackbits(extra[1], axis=1, bitorder="little")[:, :dim],
        8: extra[8][:, :dim],
    }
    gaps = ((queries - centroid).astype(np.float64) ** 2).sum(axis=1)

    def ask(ex: int, *, is_packed: bool, baseline: bool, metric: str = "l2") -> Any:
        kernel = nearest(queries, count)
        _kernels.add_rabitq(
            kernel, np.arange(2, dtype=np.int32), np.arange(count, dtype=np.uint64), ALL,
            signs.reshape(-1), is_packed, ex, extra[ex].reshape(-1), add, factor, centroid,
            METRICS.index(metric), 0.5, baseline,
        )  # fmt: skip
        counts, distances, ids = kernel.result()
        assert counts.tolist() == [count, count]
        order = np.argsort(ids.reshape(2, count), axis=1)
        return np.take_along_axis(distances.reshape(2, count), order, axis=1)

    for ex in range(9):
        for is_packed in (False, True):
            wide, narrow = (ask(ex, is_packed=is_packed, baseline=each) for each in (False, True))
            np.testing.assert_allclose(wide, narrow, rtol=1e-4, atol=2e-3 * (1 << ex))
        if ex in further:
            codes = bits * (1 << ex) + further[ex] - ((1 << ex) - 0.5)
            right = 0.5 * (add + gaps[:, None] + factor * (queries @ codes.T))
            plain = ask(ex, is_packed=False, baseline=False)
            np.testing.assert_allclose(plain, right, rtol=1e-4, atol=2e-3 * (1 << ex))
            # By dot the share of a query along the centroid is not estimated.
            dots = (queries.astype(np.float64) @ centroid)[:, None]
            shares = dots / (centroid.astype(np.float64) @ centroid)
            right = 0.5 * (1 - dots - shares * (1 - add) + factor * (queries @ codes.T))
            plain = ask(ex, is_packed=False, baseline=False, metric="dot")
            np.testing.assert_allclose(plain, right, rtol=1e-4, atol=2e-3 * (1 << ex))


def test_rows_below_the_range_are_told_the_nearest_to_it_first() -> None:
    rng = np.random.default_rng(3)
    queries, rows = rng.random((2, 4)), rng.random((50, 4)).astype(np.float32)
    flat = queries.reshape(-1)
    kernel = _kernels.Nearest(flat, 4, 5, 0.4, np.inf, below=3)
    numbers, ids = np.arange(2, dtype=np.int32), np.arange(50, dtype=np.uint64)
    code, place = TYPES["float32"], METRICS.index("l2")
    content = rows.reshape(-1).view(np.uint8)
    _kernels.add_vectors(kernel, numbers, ids, ALL, content, code, place)
    counts, distances, result = kernel.below()
    assert counts.tolist() == [3, 3]
    for query, own in enumerate(expected(queries, rows, "l2")):
        order = sorted(np.flatnonzero(own < 0.4), key=lambda row: -own[row])[:3]
        part = slice(3 * query, 3 * query + 3)
        assert result[part].tolist() == order
        np.testing.assert_allclose(-distances[part], own[order], rtol=1e-5)


@given(
    st.sampled_from(["l2", "dot"]),
    st.sampled_from([4, 8]),
    st.booleans(),
    st.integers(1, 6),
    st.integers(1, 400),
    st.sampled_from([0.0, 1000.0]),
    st.integers(0, 1 << 30),
)
def test_product_codes_are_as_far_as_what_they_stand_for(
    metric: str, bits: int, by_column: bool, pairs: int, num_rows: int, offset: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    subs, width, num_partitions = 2 * pairs, 3, 4
    dim = subs * width
    book = rng.standard_normal((subs, width, 1 << bits)).astype(np.float32)
    centroids = (rng.standard_normal((num_partitions, dim)) + offset).astype(np.float32)
    queries = (rng.standard_normal((3, dim)) + offset).astype(np.float32)
    origin = centroids.mean(0) if metric == "l2" else np.zeros(dim, np.float32)
    how = (bits, subs, by_column, METRICS.index(metric), 1.0)
    pq = _kernels.ProductBook(book.reshape(-1), origin, *how)
    searches = {baseline: nearest(queries, 7) for baseline in (False, True)}
    right = []
    for number, centroid in enumerate(centroids):
        codes = rng.integers(0, 1 << bits, (num_rows, subs), np.uint8)
        parts = np.stack([book[sub].T[codes[:, sub]] for sub in range(subs)], 1)
        rows = parts.reshape(num_rows, dim).astype(np.float64)
        rows = rows + centroid if metric == "l2" else rows
        right.append(expected(queries, rows, metric))
        packed = codes if bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4
        content = np.ascontiguousarray(packed.T if by_column else packed).reshape(-1)
        mask = (rng.random(num_rows) < 0.7).view(np.uint8) if seed % 2 else ALL
        if len(mask):
            right[-1][:, mask == 0] = np.inf
        ids = np.arange(num_rows, dtype=np.uint64) + np.uint64(number * num_rows)
        terms = pq.terms(content, centroid)
        for baseline, search in searches.items():
            numbers = np.arange(3, dtype=np.int32)
            pq.add(search, numbers, ids, mask, content, terms, centroid, baseline=baseline)
    answers = [[part.tolist() for part in search.result()] for search in searches.values()]
    assert answers[0] == answers[1]  # to the bit, whatever this processor has
    counts, distances, ids = searches[False].result()
    starts = np.concatenate([[0], np.cumsum(counts)])
    for query, own in enumerate(np.concatenate(right, 1)):
        part = slice(starts[query], starts[query + 1])
        assert counts[query] == min(7, np.isfinite(own).sum())
        bound = 1e-5 * dim * (1 if metric == "l2" else 1 + offset)
        np.testing.assert_allclose(distances[part], own[ids[part].astype(int)], atol=bound)
        np.testing.assert_allclose(distances[part], np.sort(own)[: counts[query]], atol=bound)


def test_product_codes_that_contradict_each_other_are_refused() -> None:
    book, origin = np.zeros(256 * 4, np.float32), np.zeros(4, np.float32)
    pq = _kernels.ProductBook(book, origin, 8, 2, True, 0, 1.0)
    search, item = nearest(np.zeros((1, 4)), 1), np.zeros(1, np.int32)
    ids, codes, terms = np.zeros(3, np.uint64), np.zeros(6, np.uint8), np.zeros(3, np.float32)
    pq.add(search, item, ids, ALL, codes, terms, origin)
    wrong = (
        lambda: _kernels.ProductBook(book, origin, 8, 3, True, 0, 1.0),
        lambda: _kernels.ProductBook(book, origin, 4, 2, True, 0, 1.0),
        lambda: _kernels.ProductBook(book, origin, 6, 2, True, 0, 1.0),
        lambda: _kernels.ProductBook(book[:-1], origin, 8, 2, True, 0, 1.0),
        lambda: pq.terms(codes[:-1], origin),
        lambda: pq.terms(codes, origin[:-1]),
        lambda: pq.add(search, item, ids, ALL, codes[:-1], terms, origin),
        lambda: pq.add(search, item, ids, ALL, codes, terms[:-1], origin),
        lambda: pq.add(search, item, ids, ALL, codes, terms, origin[:-1]),
        lambda: pq.add(nearest(np.zeros((1, 8)), 1), item, ids, ALL, codes, terms, origin),
        lambda: pq.add(search, item + 1, ids, ALL, codes, terms, origin),
    )
    for ask in wrong:
        with pytest.raises(ValueError, match=r"codes|query 1 of 1"):
            ask()

"""Walks along graphs of rows, beside numpy; and graphs that lead nowhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.index.values import METRICS, TYPES

ALL = np.empty(0, np.uint8)
DIM = 8


class Links(NamedTuple):
    """The arguments of a graph."""

    rows: npt.NDArray[np.uint32]
    starts: npt.NDArray[np.int32]
    links: npt.NDArray[np.uint32]
    levels: npt.NDArray[np.int64]
    entry: int
    num_rows: int

    def graph(self) -> _kernels.Graph:
        return _kernels.Graph(*self)


def connected(num_rows: int, rng: np.random.Generator) -> Links:
    """Levels of fewer and fewer rows; on each a ring, and some links across it."""
    rows, lists, levels = np.arange(num_rows), [], [0]
    parts = []
    while True:
        ring = rng.permutation(rows)
        after = dict(zip(ring.tolist(), np.roll(ring, -1).tolist(), strict=True))
        for row in rows.tolist():
            across = rng.choice(rows, min(2, len(rows)))
            lists.append(np.unique([after[row], *across]))
        parts.append(rows)
        levels.append(levels[-1] + len(rows))
        upper = np.sort(rng.choice(rows, len(rows) // 4, replace=False))
        if not len(upper):
            break
        rows = upper
    levels += [levels[-1]] * 2  # levels without rows may follow
    starts = np.cumsum([0, *map(len, lists)])
    return Links(
        np.concatenate(parts).astype(np.uint32),
        starts.astype(np.int32),
        np.concatenate(lists).astype(np.uint32),
        np.array(levels, np.int64),
        int(rng.choice(rows)),
        num_rows,
    )


def walk(
    graph: _kernels.Graph,
    values: npt.NDArray[np.float32],
    queries: npt.NDArray[np.float64],
    ef: int,
    mask: npt.NDArray[np.uint8] = ALL,
    k: int = 10,
    bounds: tuple[float, float] = (-np.inf, np.inf),
) -> tuple[Any, Any, Any]:
    nearest = _kernels.Nearest(queries.reshape(-1), DIM, k, *bounds)
    numbers = np.arange(len(queries), dtype=np.int32)
    ids = np.arange(len(values), dtype=np.uint64)
    content = values.reshape(-1).view(np.uint8)
    _kernels.add_vectors(nearest, numbers, ids, mask, content, 2, 0, graph=graph, ef=ef)
    return nearest.result()


@given(st.integers(1, 300), st.booleans(), st.booleans(), st.integers(0, 1 << 30))
def test_a_walk_that_looks_for_all_rows_finds_the_nearest(
    num_rows: int, is_masked: bool, is_ranged: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((num_rows, DIM)).astype(np.float32)
    queries = rng.standard_normal((3, DIM))
    mask = (rng.random(num_rows) < 0.3).view(np.uint8) if is_masked else ALL
    bounds = (5.0, 20.0) if is_ranged else (-np.inf, np.inf)
    graph = connected(num_rows, rng).graph()
    counts, distances, ids = walk(graph, values, queries, num_rows, mask, bounds=bounds)
    start = 0
    for query, count in zip(queries, counts.tolist(), strict=True):
        right = ((values - query) ** 2).sum(1)
        counted = (right >= bounds[0]) & (right < bounds[1])
        if is_masked:
            counted &= mask == 1
        order = np.flatnonzero(counted)[np.argsort(right[counted], kind="stable")][:10]
        part = slice(start, start + count)
        assert sorted(ids[part].tolist()) == sorted(order.tolist())
        np.testing.assert_allclose(distances[part], right[order], rtol=1e-5)
        start += count


@given(st.integers(2, 300), st.integers(1, 30), st.integers(0, 1 << 30))
def test_a_narrow_walk_gives_rows_at_their_distances(num_rows: int, ef: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((num_rows, DIM)).astype(np.float32)
    values[rng.integers(num_rows)] = np.nan  # never near, and never in the way
    query = rng.standard_normal((1, DIM))
    counts, distances, ids = walk(connected(num_rows, rng).graph(), values, query, ef)
    assert counts[0] <= min(ef, 10, num_rows - 1)
    assert len(set(ids.tolist())) == counts[0]
    np.testing.assert_allclose(distances, ((values[ids] - query) ** 2).sum(1), rtol=1e-5)


@pytest.mark.parametrize("kind", ["pq", "pq, by row", "sq", "sq by dot", "pq by dot"])
def test_codes_are_compared_as_where_all_are(kind: str) -> None:
    rng = np.random.default_rng(5)
    num_rows, queries = 500, rng.standard_normal((4, DIM))
    graph, metric = connected(num_rows, rng).graph(), 2 if "dot" in kind else 0
    numbers, ids = np.arange(4, dtype=np.int32), np.arange(num_rows, dtype=np.uint64)
    book = rng.standard_normal(256 * DIM).astype(np.float32)
    centroid = rng.standard_normal(DIM).astype(np.float32)
    answers = []
    for more in ({}, {"graph": graph, "ef": num_rows}):
        nearest = _kernels.Nearest(queries.reshape(-1), DIM, 20, -np.inf, np.inf)
        if "sq" in kind:
            codes = np.random.default_rng(1).integers(0, 256, num_rows * DIM, np.uint8)
            _kernels.add_sq(nearest, numbers, ids, ALL, codes, -3.0, 3.0, metric, 1.0, **more)
        else:
            codes = np.random.default_rng(1).integers(0, 256, num_rows * 4, np.uint8)
            origin = np.zeros(DIM, np.float32)
            pq = _kernels.ProductBook(book, origin, 8, 4, "row" not in kind, metric, 1.0)
            terms = pq.terms(codes, centroid)
            pq.add(nearest, numbers, ids, ALL, codes, terms, centroid, **more)
        answers.append([part.tolist() for part in nearest.result()])
    assert answers[0] == answers[1]


def test_rows_that_are_alike_are_ordered_by_id() -> None:
    graph = connected(100, np.random.default_rng(0)).graph()
    values = np.zeros((100, DIM), np.float32)
    _, _, ids = walk(graph, values, np.ones((1, DIM)), 100)
    assert ids.tolist() == list(range(10))


def test_no_row_is_found_on_a_graph_of_none() -> None:
    nothing = np.empty(0, np.uint32)
    zeros = np.zeros(1, np.int32)
    graph = _kernels.Graph(nothing, zeros, nothing, np.zeros(2, np.int64), 0, 0)
    counts, _, _ = walk(graph, np.empty((0, DIM), np.float32), np.ones((1, DIM)), 5)
    assert counts.tolist() == [0]


SMALL = Links(
    np.array([0, 1, 2, 3, 1, 3], np.uint32),
    np.array([0, 2, 4, 5, 6, 7, 8], np.int32),
    np.array([1, 2, 0, 3, 0, 2, 3, 1], np.uint32),
    np.array([0, 4, 6], np.int64),
    3,
    4,
)


def changed(**changes: Any) -> Links:
    values = {name: np.array(value, getattr(SMALL, name).dtype) for name, value in changes.items()}
    return SMALL._replace(**values)


def test_the_graph_that_is_then_spoiled_is_right() -> None:
    assert SMALL.graph().num_bytes > 0


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (changed(links=[1, 2, 0, 4, 0, 2, 3, 1]), "level 0: a link to row 4"),
        (changed(links=[1, 2, 0, 3, 0, 2, 3, 2]), "level 1: row 2 is not on it"),
        (changed(links=[1, 2, 0, 3]), "links beyond the last"),
        (changed(starts=[0, 2, 1, 5, 6, 7, 8]), "end before they begin"),
        (changed(starts=[-1, 2, 4, 5, 6, 7, 8]), "links beyond"),
        (changed(starts=[0, 2]), "6 places"),
        (changed(rows=[0, 1, 3, 2, 1, 3]), "level 0: row 3 out of order"),
        (changed(rows=[0, 1, 2, 3, 3, 1]), "level 1: row 1 out of order"),
        (changed(rows=[0, 1, 2, 3, 1, 9]), "level 1: row 9 out of order"),
        (changed(levels=[0, 3, 6]), "levels for 4 rows"),
        (changed(levels=[0, 4, 5]), "levels for 4 rows"),
        (changed(levels=[0, 4, 7, 6]), "ends before it begins"),
        (changed(levels=[0, 4, 4, 6]), "level 2: those below have no rows"),
        (changed(levels=[6]), "1 levels"),
        (SMALL._replace(entry=4), "its entry is row 4"),
        (SMALL._replace(entry=-1), "its entry is row -1"),
        (SMALL._replace(entry=2), "level 1: row 2 is not on it"),
        (SMALL._replace(num_rows=5), "for 5 rows"),
        (SMALL._replace(num_rows=-1), "-1 rows"),
    ],
    ids=str,
)
def test_a_graph_that_leads_nowhere_is_refused(links: Links, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        links.graph()


@given(st.integers(0, 1 << 30))
def test_a_spoiled_graph_is_refused_or_walked_to_the_end(seed: int) -> None:
    rng = np.random.default_rng(seed)
    links = connected(60, rng)
    for _ in range(3):
        name = ("rows", "starts", "links", "levels")[rng.integers(4)]
        values = getattr(links, name).copy()
        values[rng.integers(len(values))] = rng.integers(0, 90)
        links = links._replace(**{name: values})
    try:
        graph = links.graph()
    except ValueError:
        return
    values = rng.standard_normal((60, DIM)).astype(np.float32)
    walk(graph, values, rng.standard_normal((2, DIM)), 10)


def test_a_graph_of_other_rows_is_refused() -> None:
    values = np.zeros((5, DIM), np.float32)
    with pytest.raises(ValueError, match="a graph of 4 rows for 5"):
        walk(SMALL.graph(), values, np.ones((1, DIM)), 5)
    with pytest.raises(ValueError, match="ef 0"):
        walk(SMALL.graph(), values[:4], np.ones((1, DIM)), 0)


def reached(links: npt.NDArray[np.uint32], starts: npt.NDArray[np.int32], first: int) -> int:
    """Count the rows of level 0 that links lead to."""
    seen, waiting = {first}, [first]
    while waiting:
        row = waiting.pop()
        for link in links[starts[row] : starts[row + 1]].tolist():
            if link not in seen:
                seen.add(link)
                waiting.append(link)
    return len(seen)


def vectors(values: npt.NDArray[Any], metric: int = 0) -> _kernels.GraphVectors:
    kind = TYPES[values.dtype.name]
    return _kernels.GraphVectors(values.reshape(-1).view(np.uint8), kind, values.shape[1], metric)


def linked(rows: _kernels.GraphRows, m: int, ef: int) -> Any:
    builder = _kernels.GraphBuilder(rows, m, ef, 7, 1)
    while not builder.grow(100):
        pass
    return builder.finish()


@pytest.mark.parametrize("by_product", [False, True])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0])
def test_links_lead_to_all_rows_even_where_these_are_alike(spread: float, by_product: bool) -> None:
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((5, 8))[rng.integers(0, 5, 1500)]
    values = (centres + spread * rng.standard_normal((1500, 8))).astype(np.float32)
    rows, starts, links, distances, levels, entry = linked(vectors(values, 2 * by_product), 8, 60)
    assert len(starts) == len(rows) + 1
    assert len(distances) == len(links) == starts[-1]
    _kernels.Graph(rows, starts, links, levels, entry, 1500)
    assert reached(links, starts, entry) == 1500
    assert np.diff(starts).max() <= 48


def distances_between(
    values: npt.NDArray[np.float64], metric: str, number: int, others: npt.NDArray[np.uint32]
) -> npt.NDArray[np.float64]:
    products = values[others] @ values[number]
    if metric == "l2":
        return ((values[others] - values[number]) ** 2).sum(axis=1)
    if metric == "dot":
        return 1 - products
    lengths = np.linalg.norm(values, axis=1)
    return 1 - np.divide(
        products, lengths[others] * lengths[number], out=np.zeros(len(others)), where=products != 0
    )


def check_distances(
    rows: _kernels.GraphRows, values: npt.NDArray[np.float64], metric: str, tolerance: float
) -> None:
    """Check the distances of all links, which come from tables or from two rows."""
    numbers, starts, links, distances, _, _ = linked(rows, 4, 20)
    for place, row in enumerate(numbers.tolist()):
        own = slice(starts[place], starts[place + 1])
        right = distances_between(values, metric, row, links[own])
        scale = 1 + np.abs(values).max() ** 2 * values.shape[1]
        np.testing.assert_allclose(distances[own], right, atol=tolerance * scale)


@given(
    st.sampled_from(["float16", "float32", "float64"]),
    st.sampled_from(["l2", "cosine", "dot"]),
    st.integers(1, 90),
    st.integers(0, 1 << 30),
)
def test_vectors_are_compared_as_they_are(type_: str, metric: str, dim: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal((60, dim)).astype(type_)
    values[7] = 0  # by cosine at 1 from all others
    rows = vectors(values, METRICS.index(metric))
    check_distances(rows, values.astype(np.float64), metric, 1e-6)


@given(st.booleans(), st.integers(1, 200), st.integers(0, 1 << 30))
def test_scaled_bytes_are_compared_as_what_they_stand_for(
    by_product: bool, dim: int, seed: int
) -> None:
    codes = np.random.default_rng(seed).integers(0, 256, (60, dim), np.uint8)
    rows = _kernels.GraphBytes(codes.reshape(-1), dim, -3.0, 2.0, by_product)
    values = codes.astype(np.float64) / 255 * 5 - 3
    check_distances(rows, values, "dot" if by_product else "l2", 1e-6)


@given(
    st.booleans(),
    st.sampled_from([4, 8]),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(0, 1 << 30),
)
def test_product_codes_are_compared_as_what_they_stand_for(
    by_product: bool, bits: int, parts: int, width: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    parts *= 2
    book = rng.standard_normal((parts, 1 << bits, width)).astype(np.float32)
    codes = rng.integers(0, 1 << bits, (60, parts), np.uint8)
    stored = codes if bits == 8 else codes[:, ::2] | codes[:, 1::2] << 4
    distances = _kernels.code_distances(book.reshape(-1), parts, bits, by_product)
    content = np.ascontiguousarray(stored).reshape(-1)
    rows = _kernels.GraphProducts(content, distances, parts, bits)
    values = book[np.arange(parts), codes].reshape(60, -1).astype(np.float64)
    check_distances(rows, values, "dot" if by_product else "l2", 1e-6)


def test_links_that_have_no_room_are_kept_beside_the_others() -> None:
    values = np.zeros((200, 4), np.float32)
    values[1:] = np.nan  # near to nothing, so that only the entry can lead to them
    rows, starts, links, _, levels, entry = linked(vectors(values), 2, 4)
    _kernels.Graph(rows, starts, links, levels, entry, 200)
    assert reached(links, starts, entry) == 200


@pytest.mark.parametrize("bad", [(1, 10, 7), (4, 0, 7), (4, 10, 0), (1025, 10, 7)])
def test_a_graph_of_no_such_form_is_refused(bad: tuple[int, int, int]) -> None:
    rows = vectors(np.zeros((4, 2), np.float32))
    with pytest.raises(ValueError, match="graph: m "):
        _kernels.GraphBuilder(rows, *bad, 0)
    builder = _kernels.GraphBuilder(rows, 4, 10, 7, 0)
    with pytest.raises(ValueError, match="0 rows are linked"):
        builder.finish()


@pytest.mark.parametrize(
    ("kind", "arguments", "message"),
    [
        (_kernels.GraphVectors, (2, 3, 0), "40 bytes of rows of 12"),
        (_kernels.GraphVectors, (2, 0, 0), "rows of 0"),
        (_kernels.GraphVectors, (9, 2, 0), "vectors of type 9"),
        (_kernels.GraphVectors, (4, 2, 3), "by hamming"),
        (_kernels.GraphBytes, (3, 0.0, 1.0, False), "40 bytes of rows of 3"),
        (_kernels.GraphBytes, (0, 0.0, 1.0, False), "rows of 0"),
        (_kernels.GraphProducts, (np.zeros(3 << 16, np.float32), 3, 8), "rows of 3"),
        (_kernels.GraphProducts, (np.zeros(4 << 10, np.float32), 4, 8), "4096 distances"),
        (_kernels.GraphProducts, (np.zeros(4 << 10, np.float32), 4, 5), "4 codes of 5 bits"),
        (_kernels.GraphProducts, (np.zeros(5 << 8, np.float32), 5, 4), "5 codes of 4 bits"),
        (_kernels.GraphProducts, (np.zeros(0, np.float32), 0, 8), "rows of 0"),
    ],
    ids=str,
)
def test_rows_of_no_such_form_are_refused(
    kind: Any, arguments: tuple[Any, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        kind(np.zeros(40, np.uint8), *arguments)


@pytest.mark.parametrize(("size", "parts", "bits"), [(1000, 4, 8), (1024, 4, 5), (512, 4, 8)])
def test_a_codebook_of_no_such_form_is_refused(size: int, parts: int, bits: int) -> None:
    with pytest.raises(ValueError, match=f"{parts} codes of {bits} bits, a codebook of {size}"):
        _kernels.code_distances(np.zeros(size, np.float32), parts, bits, False)

"""Search by the indices of pylance, beside pylance's own."""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pytest

import alance
from tests.reference.thinned import thinned
from tests.search.search_cases import (
    METRICS,
    SKIPPED,
    agree,
    agree_on_common,
    drawn,
    ids,
    ours,
    queries,
    table,
    theirs,
    written,
)

if TYPE_CHECKING:
    from pathlib import Path

PARTITIONS: Final = 6
PQ: Final = {"num_sub_vectors": 4}
# The kind, its options, whether pylance's distances of cosine are twice as far, and how exact
# they are.
FLAT: Final = ("IVF_FLAT", {}, 1.0, 1e-5)
EACH: Final = {
    "flat": FLAT,
    "pq": ("IVF_PQ", PQ, 0.5, 1e-5),
    "pq, 4 bits": ("IVF_PQ", {"num_sub_vectors": 8, "num_bits": 4}, 0.5, 1e-5),
    "pq, row after row": ("IVF_PQ", {**PQ, "skip_transpose": True}, 0.5, 1e-5),
    "sq": ("IVF_SQ", {}, 0.5, 1e-5),
    # pylance rounds the tables of a query.
    **{f"rq, {bits} bits": ("IVF_RQ", {"num_bits": bits}, 0.5, 5e-4) for bits in range(1, 10)},
}
GRAPHS: Final = {
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": PQ,
    "IVF_HNSW_SQ": {},
}


def index(path: Path, kind: str, metric: str, **options: Any) -> None:
    """Make an index as pylance does, by the same centroids and codebook each time."""
    entries: dict[str, Any] = {"num_partitions": PARTITIONS}
    if metric != "hamming":  # by which pylance takes no centroids
        codes = {name: options[name] for name in ("num_sub_vectors", "num_bits") if name in options}
        entries = drawn(path, metric, PARTITIONS, **(codes if kind.endswith("PQ") else {}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lance.dataset(path).create_index(
            "vec", kind, metric=metric, replace=True, **entries, **options
        )


async def check_equal(
    path: Path, metric: str, of: tuple[Any, ...], kind: str, **options: Any
) -> None:
    """Each library finds the same rows by the same index."""
    name, _, halved, tolerance = of
    dataset = await alance.dataset(path)
    scale = halved if metric == "cosine" else 1.0
    for q in queries(kind, 3):
        for nprobes in (1, 3, PARTITIONS):
            more = SKIPPED if name == "IVF_RQ" else 0
            own = await ours(dataset, q, k=10 + more, nprobes=nprobes, **options)
            request = {"prefilter": True} if "filter" in options else {}
            other = theirs(
                path, q, k=10, nprobes=nprobes, approx_mode="accurate", **options, **request
            )
            alike = agree_on_common if more else agree
            alike(own, other, tolerance=tolerance, scale=scale)


@pytest.mark.parametrize(("which", "metric"), thinned([*EACH], METRICS))
async def test_an_index_gives_the_rows_that_it_gives_pylance(
    tmp_path: Path, which: str, metric: str
) -> None:
    name, options, *_ = EACH[which]
    path = written(tmp_path / "t", deletes=False)
    index(path, name, metric, **options)
    lance.dataset(path).delete("id % 13 = 5")
    await check_equal(path, metric, EACH[which], "float32")
    await check_equal(path, metric, EACH[which], "float32", filter="kind = 3")


async def test_bytes_are_indexed_by_hamming(tmp_path: Path) -> None:
    path = written(tmp_path / "t", "uint8", deletes=False)
    index(path, "IVF_FLAT", "hamming")
    await check_equal(path, "hamming", FLAT, "uint8")


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
async def test_index_files_have_the_version_of_the_table(tmp_path: Path, version: str) -> None:
    path = written(tmp_path / "t", deletes=False, data_storage_version=version)
    index(path, "IVF_PQ", "l2", **PQ)
    await check_equal(path, "l2", EACH["pq"], "float32")


@pytest.mark.parametrize(("metric", "name"), thinned([*METRICS], [*GRAPHS]))
async def test_partitions_with_graphs_are_searched_as_a_whole(
    tmp_path: Path, name: str, metric: str
) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, name, metric, **GRAPHS[name])
    dataset = await alance.dataset(path)
    scale = 0.5 if metric == "cosine" and name != "IVF_HNSW_FLAT" else 1.0
    for q in queries("float32"):
        own = await ours(dataset, q, k=10, nprobes=3)
        other = theirs(path, q, k=10, nprobes=3, ef=100)
        # All rows of a partition are compared: none is farther than what a graph leads to.
        actual, right = own["_distance"].to_numpy(), other["_distance"].to_numpy() * scale
        assert (actual <= right + 1e-4 * np.maximum(1, np.abs(right))).all()
        assert len(set(ids(own)) & set(ids(other))) >= 7


@pytest.mark.parametrize("stable", [False, True])
async def test_rows_that_were_updated_count_by_what_they_are_now(
    tmp_path: Path, stable: bool
) -> None:
    path = written(tmp_path / "t", deletes=False, enable_stable_row_ids=stable)
    index(path, "IVF_SQ", "l2")
    dataset = await (await alance.dataset(path)).update({"kind": "9"}, "id % 11 = 2")
    await check_equal(path, "l2", EACH["sq"], "float32", fast_search=True)
    for q in queries("float32", 2):
        own = await ours(dataset, q, k=5000, nprobes=PARTITIONS)
        assert sorted(ids(own)) == sorted(ids(theirs(path, q, k=5000, use_index=False)))


@pytest.mark.parametrize("which", ["flat", "pq"])
async def test_rows_without_an_index_are_found_unless_a_fast_search_is_asked(
    tmp_path: Path, which: str
) -> None:
    name, options, *_ = EACH[which]
    path = written(tmp_path / "t", deletes=False)
    index(path, name, "cosine", **options)
    lance.write_dataset(table("float32", 500, 3000, seed=8), path, mode="append")
    dataset = await alance.dataset(path)
    for q in queries("float32"):
        own = await ours(dataset, q, k=10, nprobes=3)
        agree(own, theirs(path, q, k=10, nprobes=3))
        exact = await ours(dataset, q, k=3500, use_index=False, metric="cosine")
        right = dict(zip(ids(exact), exact["_distance"].to_pylist(), strict=True))
        assert own["_distance"].to_pylist() == pytest.approx([right[item] for item in ids(own)])
        fast = await ours(dataset, q, k=10, nprobes=3, fast_search=True)
        assert max(ids(fast)) < 3000


async def test_the_nearest_rows_of_an_index_may_be_compared_exactly(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_PQ", "l2", **PQ)
    dataset = await alance.dataset(path)
    for q in queries("float32"):
        for options in ({"refine_factor": 3}, {"refine_factor": 1, "filter": "kind < 3"}):
            own = await ours(dataset, q, k=10, nprobes=3, **options)
            if "filter" in options:
                options["prefilter"] = True
            agree(own, theirs(path, q, k=10, nprobes=3, **options))


async def test_a_range_of_distances_is_one_of_those_that_are_given(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_PQ", "cosine", **PQ)
    dataset = await alance.dataset(path)
    q = queries("float32", 1)[0]
    whole = await ours(dataset, q, k=5000, nprobes=PARTITIONS)
    middle = whole["_distance"][300].as_py()
    for bounds in ((None, middle), (middle, None), (middle, 2 * middle)):
        actual = await ours(dataset, q, k=200, nprobes=PARTITIONS, distance_range=bounds)
        low, high = bounds[0] or -9, bounds[1] or 9
        assert all(low <= value < high for value in actual["_distance"].to_pylist())
        right = [value for value in whole["_distance"].to_pylist() if low <= value < high][:200]
        assert actual["_distance"].to_pylist() == right
        refined = await ours(
            dataset, q, k=20, nprobes=PARTITIONS, distance_range=bounds, refine_factor=2
        )
        assert all(low <= value < high for value in refined["_distance"].to_pylist())


@pytest.mark.parametrize("kind", ["IVF_RQ", "IVF_SQ"])
async def test_rows_that_an_index_takes_for_too_far_are_compared_exactly(
    tmp_path: Path, kind: str
) -> None:
    path = written(tmp_path / "t")
    index(path, kind, "l2")
    dataset = await alance.dataset(path)
    for q in queries("float32", 3):
        exact = await ours(dataset, q, k=300, use_index=False)
        for place in (20, 60, 150):
            most = exact["_distance"][place].as_py()
            near = await ours(
                dataset, q, k=300, nprobes=PARTITIONS, refine_factor=9, distance_range=(None, most)
            )
            assert ids(near) == ids(exact)[:place]


@pytest.mark.parametrize("kind", ["IVF_RQ", "IVF_SQ", "IVF_HNSW_SQ"])
async def test_rows_that_an_index_takes_for_too_near_are_compared_exactly(
    tmp_path: Path, kind: str
) -> None:
    path = written(tmp_path / "t")
    lance.dataset(path).create_index("vec", kind, num_partitions=1)  # walked along its links
    dataset = await alance.dataset(path)
    for q in queries("float32", 3):
        exact = await ours(dataset, q, k=300, use_index=False)
        for place in (20, 60, 150):
            least = exact["_distance"][place].as_py()
            request = {"k": 20, "refine_factor": 9, "distance_range": (least, None)}
            assert ids(await ours(dataset, q, **request)) == ids(exact)[place : place + 20]


async def test_partitions_are_searched_until_there_are_k_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_SQ", "l2")
    dataset = await alance.dataset(path)
    live = await dataset.count_rows("vec is not null")
    q = queries("float32", 1)[0]
    few = await ours(dataset, q, k=5000, nprobes=1)
    assert 0 < len(few) < live
    assert len(await ours(dataset, q, k=5000)) == live
    assert len(await ours(dataset, q, k=5000, minimum_nprobes=1)) == live
    actual = await ours(dataset, q, k=5000, minimum_nprobes=1, maximum_nprobes=3)
    assert len(few) < len(actual) < live
    assert len(await ours(dataset, q, k=5000, maximum_nprobes=3)) == len(actual)
    every = await ours(dataset, q, k=10, nprobes=PARTITIONS)
    nearest = {"column": "vec", "q": q, "search_effort": 1.0}
    assert await dataset.scanner(["id"], nearest=nearest).to_table() == every


async def test_a_batch_by_an_index_gives_what_each_query_gives(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    for name, options in (("IVF_PQ", PQ), ("IVF_RQ", {})):
        index(path, name, "l2", **options)
        lance.write_dataset(table("float32", 300, 3000, seed=8), path, mode="append")
        lance.dataset(path).optimize.optimize_indices(num_indices_to_merge=0)
        dataset = await alance.dataset(path)
        many = await dataset.nearest_many("vec", queries("float32"), 7, columns=["id"], nprobes=2)
        for number, q in enumerate(queries("float32")):
            own = await ours(dataset, q, k=7, nprobes=2)
            numbers = np.flatnonzero(np.array(many["query_index"]) == number)
            assert many.take(numbers).drop_columns("query_index") == own


async def test_another_metric_than_that_of_the_index_compares_every_vector(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_PQ", "l2", **PQ)
    dataset = await alance.dataset(path)
    q = queries("float32", 1)[0]
    own = await ours(dataset, q, k=10, metric="cosine")
    agree(own, theirs(path, q, k=10, metric="cosine"))
    explanation = await dataset.scanner(
        nearest={"column": "vec", "q": q, "metric": "cosine"}
    ).explain()
    assert "not used: it is by l2" in str(explanation)
    assert "every vector compared" in str(explanation)
    explanation = await dataset.scanner(nearest={"column": "vec", "q": q}).explain()
    assert "index vec_idx by l2: 1 segments for 3 of 3 fragments" in str(explanation)


async def test_an_index_that_is_not_understood_is_scanned_past_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path / "t")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lance.dataset(path).create_index(
            "vec", "IVF_PQ", num_partitions=2, index_file_version="legacy", **PQ
        )
    dataset = await alance.dataset(path)
    q = queries("float32", 1)[0]
    with caplog.at_level(logging.WARNING):
        own = await ours(dataset, q, k=10)
    assert own == await ours(dataset, q, k=10, use_index=False)
    assert "index vec_idx not used: its files are ['index.idx']" in caplog.text


async def test_fragments_asked_for_are_searched_by_the_index(tmp_path: Path) -> None:
    path = written(tmp_path / "t")
    index(path, "IVF_FLAT", "l2")
    dataset = await alance.dataset(path)
    q = queries("float32", 1)[0]
    own = await ours(dataset, q, k=20, nprobes=PARTITIONS, fragments=[1])
    assert own == await ours(dataset, q, k=20, use_index=False, fragments=[1])
    assert set(ids(own)) <= set(range(1100, 2200))

"""Searches by words and by a vector at once."""

from __future__ import annotations

import asyncio
import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance import sync
from alance.ops.read.scan import scan
from alance.ops.search import eligible
from tests.text.text_cases import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.testing.lab import Lab

NUM_ROWS, DIM = 6000, 16
URI: Final = "s3://lab/hybrid"
WORDS: Final = "quick river fox"


def documents() -> pa.Table:
    rng = np.random.default_rng(3)
    values = pa.array(rng.normal(size=NUM_ROWS * DIM).astype(np.float32))
    return table(NUM_ROWS).append_column("vec", pa.FixedSizeListArray.from_arrays(values, DIM))


def query() -> np.ndarray[Any, Any]:
    return np.random.default_rng(9).normal(size=DIM).astype(np.float32)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with both indices, of two fragments, and one that no index covers."""
    path = tmp_path_factory.mktemp("hybrid") / "t"
    rows = documents()
    dataset = lance.write_dataset(rows[:5000], path, max_rows_per_file=2500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.create_index("vec", "IVF_FLAT", num_partitions=16)
    dataset.create_scalar_index("text", "INVERTED")
    lance.write_dataset(rows[5000:], path, mode="append")
    lance.dataset(path).delete("id % 11 = 0")
    return path


async def rankings(
    dataset: alance.Dataset, count: int, **options: Any
) -> tuple[dict[int, float], dict[int, float]]:
    """The scores and the distances of the best rows of each search, by id, in their order."""
    words = await dataset.search_text(WORDS, count, columns=["id"], **options)
    near = await dataset.nearest("vec", query(), count, columns=["id"], nprobes=4, **options)
    by_words = dict(zip(words["id"].to_pylist(), words["_score"].to_pylist(), strict=True))
    by_vector = dict(zip(near["id"].to_pylist(), near["_distance"].to_pylist(), strict=True))
    return by_words, by_vector


def by_rank(*rankings: Mapping[int, float]) -> dict[int, float]:
    sums: dict[int, float] = {}
    for ranking in rankings:
        for rank, number in enumerate(ranking, 1):
            sums[number] = sums.get(number, 0) + 1 / (60 + rank)
    return sums


def scaled(ranking: Mapping[int, float]) -> dict[int, float]:
    values = list(ranking.values())
    return {number: (v - values[-1]) / (values[0] - values[-1]) for number, v in ranking.items()}


def agree(rows: pa.Table, expected: dict[int, float], k: int) -> None:
    """The ids may differ where scores are equal."""
    scores = rows["_relevance_score"].to_pylist()
    best = sorted(expected.values(), reverse=True)[:k]
    np.testing.assert_allclose(scores, best, rtol=1e-6)
    own = [expected[number] for number in rows["id"].to_pylist()]
    np.testing.assert_allclose(scores, own, rtol=1e-6)
    assert len(set(rows["id"].to_pylist())) == len(rows)


@pytest.mark.parametrize("options", [{}, {"filter": "kind = 2"}, {"use_index": False}])
async def test_ranks_of_both_searches_are_added(path: Path, options: dict[str, Any]) -> None:
    dataset = await alance.dataset(path)
    words, near = await rankings(dataset, 60, **options)
    rows = await dataset.search(
        text=WORDS, vector=query(), k=15, columns=["id"], nprobes=4, candidates=60, on="text",
        **options,
    )  # fmt: skip
    assert rows.column_names == ["id", "_relevance_score", "_score", "_distance"]
    agree(rows, by_rank(words, near), 15)
    for number, score, distance in zip(
        *(rows[name].to_pylist() for name in ("id", "_score", "_distance")), strict=True
    ):
        assert score == words.get(number)
        assert distance == near.get(number)


async def test_weights_add_what_each_search_makes_of_a_row(path: Path) -> None:
    dataset = await alance.dataset(path)
    words, near = (scaled(ranking) for ranking in await rankings(dataset, 50))
    weights = {"text": 0.3, "vector": 0.7}
    sums = {
        number: 0.3 * words.get(number, 0) + 0.7 * near.get(number, 0) for number in words | near
    }
    rows = await dataset.search(
        text=WORDS, vector=query(), combine=weights, nprobes=4, columns=["id"]
    )
    agree(rows, sums, 10)


async def test_a_function_ranks_the_candidates(path: Path) -> None:
    dataset = await alance.dataset(path)
    words, _ = await rankings(dataset, 50)

    def of_words(rows: pa.Table) -> pa.ChunkedArray:
        assert rows.column_names == [
            "_rowid",
            "_score",
            "_distance",
            "_score_rank",
            "_distance_rank",
        ]
        return pc.fill_null(rows["_score"], -1)

    async def of_near(rows: pa.Table) -> list[float]:
        return [-1000.0 if d is None else -d for d in rows["_distance"].to_pylist()]

    entries: dict[str, Any] = {"text": WORDS, "vector": query(), "nprobes": 4, "columns": ["id"]}
    rows = await dataset.search(combine=of_words, **entries)
    assert rows["id"].to_pylist() == list(words)[:10]
    rows = await dataset.search(combine=of_near, **entries)
    near = await dataset.nearest("vec", query(), 10, columns=["id"], nprobes=4)
    assert rows["id"].to_pylist() == near["id"].to_pylist()
    for scores in ([1.0], None, lambda: 1, ["x"] * 100):
        with pytest.raises(alance.InvalidInputError, match="combine gave"):
            await dataset.search(combine=lambda rows, arguments=scores: arguments, **entries)
    with pytest.raises(ZeroDivisionError):
        await dataset.search(combine=lambda rows: 1 // 0, **entries)


async def test_columns_are_those_that_are_asked_for(path: Path) -> None:
    dataset = await alance.dataset(path)
    entries: dict[str, Any] = {"text": WORDS, "vector": query(), "k": 3}
    rows = await dataset.search(**entries)
    assert rows.column_names == [*dataset.schema.names, "_relevance_score", "_score", "_distance"]
    rows = await dataset.search(columns=["_distance", "_rowid", "id"], **entries)
    assert rows.column_names == ["_distance", "_rowid", "id", "_relevance_score", "_score"]
    rows = await dataset.search(columns={"twice": "id * 2"}, **entries)
    assert rows.column_names == ["twice", "_relevance_score", "_score", "_distance"]
    rows = await dataset.search(columns=[], **entries)
    assert (rows.num_rows, rows.num_columns) == (3, 3)
    none = await dataset.search(filter="id < 0", **entries)
    assert none.num_rows == 0
    assert sync.dataset(path).search(**entries).num_rows == 3
    message = str(await dataset.explain_search(filter="kind = 2", **entries))
    assert "3 rows of the 50 best of each search, by rrf" in message
    assert "index text_idx" in message
    assert "index vec_idx" in message


async def test_what_is_wrong_is_told(path: Path) -> None:
    dataset = await alance.dataset(path)
    entries: dict[str, Any] = {"text": WORDS, "vector": query()}
    for wrong, message in (
        ({"vector": None}, "both"),
        ({"vector": [query(), query()]}, "found several"),
        ({"k": 0}, "k=0"),
        ({"k": 1.5}, "k=1.5"),
        ({"k": 1 << 63}, "k=9223372036854775808: expected an integer from 1 to"),
        ({"k": 100, "candidates": 50}, "k=100: more than candidates=50"),
        ({"candidates": 0}, "k="),
        ({"combine": "sum"}, "'rrf'"),
        ({"combine": {"text": 1}}, "weights"),
        ({"combine": {"text": 1, "vector": -1}}, "vector=-1"),
        ({"vector_column": "id"}, "'id'"),
        ({"on": "id"}, "'id'"),
        ({"filter": "nothing = 1"}, "nothing"),
    ):
        with pytest.raises(alance.InvalidInputError, match=message):
            await dataset.search(**(entries | wrong))
    with pytest.raises(TypeError, match="prefetch"):
        await dataset.search(**entries, prefetch=1)
    several = documents().append_column("other", documents()["vec"])
    dataset = await alance.write_dataset(several[:100], "memory://hybrid/several")
    with pytest.raises(alance.InvalidInputError, match="'vec', 'other'"):
        await dataset.search(**entries, on="text")
    rows = await dataset.search(**entries, on="text", vector_column="other", columns=["id"])
    assert rows.num_rows == 10


@pytest.fixture
def far(lab: Lab, path: Path) -> Lab:
    """The lab with the table, 20 ms away."""
    target = Path(lab.root) / "lab" / "hybrid"
    if not target.exists():
        shutil.copytree(path, target)
        lab.rescan()
    lab.config(latency_ms=20)
    return lab


async def test_both_searches_share_their_rounds(far: Lab) -> None:
    options = far.lance_options()
    rows: dict[str, Any] = {"columns": ["_rowid"], "fast_search": True}
    rounds = []
    for alone in (True, False):
        async with alance.Session() as session:
            dataset = await alance.dataset(URI, storage_options=options, session=session)
            far.config(waits_for=os.getpid())
            if alone:
                with far.recording() as seen:
                    await dataset.search_text(WORDS, 50, **rows)
                rounds.append(seen.rounds)
                with far.recording() as seen:
                    await dataset.nearest("vec", query(), 50, nprobes=4, **rows)
                rounds.append(seen.rounds)
                continue
            entries: dict[str, Any] = {"text": WORDS, "nprobes": 4, "fast_search": True}
            with far.recording() as seen:
                await dataset.search(**entries, vector=query(), columns=["id"])
            assert seen.rounds == max(rounds) + 1
            with far.recording() as seen:
                await dataset.search(**entries, vector=query() * 2, columns=["id"])
            assert seen.rounds <= 2
            with far.recording() as seen:
                await dataset.search(**entries, vector=query() * 2, columns=[])
            assert seen.records == []


@pytest.mark.parametrize("condition", ["kind = 3", pc.field("kind") == 3])
async def test_a_filter_is_asked_once(
    path: Path, condition: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scans = []

    def counted(snapshot: Any, plan: Any) -> Any:
        scans.append(plan)
        return scan(snapshot, plan)

    monkeypatch.setattr(eligible, "scan", counted)
    dataset = await alance.dataset(path)
    entries: dict[str, Any] = {"filter": condition, "fast_search": True}
    rows = await dataset.search(**entries, text=WORDS, vector=query(), columns=["kind"])
    assert set(rows["kind"].to_pylist()) == {3}
    assert len(scans) == 1
    await asyncio.gather(
        *(dataset.search_text(WORDS, columns=["_rowid"], **entries) for _ in range(5))
    )
    # What a filter in SQL keeps is remembered; one that asks for the time, or has values, is not.
    assert len(scans) == (1 if isinstance(condition, str) else 2)
    changing = [
        {"filter": "kind = 3 AND now() > timestamp '2020-01-01'"},
        {"filter": "kind = ?", "params": [3]},
        {"filter": "kind = ?", "params": [2]},
    ]
    for number, other in enumerate(changing * 2, len(scans) + 1):
        rows = await dataset.search_text(WORDS, columns=["kind"], **other)
        assert set(rows["kind"].to_pylist()) == {other.get("params", [3])[0]}
        assert len(scans) == number


async def test_a_remembered_filter_is_of_its_version(tmp_path: Path) -> None:
    rows = documents()
    dataset = await alance.write_dataset(rows[:3000], tmp_path / "t")
    dataset = await dataset.create_index("text", "INVERTED")
    condition = "kind = 3 AND id < 2500"
    for _ in range(2):
        ids = (await dataset.search_text(WORDS, 3000, filter=condition))["id"].to_pylist()
        assert ids
        assert all(number % 5 == 3 and number < 2500 for number in ids)
    later = await dataset.delete(f"id = {ids[0]}")
    values = (await later.search_text(WORDS, 3000, filter=condition))["id"].to_pylist()
    assert sorted(values) == sorted(ids[1:])
    again = (await dataset.search_text(WORDS, 3000, filter=condition))["id"].to_pylist()
    assert again == ids

"""Searches at once: they go together, and what befalls one is not the matter of the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import alance
from alance.format.index.ivf import Partition
from alance.ops.search import joined, nearest
from tests.search.search_cases import ours, queries, written
from tests.search.test_indexed import index

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pyarrow as pa


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = written(tmp_path_factory.mktemp("joined") / "t")
    index(path, "IVF_PQ", "l2", num_sub_vectors=4)
    return path


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of queries in each search."""
    numbers = []
    find_hits = nearest.find_hits

    async def counted(snapshot: Any, search: Any, options: Any, columns: Any) -> Any:
        numbers.append(len(search.queries))
        return await find_hits(snapshot, search, options, columns)

    monkeypatch.setattr(nearest, "find_hits", counted)
    return numbers


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"filter": "kind = 3"},
        {"filter": "kind = 3", "prefilter": False},
        {"refine_factor": 2, "columns": ["text", "_rowid"]},
        {"use_index": False, "columns": None},
        {"distance_range": (0.5, 3.0)},
        {"columns": []},
    ],
    ids=str,
)
async def test_searches_at_once_give_what_each_gives(
    path: Path, searches: list[int], options: dict[str, Any]
) -> None:
    dataset = await alance.dataset(path)
    request = queries("float32", 40)
    alone = [await ours(dataset, q, k=7, nprobes=3, **options) for q in request]
    searches.clear()
    together = await asyncio.gather(
        *(ours(dataset, q, k=7, nprobes=3, **options) for q in request),
        ours(dataset, request[:3], k=7, nprobes=3, **options),
    )
    assert together[:-1] == alone
    assert searches == [43]
    for number in range(3):
        rows = np.flatnonzero(together[-1]["query_index"].to_numpy() == number)
        assert together[-1].take(rows).drop_columns("query_index") == alone[number]


async def test_limit_and_order_are_those_of_each_caller(path: Path, searches: list[int]) -> None:
    dataset = await alance.dataset(path)
    request = queries("float32", 6)

    def scan(q: Any, **options: Any) -> Any:
        expected = {"column": "vec", "q": q, "k": 9}
        return dataset.scanner(["id"], nearest=expected, **options).to_table()

    whole = [await scan(q) for q in request]
    cut = await asyncio.gather(*(scan(q, limit=4, offset=2) for q in request))
    assert [rows["id"].to_pylist() for rows in cut] == [
        rows["id"].to_pylist()[2:6] for rows in whole
    ]
    searches.clear()
    turned = await asyncio.gather(
        scan(request[0], order_by=["-_distance"]),
        scan(request[1]),
        scan(request[2], order_by=["id"]),
    )
    assert turned[0]["id"].to_pylist() == whole[0]["id"].to_pylist()[::-1]
    assert turned[1] == whole[1]
    assert turned[2]["id"].to_pylist() == sorted(whole[2]["id"].to_pylist())
    assert searches == [3]


async def test_searches_that_ask_for_something_else_go_alone(
    path: Path, searches: list[int]
) -> None:
    dataset = await alance.dataset(path)
    q = queries("float32", 1)[0]
    for options in ({"k": 3}, {"filter": "kind = 1"}, {"nprobes": 2}, {"columns": ["text"]}):
        searches.clear()
        first, second = await asyncio.gather(ours(dataset, q), ours(dataset, q, **options))
        assert searches == [1, 1]
        assert first == await ours(dataset, q)
        assert second == await ours(dataset, q, **options)


async def test_large_answers_are_not_kept_by_the_rows_of_one(path: Path) -> None:
    dataset = await alance.dataset(path)
    tables = await asyncio.gather(
        *(ours(dataset, q, k=500, columns=None) for q in queries("float32", 20))
    )
    whole = sum(table.get_total_buffer_size() for table in tables)
    assert whole < 3 * sum(table.nbytes for table in tables)


async def test_rows_of_all_searches_together_are_bounded(
    path: Path, searches: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joined, "MAX_JOINED_ROWS", 100)
    dataset = await alance.dataset(path)
    await asyncio.gather(*(ours(dataset, q, k=11) for q in queries("float32", 30)))
    assert sum(searches) == 30
    assert max(searches) <= 9


async def test_a_damaged_partition_fails_those_alone_that_ask_for_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of, opened, bad = Partition.of, list[int](), set[int]()

    def damaged(number: int, batch: pa.RecordBatch, names: Sequence[str]) -> Partition:
        opened.append(number)
        if number in bad:
            raise alance.CorruptFileError(f"partition {number}")
        return of(number, batch, names)

    monkeypatch.setattr(Partition, "of", damaged)
    request = queries("float32", 40)
    async with alance.Session() as session:
        dataset = await alance.dataset(path, session=session)
        await ours(dataset, request[0], nprobes=1)
        bad.add(opened[0])  # of one query at least; which one it is depends on the training
        session.engine.cache.clear()
        alone = []
        for q in request:
            alone += await asyncio.gather(ours(dataset, q, nprobes=1), return_exceptions=True)
        session.engine.cache.clear()
        together = await asyncio.gather(
            *(ours(dataset, q, nprobes=1) for q in request), return_exceptions=True
        )
    wrong = [isinstance(outcome, alance.CorruptFileError) for outcome in alone]
    assert 0 < sum(wrong) < len(request)
    for outcome, right, is_wrong in zip(together, alone, wrong, strict=True):
        assert isinstance(outcome, alance.CorruptFileError) if is_wrong else outcome == right


async def test_a_search_cancelled_at_any_turn_leaves_nothing(path: Path) -> None:
    async with alance.Session() as session:
        dataset = await alance.dataset(path, session=session)
        before = asyncio.all_tasks()
        request = queries("float32", 4)
        for turns in range(60):
            session.engine.cache.clear()
            callers = [asyncio.ensure_future(ours(dataset, q, refine_factor=2)) for q in request]
            for _ in range(turns):
                await asyncio.sleep(0)
            for caller in callers:
                caller.cancel()
            await asyncio.gather(*callers, return_exceptions=True)
            assert asyncio.all_tasks() == before
        assert len(await ours(dataset, request[0])) == 10

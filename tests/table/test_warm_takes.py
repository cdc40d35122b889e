"""Takes of rows from remote fragments that were taken from before."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
from alance import _kernels
from alance.errors import InvalidInputError
from alance.file.rows.tasks import PlacedColumns
from alance.io.disk.local import LocalSource, LocalStore
from alance.io.reading import pool
from alance.io.reading.flights import Flight
from alance.io.reading.joined import _Together as Together
from alance.ops.read.take import by_key, by_position
from alance.testing.lab import Lab
from tests.kernels.page_columns import Chunks, chunked
from tests.reference.planned import plan_rows
from tests.reference.served import opened_on
from tests.reference.waiting import stuck

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path
    from types import CodeType, FrameType

ROWS = 40_000
TABLE = pa.table(
    {
        "number": pa.array(range(ROWS), pa.int64()),
        "some": pa.array([n if n % 3 else None for n in range(ROWS)], pa.int32()),
        "text": pa.array([f"row {n} {'x' * (n % 50)}" for n in range(ROWS)]),
        "nested": pa.array([{"a": n, "b": str(n)} for n in range(ROWS)]),
        "list": pa.array([[n] * (n % 4) for n in range(ROWS)]),
        "vector": pa.FixedSizeListArray.from_arrays(
            pa.array(np.arange(4 * ROWS, dtype=np.float32)), 4
        ),
    }
)


@pytest.fixture(scope="module")
def columns_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("warm")) as lab:
        path = lab.root / "lab" / "t.lance"
        lance.write_dataset(TABLE, path, max_rows_per_file=9000)
        dataset = lance.dataset(path)
        dataset.delete("number % 7 = 1 and number > 20000")
        more = pa.table({"number": pa.array(range(ROWS, ROWS + 500), pa.int64())})
        lance.write_dataset(more, path, mode="append")  # the other columns are not in its file
        lab.rescan()
        yield lab


def expected(lab: Lab, picked: list[int], columns: list[str] | None) -> pa.Table:
    path: Path = lab.root / "lab" / "t.lance"
    return lance.dataset(path).take(picked, columns)


@pytest.mark.parametrize(
    "columns",
    [["number"], ["some", "text"], ["nested"], ["list", "number"], ["vector"], None],
    ids=str,
)
async def test_crowds_get_what_they_ask_for(columns_lab: Lab, columns: list[str] | None) -> None:
    random = np.random.default_rng(len(str(columns)))
    async with opened_on(columns_lab, "s3://lab/t.lance") as dataset:
        count = await dataset.count_rows()
        for _ in range(3):
            picked = [random.integers(0, count, 12).tolist() for _ in range(12)]
            results = await asyncio.gather(*(dataset.take(item, columns) for item in picked))
            for rows, table in zip(picked, results, strict=True):
                assert table == expected(columns_lab, rows, columns)
        many = random.integers(0, count, 3000).tolist()
        assert await dataset.take(many, columns) == expected(columns_lab, many, columns)


@pytest.mark.parametrize(
    "columns", [["number"], ["some", "text"], ["nested", "some"], ["vector"], None], ids=str
)
async def test_local_takes_give_the_same_again(columns_lab: Lab, columns: list[str] | None) -> None:
    random = np.random.default_rng(len(str(columns)))
    async with alance.Session() as session:
        dataset = await alance.dataset(columns_lab.root / "lab" / "t.lance", session=session)
        count = await dataset.count_rows()
        for _ in range(10):
            picked = random.integers(0, count, 12).tolist()
            assert await dataset.take(picked, columns) == expected(columns_lab, picked, columns)
        many = random.integers(0, count, 3000).tolist()
        for _ in range(2):
            assert await dataset.take(many, columns) == expected(columns_lab, many, columns)


async def test_local_callers_go_together_only_as_a_crowd(
    columns_lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "LOOP_TURN_S", 0.0)  # each small take ends its turn of the loop
    questions: list[Sequence[Any]] = []
    answer = Together._answer

    async def noted(joint: Together[Any, Any], callers: Sequence[Any]) -> None:
        questions.append(callers)
        await answer(joint, callers)

    monkeypatch.setattr(Together, "_answer", noted)
    async with alance.Session() as session:
        dataset = await alance.dataset(columns_lab.root / "lab" / "t.lance", session=session)
        count = await dataset.count_rows()
        numbers = (await dataset.to_table(columns=["number"]))["number"]

        async def caller(number: int, takes: int) -> None:
            for picked in np.random.default_rng(number).integers(0, count, (takes, 12)):
                table = await dataset.take(picked, ["number"])
                assert table["number"].to_pylist() == numbers.take(pa.array(picked)).to_pylist()

        await asyncio.gather(*(caller(number, 5) for number in range(4)))
        assert questions == []
        await asyncio.gather(*(caller(number, 5) for number in range(64)))
        assert sum(map(len, questions)) > 64 * 2
        assert len(questions) < 64
        await caller(0, 1)  # it finds that the crowd is gone
        questions.clear()
        await caller(0, 5)
        assert questions == []


async def test_one_of_a_crowd_fails_or_is_cancelled_alone(columns_lab: Lab) -> None:
    async with opened_on(columns_lab, "s3://lab/t.lance", block_cache_bytes=0) as dataset:
        count = await dataset.count_rows()
        await dataset.take([*range(0, count, 400)], ["number"])
        rows = [[n, 30_000 - n, n * 50] for n in range(40)]
        rows[7] = [3, count]
        since = columns_lab.stats()["requests"]
        columns_lab.config(faults=[{"action": "late"}])  # until there are no faults
        try:
            calls = [asyncio.ensure_future(dataset.take(row, ["number"])) for row in rows]
            await stuck(columns_lab, since)
            calls[11].cancel()
        finally:
            columns_lab.calm()
        results = await asyncio.gather(*calls, return_exceptions=True)
    for number, (picked, table) in enumerate(zip(rows, results, strict=True)):
        if number == 7:
            assert isinstance(table, InvalidInputError)
        elif number == 11:
            assert isinstance(table, asyncio.CancelledError)
        else:
            assert table == expected(columns_lab, picked, ["number"])


def test_tables_know_their_bounds() -> None:
    def pages_of(*sizes: int) -> _kernels.ColumnPages:
        return _kernels.ColumnPages(
            [(((64, 4), (100, size), (200, size)), 10, b"") for size in sizes]
        )

    with pytest.raises(ValueError, match="rows of a page"):
        _kernels.ColumnPages([((), 5, b""), ((), -2, b"")])
    table = pages_of(40, 40)
    with pytest.raises(IndexError, match="no such page"):
        table.set_plain(2, 1, 32)
    with pytest.raises(ValueError, match="no such buffer"):
        table.set_plain(1, 3, 32)
    for size, bits in ((40, 0), (40, 31), (41, 32), (36, 32)):
        with pytest.raises(ValueError, match=f"zipped rows of {bits} bits"):
            pages_of(size).set_plain(0, 1, bits)

    def plan(rows: list[int], ends: list[int]) -> _kernels.RowPlan:
        return plan_rows([[table] * len(ends)] * 2, np.array(rows, np.int64), ends)

    assert plan([1, 2], [2]).unknown == [(0, 0), (1, 0)]
    table.set_plain(0, 1, 32)
    table.set_plain(0, 2, 32)  # it stays as it is
    assert plan([1, 12], [2]).unknown == [(0, 1), (1, 1)]
    result = plan([1, 2, 4, 7], [2, 4])
    assert (result.unknown, result.num_groups) == ([], 2)
    for column in (0, 1):
        tables, piece_ends, starts, stops, num_bytes = result.pieces(column, column + 1)
        assert (tables, piece_ends) == ([2 * column, 2 * column + 1], [1, 3])
        assert (starts.tolist(), stops.tolist()) == ([104, 116, 128], [112, 120, 132])
        assert num_bytes == 16
        assert result.groups(column) == (column, column + 1)
    assert (result.num_bytes(0, 2), result.place(3)) == (32, (3, 64))
    for wrong_groups in ((0, 3), (2, 1)):
        with pytest.raises(ValueError, match="no such groups"):
            result.pieces(*wrong_groups)
    for ask in (result.place, result.groups):
        with pytest.raises(ValueError, match="no such"):
            ask(4)
    for wrong, ends_of in (([20], [1]), ([-1], [1]), ([3, 3], [2]), ([3], [2]), ([3, 4], [1])):
        with pytest.raises(ValueError, match="row"):
            plan(wrong, ends_of)
    with pytest.raises(ValueError, match="other fragments"):
        plan_rows([[table]], np.array([1], np.int64), [1, 1])


def groups_of(sizes: list[int]) -> list[list[int]]:
    """The tables of each group, of one row of each of some tables of one page with one chunk."""
    tables = [chunked([Chunks(0, [1], [size])], large=True) for size in sizes]
    rows = np.zeros(len(sizes), np.int64)
    plan = plan_rows([tables], rows, [*range(1, len(sizes) + 1)])
    return [plan.pieces(number, number + 1)[0] for number in range(plan.num_groups)]


def test_a_group_is_small() -> None:
    kib = 1 << 10
    assert groups_of([8 * kib] * 4) == [[0, 1, 2, 3]]
    assert groups_of([100 * kib] * 3) == [[0], [1], [2]]
    assert groups_of([]) == []


@given(
    st.lists(st.integers(0, 6), max_size=8),
    st.lists(st.floats(0, 0.999), max_size=40),
    st.booleans(),
)
def test_rows_are_placed_by_kernel_as_by_numpy(
    counts: list[int], picked: list[float], ordered: bool
) -> None:
    firsts = np.concatenate(([0], np.cumsum(np.array(counts, np.int64))))
    total = int(firsts[-1])
    array = np.array([int(item * total) for item in picked] if total else [], np.int64)
    array = np.unique(array) if ordered else array
    result = by_position(array, firsts)
    fragments = np.searchsorted(firsts, array, "right") - 1
    other = by_key(fragments << 32 | array - firsts[fragments])
    assert result.fragments == other.fragments
    assert result.cuts == other.cuts
    assert result.rows.tolist() == other.rows.tolist()
    assert (result.places is None) == (other.places is None)
    if result.places is not None and other.places is not None:
        assert result.places.tolist() == other.places.tolist()


def test_placing_knows_its_bounds() -> None:
    def place(numbers: list[int], firsts: list[int]) -> None:
        _kernels.place_rows(np.array(numbers, np.int64), np.array(firsts, np.int64))

    place([4], [0, 5])
    for numbers in ([5], [-1], [1, 7]):
        with pytest.raises(ValueError, match="no such row"):
            place(numbers, [0, 5])
    with pytest.raises(ValueError, match="too many"):
        place([0] * 1025, [0, 5])
    for firsts in ([], [1, 5]):
        with pytest.raises(ValueError, match="first rows"):
            place([2], firsts)


async def test_bytes_of_requests_do_not_wait_for_the_collector(columns_lab: Lab) -> None:
    async with opened_on(columns_lab, "s3://lab/t.lance") as dataset:
        await dataset.take([5, 12_000, 30_000], ["number", "text"])
        gc.collect()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            await asyncio.gather(*(dataset.take([n, n * 700], ["text"]) for n in range(40)))
            gc.collect()
            items = [item for item in gc.garbage if isinstance(item, Flight | memoryview)]
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
        assert items == []


@pytest.mark.parametrize("count", [12, 3000])
async def test_a_trace_changes_nothing_and_has_the_ranges_that_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    path = tmp_path / "t"
    lance.write_dataset(TABLE, path, max_rows_per_file=9000)
    calls: list[str] = []

    def count_calls(owner: type, name: str) -> None:
        original = getattr(owner, name)

        def counting(*args: Any, **options: Any) -> Any:
            calls.append(name)
            return original(*args, **options)

        monkeypatch.setattr(owner, name, counting)

    for owner, name in (
        (LocalStore, "pieces_now"),
        (LocalStore, "get_pieces"),
        (LocalSource, "reading"),
        (PlacedColumns, "__init__"),
    ):
        count_calls(owner, name)
    rows = np.random.default_rng(count).choice(ROWS, count, replace=False).tolist()
    async with alance.Session() as session:
        dataset = await alance.dataset(path, session=session)
        await dataset.take(rows)
        calls.clear()
        expected_table = await dataset.take(rows)
        plain = sorted(calls)
        calls.clear()
        with alance.trace() as recorder:
            assert await dataset.take(rows) == expected_table
        assert sorted(calls) == plain
    sizes = {file.name: file.stat().st_size for file in (path / "data").iterdir()}
    assert {event.reasons for event in recorder.events} == {("take",)}
    assert {event.location.rpartition("/")[2] for event in recorder.events} <= set(sizes)
    assert recorder.events
    for event in recorder.events:
        size = sizes[event.location.rpartition("/")[2]]
        assert 0 < event.num_used <= event.num_bytes <= event.stop - event.start < size
        assert event.ranges[0][0] == event.start
        assert event.ranges[-1][1] == event.stop


async def test_python_calls_of_a_warm_take_do_not_grow_with_the_fragments(tmp_path: Path) -> None:
    async def calls(fragments: int) -> Counter[CodeType]:
        path = tmp_path / f"{fragments}"
        values = pa.table({"a": np.arange(96_000), "b": np.random.default_rng(3).random(96_000)})
        lance.write_dataset(values, path, max_rows_per_file=96_000 // fragments)
        async with alance.Session() as session:
            dataset = await alance.dataset(path, session=session)
            rows = [*range(5, 96_000, 4000)]
            for _ in range(2):
                await dataset.take(rows)
            counts: Counter[CodeType] = Counter()

            def count(frame: FrameType, event: str, _: object) -> None:
                counts[frame.f_code] += event == "call"

            sys.setprofile(count)
            try:
                await dataset.take(rows)
            finally:
                sys.setprofile(None)
        return counts

    few = await calls(2)
    many = await calls(24)
    # Few more are of coroutines that went on in another turn.
    assert {code.co_name: n for code, n in many.items() if n > few[code] + 3} == {}

"""Turns of the event loop have little work, however many columns and pages a table has.

Calls and pages are counted, not timed. All pauses are made, so that no clock decides.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance import operations, sync
from alance.expr import Predicate, pruning
from alance.expr.sql import parameters
from alance.file.open.new_pages import NewPages
from alance.file.rows.placing import Placing
from alance.file.write import small_batches
from alance.format.container import SearchBuffer
from alance.format.plans import ByteRange
from alance.format.table.changes import conflicts
from alance.io.caches.cache import SearchCache
from alance.io.reading.inline import MANY_JOB_OBJECTS, ObjectRanges
from alance.io.reading.reads import Landed
from alance.io.reading.scheduler import Scheduler
from alance.ops.merge.inserted import InsertedKeys
from tests.reference.served import opened_on
from tests.reference.waiting import Turns

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    from alance.testing.lab import Lab

    Work = Callable[[alance.Dataset], Awaitable[object]]

COLUMNS: Final = 2_000
# A call takes 50 to 200 ns, so these are a millisecond. Describing the columns takes more.
MOST_CALLS: Final = 4 * COLUMNS


class CallsOfTurns:
    """Context manager that counts the calls of Python and C functions of each turn of the loop."""

    def __init__(self) -> None:
        self.most = self._count = 0
        self._run: Any = asyncio.Handle._run

    def __enter__(self) -> CallsOfTurns:
        run = self._run

        def counted(handle: Any) -> None:
            self._count = 0
            sys.setprofile(self._note)  # of this thread alone
            try:
                run(handle)
            finally:
                sys.setprofile(None)
                self.most = max(self.most, self._count)

        asyncio.Handle._run = counted  # type: ignore[assignment,method-assign]
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.Handle._run = self._run  # type: ignore[method-assign]

    def _note(self, _: object, event: str, __: object) -> None:
        self._count += event in ("call", "c_call")


def wide(rows: int, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + rows)
    return pa.table({"id": numbers, **{f"c{n}": numbers + n for n in range(COLUMNS - 1)}})


MORE: Final = wide(20, 10)
WORKS: Final[dict[str, Work]] = {
    "head": lambda dataset: dataset.head(3),
    "take": lambda dataset: dataset.take([0, 7, 3]),
    "table": lambda dataset: dataset.to_table(),
    "filter": lambda dataset: dataset.to_table(filter="id = 7"),
    "expression": lambda dataset: dataset.to_table(["id"], filter=pc.field("id") == 7),
    "order": lambda dataset: dataset.to_table(order_by=["id"], limit=3),
    "key": lambda dataset: dataset.get_many([7], "id"),
    "explain": lambda dataset: dataset.scanner(filter="id > 5").explain(),
    "append": lambda dataset: dataset.insert(MORE),
    "overwrite": lambda dataset: alance.write_dataset(
        MORE, dataset.uri, mode="overwrite", max_rows_per_file=2
    ),
    "merge": lambda dataset: dataset.upsert(MORE, "id"),
    "update": lambda dataset: dataset.update({"id": "id + 0"}, where="id = 7"),
    "metadata": lambda dataset: dataset.update_field_metadata(
        {name: {"a": "b"} for name in MORE.column_names}
    ),
    "sql": lambda dataset: dataset.sql("select * from dataset where id = 7"),
}


def make_all_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("alance.io.reading.pool.LOOP_TURN_S", 0.0)
    monkeypatch.setattr("alance.io.reading.drive.PLAN_TURN_S", 0.0)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("wide") / "t.lance"
    sync.write_dataset(wide(20), path)
    return path


@pytest.fixture
def uri(written: Path, tmp_path: Path) -> str:
    return str(shutil.copytree(written, tmp_path / "t.lance"))


@pytest.mark.parametrize("name", WORKS)
async def test_turns_make_few_calls_for_many_columns(
    uri: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = WORKS[name]
    make_all_pauses(monkeypatch)
    async with alance.Session() as session:
        await work(await alance.dataset(uri, session=session))  # imports what it needs
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, session=session)
        with CallsOfTurns() as calls:
            await asyncio.sleep(0)
            await work(dataset)
    assert 0 < calls.most < MOST_CALLS


FRAGMENTS: Final = 200
MOST_CALLS_OF_FRAGMENTS: Final = 20 * FRAGMENTS  # handles of all fragments take more
OF_FRAGMENTS: Final[dict[str, Work]] = {
    "validate": lambda dataset: dataset.validate(),
    "column": lambda dataset: dataset.add_columns({"new": "id * 2"}),
    "column of data": lambda dataset: dataset.add_columns(pa.table({"new": range(2 * FRAGMENTS)})),
    "join": lambda dataset: dataset.merge(pa.table({"id": [3, 7], "new": [1, 2]}), "id"),
    "replacement": lambda dataset: dataset.replace_columns({"id": "id + 1"}),
    "cast": lambda dataset: dataset.alter_columns({"path": "id", "data_type": pa.int32()}),
    "index": lambda dataset: dataset.create_scalar_index("id", "BTREE"),
    "compact": lambda dataset: dataset.optimize.compact_files(),
    "repair": lambda dataset: alance.repair(dataset.uri),
}


@pytest.fixture(scope="module")
def of_fragments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fragments") / "t.lance"
    sync.write_dataset(pa.table({"id": range(2 * FRAGMENTS)}), path, max_rows_per_file=2)
    return path


@pytest.mark.parametrize("name", OF_FRAGMENTS)
async def test_turns_make_few_calls_for_many_fragments(
    of_fragments: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = OF_FRAGMENTS[name]
    make_all_pauses(monkeypatch)
    monkeypatch.setattr("alance.io.loop.tasks.ITEMS_A_TURN", 10)
    for number in range(2):  # the first imports what it needs
        path = shutil.copytree(of_fragments, tmp_path / f"t{number}.lance")
        async with alance.Session() as session:
            dataset = await alance.dataset(path, session=session)
            with CallsOfTurns() as calls:
                await asyncio.sleep(0)
                await work(dataset)
    assert 0 < calls.most < MOST_CALLS_OF_FRAGMENTS


@pytest.mark.parametrize("rows", [20, 3_000])  # files of 3 000 rows are not held in memory
async def test_a_take_of_many_fragments_and_columns_shares_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    fragments, works, turns, checked = 10, Counter[tuple[int, str]](), Turns(), list[int]()
    table = pa.table({f"c{n}": np.arange(rows * fragments) * 7919 % 99991 for n in range(16)})
    dataset = await alance.write_dataset(table, tmp_path / "t.lance", max_rows_per_file=rows)
    make_all_pauses(monkeypatch)
    monkeypatch.setattr("alance.file.rows.placing.TABLES_A_TURN", fragments)
    monkeypatch.setattr("alance.io.reading.scheduler.MAX_FILES_PER_READ", fragments // 2)
    monkeypatch.setattr("alance.ops.read.physical_rows.SHARED_TAKE_BYTES", 0)

    def counted(owner: type, name: str) -> None:
        work = getattr(owner, name)

        def noted(*arguments: Any, **options: Any) -> Any:
            works[turns.count, name] += 1
            return work(*arguments, **options)

        monkeypatch.setattr(owner, name, noted)

    counted(Placing, "place")
    counted(Placing, "columns")
    counted(Scheduler, "hold")
    check = SearchBuffer.check

    def noted_check(self: SearchBuffer, where: str, start: int, content: memoryview) -> None:
        checked.append(start)
        check(self, where, start, content)

    monkeypatch.setattr(SearchBuffer, "check", noted_check)
    sought = np.arange(0, len(table), rows // 4)
    async with turns:
        assert await dataset.take(sought) == table.take(sought)
        checked.clear()
        assert await dataset.take(sought) == table.take(sought)
    by_name = {name for _, name in works}
    assert by_name >= {"place", "columns"} | ({"hold"} if rows > 20 else set())
    assert max(works.values()) == 1
    assert not checked  # pieces that are no entry of a search-cache buffer


@pytest.mark.parametrize("rows", [1, 3_000])  # small files are read by jobs for many
async def test_reads_of_many_files_begin_in_short_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int
) -> None:
    count, turns, begun = 200, Turns(), Counter[int]()
    for number in range(count):
        (tmp_path / f"{number}").write_bytes(bytes([number]) * rows)
    monkeypatch.setattr("alance.io.reading.scheduler.PLANNING_TURN_S", 0.0)
    monkeypatch.setattr("alance.io.reading.reads.ANSWERED_AT_ONCE", 10)
    monkeypatch.setattr("alance.io.reading.inline.AT_HAND_RANGES", 0)
    add, threads = ObjectRanges.listed, set[int]()
    cut = Landed.cut

    def noted(ranges: ObjectRanges) -> list[tuple[int, int]]:
        begun[turns.count] += 1
        return add(ranges)

    def noted_cut(landed: Landed, start: int, stop: int) -> memoryview:
        threads.add(threading.get_ident())
        return cut(landed, start, stop)

    monkeypatch.setattr(ObjectRanges, "listed", noted)
    monkeypatch.setattr(Landed, "cut", noted_cut)
    async with alance.Session() as session, turns:
        store, folder = session.engine.registry.open(tmp_path)
        places = [f"{store.root}{folder}/{number}" for number in range(count)]
        contents = await session.engine.scheduler.read([ByteRange(own, 0, rows) for own in places])
    assert contents == [bytes([number]) * rows for number in range(count)]
    assert begun.total() == count
    assert max(begun.values()) <= MANY_JOB_OBJECTS
    assert threading.get_ident() not in threads


@pytest.mark.parametrize("how", ["cancelled", "closed"])
async def test_a_read_that_ends_between_turns_begins_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    for number in range(200):
        (tmp_path / f"{number}").write_bytes(b"x" * 3000)
    monkeypatch.setattr("alance.io.reading.scheduler.PLANNING_TURN_S", -1.0)
    monkeypatch.setattr("alance.io.reading.inline.AT_HAND_RANGES", 0)
    add, begun = ObjectRanges.listed, list[ObjectRanges]()

    def noted(ranges: ObjectRanges) -> list[tuple[int, int]]:
        begun.append(ranges)
        return add(ranges)

    monkeypatch.setattr(ObjectRanges, "listed", noted)
    async with alance.Session() as session:
        store, folder = session.engine.registry.open(tmp_path)
        places = [f"{store.root}{folder}/{number}" for number in range(200)]
        reading = session.engine.scheduler.read([ByteRange(own, 0, 3000) for own in places])
        for _ in range(10):
            if not begun:
                await asyncio.sleep(0)
        num_begun = len(begun)
        assert 0 < num_begun < 200
        if how == "cancelled":
            reading.cancel()
        else:
            await session.engine.scheduler.aclose()
        for _ in range(20):
            await asyncio.sleep(0)
        with pytest.raises((asyncio.CancelledError, alance.AlanceError)):
            await reading
        assert len(begun) == num_begun


async def test_a_first_take_keeps_few_of_many_fragments_in_a_turn(
    of_fragments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts, turns, put = Counter[int](), Turns(), SearchCache.put

    def counted(cache: SearchCache, *entry: Any) -> None:
        puts[turns.count] += 1
        put(cache, *entry)

    make_all_pauses(monkeypatch)
    for name in ("FILES_A_TURN", "FILES_AT_ONCE"):
        monkeypatch.setattr(f"alance.file.open.files.{name}", 20)
    monkeypatch.setattr("alance.file.open.new_pages.PAGES_A_TURN", 20)
    monkeypatch.setattr("alance.ops.read.physical_rows.FRAGMENTS_A_TURN", 20)
    async with alance.Session() as session:
        dataset = await alance.dataset(of_fragments, session=session)
        monkeypatch.setattr(SearchCache, "put", counted)
        async with turns:
            taken = await dataset.take(range(2 * FRAGMENTS))
    assert taken["id"].to_pylist() == [*range(2 * FRAGMENTS)]
    assert puts.total() >= 2 * FRAGMENTS
    assert max(puts.values()) <= 20


async def test_large_deletions_are_merged_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count, threads = 100_000, list[int]()
    dataset = await alance.write_dataset(pa.table({"id": range(count)}), tmp_path / "t.lance")
    rebase = conflicts.rebase

    def noted(*arguments: Any, **options: Any) -> Any:
        threads.append(threading.get_ident())
        return rebase(*arguments, **options)

    monkeypatch.setattr(conflicts, "rebase", noted)
    await dataset.delete("id % 4 = 0")
    after = await dataset.delete("id % 4 = 1")  # computed from the version before
    assert await after.count_rows() == count // 2
    assert threads
    assert threading.get_ident() not in threads


async def test_long_texts_of_filters_are_compared_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, int] = {}

    def noted(owner: Any, name: str) -> None:
        work = getattr(owner, name)

        def run(*arguments: Any, **options: Any) -> Any:
            threads[name] = threading.get_ident()
            return work(*arguments, **options)

        monkeypatch.setattr(owner, name, run)

    noted(Predicate, "mask")
    noted(pruning, "compared")
    noted(parameters, "literal_of")
    dataset = await alance.write_dataset(pa.table({"t": ["x", "y"]}), tmp_path / "t.lance")
    assert await dataset.count_rows("t = :v", params={"v": "x"}) == 1
    assert threads == dict.fromkeys(["mask", "compared", "literal_of"], threading.get_ident())
    assert await dataset.count_rows("t = :v or t = 'y'", params={"v": "x" * 200_000}) == 1
    assert threading.get_ident() not in threads.values()


async def test_thousands_of_merged_keys_are_sorted_in_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    add = InsertedKeys.add_hashes

    def noted(keys: InsertedKeys, hashes: Any) -> None:
        threads.add(threading.get_ident())
        add(keys, hashes)

    monkeypatch.setattr(InsertedKeys, "add_hashes", noted)
    table = pa.table({"id": range(20_000)})
    async with alance.ingest(tmp_path / "t.lance", on="id") as sink:
        await sink.write(table)
    assert threads
    assert threading.get_ident() not in threads
    assert await (await alance.dataset(tmp_path / "t.lance")).count_rows() == len(table)


async def test_batches_of_many_columns_are_measured_in_turns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    turns, seen = Turns(), list[int]()
    add = small_batches.SmallBatches.add

    def noted(waiting: small_batches.SmallBatches, batch: pa.RecordBatch) -> Any:
        seen.append(turns.count)
        return add(waiting, batch)

    async def batches() -> AsyncGenerator[pa.RecordBatch, None]:
        for _ in range(3):
            yield MORE.to_batches()[0]

    monkeypatch.setattr(small_batches.SmallBatches, "add", noted)
    async with turns:
        groups = [group async for group in small_batches.in_groups(batches())]
    assert sum(map(len, groups)) == 3
    assert len({*seen}) == 3


NUM_PAGES: Final = 300  # of each of two columns
PAGES_A_TURN: Final = 50


async def write_pages(path: Path) -> pa.Table:
    """Write a file whose pages have two rows each."""
    numbers = np.arange(2 * NUM_PAGES)
    table = pa.table({"id": numbers, "x": numbers / 8})
    empty = await alance.write_dataset(table.slice(0, 0), path)
    async with empty.new_file_session().open_writer(
        "data/pages.lance", table.schema, version="2.1", page_bytes=16
    ) as writer:
        for start in range(0, len(table), 2):
            await writer.write(table.slice(start, 2))
    fragment = await alance.DatasetFragment.create_from_file("pages.lance", empty)
    await alance.commit(empty, operations.Append((fragment,)))
    return table


@pytest.mark.parametrize("way", ["take", "scan", "filter"])
async def test_turns_learn_few_of_many_pages(
    lineitem_lab: Lab, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    table = await write_pages(Path(lineitem_lab.root) / "lab" / f"pages-{way}.lance")
    lineitem_lab.rescan()
    make_all_pauses(monkeypatch)
    monkeypatch.setattr("alance.file.open.new_pages.PAGES_A_TURN", PAGES_A_TURN)
    monkeypatch.setattr("alance.ops.read.groups.SMALL_FRAGMENT_BYTES", 0)
    learned: Counter[object] = Counter()  # by the loop's round and the task
    learn, turns = NewPages._learn, Turns()

    def counted(pages: NewPages, by: Callable[[object], object], content: object) -> None:
        learned[turns.count, asyncio.current_task()] += len(pages.unknown)
        learn(pages, by, content)

    monkeypatch.setattr(NewPages, "_learn", counted)
    async with opened_on(lineitem_lab, f"s3://lab/pages-{way}.lance") as dataset, turns:
        if way == "take":
            result = await dataset.take(range(len(table)))
        else:
            result = await dataset.to_table(filter="x >= 0" if way == "filter" else None)
    assert result == table
    assert learned.total() >= NUM_PAGES
    assert max(learned.values()) <= PAGES_A_TURN


@pytest.mark.parametrize("threads", [1, 4])
async def test_bytes_of_many_small_files_are_found_by_the_threads_that_decode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    monkeypatch.setattr("alance.file.rows.placing.FEW_FRAGMENTS", 5)
    monkeypatch.setattr("alance.ops.read.physical_rows.FEW_FRAGMENTS", 5)
    monkeypatch.setattr("alance.ops.read.physical_rows.SHARED_TAKE_BYTES", 0)
    table = pa.table({f"c{n}": np.arange(10_000) * 7919 % 99991 for n in range(3)})
    path = tmp_path / "t.lance"
    await alance.write_dataset(table, path, max_rows_per_file=1000)
    async with alance.Session(decode_threads=threads) as session:
        dataset = await alance.dataset(path, session=session)
        for step in (1, 2, 700):
            sought = np.arange(0, len(table), step)
            for _ in range(2):
                assert await dataset.take(sought) == table.take(sought)
                assert await dataset.take(sought[::-1]) == table.take(sought[::-1])

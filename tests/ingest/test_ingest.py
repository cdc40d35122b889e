"""Streams into tables."""

from __future__ import annotations

import asyncio
import os
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import CommitConflictError, InvalidInputError
from tests.reference.waiting import Turns, until

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def batch(start: int, rows: int = 10) -> pa.RecordBatch:
    """Rows that no other batch has."""
    ids = list(range(start, start + rows))
    return pa.record_batch([ids, [f"text {row_id}" for row_id in ids]], schema=SCHEMA)


def ids(path: Path) -> list[int]:
    """Let pylance check the table, and return the ids that it reads."""
    table = lance.dataset(str(path))
    table.validate()
    return table.to_table()["id"].to_pylist()


def data_files(path: Path) -> list[str]:
    return os.listdir(path / "data") if (path / "data").exists() else []


async def test_what_is_written_is_there_in_order(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA, commit_interval=None) as sink:
        for start in range(0, 1000, 10):
            assert await sink.write(batch(start))
        assert ids(path) == []
    assert ids(path) == list(range(1000))
    metrics = sink.metrics
    assert (metrics.num_rows, metrics.committed_rows, metrics.buffered_bytes) == (1000, 1000, 0)
    assert (metrics.num_commits, metrics.num_files, metrics.last_version) == (1, 1, 2)
    assert sink.dataset is not None
    assert await sink.dataset.count_rows() == 1000


async def test_a_producer_that_never_waits_leaves_turns_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alance.io.reading.pool.LOOP_TURN_S", 0.0)
    async with alance.ingest(tmp_path / "t", SCHEMA, commit_interval=None) as sink:
        await sink.write(batch(0))
        async with Turns() as turns:
            for start in range(10, 1010, 10):
                await sink.write(batch(start))
    assert turns.count >= 40  # every second write, at least
    assert ids(tmp_path / "t") == list(range(1010))


async def test_the_first_batch_makes_the_table(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path) as sink:
        assert sink.schema is None
        assert sink.dataset is None
        with pytest.raises(InvalidInputError, match="nothing was written"):
            await sink.flush()
        await asyncio.gather(*(sink.write(batch(n * 10)) for n in range(5)))
        assert sink.schema == SCHEMA
        await sink.write(pa.Table.from_batches([batch(50)]).select(["text", "id"]))
        await sink.write(pa.table({"id": pa.array([60], pa.int8())}))
        with pytest.raises(InvalidInputError, match="column 'x'"):
            await sink.write(pa.table({"x": [1]}))
    assert sorted(ids(path)) == list(range(61))


async def test_a_table_without_rows(tmp_path: Path) -> None:
    async with alance.ingest(tmp_path / "none"):
        pass
    assert not (tmp_path / "none").exists()
    async with alance.ingest(tmp_path / "t", SCHEMA, stable_row_ids=True) as sink:
        assert await sink.flush() == 1
    assert ids(tmp_path / "t") == []
    assert lance.dataset(str(tmp_path / "t")).has_stable_row_ids


async def test_flush_tells_where_it_is_visible(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.Table.from_batches([batch(0)]), path)
    async with alance.ingest(path, commit_interval=None) as sink:
        await sink.write(batch(10))
        version = await sink.flush()
        assert lance.dataset(path, version=version).count_rows() == 20
        assert await sink.flush() == version
        await sink.write(batch(20))
        assert lance.dataset(path).count_rows() == 20
    assert ids(path) == list(range(30))


async def test_files_are_cut_and_versions_made_by_size(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(
        path, SCHEMA, max_rows_per_file=25, commit_rows=100, commit_interval=None
    ) as sink:
        for start in range(0, 500, 10):
            await sink.write(batch(start))
    dataset = lance.dataset(path)
    assert ids(path) == list(range(500))
    assert 2 <= sink.metrics.num_commits <= 5
    assert dataset.version == 1 + sink.metrics.num_commits
    rows = [fragment.count_rows() for fragment in dataset.get_fragments()]
    assert max(rows) == 25
    assert len(rows) == len(data_files(path)) == sink.metrics.num_files
    async with alance.ingest(path, commit_bytes=1) as sink:
        for start in (500, 510):
            await sink.write(batch(start))
            await sink.flush()
        assert sink.metrics.num_commits == 2


async def test_versions_and_files_by_time(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA, commit_interval=0.02) as sink:
        await sink.write(batch(0))
        await until(lambda: sink.metrics.num_commits == 1)
        assert ids(path) == list(range(10))
    path = tmp_path / "u"
    async with alance.ingest(path, SCHEMA, commit_interval=None, max_file_age=0.01) as sink:
        for start in (0, 10):
            await sink.write(batch(start))
            await until(lambda number=start // 10: len(data_files(path)) > number)
        assert ids(path) == []
    assert ids(path) == list(range(20))
    assert len(data_files(path)) == 2


async def test_a_full_buffer_holds_up_the_producers(tmp_path: Path) -> None:
    path = tmp_path / "t"
    item = batch(0, 1000)
    size = sum(column.nbytes for column in item.columns)
    async with alance.ingest(path, SCHEMA, max_buffer_bytes=4 * size) as sink:

        async def produce(number: int) -> None:
            for part in range(10):
                await sink.write(batch((number * 10 + part) * 1000, 1000))
                assert sink.metrics.buffered_bytes <= 2 * size + 1000

        await asyncio.gather(*(produce(number) for number in range(4)))
        assert sink.metrics.num_waits > 0
        assert sink.metrics.waited_s > 0
        assert await sink.write(batch(40_000, 5000)), "larger than the buffer"
    assert sorted(ids(path)) == list(range(45_000))


async def test_sinks_and_inserts_share_versions(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(pa.Table.from_batches([batch(0)]), path)
    dataset = await alance.dataset(path)

    async def sink(number: int) -> None:
        async with alance.ingest(path, producer=f"p{number}") as item:
            await item.write(batch(100 * number))
            await item.write(batch(100 * number + 10), token=f"t{number}")

    async def insert(number: int) -> None:
        await dataset.insert(batch(100 * number, 20))

    async def by_uri(number: int) -> None:
        await alance.write_dataset(batch(100 * number, 20), path, mode="append")

    works = [sink, insert, by_uri]
    await asyncio.gather(*(works[number % 3](number) for number in range(1, 31)))
    assert len(ids(path)) == len(set(ids(path))) == 10 + 30 * 20
    assert lance.dataset(path).version < 20
    for number in range(3, 31, 3):
        async with alance.ingest(path, producer=f"p{number}") as item:
            assert item.last_sequence == 2
            assert not await item.write(batch(0), token=f"t{number}")


async def test_an_error_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"

    async def work() -> None:
        async with alance.ingest(path, SCHEMA, max_rows_per_file=15, commit_interval=None) as sink:
            await sink.write(batch(0))
            await sink.flush()
            for start in range(10, 100, 10):
                await sink.write(batch(start))
            await asyncio.sleep(0.02)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await work()
    assert ids(path) == list(range(10))
    assert len(data_files(path)) == 1


async def test_a_cancelled_block_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t"
    written = asyncio.Event()

    async def work() -> None:
        async with alance.ingest(path, SCHEMA, max_rows_per_file=15, commit_interval=None) as sink:
            for start in range(0, 100, 10):
                await sink.write(batch(start))
            written.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await written.wait()
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ids(path) == []
    assert data_files(path) == []


async def test_a_producer_goes_on_where_it_was(tmp_path: Path) -> None:
    path = tmp_path / "t"
    batches = [batch(start) for start in range(0, 200, 10)]

    async def crash() -> None:
        async with alance.ingest(path, SCHEMA, producer="p", commit_interval=None) as sink:
            for number, item in enumerate(batches[:12], 1):
                await sink.write(item)
                if number == 7:
                    await sink.flush()
            raise RuntimeError("a crash")

    with pytest.raises(RuntimeError, match="a crash"):
        await crash()
    async with alance.ingest(path, producer="p") as sink:
        assert sink.last_sequence == 7
        for number, item in enumerate(batches, 1):
            assert await sink.write(item, sequence=number) is (number > 7)
        assert not await sink.write(batches[-1], sequence=20)
        assert sink.metrics.num_skipped == 8
    assert sink.last_sequence == 20
    assert ids(path) == list(range(200))
    async with alance.ingest(path, producer="q") as sink:
        assert sink.last_sequence == 0
        with pytest.raises(InvalidInputError, match="sequence=0: expected a positive"):
            await sink.write(batches[0], sequence=0)


async def test_a_producer_goes_on_after_compaction_and_cleanup(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA, producer="p") as sink:
        for start in range(0, 30, 10):
            await sink.write(batch(start))
            await sink.flush()
    lance.dataset(path).insert(pa.Table.from_batches([batch(1000)]))
    dataset = await alance.dataset(path)
    await dataset.optimize.compact_files()
    dataset = await alance.dataset(path)
    await dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert len(await dataset.versions()) == 1
    async with alance.ingest(path, producer="p", history=1) as sink:
        assert sink.last_sequence == 3
        assert not await sink.write(batch(20), sequence=3)
    assert sorted(ids(path)) == [*range(30), *range(1000, 1010)]


async def test_tokens_are_written_once(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA) as sink:
        for number in (0, 1, 1, 2):
            await sink.write(batch(number * 10), token=f"part {number}")
        await sink.flush()
        assert not await sink.write(batch(0), token="part 0")
        for token in (5, b"part 9"):  # that could not be noted, and would fail all of the commit
            with pytest.raises(InvalidInputError, match="expected a text"):
                await sink.write(batch(0), token=token)  # type: ignore[arg-type]
    lance.dataset(path).insert(pa.Table.from_batches([batch(1000)]))
    async with alance.ingest(path) as sink:
        for number in range(5):
            result = await sink.write(batch(number * 10), token=f"part {number}")
            assert result is (number > 2)
    assert sorted(ids(path)) == [*range(50), *range(1000, 1010)]
    with pytest.raises(InvalidInputError, match="without `producer`"):
        async with alance.ingest(path) as sink:
            await sink.write(batch(0), sequence=3)


@pytest.mark.parametrize("shares_session", [True, False])
async def test_of_two_sinks_with_the_same_batches_one_fails(
    tmp_path: Path, *, shares_session: bool
) -> None:
    path = tmp_path / "t"
    await alance.write_dataset(batch(1000), path)
    all_have_written = asyncio.Barrier(3)

    async def work(start: int, **more: str) -> None:
        session = alance.Session.of_loop() if shares_session else alance.Session()
        try:
            async with alance.ingest(path, session=session, commit_interval=None, **more) as sink:
                await sink.write(batch(start), **({} if more else {"token": "x"}))
                await all_have_written.wait()
        finally:
            if not shares_session:
                await session.aclose()

    for start, more in ((0, {}), (10, {"producer": "p"})):
        ended = await asyncio.gather(
            *(work(start, **more) for _ in range(3)), return_exceptions=True
        )
        assert sorted(type(item).__name__ for item in ended) == [
            "CommitConflictError", "CommitConflictError", "NoneType",
        ]  # fmt: skip
    assert sorted(ids(path)) == [*range(20), *range(1000, 1010)]
    assert len(data_files(path)) == 3


async def test_what_others_change_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "t"
    async with alance.ingest(path, SCHEMA) as sink:
        await sink.write(batch(0))
        await sink.flush()
        lance.dataset(path).insert(pa.Table.from_batches([batch(10)]))
        lance.dataset(path).delete("id = 3")
        await sink.write(batch(20))
        assert await sink.flush() == 5
        lance.dataset(path).optimize.compact_files()
        await sink.write(batch(30))
    assert sorted(ids(path)) == [index for index in range(40) if index != 3]

    async def work() -> None:
        async with alance.ingest(path) as sink:
            await sink.write(batch(40))
            lance.write_dataset(pa.table({"other": [1]}), path, mode="overwrite")

    with pytest.raises(CommitConflictError):
        await work()
    assert lance.dataset(path).to_table().to_pylist() == [{"other": 1}]


async def test_a_sink_outside_of_its_block(tmp_path: Path) -> None:
    sink = alance.ingest(tmp_path / "t", SCHEMA)
    with pytest.raises(InvalidInputError, match="inside of its"):
        await sink.write(batch(0))
    async with sink:
        await sink.write(batch(0))
        await sink.close()
        with pytest.raises(InvalidInputError, match="inside of its"):
            await sink.write(batch(10))
    with pytest.raises(InvalidInputError, match="one block"):
        async with sink:
            pass
    for wrong in ({"commit_rows": 0}, {"commit_interval": 0.0}, {"producer": ""}):
        with pytest.raises(InvalidInputError):
            alance.ingest(tmp_path / "t", **wrong)
    assert ids(tmp_path / "t") == list(range(10))


async def test_rows_that_are_accepted_while_the_sink_closes_are_committed(tmp_path: Path) -> None:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(1000)])
    rows = pa.RecordBatch.from_arrays([pa.array([1])] * 1000, schema=schema)
    for name in ("a", "b", "c"):
        sink = alance.ingest(tmp_path / name, schema, commit_interval=None)
        await sink.__aenter__()
        assert await sink.write(rows)
        writing = asyncio.ensure_future(sink.write(rows))
        await asyncio.sleep(0)
        await sink.close()
        (accepted,) = await asyncio.gather(writing, return_exceptions=True)
        assert accepted is True or isinstance(accepted, InvalidInputError)
        dataset = await alance.dataset(tmp_path / name)
        assert await dataset.count_rows() == 1 + (accepted is True)

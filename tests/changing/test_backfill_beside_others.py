"""Backfills beside other writers: what is computed anew, what is refused, what is left."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import CommitConflictError, InvalidInputError, RetryableConflictError
from tests.changing.backfills import OUTPUT, Doubling, check, check_rows
from tests.changing.both_ways import files_of, latest, read, rows

if TYPE_CHECKING:
    from pathlib import Path


class Meanwhile(Doubling):
    """Does something the first time that it is called."""

    def __init__(self, action: Any) -> None:
        super().__init__()
        self.action = action

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        action, self.action = self.action, None
        if action is not None:
            action()
        return super().__call__(batch)


async def test_rows_that_are_added_meanwhile(path: Path) -> None:
    """Only theirs are computed anew."""
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).insert(rows(20, 24)))
    widened = await dataset.add_columns(function, read_columns=["id"])
    assert widened.version == 4
    sample = 1
    assert len(function.seen) == 17 + 4 + sample
    assert sorted(function.seen)[-4:] == [20, 21, 22, 23]
    check(path)


async def test_rows_that_are_deleted_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).delete("id in (1, 5, 6)"))
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert len(function.seen) == 17
    check(path)


async def test_values_that_change_meanwhile(path: Path) -> None:
    """Rows that moved are computed anew."""
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).update({"id": "id + 50"}, "id = 14"))
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert 64 in function.seen
    assert len(function.seen) == 18
    check(path)


async def test_columns_that_are_added_meanwhile(path: Path) -> None:
    """The new field has another id than it was written with; nothing is computed anew."""
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).add_columns({"other": "id"}))
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert len(function.seen) == 17
    check(path)
    assert read(path)["other"].to_pylist() == read(path)["id"].to_pylist()
    lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=100)
    assert read(path)["x"].to_pylist() == [2 * value for value in read(path)["id"].to_pylist()]


async def test_a_compaction_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    function = Meanwhile(
        lambda: lance.dataset(str(path)).optimize.compact_files(target_rows_per_fragment=100)
    )
    await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert len(latest(path).fragments) == 1
    table = read(path)
    assert table["x"].to_pylist() == [2 * value for value in table["id"].to_pylist()]


async def test_the_same_column_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    function = Meanwhile(lambda: lance.dataset(str(path)).add_columns({"x": "id * 2"}))
    with pytest.raises(InvalidInputError, match="'x': it exists already"):
        await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    check(path)


async def test_a_column_that_is_dropped_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    before = files_of(path)
    function = Meanwhile(lambda: lance.dataset(str(path)).drop_columns(["id"]))
    with pytest.raises(CommitConflictError):
        await dataset.add_columns(alance.batch_udf(OUTPUT)(function), read_columns=["id"])
    assert {file for file in files_of(path) - before if file.startswith("data/")} == set()


async def test_a_key_column_that_is_cast_meanwhile(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    await dataset.alter_columns({"path": "id", "data_type": pa.decimal256(60, 2)})
    with pytest.raises(CommitConflictError, match="decimal256"):
        await dataset.merge({"id": [1], "more": [2]}, "id")


async def test_rows_for_which_data_has_nothing(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    before = files_of(path)

    async def batches() -> Any:
        yield pa.record_batch({"x": range(10)})
        lance.dataset(str(path)).insert(rows(20, 24))
        yield pa.record_batch({"x": range(7)})

    with pytest.raises(CommitConflictError, match="fragment 4 was made by others"):
        await dataset.add_columns(batches())
    (new,) = {file for file in files_of(path) - before if file.startswith("data/")}
    assert new.removeprefix("data/") == latest(path).fragments[-1].files[0].path


async def test_data_beside_a_delete(path: Path) -> None:
    dataset = await alance.dataset(str(path))

    async def batches() -> Any:
        ids = [*range(1, 9), 10, 11, *range(13, 20)]
        yield pa.record_batch({"x": [2 * row_id for row_id in ids[:10]]})
        lance.dataset(str(path)).delete("id in (2, 18)")
        yield pa.record_batch({"x": [2 * row_id for row_id in ids[10:]]})

    await dataset.add_columns(batches())
    check(path)


async def test_no_attempts_left(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    lance.dataset(str(path)).insert(rows(20, 24))
    before = files_of(path)
    with pytest.raises(RetryableConflictError):
        await dataset.add_columns({"x": "id * 2"}, max_retries=0)
    assert {file for file in files_of(path) if file.startswith("data/")} <= before


async def test_casts_and_appends(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    lance.dataset(str(path)).insert(rows(20, 24))
    lance.dataset(str(path)).delete("id = 3")
    await dataset.alter_columns({"path": "id", "data_type": pa.int16()})
    assert read(path)["id"].to_pylist() == [1, 2, 4, 5, 6, 7, 8, 10, 11, *range(13, 24)]
    assert read(path)["id"].type == pa.int16()


async def test_nulls_are_forbidden_while_some_arrive(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    lance.dataset(str(path)).insert(pa.table({"s": ["no id"]}))
    with pytest.raises(InvalidInputError, match="column 'id': it has nulls, in fragment 4"):
        await dataset.alter_columns({"path": "id", "nullable": False})


async def test_many_at_once(path: Path) -> None:
    dataset = await alance.dataset(str(path))
    await asyncio.gather(*(dataset.add_columns({f"c{n}": f"id * {n}"}) for n in range(6)))
    table = read(path)
    for n in range(6):
        assert table[f"c{n}"].to_pylist() == [n * value for value in table["id"].to_pylist()]
    named = {f"data/{file.path}" for fragment in latest(path).fragments for file in fragment.files}
    assert {item for item in files_of(path) if item.startswith("data/")} == named


async def test_a_cancelled_backfill_leaves_no_file(path: Path) -> None:
    before = files_of(path)
    dataset = await alance.dataset(str(path))
    begun = asyncio.Event()

    async def waits(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 17 in batch["id"].to_pylist():
            begun.set()
            await asyncio.sleep(3600)
        return pa.record_batch({"x": batch["id"]})

    task = asyncio.ensure_future(dataset.add_columns(alance.batch_udf(OUTPUT)(waits)))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert files_of(path) == before


async def test_a_backfill_of_an_empty_column_goes_on_beside_a_delete(path: Path) -> None:
    """Values for a column that has none."""
    dataset = await alance.dataset(str(path))
    dataset = await dataset.add_columns(pa.field("x", pa.int64()))
    function = Meanwhile(lambda: lance.dataset(str(path)).delete("id = 1"))
    dataset = await dataset.replace_columns(alance.batch_udf(OUTPUT)(function))
    check_rows(path, "x")

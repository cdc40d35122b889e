"""Deletes and updates beside other writers: what gets along, what runs again, what fails."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.optimize import Compaction

import alance
from alance.errors import CommitConflictError, RetryableConflictError
from alance.format.table.operations import Delete, Update
from alance.ops.read.options import ScanOptions
from alance.ops.rows.delete import matching_rows
from alance.ops.rows.moved import ChangedRows, prepare_rows
from alance.ops.version.summary import ChangeSummary
from tests.changing.both_ways import TWO_KINDS, Twins, files_of, latest, read, rows

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=TWO_KINDS)
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Twins.make(tmp_path, **request.param).ours


def ids(path: Path) -> list[int]:
    numbers: list[int] = read(path)["id"].to_pylist()
    return numbers


async def test_two_of_ours_in_one_fragment(path: Path) -> None:
    base = await alance.dataset(str(path))
    first = await base.delete("id = 1")
    second = await base.delete("id = 2", max_retries=0)
    assert (first.version, second.version) == (2, 3)
    assert ids(path) == [0, *range(3, 20)]
    (name,) = (
        file.name for file in (path / "_deletions").iterdir() if file.name.startswith("0-2-")
    )
    assert name.endswith(".bin"), "as pylance writes a vector that was joined"
    assert latest(path).fragments[0].num_rows == 3


async def test_many_at_once(path: Path) -> None:
    base = await alance.dataset(str(path))
    results = await asyncio.gather(*(base.delete(f"id = {n}") for n in range(0, 20, 2)))
    assert sorted(item.version for item in results) == list(range(2, 12))
    assert ids(path) == list(range(1, 20, 2))


async def test_the_last_rows_of_a_fragment(path: Path) -> None:
    """Each leaves the other's rows; together they leave none."""
    base = await alance.dataset(str(path))
    await base.delete("id in (0, 1)")
    deleted = await base.delete("id in (2, 3, 4)", max_retries=0)
    assert [fragment.id for fragment in latest(path).fragments] == [1, 2, 3]
    assert await deleted.count_rows() == 15
    assert ids(path) == list(range(5, 20))


async def test_ours_after_theirs(path: Path) -> None:
    base = await alance.dataset(str(path))
    lance.dataset(str(path)).delete("id in (1, 7)")
    lance.dataset(str(path)).update({"v": "0"}, "id = 2")
    lance.dataset(str(path)).insert(rows(20, 22))
    deleted = await base.delete("id in (0, 3, 8, 21)", max_retries=0)
    assert deleted.version == 5
    assert deleted.summary == {"num_deleted_rows": 3}
    assert sorted(ids(path)) == [2, 4, 5, 6, *range(9, 22)]


async def test_theirs_after_ours(path: Path) -> None:
    base = lance.dataset(str(path))
    await (await alance.dataset(str(path))).delete("id in (1, 7)")
    await (await alance.dataset(str(path))).update({"v": "0"}, "id = 2")
    base.delete("id in (0, 3, 8)")
    assert sorted(ids(path)) == [2, 4, 5, 6, *range(9, 20)]
    base = lance.dataset(str(path))
    await (await alance.dataset(str(path))).delete("id = 10")
    base.update({"v": "-1"}, "id in (11, 12)")
    assert {r["id"] for r in read(path).to_pylist() if r["v"] == -1} == {11, 12}
    assert 10 not in ids(path)


async def test_the_same_rows_are_looked_at_again(path: Path) -> None:
    base = await alance.dataset(str(path))
    await base.delete("id in (1, 2)")
    again = await base.delete("id in (2, 3)")
    assert again.summary == {"num_deleted_rows": 1}
    with pytest.raises(RetryableConflictError):
        await base.delete("id in (2, 3)", max_retries=0)
    lance.dataset(str(path)).delete("id >= 5 and id < 10")
    again = await base.delete("id in (5, 10)")
    assert again.summary == {"num_deleted_rows": 1}
    assert ids(path) == [0, 4, *range(11, 20)]


async def test_updates_of_the_same_row_all_take_effect(path: Path) -> None:
    base = await alance.dataset(str(path))
    results = await asyncio.gather(
        *(base.update({"v": "v + 1"}, "id = 3") for _ in range(4)),
        *(base.update({"v": "v + 1"}, f"id = {n}") for n in (1, 2, 4)),
    )
    assert all(item.summary == {"num_updated_rows": 1} for item in results)
    mapping = {row["id"]: row["v"] for row in read(path).to_pylist()}
    grown = {1: 1, 2: 1, 3: 4, 4: 1}
    assert mapping == {n: n * 1.5 + grown.get(n, 0) for n in range(20)}


async def test_updates_move_rows_once(path: Path) -> None:
    """Rows that one moves are no longer where the other has found them."""
    base = await alance.dataset(str(path))
    await base.update({"v": "0"}, "id < 7")
    deleted = await base.delete("id in (3, 4, 8)")
    assert deleted.summary == {"num_deleted_rows": 3}
    lance.dataset(str(path)).update({"v": "1"}, "id < 3")
    deleted = await base.update({"v": "v + 1"}, "id in (2, 5, 19)")
    mapping = {row["id"]: row["v"] for row in read(path).to_pylist()}
    expected = {n: n * 1.5 for n in range(20)} | dict.fromkeys(range(7), 0.0)
    expected |= {0: 1.0, 1: 1.0, 2: 2.0, 5: 1.0, 19: 29.5}
    for gone in (3, 4, 8):
        del expected[gone]
    assert mapping == expected


@pytest.mark.parametrize("change", ["delete", "update"])
async def test_compaction_in_between(path: Path, change: str) -> None:
    base = await alance.dataset(str(path))
    base = await base.delete("id in (1, 6, 11)")
    lance.dataset(str(path)).optimize.compact_files()

    async def run(**more: Any) -> alance.Dataset:
        if change == "delete":
            return await base.delete("id in (2, 7)", **more)
        return await base.update({"v": "-1"}, "id in (2, 7)", **more)

    before = files_of(path)
    with pytest.raises(RetryableConflictError):
        await run(max_retries=0)
    assert files_of(path) == before
    output = await run()
    assert output.version == latest(path).version
    ns = [n for n in range(20) if n not in (1, 6, 11)]
    moved = [2, 7]
    if change == "delete":
        assert ids(path) == [n for n in ns if n not in moved]
    else:
        assert ids(path) == [n for n in ns if n not in moved] + moved


@pytest.mark.parametrize("change", ["delete", "update"])
async def test_compaction_after_ours(path: Path, change: str) -> None:
    """pylance's compaction, planned before our change, must not bring rows back."""
    theirs = lance.dataset(str(path))
    plan = Compaction.plan(theirs, {"target_rows_per_fragment": 100})
    results = [task.execute(theirs) for task in plan.tasks]
    ours = await alance.dataset(str(path))
    if change == "delete":
        await ours.delete("id = 3")
    else:
        await ours.update({"v": "-1"}, "id = 3")
    with pytest.raises((OSError, RuntimeError), match=r"(?i)conflict"):
        Compaction.commit(theirs, results)
    assert sorted(ids(path)) == [n for n in range(20) if n != 3 or change == "update"]


async def test_a_table_that_is_overwritten(path: Path) -> None:
    base = await alance.dataset(str(path))
    lance.write_dataset(rows(0, 3), str(path), mode="overwrite")
    before = files_of(path)
    for changing in (base.delete("id = 1"), base.update({"v": "1"}, "id = 1")):
        with pytest.raises(CommitConflictError):
            await changing
    assert files_of(path) == before


async def test_another_schema_in_between(path: Path) -> None:
    """An update whose column is gone says so; one whose column stays goes on with the new ones."""
    base = await alance.dataset(str(path))
    lance.dataset(str(path)).add_columns({"w": "v * 2"})
    updated = await base.update({"v": "0"}, "id = 3")
    assert await updated.to_table(["v", "w"], filter="id = 3") == pa.table({"v": [0.0], "w": [9.0]})
    base = updated
    lance.dataset(str(path)).drop_columns(["l"])
    updated = await base.update({"v": "1"}, "id = 3")
    assert updated.schema.names == ["id", "v", "s", "n", "w"]
    assert await updated.delete("v = 1") is not None
    assert 3 not in ids(path)


async def test_changed_rows_are_committed_with_and_without_rows(path: Path) -> None:
    """The part that all verbs share."""
    dataset = await alance.dataset(str(path))
    snapshot = dataset._snapshot
    result = await matching_rows(snapshot, ScanOptions(filter="id in (1, 5, 6, 7, 8, 9)"))
    assert {key: value.tolist() for key, value in result.items()} == {0: [1], 1: [0, 1, 2, 3, 4]}
    rows, summary = ChangedRows(result, emptied=[3]), ChangeSummary(num_deleted_rows=7)
    prepared = await prepare_rows(snapshot, Delete(predicate="p"), rows, summary=summary)
    deleted = await prepared.commit()
    assert deleted.summary == {"num_deleted_rows": 7}
    assert ids(path) == [0, 2, 3, 4, *range(10, 15)]
    update = await prepare_rows(deleted, Update(fields_modified=()), ChangedRows({}))
    assert (await update.commit()).version == 3

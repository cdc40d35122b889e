"""Merges beside other writers: what is tried again, and what is given up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance.errors import (
    CommitConflictError,
    InvalidInputError,
    RetryableConflictError,
)
from alance.ops.merge import insert as merge_insert
from tests.changing.both_ways import files_of, rows
from tests.changing.merges import new_table

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("stable", [False, True])
async def test_two_merges_of_one_version(tmp_path: Path, stable: bool) -> None:
    """Merges of the same rows follow each other; merges of other rows commit at once."""
    dataset = await new_table(tmp_path, stable_row_ids=stable)
    datas = [rows(4, 8), rows(6, 10), rows(12, 14), rows(30, 33)]
    datas = [
        item.set_column(1, "v", pa.array([100.0 + number] * item.num_rows))
        for number, item in enumerate(datas)
    ]
    results = await asyncio.gather(*(dataset.upsert(data, "id") for data in datas))
    assert sorted(item.version for item in results) == [2, 3, 4, 5]
    assert [item.summary["num_updated_rows"] for item in results] == [4, 4, 2, 0]
    last = await dataset.checkout_latest()
    values = {row["id"]: row["v"] for row in (await last.to_table(["id", "v"])).to_pylist()}
    assert await last.count_rows() == len(values) == 23
    assert {values[4], values[12], values[31]} == {100.0, 102.0, 103.0}
    assert values[6] in (100.0, 101.0)
    lance.dataset(str(tmp_path / "t.lance")).validate()


async def test_a_merge_without_retries_left_raises_the_conflict(tmp_path: Path) -> None:
    dataset = await new_table(tmp_path)
    await dataset.update({"v": "0"}, "id = 3")
    merge = dataset.merge_insert("id").when_matched_update_all()
    before = files_of(tmp_path / "t.lance")
    with pytest.raises(RetryableConflictError):
        await merge.conflict_retries(0).execute(rows(3, 4))
    with pytest.raises(RetryableConflictError):
        await merge.retry_timeout(0).execute(rows(3, 4))
    assert files_of(tmp_path / "t.lance") == before
    merged = await merge.execute(rows(3, 4).to_reader())
    assert merged.version == 3
    assert (await merged.to_table(["v"], filter="id = 3")).to_pydict() == {"v": [4.5]}


async def test_an_attempt_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the first one; and nothing of it stays."""
    dataset = await new_table(tmp_path)
    await dataset.update({"v": "0"}, "id = 3")
    before = files_of(tmp_path / "t.lance")
    write = merge_insert.write_inserted
    calls: list[int] = []

    async def late(*args: Any) -> None:
        await write(*args)
        calls.append(1)
        if len(calls) > 1:
            raise TimeoutError  # as of the deadline

    monkeypatch.setattr(merge_insert, "write_inserted", late)
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(RetryableConflictError, match="not done within"):
        await merge.execute(rows(3, 40))
    assert len(calls) == 2
    assert files_of(tmp_path / "t.lance") == before


async def test_other_columns_meanwhile(tmp_path: Path) -> None:
    dataset = await new_table(tmp_path)
    await (await dataset.update({"v": "0"}, "id = 3")).drop_columns(["s"])
    with pytest.raises((CommitConflictError, InvalidInputError)):
        await dataset.upsert(rows(3, 4), "id")


async def test_files_of_a_commit_that_fails_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await new_table(tmp_path)
    before = files_of(tmp_path / "t.lance")

    async def fails(*_: object, **__: object) -> None:
        raise InvalidInputError("no")

    monkeypatch.setattr(merge_insert, "write_inserted", fails)
    with pytest.raises(InvalidInputError, match="no"):
        await dataset.upsert(rows(3, 40), "id")
    assert files_of(tmp_path / "t.lance") == before

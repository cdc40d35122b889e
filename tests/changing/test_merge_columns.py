"""Merges that rewrite columns: the same messages and rows as pylance's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.ops.columns import backfill
from tests.changing.both_ways import STABLE_2_2, Twins, read, rows

if TYPE_CHECKING:
    from pathlib import Path

KINDS = [
    pytest.param({}, id="addresses"),
    pytest.param({"enable_stable_row_ids": True}, id="stable"),
    STABLE_2_2,
    pytest.param({"data_storage_version": "2.2", "max_rows_per_file": 50}, id="one-fragment"),
]


@pytest.fixture(params=KINDS)
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Twins:
    return Twins.make(tmp_path, **request.param)


def clauses(merge: Any, condition: str | None = None) -> Any:
    return merge.when_matched_update_all(condition).write_mode("rewrite_columns")


async def merge(twins: Twins, data: pa.Table, memory: int, condition: str | None = None) -> int:
    merged = clauses(lance.dataset(str(twins.theirs)).merge_insert("id"), condition).execute(data)
    ours = await alance.dataset(str(twins.ours))
    builder = clauses(ours.merge_insert("id"), condition).memory_budget(memory)
    changed = await builder.execute(data.to_reader(max_chunksize=2))
    assert dict(changed.summary) == merged
    twins.check()
    return int(merged["num_updated_rows"])


def source(ids: list[int], *names: str) -> pa.Table:
    data = rows(100, 100 + len(ids)).set_column(0, "id", pa.array(ids, pa.int64()))
    return data.select([*names, "id"])


@pytest.mark.parametrize("memory", [1, 1 << 28], ids=["disk", "memory"])
async def test_columns_are_rewritten_as_by_pylance(twins: Twins, memory: int) -> None:
    assert await merge(twins, source([3, 17, 4, 5, 99], "s"), memory) == 4
    assert await merge(twins, source([4, 6], "n", "v"), memory) == 2
    assert await merge(twins, source([19, 4, 0, 1, 2, 3], "s", "l"), memory) == 6
    await twins.change("delete", "id in (0, 5, 6, 9, 19)")
    assert await merge(twins, source([7, 6, 8], "s"), memory) == 2
    assert await merge(twins, source([77], "s"), memory) == 0
    assert await merge(twins, source([1, 2], "v"), memory, "source.v > target.id + 1000") == 0
    assert await merge(twins, source([1, 2], "v"), memory, "target.id = 2") == 1
    await twins.change("update", {"v": "v + 1"}, where="id < 4")
    assert await merge(twins, source([1, 8], "v"), memory) == 2


async def test_merges_by_turns_see_each_other(twins: Twins) -> None:
    """Each goes on from what the other left."""
    await clauses((await alance.dataset(str(twins.ours))).merge_insert("id")).execute(
        source([1, 7], "s")
    )
    clauses(lance.dataset(str(twins.ours)).merge_insert("id")).execute(source([7, 8], "s"))
    lance.dataset(str(twins.ours)).optimize.compact_files()
    await clauses((await alance.dataset(str(twins.ours))).merge_insert("id")).execute(
        source([8, 9], "s")
    )
    mapping = {row["id"]: row["s"] for row in read(twins.ours).to_pylist()}
    assert [mapping[number] for number in (1, 7, 8, 9)] == ["s100", "s100", "s100", "s101"]


async def test_two_at_once(twins: Twins) -> None:
    dataset = await alance.dataset(str(twins.ours))
    merges = [clauses(dataset.merge_insert("id")) for _ in range(3)]
    datas = [source([1, 2], "s"), source([3, 12], "s"), source([4], "v")]
    await asyncio.gather(
        *(item.execute(data) for item, data in zip(merges, datas, strict=True)),
        dataset.delete("id = 13"),
    )
    mapping = {row["id"]: row for row in read(twins.ours).to_pylist()}
    assert [mapping[number]["s"] for number in (1, 2, 3, 12)] == ["s100", "s101", "s100", "s101"]
    assert mapping[4]["v"] == 150.0
    assert 13 not in mapping


async def test_values_of_one_fragment_are_in_memory_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged strings may be large, so small fragments are not written together."""
    sizes = []

    async def group(*arguments: Any) -> Any:
        sizes.append(len(arguments[3]))
        return await write_group(*arguments)

    write_group = backfill.write_group
    monkeypatch.setattr(backfill, "write_group", group)
    uri = str(tmp_path / "small")
    dataset = await alance.write_dataset(rows(0, 40), uri, max_rows_per_file=4)
    await clauses(dataset.merge_insert("id")).execute(source([*range(40)], "s"))
    assert not sizes
    dataset = await alance.dataset(uri)
    assert (await dataset.to_table(columns=["s"])).column("s").to_pylist()[0] == "s100"
    await dataset.add_columns({"more": "v + 1"})
    assert sizes  # others are written together

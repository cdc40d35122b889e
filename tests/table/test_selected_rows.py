"""Rows that a driver selects for tasks, by indices and statistics, are those of a scan."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import CorruptFileError, ScanOptions
from alance.distributed import (
    field_ids,
    fragments_of,
    plan_splits,
    read_split,
    select_rows,
    selecting,
    version_record,
)
from alance.format.row_set import RowSet
from alance.ops.lookup.look_up import IndexUse

if TYPE_CHECKING:
    from pathlib import Path

NUM_ROWS = 60_000
CONDITIONS = (
    "k = 77",
    "k in (5, 500, 50000)",
    "k is not null and k < 4000",
    "k < 40 or id = 3",
    "id between 12345 and 12444",
    "k < 200 and id > 30000",
    "k = -1",
    "k > 10",
    "text = 'v7'",
    "_rowaddr = 5 and k >= 0",
    "_rowid < 9 and k >= 0",
)


async def table(path: Path, *, ids: bool = False) -> alance.Dataset:
    """Six fragments with a B-tree, of which rows were deleted, and a tail without index."""
    rng = np.random.default_rng(3)
    rows = pa.table(
        {
            "id": range(NUM_ROWS),
            "k": rng.permutation(NUM_ROWS),
            "text": [f"v{n % 100}" for n in range(NUM_ROWS)],
            "noise": rng.random(NUM_ROWS),
        }
    )
    dataset = await alance.write_dataset(
        rows.slice(0, 50_000), path, max_rows_per_file=10_000, stable_row_ids=ids
    )
    dataset = await dataset.create_scalar_index("k", "BTREE")
    dataset = await dataset.delete("id % 9 = 2")
    return await dataset.insert(rows.slice(50_000))


async def read(dataset: alance.Dataset, condition: str, columns: list[str]) -> list[dict[str, Any]]:
    """Rows by tasks, which receive the driver's selection."""
    selected = await select_rows(dataset, condition, columns)
    fields = field_ids(dataset, columns)
    splits = plan_splits(
        fragments_of(dataset), fields, split_bytes=100_000, parallelism=3, selected=selected
    )
    record, rows = version_record(dataset), []
    for split in splits:
        options = ScanOptions(filter=condition)
        batches = read_split(
            record, dataset.uri, pickle.loads(pickle.dumps(split)), columns, options
        )
        rows += [row async for batch in batches for row in batch.to_pylist()]
    return rows


@pytest.mark.parametrize("offsets_bytes", [0, 4 << 20])
@pytest.mark.parametrize("ids", [False, True])
async def test_splits_of_selected_rows_have_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ids: bool, offsets_bytes: int
) -> None:
    monkeypatch.setattr(selecting, "OFFSETS_BYTES", offsets_bytes)
    monkeypatch.setattr(selecting, "WORTH_A_TASK", 0)
    monkeypatch.setattr(selecting, "ASKING_SHARE", 0)
    dataset = await table(tmp_path / "t", ids=ids)
    columns = ["id", "text", "noise", "_rowid"]
    for condition in CONDITIONS:
        plain = dataset.scanner(columns, filter=condition, use_scalar_index=False, use_stats=False)
        right = await plain.to_table()
        assert await read(dataset, condition, columns) == right.to_pylist(), condition


async def test_indices_count_rows_that_no_task_reads(tmp_path: Path) -> None:
    dataset = await table(tmp_path / "t")
    selected = await select_rows(dataset, "k < 4000", [], counts=True)
    assert selected is not None
    tail = fragments_of(dataset)[-1]
    assert selected.fragments == {tail.id}
    in_tail = await dataset.count_rows("k < 4000 and id >= 50000")
    assert selected.num_counted == await dataset.count_rows("k < 4000") - in_tail
    nothing = await select_rows(dataset, "k = -1", ["id"])
    assert nothing is not None
    assert [nothing.num_rows(fragment) for fragment in fragments_of(dataset)] == [0] * 5 + [10_000]
    assert await select_rows(dataset, "noise < 2 or text = 'x'", ["id"]) is None


async def test_a_task_notices_that_an_index_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def wrong(snapshot: object, predicate: object, *_: object, **__: object) -> IndexUse:
        return IndexUse(frozenset(range(5)), RowSet(np.array([8])), is_exact=True)

    dataset = await table(tmp_path / "t")
    monkeypatch.setattr("alance.ops.lookup.look_up.look_up", wrong)
    with pytest.raises(CorruptFileError, match="row 8 of fragment 0 is not what an index says"):
        await read(dataset, "k = -1", ["id"])


async def test_a_limit_of_a_split_counts_its_own_rows(tmp_path: Path) -> None:
    dataset = await table(tmp_path / "table")
    splits = plan_splits(fragments_of(dataset), split_bytes=100_000)
    assert any(piece.start for split in splits for piece in split)
    for split in (splits[0], splits[1], splits[-1]):

        async def ids(split: Any = split, **options: int) -> list[int]:
            place, chosen = (version_record(dataset), dataset.uri), ScanOptions(**options)
            batches = read_split(*place, split, ["id"], chosen)
            return [number async for batch in batches for number in batch["id"].to_pylist()]

        whole = await ids()
        assert await ids(limit=3) == whole[:3]
        assert await ids(offset=5, limit=9) == whole[5:14]
        assert await ids(offset=len(whole) - 2) == whole[-2:]

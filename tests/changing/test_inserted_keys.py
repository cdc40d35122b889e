"""Keys that merges by several processes insert: of two merges of one version, one inserts a key."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import distributed
from alance.errors import InvalidInputError, RetryableConflictError
from alance.ops.merge.inserted import EXACT_KEYS, MOST_KEYS

if TYPE_CHECKING:
    from pathlib import Path

PRIMARY = {b"lance-schema:unenforced-primary-key": b"true"}


async def table(path: Path, *, is_primary: bool = False) -> alance.Dataset:
    key = pa.field("id", pa.int32(), nullable=False).with_metadata(PRIMARY if is_primary else None)
    rows = pa.table({"id": [1, 2], "v": ["old", "old"]})
    lance.write_dataset(rows.cast(pa.schema([key, pa.field("v", pa.string())])), path)
    return await alance.dataset(path)


async def inserted(
    dataset: alance.Dataset, ids: list[Any], on: tuple[str, ...] = ("id",), **columns: Any
) -> alance.Dataset:
    """Insert rows as a driver and two tasks do, half of the rows by each task."""
    rows = pa.record_batch({"id": pa.array(ids, pa.int64()), "v": ["new"] * len(ids), **columns})
    begun, records, parts = distributed.inserted_keys(dataset, on), [], []
    for part in (rows.slice(0, len(ids) // 2), rows.slice(len(ids) // 2)):
        keys = pickle.loads(pickle.dumps(begun))
        keys.add_rows(part)
        parts.append(pickle.loads(pickle.dumps(keys)))
        records += [
            fragment.SerializeToString()
            for fragment in await alance.write_fragments(pa.Table.from_batches([part]), dataset)
        ]
    for part in parts:
        begun.join(part)
    return await distributed.replace_rows(dataset, {}, inserted=records, keys=begun)


@pytest.mark.parametrize("is_primary", [False, True])
async def test_the_second_of_two_merges_conflicts(tmp_path: Path, is_primary: bool) -> None:
    dataset = await table(tmp_path / "t", is_primary=is_primary)
    await inserted(dataset, [7, 8])
    with pytest.raises(RetryableConflictError, match="the same key"):
        await inserted(dataset, [9, 10, 8])
    after = await inserted(dataset, [11, 12])  # beside the first one
    assert sorted((await after.to_table(["id"]))["id"].to_pylist()) == [1, 2, 7, 8, 11, 12]
    lance.dataset(tmp_path / "t").validate()


@pytest.mark.parametrize("is_primary", [False, True])
async def test_a_merge_by_one_process_conflicts_with_one_by_several(
    tmp_path: Path, is_primary: bool
) -> None:
    dataset = await table(tmp_path / "t", is_primary=is_primary)
    await inserted(dataset, [7, 8])
    data = pa.table({"id": pa.array([8, 9], pa.int32()), "v": ["upsert", "upsert"]})
    after = await dataset.upsert(data, "id")
    assert after.summary["num_updated_rows"] == after.summary["num_inserted_rows"] == 1
    with pytest.raises(RetryableConflictError, match="the same key"):
        await inserted(dataset, [9])


async def test_rows_looked_up_in_another_way_conflict_with_all_that_merges_insert(
    tmp_path: Path,
) -> None:
    dataset = await table(tmp_path / "t")
    await inserted(dataset, [7])
    with pytest.raises(RetryableConflictError, match="the same key"):
        await inserted(dataset, [99], on=())
    after = await inserted(await dataset.checkout_latest(), [99], on=())
    with pytest.raises(RetryableConflictError, match="the same key"):
        await inserted(dataset, [100])
    assert await after.count_rows() == 4
    await dataset.insert(pa.table({"id": pa.array([100], pa.int32()), "v": ["appended"]}))
    assert (await inserted(after, [101], on=())).version == 5, "appends are no merges"


async def test_appends_beside_a_merge_that_may_insert_any_primary_key_conflict(
    tmp_path: Path,
) -> None:
    dataset = await table(tmp_path / "t", is_primary=True)
    row = pa.table({"id": pa.array([100], pa.int32()), "v": ["appended"]})
    await dataset.insert(row.cast((await dataset.to_table()).schema))
    for on in ((), ("id",)):
        with pytest.raises(RetryableConflictError, match="it added rows"):
            await inserted(dataset, [101], on=on)


@pytest.mark.parametrize(
    ("is_primary", "limit"), [(False, EXACT_KEYS), (True, MOST_KEYS)], ids=["exact", "bits"]
)
async def test_more_keys_than_a_filter_holds_are_any_key(
    tmp_path: Path, is_primary: bool, limit: int
) -> None:
    dataset = await table(tmp_path / "t", is_primary=is_primary)
    keys = distributed.inserted_keys(dataset, ["ID"])
    keys.add_rows(pa.record_batch({"id": pa.array([*range(limit), 0, 1], pa.int64())}))
    assert keys.hashes is not None
    other = distributed.inserted_keys(dataset, ["id"])
    other.add_rows(pa.record_batch({"id": pa.array([limit + 1], pa.int64())}))
    keys.join(other)
    assert keys.hashes is None
    assert set(keys.filter().bloom.bitmap) == {255}


async def test_rows_without_a_key_have_none(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"id": pa.array([1], pa.int32()), "v": ["old"]}), tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    keys = distributed.inserted_keys(dataset, ["id", "v"])
    keys.add_rows(pa.record_batch({"id": pa.array([None, 1], pa.int32()), "v": ["a", None]}))
    keys.add_rows(pa.record_batch({"id": pa.array([1], pa.int32())}))
    assert keys.hashes is not None
    assert not len(keys.hashes)
    with pytest.raises(InvalidInputError, match="'no'"):
        distributed.inserted_keys(dataset, ["no"])

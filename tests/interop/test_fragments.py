"""Fragments of several files, deletions, evolved schemas, stable row ids, projections."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def people(count: int, start: int = 0) -> pa.Table:
    numbers = range(start, start + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [None if n % 11 == 0 else f"name {n}" for n in numbers],
            "where": pa.array(
                [None if n % 7 == 0 else {"x": n / 2, "tags": [str(n)] * (n % 3)} for n in numbers],
                pa.struct([("x", pa.float64()), ("tags", pa.list_(pa.string()))]),
            ),
        }
    )


async def check(uri: str, **options: object) -> None:
    """Everything, parts and single rows are as pylance has them."""
    theirs = lance.dataset(uri)
    ours = await alance.dataset(uri)
    assert ours.schema.equals(theirs.schema, check_metadata=True)
    assert [fragment.fragment_id for fragment in ours.fragments] == [
        fragment.fragment_id for fragment in theirs.get_fragments()
    ]
    assert_equal_rows(
        await ours.to_table(with_row_id=True, with_row_address=True, **options),
        theirs.to_table(with_row_id=True, with_row_address=True, **options),
    )
    count = theirs.count_rows()
    rows = random.Random(uri).choices(range(count), k=25)
    assert_equal_rows(await ours.take(rows), theirs.take(rows))
    assert await ours.count_rows() == count
    for item, other in zip(ours.fragments, theirs.get_fragments(), strict=True):
        assert item.physical_rows == other.physical_rows
        assert await item.count_rows() == other.count_rows()
        offsets = [0, other.count_rows() - 1]
        assert_equal_rows(await item.take(offsets), other.take(offsets))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return str(tmp_path / "table")


@pytest.mark.parametrize("version", ["2.1", "2.2"])
async def test_appends_and_deletions(uri: str, version: str) -> None:
    for number in range(4):
        mode = "append" if number else "create"
        lance.write_dataset(people(100, number * 100), uri, mode=mode, data_storage_version=version)
    await check(uri)
    dataset = lance.dataset(uri)
    dataset.delete("id < 10 OR id % 5 = 2")
    await check(uri)
    dataset.delete("id >= 200 AND id < 300")  # a whole fragment goes
    await check(uri)


@pytest.mark.parametrize("share", [3, 50])
async def test_deletion_vectors_of_both_kinds(uri: str, share: int) -> None:
    lance.write_dataset(people(20_000), uri)
    lance.dataset(uri).delete(f"id % {share} = 1")
    await check(uri)


async def test_added_columns_lie_in_files_of_their_own(uri: str) -> None:
    lance.write_dataset(people(150), uri, max_rows_per_file=60)
    dataset = lance.dataset(uri)
    dataset.add_columns({"twice": "id * 2", "label": "concat(name, '!')"})
    dataset.delete("id = 70")
    await check(uri)
    dataset.drop_columns(["name"])
    await check(uri)
    dataset.alter_columns({"path": "twice", "name": "double"}, {"path": "where.x", "name": "ex"})
    await check(uri)
    dataset.add_columns(pa.field("later", pa.list_(pa.float32())))  # nothing but metadata
    await check(uri)


async def test_columns_merged_from_another_table(uri: str) -> None:
    lance.write_dataset(people(90), uri, max_rows_per_file=40)
    extra = pa.table({"id": pa.array(range(0, 90, 2)), "extra": [f"e{n}" for n in range(45)]})
    lance.dataset(uri).merge(extra, "id")
    await check(uri)


async def test_rows_appended_without_a_column(uri: str) -> None:
    lance.write_dataset(people(50), uri)
    lance.write_dataset(people(50, 50).drop_columns(["name"]), uri, mode="append")
    part = people(50, 100)
    where = pa.array([{"x": 1.0}] * 50, pa.struct([("x", pa.float64())]))
    lance.write_dataset(part.set_column(2, "where", where), uri, mode="append")
    await check(uri)


async def test_updates_and_merges(uri: str) -> None:
    lance.write_dataset(people(200), uri, max_rows_per_file=64)
    dataset = lance.dataset(uri)
    dataset.update({"name": "'changed'"}, "id % 9 = 4")
    await check(uri)
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(people(40, 190))
    await check(uri)


async def test_stable_row_ids(uri: str) -> None:
    lance.write_dataset(people(120), uri, max_rows_per_file=50, enable_stable_row_ids=True)
    dataset = lance.dataset(uri)
    await check(uri)
    dataset.delete("id % 4 = 1")
    dataset.update({"name": "'new'"}, "id > 100")
    lance.write_dataset(people(30, 500), uri, mode="append")
    dataset = lance.dataset(uri)
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    await check(uri)
    ids = dataset.to_table(with_row_id=True).column("_rowid").to_pylist()
    expected = random.Random(1).choices(ids, k=20)
    ours = await alance.dataset(uri)
    assert ours.has_stable_row_ids
    assert_equal_rows(await ours.take_rows(expected), dataset._take_rows(expected))
    columns = ["id", "_row_created_at_version", "_row_last_updated_at_version"]
    assert_equal_rows(await ours.to_table(columns), dataset.to_table(columns))
    with pytest.raises(alance.NotFoundError):
        await ours.take_rows([10**9])


async def test_take_rows_by_address(uri: str) -> None:
    lance.write_dataset(people(100), uri, max_rows_per_file=40)
    dataset = lance.dataset(uri)
    dataset.delete("id = 3")
    ids = dataset.to_table(with_row_id=True).column("_rowid").to_pylist()
    ours = await alance.dataset(uri)
    expected = [ids[70], ids[5], ids[5], ids[98]]
    assert_equal_rows(await ours.take_rows(expected), dataset._take_rows(expected))
    assert_equal_rows(await ours.take_addresses(expected), dataset._take_rows(expected))
    for gone in (3, 40, 9 << 32):
        with pytest.raises(alance.NotFoundError):
            await ours.take_addresses([gone])


async def test_projections_of_members_are_those_of_pylance(uri: str) -> None:
    lance.write_dataset(people(100), uri)
    ours, theirs = await alance.dataset(uri), lance.dataset(uri)
    for columns in (["where.x"], ["id", "where.tags"], ["where.tags", "where.x"], ["where", "id"]):
        assert_equal_rows(await ours.to_table(columns), theirs.to_table(columns))
        assert_equal_rows(await ours.take([5, 70, 7], columns), theirs.take([5, 70, 7], columns))


async def test_computed_columns_are_those_of_pylance(uri: str) -> None:
    lance.write_dataset(people(100), uri)
    ours, theirs = await alance.dataset(uri), lance.dataset(uri)
    columns = {"double": "id * 2", "upper": "upper(name)", "same": "id"}
    assert_equal_rows(await ours.to_table(columns), theirs.to_table(columns))


def options() -> Iterator[dict[str, object]]:
    for offset in (0, 1, 63, 64, 199, 250):
        for limit in (0, 1, 64, 65, 1000):
            yield {"offset": offset, "limit": limit}


async def test_offset_and_limit(uri: str) -> None:
    lance.write_dataset(people(200), uri, max_rows_per_file=64)
    theirs = lance.dataset(uri)
    theirs.delete("id % 10 = 3")
    ours = await alance.dataset(uri)
    for option in options():
        assert_equal_rows(await ours.to_table(["id"], **option), theirs.to_table(["id"], **option))
        assert_equal_rows(
            await ours.to_table(["id"], filter="id % 3 = 1", **option),
            theirs.to_table(["id"], filter="id % 3 = 1", **option),
        )


async def test_batches_have_at_most_the_requested_size(uri: str) -> None:
    lance.write_dataset(people(100), uri, max_rows_per_file=40)
    ours = await alance.dataset(uri)
    sizes = [batch.num_rows async for batch in ours.to_batches(batch_size=16)]
    assert sum(sizes) == 100
    assert max(sizes) == 16
    unordered = [
        value
        async for batch in ours.to_batches(["id"], scan_in_order=False)
        for value in batch.column("id").to_pylist()
    ]
    assert sorted(unordered) == list(range(100))


async def test_deleted_rows_on_request(uri: str) -> None:
    lance.write_dataset(people(50), uri)
    theirs = lance.dataset(uri)
    theirs.delete("id % 5 = 0")
    ours = await alance.dataset(uri)
    expected = {"with_row_id": True, "include_deleted_rows": True}
    assert_equal_rows(await ours.to_table(**expected), theirs.scanner(**expected).to_table())


async def test_an_empty_dataset(uri: str) -> None:
    lance.write_dataset(people(0), uri)
    ours = await alance.dataset(uri)
    assert await ours.count_rows() == 0
    assert_equal_rows(await ours.to_table(), lance.dataset(uri).to_table())
    with pytest.raises(alance.InvalidInputError, match="0 rows"):
        await ours.take([0])
    assert_equal_rows(await ours.take([]), lance.dataset(uri).to_table())

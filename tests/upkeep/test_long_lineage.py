"""Row ids and versions of rows that were changed at random: their bytes in the manifest."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from tests.changing.both_ways import latest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

META = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
MARKS = ["column_row_ids", "column_created_at_versions", "column_last_updated_at_versions"]


def rows(ids: Any, value: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "x": pa.array([value] * len(ids))})


def upserts(count: int, size: int) -> Iterator[pa.Table]:
    """Rows to upsert, half of them new and the others chosen at random, in any order."""
    chance, num_rows = random.Random(count), 0
    for number in range(count):
        ids = [*range(num_rows, num_rows + size), *chance.sample(range(num_rows), number and size)]
        chance.shuffle(ids)
        num_rows += size
        yield rows(ids, number)


async def changed(path: Path, count: int, size: int) -> alance.Dataset:
    dataset: alance.Dataset | None = None
    for table in upserts(count, size):
        if dataset is None:
            dataset = await alance.write_dataset(table, path, stable_row_ids=True)
        else:
            dataset = await dataset.upsert(table, "id")
    assert dataset is not None
    return dataset


def changed_by_pylance(path: Path, count: int, size: int) -> Any:
    for number, table in enumerate(upserts(count, size)):
        if not number:
            lance.write_dataset(table, path, enable_stable_row_ids=True)
        else:
            merge = lance.dataset(path).merge_insert("id").when_matched_update_all()
            merge.when_not_matched_insert_all().execute(table)
    return lance.dataset(path)


def read(path: Path) -> dict[int, dict[str, Any]]:
    """The rows as pylance reads them, by their key."""
    table = lance.dataset(path)
    table.validate()
    table_rows = table.to_table(columns=["id", "x", *META]).to_pylist()
    assert len({row["_rowid"] for row in table_rows}) == len(table_rows)
    return {row["id"]: row for row in table_rows}


def sequence_bytes(path: Path) -> int:
    """Bytes of all row ids and versions in the manifest."""
    return sum(
        len(fragment.inline_row_ids)
        + len(fragment.inline_created_at_versions)
        + len(fragment.inline_last_updated_at_versions)
        for fragment in latest(path).message.fragments
    )


@pytest.mark.parametrize(("count", "size", "share"), [(40, 5, 0.85), (12, 200, 0.5)])
async def test_manifests_are_smaller_than_those_of_pylance(
    tmp_path: Path, count: int, size: int, share: float
) -> None:
    """After the same upserts, and after a compaction, with the same versions of the same rows."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    dataset = await changed(ours, count, size)
    changed_by_pylance(theirs, count, size)
    for _ in range(2):
        for name in META[1:]:
            versions = [
                {key: row[name] for key, row in read(path).items()} for path in (ours, theirs)
            ]
            assert versions[0] == versions[1]
        assert sequence_bytes(ours) <= share * sequence_bytes(theirs)
        await (await dataset.checkout_latest()).optimize.compact_files()
        lance.dataset(theirs).optimize.compact_files()


async def test_a_compaction_stores_long_sequences_in_files_if_the_table_allows_it(
    tmp_path: Path,
) -> None:
    path = tmp_path / "t"
    dataset = await changed(path, 12, 200)
    before, inline = read(path), sequence_bytes(path)
    dataset = await dataset.optimize.compact_files()
    assert read(path) == before
    config = {"lance.row_lineage.spill": "true", "lance.row_lineage.inline_max_bytes": "50"}
    dataset = await dataset.update_config(config)
    dataset = await dataset.delete("id % 7 = 0")
    dataset = await dataset.optimize.compact_files(max_rows_per_group=100)
    before = {key: row for key, row in before.items() if key % 7}
    assert read(path) == before
    (fragment,) = latest(path).message.fragments
    assert [fragment.HasField(mark) for mark in MARKS] == [True] * 3
    assert [*fragment.files[0].fields] == [0, 1, -3, -4, -5]
    assert sequence_bytes(path) == 0 < inline
    assert latest(path).message.reader_feature_flags & 2048
    await dataset.validate()
    # Rows that move from there keep all, for alance and pylance; dropped columns take nothing away.
    dataset = await dataset.upsert(rows([1, 2], 99), "id")
    theirs = lance.dataset(path)
    theirs.update({"x": "77"}, "id = 3")
    lance.dataset(path).add_columns({"y": "x + 1"})
    lance.dataset(path).drop_columns(["y"])
    after = read(path)
    assert {key: after[key]["x"] for key in (1, 2, 3)} == {1: 99, 2: 99, 3: 77}
    for name in META[:2]:
        assert {key: row[name] for key, row in after.items()} == {
            key: row[name] for key, row in before.items()
        }
    # Without the configuration they return to the manifest.
    dataset = await (await dataset.checkout_latest()).update_config(dict.fromkeys(config))
    await dataset.optimize.compact_files()
    assert read(path) == after
    assert sequence_bytes(path) > 0
    assert not latest(path).message.reader_feature_flags & 2048


async def test_short_sequences_stay_in_the_manifest(tmp_path: Path) -> None:
    """The limit counts for each sequence of a fragment; by default it is 200 KiB."""
    path = tmp_path / "t"
    dataset = await changed(path, 12, 200)
    dataset = await dataset.update_config({"lance.row_lineage.spill": "true"})
    dataset = await dataset.optimize.compact_files()
    (fragment,) = latest(path).message.fragments
    assert [fragment.HasField(mark) for mark in MARKS] == [False] * 3
    lengths = [
        len(fragment.inline_row_ids),
        len(fragment.inline_created_at_versions),
        len(fragment.inline_last_updated_at_versions),
    ]
    limit = sorted(lengths)[1]
    dataset = await dataset.update_config({"lance.row_lineage.inline_max_bytes": str(limit)})
    await (await dataset.delete("id % 7 = 0")).optimize.compact_files()
    (fragment,) = latest(path).message.fragments
    assert sum(fragment.HasField(mark) for mark in MARKS) == 1


async def test_pylance_goes_on_with_the_sequences(tmp_path: Path) -> None:
    """It deletes, compacts and merges: each row has the id and the version that created it."""
    path = tmp_path / "t"
    await changed(path, 12, 100)
    before = {key: row for key, row in read(path).items() if key % 11}
    lance.dataset(path).delete("id % 11 = 0")
    lance.dataset(path).optimize.compact_files()
    assert read(path) == before
    merge = lance.dataset(path).merge_insert("id").when_matched_update_all()
    merge.execute(rows(range(1, 300, 3), 7))
    after = read(path)
    for name in META[:2]:
        sides = [{key: row[name] for key, row in side.items()} for side in (before, after)]
        assert sides[0] == sides[1]
    dataset = await alance.dataset(path)
    await dataset.validate()
    await dataset.optimize.compact_files()
    assert read(path) == after

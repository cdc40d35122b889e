"""A table's changes as a stream: a mirror that applies them has the table's rows."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

Mirror = dict[int, dict[str, Any]]


def rows(ids: Any, value: int) -> pa.Table:
    return pa.table(
        {"id": pa.array(ids, pa.int64()), "x": pa.array([value] * len(ids), pa.int64())}
    )


def apply(mirror: Mirror, change: Any) -> None:
    """Apply a change, and make sure that it fits: each row comes once, and goes once."""
    for row in change.rows.to_pylist() if change.rows is not None else ():
        row_id = row.pop("_rowid")
        if change.kind == "delete":
            del mirror[row_id]
        elif change.kind == "insert":
            assert row_id not in mirror
            mirror[row_id] = row
        else:
            assert row_id in mirror
            mirror[row_id] = row


async def contents(dataset: alance.Dataset, filter: str | None = None) -> Mirror:
    table = await dataset.to_table(filter=filter, with_row_id=True)
    return {row.pop("_rowid"): row for row in table.to_pylist()}


async def changed(dataset: alance.Dataset, chance: random.Random, number: int) -> alance.Dataset:
    """One more version, or several."""
    text = f"id % {chance.randint(2, 7)} = {chance.randint(0, 1)}"
    kind = chance.choice(
        ["insert", "insert", "update", "delete", "upsert", "compact", "restore", "index", "peer"]
    )
    if kind == "insert":
        return await dataset.insert(rows(range(100 * number, 100 * number + 9), number))
    if kind == "update":
        return await dataset.update({"x": str(number)}, text)
    if kind == "delete":
        return await dataset.delete(text + " AND id > 50")
    if kind == "upsert":
        ids = sorted(chance.sample(range(100 * number), 5))
        return await dataset.upsert(rows(ids, number), "id")
    if kind == "compact":
        return await dataset.optimize.compact_files()
    if kind == "restore":
        return await dataset.restore(chance.randint(1, dataset.version))
    if kind == "index":
        return await dataset.create_scalar_index("id", "BTREE", replace=True)
    theirs = lance.dataset(dataset.uri)
    theirs.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(
        rows([3, 100 * number], number)
    )
    theirs.delete("id = 7")
    return await dataset.checkout_latest()


@pytest.mark.parametrize(("stable", "seed"), thinned([True, False], range(4)))
async def test_a_mirror_has_the_rows_of_the_table(tmp_path: Path, seed: int, stable: bool) -> None:
    chance = random.Random(seed)
    dataset = await alance.write_dataset(rows(range(100), 0), tmp_path / "t", stable_row_ids=stable)
    mirror: Mirror = {}
    filtered: Mirror = {}
    condition = "x % 2 = 0 AND id < 500"
    tokens: dict[str | None, Any] = {None: 0, condition: 0}
    for number in range(1, 13):
        dataset = await changed(dataset, chance, number)
        for filter_, target in ((None, mirror), (condition, filtered)):
            stops = chance.randint(1, 9)
            while True:
                count = 0
                stream = dataset.follow(tokens[filter_], filter=filter_, batch_size=7, wait=False)
                async for change in stream:
                    apply(target, change)
                    tokens[filter_] = change.token
                    count += 1
                    if count == stops:  # a reader that begins anew where it was
                        break
                await stream.aclose()
                if count < stops:
                    break
        if stable:
            assert mirror == await contents(dataset)
            assert filtered == await contents(dataset, condition)
        else:  # compactions give rows other addresses, which is no change
            for target, filter_ in ((mirror, None), (filtered, condition)):
                present = await contents(dataset, filter_)
                if target != present:
                    assert sorted(map(str, target.values())) == sorted(map(str, present.values()))
                    target.clear()
                    target.update(present)


async def test_updated_and_deleted_rows_come_as_they_were(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(range(4), 0), tmp_path / "t", stable_row_ids=True)
    after = await dataset.update({"x": "9"}, "id >= 2")
    await after.delete("id = 3")
    first, second = [change async for change in dataset.follow(before=True, wait=False)]
    assert first.kind == "update"
    assert first.rows["x"].to_pylist() == [9, 9]
    assert first.before["x"].to_pylist() == [0, 0]
    assert first.rows["_rowid"] == first.before["_rowid"]
    assert second.kind == "delete"
    assert second.rows.to_pydict() == {"id": [3], "x": [9], "_rowid": [3]}
    (_, ids) = [change async for change in dataset.follow(wait=False)]
    assert ids.rows.to_pydict() == {"_rowid": [3]}


async def test_facts_come_before_the_rows_of_their_version(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
    await dataset.add_columns({"y": "x + 1"})
    await (await dataset.checkout_latest()).restore(1)
    await alance.write_dataset(rows([5], 5), tmp_path / "t", mode="overwrite")
    kinds = [(change.version, change.kind) async for change in dataset.follow(wait=False)]
    assert kinds == [
        (2, "schema"),
        (2, "update"),
        (3, "restore"),
        (3, "schema"),
        (3, "update"),
        (4, "overwrite"),
        (4, "delete"),
        (4, "insert"),
    ]


async def test_a_snapshot_comes_before_the_changes_after_it(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(range(10), 0), tmp_path / "t", stable_row_ids=True)
    dataset = await dataset.delete("id = 0")
    await dataset.insert(rows([77], 1))
    mirror: Mirror = {}
    versions = []
    async for change in dataset.follow("snapshot", batch_size=4, wait=False):
        apply(mirror, change)
        versions.append(change.version)
    assert versions == [2, 2, 2, 3]
    assert mirror == await contents(await dataset.checkout_latest())


async def test_a_snapshot_goes_on_where_its_reader_left_it(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows(range(10), 0), tmp_path / "t", stable_row_ids=True)
    dataset = await dataset.delete("id = 0")
    await dataset.insert(rows([77], 1))
    tokens: list[Any] = ["snapshot"]
    mirror: Mirror = {}
    while True:
        stream = dataset.follow(tokens[-1], batch_size=4, wait=False)
        change = await anext(stream, None)
        await stream.aclose()
        if change is None:
            break
        apply(mirror, change)
        tokens.append(change.token)
    assert len(tokens) == 5
    assert mirror == await contents(await dataset.checkout_latest())


@pytest.mark.parametrize("filter", [None, "id > 5"])
async def test_a_snapshot_without_rows_has_a_token(tmp_path: Path, filter: str | None) -> None:
    count = 0 if filter is None else 3
    dataset = await alance.write_dataset(rows(range(count), 0), tmp_path / "t")
    (change,) = [item async for item in dataset.follow("snapshot", filter=filter, wait=False)]
    assert change.kind == "checkpoint"
    await dataset.insert(rows([7], 0))
    (change,) = [item async for item in dataset.follow(change.token, filter=filter, wait=False)]
    assert change.rows["id"].to_pylist() == [7]


async def test_a_reader_that_takes_one_change_at_a_time_gets_each_once(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows([1, 2], 0), tmp_path / "t", stable_row_ids=True)
    dataset = await dataset.add_columns({"y": "x + 1"})
    dataset = await dataset.drop_columns(["y"])
    dataset = await dataset.restore(1)
    await alance.write_dataset(rows([5], 5), tmp_path / "t", mode="overwrite")
    whole = [change async for change in dataset.follow(0, wait=False)]
    singly: list[Any] = []
    while True:
        stream = dataset.follow(singly[-1].token if singly else 0, wait=False)
        change = await anext(stream, None)
        await stream.aclose()
        if change is None:
            break
        singly.append(change)
        assert len(singly) <= len(whole)
    assert [(change.version, change.kind, change.rows) for change in singly] == [
        (change.version, change.kind, change.rows) for change in whole
    ]


@pytest.mark.parametrize("peer", [False, True])
@pytest.mark.parametrize("stable", [False, True])
async def test_new_values_of_columns_in_place_are_updates(
    tmp_path: Path, stable: bool, peer: bool
) -> None:
    """Columns that are added, cast, merged, replaced, dropped and restored."""
    path = tmp_path / "t"
    dataset = await alance.write_dataset(rows(range(6), 0), path, stable_row_ids=stable)
    theirs = lance.dataset(path)
    if peer:
        theirs.add_columns({"y": "x + 1"})
        theirs.alter_columns({"path": "x", "data_type": pa.int32()})
        theirs.merge(pa.table({"id": range(4), "z": range(4)}), "id")
    else:
        dataset = await dataset.add_columns({"y": "x + 1"})
        dataset = await dataset.alter_columns({"path": "x", "data_type": pa.int32()})
        dataset = await dataset.add_columns({"z": "id * 2"})
    dataset = await dataset.checkout_latest()
    with_all = dataset.version
    dataset = await dataset.drop_columns(["y"])
    dataset = await dataset.optimize.compact_files()
    mirror: Mirror = {}
    async for change in dataset.follow(0, wait=False):
        apply(mirror, change)
        token = change.token
    for row in mirror.values():  # the versions that only drop columns are no updates
        del row["y"]
    assert mirror == await contents(dataset)
    dataset = await dataset.restore(with_all)
    async for change in dataset.follow(token, wait=False):
        apply(mirror, change)
    assert mirror == await contents(dataset)


@pytest.mark.parametrize("stable", [False, True])
async def test_data_files_that_are_replaced_update_all_their_rows(
    tmp_path: Path, stable: bool
) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(rows(range(6), 0), path, stable_row_ids=stable)
    dataset = await dataset.add_columns({"y": "id"})
    peer = lance.dataset(path)
    (fragment,) = peer.get_fragments()
    other = lance.write_dataset(pa.table({"y": range(10, 16)}), tmp_path / "other")
    (file,) = other.get_fragments()[0].data_files()
    (target,) = [data_file for data_file in fragment.data_files() if len(data_file.fields) == 1]
    (path / "data" / "new.lance").write_bytes((tmp_path / "other/data" / file.path).read_bytes())
    new = lance.fragment.DataFile(
        "new.lance",
        target.fields,
        file.column_indices,
        file.file_major_version,
        file.file_minor_version,
        file.file_size_bytes,
    )
    group = lance.LanceOperation.DataReplacementGroup(fragment.fragment_id, new)
    replacement = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(path, replacement, read_version=peer.version)
    (change,) = [item async for item in dataset.follow(before=True, wait=False)]
    assert change.kind == "update"
    assert change.rows["y"].to_pylist() == list(range(10, 16))
    assert change.before["y"].to_pylist() == list(range(6))


async def test_versions_without_changes_end_with_a_checkpoint(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
    dataset = await dataset.insert(rows([2], 0))
    await dataset.optimize.compact_files()
    changes = [change async for change in dataset.follow(wait=False)]
    assert [(change.kind, change.version) for change in changes] == [("checkpoint", 4)]
    assert [change async for change in dataset.follow(changes[0].token, wait=False)] == []


async def test_a_reader_that_waits_sees_the_next_version_at_once(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
    stream = dataset.follow(max_interval=1000)
    first = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.5)
    assert not first.done()
    await dataset.insert(rows([2], 0))
    async with asyncio.timeout(5):
        assert (await first).rows["id"].to_pylist() == [2]
    await stream.aclose()


async def test_versions_of_other_processes_are_seen_as_well(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
    stream = dataset.follow(max_interval=0.1)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.to_thread(lance.write_dataset, rows([2], 0), tmp_path / "t", mode="append")
    async with asyncio.timeout(30):
        assert (await waiting).rows["id"].to_pylist() == [2]
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0.01)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_a_look_for_news_is_one_list(lab: Lab) -> None:
    uri, options = "s3://lab/followed.lance", lab.lance_options()
    table = await alance.write_dataset(rows([1], 0), uri, storage_options=options)
    token = [change.token async for change in table.follow(0, wait=False)][-1]
    with lab.recording() as seen:
        assert [change async for change in table.follow(token, wait=False)] == []
    assert [record["op"] for record in seen.records] == ["LIST"]


async def test_removed_versions_are_an_error_that_says_where_to_begin(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
    for number in range(5):
        dataset = await dataset.insert(rows([number], 0))
    await dataset.cleanup_old_versions(timedelta(0), retain_versions=2)
    for since in (0, 2):
        message = "removed by a cleanup,.*since='snapshot', or, if .* are known, with since=5"
        with pytest.raises(alance.VersionNotFoundError, match=message):
            await anext(dataset.follow(since, wait=False))
    assert (await anext(dataset.follow(5, wait=False))).version == 6


async def test_a_token_of_a_table_that_was_made_again_is_refused(tmp_path: Path) -> None:
    tokens = []
    for _ in range(2):
        dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
        dataset = await dataset.insert(rows(range(20), 0))
        tokens.append(
            [change.token async for change in dataset.follow(0, batch_size=9, wait=False)]
        )
        await alance.drop(tmp_path / "t")
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t", stable_row_ids=True)
    for token in (tokens[0][0], tokens[0][1]):
        with pytest.raises(alance.NotFoundError):
            await anext(dataset.follow(token, wait=False))


@pytest.mark.parametrize(
    ("since", "options", "message"),
    [
        ("12", {}, "expected a version, 'snapshot', or the token"),
        (9, {}, "this dataset is at version 1"),
        (-1, {}, "an integer of at least 0"),
        (0, {"max_interval": 0}, "a time above 0 s"),
        (0, {"columns": "id"}, "expected a list of names"),
        (0, {"filter": "nothing > 1"}, "nothing"),
        (0, {"batch_rows": 3}, "batch_rows"),
    ],
)
async def test_wrong_arguments_are_named(
    tmp_path: Path, since: Any, options: Any, message: str
) -> None:
    dataset = await alance.write_dataset(rows([1], 0), tmp_path / "t")
    with pytest.raises((alance.InvalidInputError, TypeError), match=message):
        await anext(dataset.follow(since, **options))


@pytest.mark.parametrize("before", [False, True])
async def test_scattered_rows_come_in_one_change(tmp_path: Path, before: bool) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(
        rows(range(60), 0), path, stable_row_ids=True, max_rows_per_file=4
    )
    await (await dataset.delete("id % 3 = 0")).update({"x": "1"}, "id % 5 = 1")
    stream = dataset.follow(before=before, batch_size=16, wait=False)
    changes = [(change.kind, change.rows) async for change in stream]
    assert [(kind, batch.num_rows) for kind, batch in changes if batch is not None] == [
        ("delete", 16),
        ("delete", 4),
        ("update", 8),
    ]


async def test_changes_of_a_large_table_are_those_of_the_rows_that_changed(tmp_path: Path) -> None:
    """Scattered rows of a fragment, more than are read as runs of their own."""
    dataset = await alance.write_dataset(rows(range(5000), 0), tmp_path / "t", stable_row_ids=True)
    await (await dataset.delete("id % 3 = 0")).update({"x": "1"}, "id % 7 = 1")
    deleted, updated = set(), set()
    async for change in dataset.follow(before=True, wait=False, batch_size=1000):
        ids = change.rows["id"].to_pylist()
        (deleted if change.kind == "delete" else updated).update(ids)
    assert deleted == {n for n in range(5000) if n % 3 == 0}
    assert updated == {n for n in range(5000) if n % 7 == 1 and n % 3}

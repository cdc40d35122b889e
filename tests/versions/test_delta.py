"""Changes between two versions, as in pylance; lists of versions and transactions."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, NotFoundError, UnsupportedError
from tests.reference.served import opened_on
from tests.versions.conftest import numbers

if TYPE_CHECKING:
    from alance.testing.lab import Lab

META = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Ten versions with row lineage, by inserts, updates, deletes, merges and a compaction."""
    path = str(tmp_path_factory.mktemp("delta") / "t.lance")
    dataset = lance.write_dataset(
        numbers(0, 20), path, enable_stable_row_ids=True, max_rows_per_file=5
    )
    dataset.insert(numbers(20, 26))
    dataset.update({"b": "'changed'"}, where="a % 7 = 0")
    dataset.delete("a in (1, 2, 22)")
    dataset.insert(numbers(30, 33))
    dataset.merge_insert("a").when_matched_update_all().when_not_matched_insert_all().execute(
        numbers(31, 36)
    )
    dataset.optimize.compact_files()
    dataset.update({"b": "'again'"}, where="a in (7, 21, 35)")
    dataset.delete("a = 35")
    assert lance.dataset(path).version == 10
    return path


def by_id(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["_rowid"])


async def collected(batches: Any, schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([batch async for batch in batches], schema)


async def test_rows_as_pylance_tells_them(history: str) -> None:
    newest = await alance.dataset(history)
    latest = lance.dataset(history)
    for begin, end in itertools.combinations_with_replacement(range(11), 2):
        ours = newest.delta(begin_version=begin, end_version=end)
        theirs = latest.delta(begin_version=begin, end_version=end)
        for name in ("get_inserted_rows", "get_updated_rows"):
            expected = getattr(theirs, name)().read_all()
            result = await collected(getattr(ours, name)(), expected.schema)
            assert by_id(result) == by_id(expected), (name, begin, end)
        expected = theirs.get_deleted_row_ids().read_all()
        result = await collected(ours.get_deleted_row_ids(), expected.schema)
        assert by_id(result) == by_id(expected), (begin, end)
        if begin < end:
            uuids = [transaction.uuid for transaction in theirs.list_transactions()]
            retained = await ours.list_transactions()
            assert [item.uuid for item in retained if item is not None] == uuids
            assert len(retained) == end - begin


async def test_against_an_older_version(history: str) -> None:
    old = await alance.dataset(history, version=5)
    expected = lance.dataset(history, version=5).delta(2).get_inserted_rows().read_all()
    delta = old.delta(2)
    assert (delta.begin_version, delta.end_version) == (2, 5)
    assert repr(delta).endswith("after 2, up to 5)")
    assert by_id(await collected(delta.get_inserted_rows(), expected.schema)) == by_id(expected)
    batches = [inserted_row async for inserted_row in delta.get_inserted_rows(["b"], batch_size=2)]
    assert all(batch.num_rows <= 2 for batch in batches)
    assert batches[0].schema.names == ["b", *META]


async def test_fragments_without_changes_are_not_read(history: str) -> None:
    dataset = await alance.dataset(history, version=5)
    with alance.trace() as recorder:
        inserted_rows = [
            inserted_row async for inserted_row in dataset.delta(4).get_inserted_rows(["a"])
        ]
    assert sum(item.num_rows for item in inserted_rows) == 3
    files = {event.location for event in recorder.events if event.location.endswith(".lance")}
    assert len(files) == 1


async def test_wrong_ranges_of_versions_are_refused(history: str, table: str) -> None:
    dataset = await alance.dataset(history, version=5)
    for arguments in ({}, {"begin_version": 1}, {"end_version": 2}):
        with pytest.raises(InvalidInputError, match="expected compared_against"):
            dataset.delta(**arguments)
    with pytest.raises(InvalidInputError, match="expected compared_against"):
        dataset.delta(1, begin_version=1, end_version=2)
    for begin, end in ((3, 2), (1, 6), (6, 7)):
        with pytest.raises(InvalidInputError, match="ascends up to version 5"):
            dataset.delta(begin_version=begin, end_version=end)
    with pytest.raises(InvalidInputError, match="begin_version=-1"):
        dataset.delta(-1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'limit'"):
        await anext(dataset.delta(1).get_inserted_rows(limit=3))
    plain = (await alance.dataset(table)).delta(1)
    for rows in (plain.get_inserted_rows(), plain.get_updated_rows(), plain.get_deleted_row_ids()):
        with pytest.raises(UnsupportedError, match="stable row ids"):
            await anext(rows)
    assert len(await plain.list_transactions()) == 2


async def test_recent_transactions_are_those_of_pylance(history: str) -> None:
    dataset = await alance.dataset(history)
    for count in (1, 3, 10, 12, 40):
        uuids = [transaction.uuid for transaction in lance.dataset(history).get_transactions(count)]
        retained = await dataset.get_transactions(count)
        assert [item.uuid for item in retained if item is not None] == uuids
    assert await dataset.get_transactions(0) == []
    old = await dataset.checkout_version(4)
    assert [
        transaction.operation for transaction in await old.get_transactions(2) if transaction
    ] == ["Delete", "Update"]
    with pytest.raises(InvalidInputError, match="recent=-1"):
        await dataset.get_transactions(-1)


async def test_versions_that_are_gone(tmp_path: Path, history: str) -> None:
    path = str(tmp_path / "t.lance")
    shutil.copytree(history, path)
    dataset = await alance.dataset(path)
    names = sorted(file.name for file in (tmp_path / "t.lance/_versions").glob("*.manifest"))
    (tmp_path / "t.lance/_versions" / names[-3]).unlink()
    with pytest.raises(NotFoundError, match="no version 3"):
        await dataset.delta(1).list_transactions()
    with pytest.raises(NotFoundError, match="no version 3"):
        _ = [deleted_row_id async for deleted_row_id in dataset.delta(3).get_deleted_row_ids()]
    assert len(await dataset.get_transactions(40)) == 9
    assert len(await dataset.versions()) == 9


@pytest.fixture(scope="module")
def hundred(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of 100 versions."""
    path = tmp_path_factory.mktemp("hundred") / "t.lance"
    dataset = lance.write_dataset(numbers(0, 3), path)
    for number in range(99):
        dataset.update_config({"n": str(number)})
    return path


async def test_a_hundred_versions_cost_two_rounds(lab: Lab, hundred: Path) -> None:
    shutil.copytree(hundred, Path(lab.root) / "lab" / "hundred.lance")
    lab.rescan()
    async with opened_on(lab, "s3://lab/hundred.lance") as dataset:
        lab.config(waits_for=os.getpid())
        with lab.recording() as recording:
            result = await dataset.versions()
        texts = [str(record["op"]) for record in recording.records if "op" in record]
        assert sorted(set(texts)) == ["GET", "LIST"]
        assert (texts.count("GET"), texts.count("LIST")) == (99, 1)  # the latest is known
        assert recording.rounds == 2
        assert [item.version for item in result] == list(range(1, 101))
        theirs = lance.dataset(str(hundred)).versions()
        for entry, other in zip(result, theirs, strict=True):
            assert entry.metadata == other["metadata"]
        lab.calm()
        with lab.recording() as recording:
            assert await dataset.versions() == result
        texts = [str(record["op"]) for record in recording.records if "op" in record]
        assert texts == ["LIST"]  # what is known of versions is kept
        lab.calm()
        with lab.recording() as recording:
            assert len(await dataset.get_transactions(100)) == 100
        assert len(recording.records) <= 100
        lab.calm()

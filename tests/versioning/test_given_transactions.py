"""`write_fragments(return_transaction=True)`, `commit` of a transaction, and `commit_batch`."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments as their_fragments

import alance
import alance.sync
from alance.operations import Append, Delete, Overwrite
from alance.types import Transaction
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    from pathlib import Path

    from lance.dataset import Transaction as TheirTransaction

    from alance.testing.lab import Lab

ROWS = pa.table({"id": [1, 2, 3], "text": ["a", "b", None]})
MORE = pa.table({"id": [4, 5], "text": ["d", "e"]})


def theirs(uri: Path, data: pa.Table, **options: Any) -> TheirTransaction:
    return their_fragments(data, str(uri), return_transaction=True, **options)


async def transaction_of(uri: Path, data: pa.Table, **options: Any) -> Transaction:
    transaction = await alance.write_fragments(data, uri, return_transaction=True, **options)
    again = pickle.loads(pickle.dumps(transaction))
    assert isinstance(again, Transaction)
    return again


@pytest.mark.parametrize("mode", ["append", "create", "overwrite"])
@pytest.mark.parametrize("exists", [False, True])
async def test_transactions_are_those_of_pylance(tmp_path: Path, mode: Any, exists: bool) -> None:
    for name in ("own", "their"):
        if exists:
            await alance.write_dataset(ROWS, tmp_path / name)
    data = MORE if mode == "append" else MORE.rename_columns(["n", "word"])
    if exists and mode == "create":
        with pytest.raises(OSError, match="already exists"):
            theirs(tmp_path / "their", data, mode=mode)
        with pytest.raises(alance.AlreadyExistsError, match="its latest version is 1"):
            await transaction_of(tmp_path / "own", data, mode=mode)
        return
    expected = theirs(tmp_path / "their", data, mode=mode)
    transaction = await transaction_of(tmp_path / "own", data, mode=mode)
    assert transaction.read_version == expected.read_version
    assert transaction.operation == type(expected.operation).__name__
    (fragment,), (other,) = transaction.change.fragments, expected.operation.fragments
    assert list(fragment.files[0].fields) == other.files[0].fields
    assert (fragment.id, fragment.physical_rows) == (other.id, other.physical_rows)

    dataset = await alance.commit(tmp_path / "own", transaction)
    after = lance.LanceDataset.commit(str(tmp_path / "their"), expected)
    assert dataset.version == after.version == (2 if exists else 1)
    assert_equal_rows(lance.dataset(tmp_path / "own").to_table(), after.to_table())
    assert_equal_rows(await (await alance.dataset(tmp_path / "their")).to_table(), after.to_table())


async def test_rows_that_do_not_fit_the_table_are_refused(tmp_path: Path) -> None:
    await alance.write_dataset(ROWS, tmp_path / "t")
    other = pa.table({"elsewhere": [1]})
    with pytest.raises(OSError, match="different schema"):
        theirs(tmp_path / "t", other)
    with pytest.raises(alance.InvalidInputError, match="elsewhere"):
        await transaction_of(tmp_path / "t", other)


async def test_columns_have_the_ids_of_the_table(tmp_path: Path) -> None:
    """The ids of the table's fields differ from the positions of its columns."""
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    dataset = await dataset.add_columns({"n": "id * 2"})
    dataset = await dataset.drop_columns(["text"])
    transaction = await transaction_of(tmp_path / "t", pa.table({"n": [8], "id": [4]}))
    assert list(transaction.change.fragments[0].files[0].fields) == [0, 2]
    dataset = await alance.commit(dataset, transaction)
    assert (await dataset.to_table(["n"])).column("n").to_pylist() == [2, 4, 6, 8]
    assert lance.dataset(tmp_path / "t").to_table().column("n").to_pylist() == [2, 4, 6, 8]


async def test_an_overwrite_by_uri_sends_no_request_but_its_data(lab: Lab) -> None:
    uri, options = "s3://lab/given-transactions", lab.lance_options()
    await alance.write_dataset(ROWS, uri, storage_options=options)
    modes: dict[Any, set[str]] = {"overwrite": {"PUT"}, "append": {"LIST", "GET", "PUT"}}
    for mode, kinds in modes.items():
        async with alance.Session() as session:
            with lab.recording() as recording:
                await alance.write_fragments(
                    MORE, uri, mode=mode, storage_options=options, session=session
                )
        assert {record["op"] for record in recording.records} == kinds


async def test_a_transaction_is_committed_once(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    transaction = await transaction_of(tmp_path / "t", MORE)
    second = await alance.commit(dataset, transaction, message="more", properties={"by": "me"})
    third = await second.delete("id = 1")
    again = await alance.commit(third, transaction)
    assert (second.version, again.version, third.version) == (2, 2, 3)
    noted = await second.read_transaction()
    assert noted is not None
    assert noted.uuid == transaction.uuid
    assert (noted.commit_message, noted.properties["by"]) == ("more", "me")
    assert await (await dataset.checkout_latest()).count_rows() == 4


async def test_a_transaction_has_its_own_version(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    transaction = await transaction_of(tmp_path / "t", MORE)
    with pytest.raises(alance.InvalidInputError, match="has its own"):
        await alance.commit(dataset, transaction, read_version=1)
    lost = Transaction.of(Delete((), (7,)), read_version=1)
    with pytest.raises(alance.InvalidInputError, match="7"):
        await alance.commit(dataset, lost)


async def test_many_appends_are_one_version_as_with_pylance(tmp_path: Path) -> None:
    parts = [MORE.slice(n % 2, 1) for n in range(5)]
    for name in ("own", "their"):
        lance.write_dataset(ROWS, tmp_path / name)
    expected = lance.LanceDataset.commit_batch(
        str(tmp_path / "their"), [theirs(tmp_path / "their", part) for part in parts]
    )
    transactions = [await transaction_of(tmp_path / "own", part) for part in parts]
    dataset = await (await alance.dataset(tmp_path / "own")).delete("id = 1")
    assert dataset.version == 2
    result = await alance.commit_batch(dataset, transactions)
    assert result["dataset"].version == 3
    merged, other = result["merged"], expected["merged"]
    assert isinstance(merged.change, Append)
    assert (merged.read_version, merged.operation) == (other.read_version, "Append")
    assert len(merged.change.fragments) == len(other.operation.fragments) == len(parts)
    rows = expected["dataset"].to_table()
    assert_equal_rows(await result["dataset"].to_table(), rows.filter(pa.compute.field("id") != 1))
    assert_equal_rows(
        lance.dataset(tmp_path / "own").to_table(), await result["dataset"].to_table()
    )


async def test_no_part_of_a_batch_is_committed_twice(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    first, second, third = [await transaction_of(tmp_path / "t", MORE) for _ in range(3)]
    result = await alance.commit_batch(dataset, [first, second])
    with pytest.raises(alance.RetryableConflictError, match="has a part"):
        await alance.commit_batch(result["dataset"], [second, third])
    assert (await alance.commit(dataset, second)).version == 2  # where it is already
    assert (await alance.commit_batch(dataset, [third]))["dataset"].version == 3


async def test_notes_of_a_batch_are_joined(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    fragments = [(await transaction_of(tmp_path / "t", MORE)).change.fragments for _ in range(3)]
    notes = [{"a": "1"}, {"b": "2"}, {"a": "3"}]
    batch = [
        Transaction.of(Append(part), read_version=1, properties=note)
        for part, note in zip(fragments, notes, strict=True)
    ]
    merged = (await alance.commit_batch(dataset, batch, message="all"))["merged"]
    assert (merged.properties["a"], merged.properties["b"]) == ("3", "2")
    once = alance.distributed.producer_properties("p", 1)
    twice = [Transaction.of(Append(part), read_version=1, properties=once) for part in fragments]
    with pytest.raises(alance.InvalidInputError, match="batch 1 of producer 'p'"):
        await alance.commit_batch(dataset, twice)


async def test_batches_that_are_refused(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "t")
    first = await transaction_of(tmp_path / "t", MORE)
    whole = await transaction_of(tmp_path / "t", MORE, mode="overwrite")
    assert isinstance(whole.change, Overwrite)
    wrong: list[tuple[Any, str]] = [
        ([], "there are none"),
        ([first, whole], "expected a transaction that appends"),
        ([first, first], "one of them twice"),
        ([first.change], "expected a transaction that appends"),
    ]
    for transactions, message in wrong:
        with pytest.raises(alance.InvalidInputError, match=message):
            await alance.commit_batch(dataset, transactions)
    assert await dataset.latest_version() == 1


def test_a_batch_is_committed_without_await(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset(ROWS, tmp_path / "t")
    transaction = alance.sync.write_fragments(MORE, dataset, return_transaction=True)
    result = alance.sync.commit_batch(dataset, [transaction])
    assert isinstance(result["dataset"], alance.sync.Dataset)
    assert len(result["dataset"]) == 5

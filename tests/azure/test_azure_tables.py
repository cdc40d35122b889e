"""Tables in Azure's blob storage, written and read by pylance and by us in turn and at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import AccessError, AlreadyExistsError, NotFoundError

if TYPE_CHECKING:
    from tests.azure.conftest import Azurite

NUM_ROWS = 20_000


def rows(start: int = 0, stop: int = NUM_ROWS) -> pa.Table:
    """Numbers, texts with nulls, lists, structs, vectors."""
    result = range(start, stop)
    vectors = np.random.default_rng(start).random((len(result), 8), np.float32)
    return pa.table(
        {
            "a": pa.array(result, pa.int64()),
            "b": pa.array([None if n % 7 == 0 else f"text {n}" for n in result]),
            "c": pa.array([list(range(n % 4)) for n in result], pa.list_(pa.int32())),
            "s": pa.array([{"x": n, "y": str(n)} for n in result]),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(vectors.reshape(-1)), 8),
        }
    )


def theirs(azurite: Azurite, uri: str, version: int | None = None) -> lance.LanceDataset:
    return lance.dataset(uri, version=version, storage_options=azurite.options)


async def test_a_table_of_pylance_is_read(azurite: Azurite) -> None:
    uri, options = azurite.uri(), azurite.options

    def write() -> pa.Table:
        lance.write_dataset(rows(), uri, max_rows_per_file=6000, storage_options=options)
        lance.write_dataset(rows(NUM_ROWS, 25_000), uri, mode="append", storage_options=options)
        theirs(azurite, uri).delete("a % 10 = 3")
        return theirs(azurite, uri).to_table()

    expected = await asyncio.to_thread(write)
    dataset = await alance.dataset(uri, storage_options=options)
    assert dataset.version == 3
    assert (await dataset.to_table()).equals(expected)
    picked = [0, 17, 22_000, 5, 17]
    assert (await dataset.take(picked)).equals(expected.take(picked))
    table = await dataset.to_table(["a", "s"], filter="b is null and a > 15000")
    target = await asyncio.to_thread(
        lambda: theirs(azurite, uri).to_table(["a", "s"], filter="b is null and a > 15000")
    )
    assert table.equals(target)
    first = await alance.dataset(uri, version=1, storage_options=options)
    assert await first.count_rows() == NUM_ROWS
    assert [version.version for version in await dataset.versions()] == [1, 2, 3]


async def test_what_is_written_is_read_by_pylance(azurite: Azurite) -> None:
    uri, options = azurite.uri(), azurite.options
    dataset = await alance.write_dataset(rows(), uri, storage_options=options)
    dataset = await dataset.insert(rows(NUM_ROWS, NUM_ROWS + 500))
    dataset = await dataset.delete("a < 100")
    dataset = await dataset.update({"b": "'new'"}, where="a % 1000 = 0")
    dataset = await dataset.upsert(rows(20_400, 20_600), ["a"])
    dataset = await dataset.add_columns({"twice": "a * 2"})
    ours = (await dataset.to_table()).sort_by("a")

    def check() -> int:
        other = theirs(azurite, uri)
        other.validate()
        assert other.version == dataset.version
        assert other.to_table().sort_by("a").equals(ours)
        extra = pa.table({"a": pa.array([1, 2])})
        return lance.write_dataset(extra, uri, mode="append", storage_options=options).count_rows()

    assert await asyncio.to_thread(check) == ours.num_rows + 2
    dataset = await dataset.checkout_latest()
    assert await dataset.count_rows() == ours.num_rows + 2
    with pytest.raises(AlreadyExistsError):
        await alance.write_dataset(rows(0, 1), uri, storage_options=options)
    small = rows(0, 10)
    again = await alance.write_dataset(small, uri, mode="overwrite", storage_options=options)
    assert (await asyncio.to_thread(lambda: theirs(azurite, uri).to_table())).equals(small)
    await again.validate()


async def test_upkeep_deletes_and_drop_leaves_nothing(azurite: Azurite) -> None:
    uri, options = azurite.uri(), azurite.options
    dataset = await alance.write_dataset(rows(0, 100), uri, storage_options=options)
    for start in range(100, 500, 100):
        dataset = await dataset.insert(rows(start, start + 100))
    dataset = await dataset.delete("a % 2 = 1")
    dataset = await dataset.optimize.compact_files()
    assert len(dataset.fragments) == 1
    stats = await dataset.cleanup_old_versions(older_than=timedelta(0))
    assert stats.old_versions == dataset.version - 1

    def count() -> int:
        other = theirs(azurite, uri)
        other.validate()
        return other.count_rows()

    assert await asyncio.to_thread(count) == 250
    await alance.drop(uri, storage_options=options)
    with pytest.raises(NotFoundError):
        await alance.dataset(uri, storage_options=options)


async def test_commits_that_race_with_pylance(azurite: Azurite) -> None:
    """No row is lost, none is there twice, the versions have no gap."""
    uri, options = azurite.uri(), azurite.options
    each, ours, others = 8, 4, 2
    await alance.write_dataset(pa.table({"who": [-1], "n": [-1]}), uri, storage_options=options)

    async def append(who: int) -> None:
        async with alance.Session() as session:
            dataset = await alance.dataset(uri, storage_options=options, session=session)
            for number in range(each):
                await dataset.insert(pa.table({"who": [who], "n": [number]}), max_retries=100)

    def append_theirs(who: int) -> None:
        for number in range(each):
            lance.write_dataset(
                pa.table({"who": [who], "n": [number]}), uri, mode="append", storage_options=options
            )

    await asyncio.gather(
        *(append(who) for who in range(ours)),
        *(asyncio.to_thread(append_theirs, ours + who) for who in range(others)),
    )
    dataset = await alance.dataset(uri, storage_options=options)
    table = await dataset.to_table()
    ordered = sorted(zip(table["who"].to_pylist(), table["n"].to_pylist(), strict=True))
    values = [(who, number) for who in range(ours + others) for number in range(each)]
    assert ordered == [(-1, -1), *values]
    versions = [version.version for version in await dataset.versions()]
    assert versions == [*range(1, len(versions) + 1)]
    await asyncio.to_thread(lambda: theirs(azurite, uri).validate())


async def test_tags_and_branches(azurite: Azurite) -> None:
    uri, options = azurite.uri(), azurite.options
    dataset = await alance.write_dataset(rows(0, 10), uri, storage_options=options)
    await dataset.tags.create("first", 1)
    dataset = await dataset.insert(rows(10, 20))
    branch = await dataset.create_branch("side", 1)
    branch = await branch.insert(rows(50, 55))
    assert await branch.count_rows() == 15

    def look() -> tuple[int, int, list[str]]:
        other = theirs(azurite, uri)
        tagged = lance.dataset(uri, version="first", storage_options=options)
        other.tags.create("second", 2)
        side = other.checkout_version(("side", None))
        return tagged.count_rows(), side.count_rows(), list(other.branches.list())

    assert await asyncio.to_thread(look) == (10, 15, ["side"])
    assert set(await dataset.tags.list()) == {"first", "second"}
    again = await alance.dataset(uri, version="second", storage_options=options)
    assert await again.count_rows() == 20
    await dataset.tags.delete("first")
    with pytest.raises(NotFoundError):
        await alance.dataset(uri, version="first", storage_options=options)
    await dataset.branches.delete("side")
    assert await dataset.branches.list() == {}


async def test_a_stream_is_ingested_and_no_batch_twice(azurite: Azurite) -> None:
    uri, options = azurite.uri(), azurite.options
    schema = rows(0, 8).schema
    async with (
        alance.ingest(uri, schema, commit_rows=1000, producer="p", storage_options=options) as sink,
        asyncio.TaskGroup() as group,
    ):
        for start in range(0, 5000, 500):
            group.create_task(sink.write(rows(start, start + 500), token=str(start)))
    async with alance.ingest(uri, producer="p", storage_options=options) as sink:
        await sink.write(rows(0, 500), token="0")  # a producer that was restarted
        await sink.write(rows(5000, 5500), token="5000")

    def read() -> list[int]:
        other = theirs(azurite, uri)
        other.validate()
        return sorted(other.to_table(["a"])["a"].to_pylist())

    assert await asyncio.to_thread(read) == [*range(5500)]


async def test_names_and_uris_of_all_kinds(
    azurite: Azurite, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = rows(0, 5)
    options = azurite.options
    uri = azurite.uri("a folder/with é +#&")
    await alance.write_dataset(small, uri.replace("#", "%23"), storage_options=options)
    seen = await alance.dataset(uri.replace("#", "%23"), storage_options=options)
    assert (await seen.to_table()).equals(small)

    plain = azurite.uri()
    await alance.write_dataset(small, plain, storage_options=options)
    path = plain.removeprefix("az://lab/")
    named = {f"azure_storage_{key}": value for key, value in options.items() if key != "allow_http"}
    named = {key.upper(): value for key, value in named.items()}
    text = f"abfss://lab@{options['account_name']}.dfs.core.windows.net/{path}"
    for candidate in (plain, text):
        seen = await alance.dataset(candidate, storage_options={**named, "allow_http": "true"})
        assert await seen.count_rows() == 5
    for key, value in named.items():
        monkeypatch.setenv(key, value)
    seen = await alance.dataset(plain, storage_options={"allow_http": "true"})
    assert await seen.count_rows() == 5


async def test_a_wrong_key_is_told_without_showing_it(azurite: Azurite) -> None:
    wrong = {**azurite.options, "account_key": "d3Jvbmcga2V5IQ=="}
    with pytest.raises(AccessError) as caught:
        await alance.dataset(azurite.uri(), storage_options=wrong)
    assert "d3Jvbmcga2V5IQ" not in str(caught.value)
    with pytest.raises(AccessError):
        await alance.write_dataset(rows(0, 1), azurite.uri(), storage_options=wrong)


async def test_a_missing_container_is_told(azurite: Azurite) -> None:
    with pytest.raises(NotFoundError):
        await alance.dataset("az://nowhere/table", storage_options=azurite.options)
    with pytest.raises(NotFoundError, match="no such bucket"):
        await alance.write_dataset(
            rows(0, 1), "az://nowhere/table", storage_options=azurite.options
        )

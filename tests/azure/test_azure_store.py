"""Single objects in Azure's blob storage: its behaviour, and the requests that we send."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.io.opening.registry import StoreRegistry
from tests.reference.creators import check_single_winner
from tests.simulation.append_rules import append
from tests.versioning.conftest import Committer

if TYPE_CHECKING:
    from alance.io.stores.store import Store
    from tests.azure.conftest import Azurite

PART = 1 << 20
CONTENT = np.random.default_rng(4).bytes(PART * 5 + 100)


def opened(azurite: Azurite, part_bytes: int | None = None) -> tuple[Store, str]:
    """A store of its own, with parts of this size, and a folder."""
    store, folder = StoreRegistry().open(azurite.uri(), storage_options=azurite.options)
    if part_bytes is not None:
        small: Any = replace(
            store.profile, part_bytes=part_bytes, upload_buffer_bytes=5 * part_bytes
        )
        store.profile = small  # type: ignore[misc]
    return store, folder


async def listed(store: Store, folder: str) -> list[tuple[str, int]]:
    return [(item.path.rpartition("/")[2], item.num_bytes) async for item in store.list(folder)]


async def test_it_is_fit_for_everything(azurite: Azurite) -> None:
    with azurite.recording() as seen:
        report = await alance.check_store(azurite.uri(), storage_options=azurite.options)
    assert not report.failures, str(report)
    assert 80 < len(seen) < 160


async def test_one_of_many_creators_wins(azurite: Azurite) -> None:
    store, folder = opened(azurite)
    for number in range(30):
        await check_single_winner(store, f"{folder}/{number}", 8)


async def test_uploads_go_in_blocks(azurite: Azurite) -> None:
    store, folder = opened(azurite, PART)
    with azurite.recording() as seen:
        async with store.open_upload(f"{folder}/a") as sink:
            for start in range(0, len(CONTENT), 300_000):
                await sink.write(CONTENT[start : start + 300_000])
            assert await listed(store, folder) == []
            assert await sink.finish() == len(CONTENT)
    assert sum("comp=block&" in item for item in seen) == 6
    assert sum("comp=blocklist" in item for item in seen) == 1
    assert await store.get(f"{folder}/a") == CONTENT
    assert await listed(store, folder) == [("a", len(CONTENT))]
    tail, size = await store.get_tail(f"{folder}/a", 10)
    assert (bytes(tail), size) == (CONTENT[-10:], len(CONTENT))


async def test_an_upload_that_fails_leaves_nothing(azurite: Azurite) -> None:
    store, folder = opened(azurite, PART)

    async def fail() -> None:
        async with store.open_upload(f"{folder}/a") as sink:
            await sink.write(CONTENT)
            raise KeyError

    with pytest.raises(KeyError):
        await fail()
    assert await listed(store, folder) == []
    for turns in range(0, 60, 4):
        task = asyncio.create_task(store.put(f"{folder}/{turns}", CONTENT))
        sending = asyncio.create_task(_send(store, f"{folder}/up-{turns}"))
        await asyncio.sleep(turns / 1000)
        task.cancel()
        sending.cancel()
        await asyncio.gather(task, return_exceptions=True)
        done = await asyncio.gather(sending, return_exceptions=True)
        names = [name for name, _ in await listed(store, folder)]
        assert (f"up-{turns}" in names) == (done == [None])


async def _send(store: Store, path: str) -> None:
    async with store.open_upload(path) as sink:
        await sink.write(CONTENT)
        await sink.finish()


async def test_a_large_file_is_uploaded_in_blocks(azurite: Azurite) -> None:
    table = pa.table({name: np.random.default_rng(1).random(1_000_000) for name in "uvw"})
    uri = azurite.uri()
    with azurite.recording() as seen:
        await alance.write_dataset(table, uri, storage_options=azurite.options)
    assert sum("comp=block&" in item for item in seen) == 3  # 24 MB in parts of 8 MiB
    read = await asyncio.to_thread(lance.dataset, uri, storage_options=azurite.options)
    assert (await asyncio.to_thread(read.to_table)).equals(table)


async def test_listings_have_an_order_and_a_start(azurite: Azurite) -> None:
    store, folder = opened(azurite)
    names = [f"{number:05}" for number in np.random.default_rng(2).permutation(60)]
    await asyncio.gather(*(store.put(f"{folder}/{name}", b"x") for name in names))
    assert [name for name, _ in await listed(store, folder)] == sorted(names)
    items = store.list(folder, start_after=f"{folder}/00030")
    assert [item.path.rpartition("/")[2] async for item in items] == sorted(names)[31:]


async def test_reads_ask_for_no_more_than_on_s3(azurite: Azurite) -> None:
    """The size of a data file is in the manifest: no HEAD, though there are no suffix ranges."""
    uri, options = azurite.uri(), azurite.options
    table = pa.table({"a": range(50_000), "b": [f"text {n}" for n in range(50_000)]})
    await asyncio.to_thread(lance.write_dataset, table, uri, storage_options=options)
    for _ in range(12):
        await asyncio.to_thread(
            lance.write_dataset, table[:10], uri, mode="append", storage_options=options
        )
    async with alance.Session() as session:
        with azurite.recording() as seen:
            dataset = await alance.dataset(uri, storage_options=options, session=session)
        assert [item.partition("?")[0].split()[0] for item in seen] == ["GET", "GET"]
        assert "comp=list" in seen[0]
        assert seen[1].endswith(f"{(1 << 64) - 1 - 13}.manifest")
        with azurite.recording() as seen:
            await dataset.take([40_000])
        assert 1 <= len(seen) <= 4
        assert all(item.startswith("GET ") and "comp=" not in item for item in seen)
        with azurite.recording() as seen:
            await dataset.take([123])
        assert 1 <= len(seen) <= 2
        with azurite.recording() as seen:
            assert await dataset.count_rows("a < 10") == 130
        assert all(item.startswith("GET ") and "comp=" not in item for item in seen)
        assert len(seen) <= 2 * 13
    (path, *_) = dataset.fragments[0].metadata.files
    with azurite.recording() as seen:
        async with alance.Session() as session:
            file = f"{uri}/data/{path.path}"
            reader = await alance.FileReader.open(file, storage_options=options, session=session)
            assert reader.num_rows == 50_000
    assert [item.split()[0] for item in seen] == ["HEAD", "GET"]


async def test_commits_of_two_that_know_one_version(azurite: Azurite) -> None:
    """A commit that was told that its manifest exists settles it by reading, and goes on."""
    built = Committer.of(azurite.uri(), storage_options=azurite.options)
    first = await built.create()
    transactions = [append(1, [f"n{number}"]) for number in range(6)]
    await asyncio.gather(*(built.run(first, transaction) for transaction in transactions))
    again = await built.run(first, transactions[3])  # the same once more: it has landed
    assert again.version <= 7
    assert sorted(await built.paths()) == [f"n{number}" for number in range(6)]
    await built.aclose()

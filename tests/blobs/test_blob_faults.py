"""Writers of blobs that fail or are cancelled leave no object behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import lance
import pytest

import alance
from alance import BlobOptions, StoreError
from alance.versioning.outcome import may_be_visible
from tests.blobs.blob_tables import SMALL, contents, files_of, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

FIRST = [b"first", b"f" * 50]
VALUES = [b"a" * 5, b"b" * 50, b"c" * 200, None, b"d" * 90, *(b"e" * 150,) * 6]
WHOLE = len(table_of(VALUES))


def unnamed(folder: Path) -> list[Path]:
    """Files of rows and blobs that no version of a table names."""
    named = set()
    for version in lance.dataset(folder).versions():
        table = lance.dataset(folder, version=version["version"])
        for fragment in table.get_fragments():
            named.update(file.path.removesuffix(".lance") for file in fragment.data_files())
    data = folder / "data"
    return [
        path
        for path in files_of(data)
        if (path.stem if path.parent == data else path.parent.name) not in named
    ]


async def check_no_orphans(folder: Path) -> None:
    """Check that no orphan remains once the requests under way have ended."""
    for _ in range(200):
        if not unnamed(folder):
            return
        await asyncio.sleep(0.02)
    assert unnamed(folder) == []


async def test_cancelled_on_local_disk(tmp_path: Path) -> None:
    where = tmp_path / "t"
    dataset = await alance.write_dataset(table_of(FIRST), where)
    done = 0
    for turn in range(0, 60, 3):
        task = asyncio.ensure_future(dataset.insert(table_of(VALUES)))
        for _ in range(turn):
            await asyncio.sleep(0.0003)
        task.cancel()
        (result,) = await asyncio.gather(task, return_exceptions=True)
        done += not isinstance(result, BaseException)
        await check_no_orphans(where)
    count = lance.dataset(where).count_rows() - len(FIRST)
    assert count % WHOLE == 0
    assert count >= done * WHOLE
    assert contents(where) == FIRST + VALUES * (count // WHOLE)


@pytest.mark.parametrize("verb", ["insert", "update", "compact"])
async def test_cancelled_on_a_store(lab: Lab, tmp_path: Path, verb: str) -> None:
    uri, options = f"s3://lab/cancelled-{verb}", lab.lance_options()
    folder = lab.root / "lab" / f"cancelled-{verb}"
    dataset = await alance.write_dataset(table_of(FIRST), uri, storage_options=options)
    dataset = await dataset.insert(table_of(FIRST))
    lab.config(latency_ms=2)
    for turn in range(0, 60, 5):
        calls = {
            "insert": lambda at: at.insert(table_of(VALUES)),
            "update": lambda at: at.update({"id": "id + 10"}),
            "compact": lambda at: at.optimize.compact_files(),
        }
        is_open = []

        async def attempt(call: Any = calls[verb], is_open: list[bool] = is_open) -> None:
            try:
                await call(dataset)
            except BaseException as error:
                is_open.append(may_be_visible(error))
                raise

        task = asyncio.ensure_future(attempt())
        for _ in range(turn):
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if any(is_open):
            break  # its files stay: the version may be made yet
        await check_no_orphans(folder)
        if verb == "compact" and lance.dataset(folder).version > 2:
            break
    assert contents(folder)[: len(FIRST)] == FIRST


@pytest.mark.parametrize("key", [r"1.*\.blob$", r"01.*\.blob$", r"\.lance$", r"\.manifest$"])
async def test_a_store_that_refuses(lab: Lab, key: str) -> None:
    name = f"refused-{abs(hash(key))}"
    uri, options = f"s3://lab/{name}", lab.lance_options()
    folder = lab.root / "lab" / name
    dataset = await alance.write_dataset(table_of(FIRST), uri, storage_options=options)
    lab.config(faults=[{"method": "PUT", "key": key, "action": "status", "status": 403}])
    with pytest.raises(StoreError):
        await dataset.insert(table_of(VALUES))
    await check_no_orphans(folder)
    lab.calm()
    await dataset.insert(table_of(VALUES))
    assert contents(folder) == FIRST + VALUES


async def test_a_store_with_hiccups(lab: Lab) -> None:
    uri, options = "s3://lab/hiccups", lab.lance_options()
    lab.config(faults=[{"p": 0.3, "action": "status", "status": 503, "key": "blob"}])
    dataset = await alance.write_dataset(table_of(VALUES), uri, storage_options=options)
    blobs = await dataset.read_blobs("b", indices=range(len(VALUES)))
    assert [item for _, item in blobs] == VALUES
    lab.calm()
    assert contents(lab.root / "lab" / "hiccups") == VALUES


async def test_an_object_to_copy_that_is_not_there(tmp_path: Path) -> None:
    options = BlobOptions(external_blob_mode="ingest")
    data = table_of([b"b" * 50, b"c" * 200, f"file://{tmp_path}/missing.bin"], SMALL)
    with pytest.raises(alance.NotFoundError):
        await alance.write_dataset(data, tmp_path / "t", blobs=options)
    assert files_of(tmp_path) == []

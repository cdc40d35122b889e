"""The disk cache: what it learns of files, whose files they are, other processes."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance.errors import InvalidInputError
from alance.io.caches import disk_cache
from alance.io.caches.disk_cache import DiskCache
from alance.io.caches.disk_store import DiskStore
from alance.io.opening.registry import StoreRegistry
from alance.session import Session
from tests.io.disk_files import MIB, damage, files_of

if TYPE_CHECKING:
    from alance.testing.lab import Lab


@pytest.fixture
def lab_cache(lab: Lab, tmp_path: Path) -> DiskCache:
    registry = StoreRegistry()
    registry.open("s3://lab/", storage_options=lab.lance_options())
    return DiskCache(DiskStore(tmp_path / "cache", MIB), registry)


FILE = "s3://lab/data/a.lance"


async def test_ranges_of_a_file_are_found_by_the_next_process(
    lab_cache: DiskCache, lab: Lab, tmp_path: Path
) -> None:
    lab_cache.put(FILE, 0, 3, memoryview(b"not recalled, not kept"))
    await lab_cache.recall([(FILE, 100)])
    lab_cache.put(FILE, 0, 3, memoryview(b"wrong size"))
    lab_cache.put(FILE, 0, 3, memoryview(b"abc"))
    lab_cache.put(FILE, 90, 100, memoryview(bytes(10)))
    lab_cache.put(FILE, 80, 100, memoryview(bytes(20)))
    await lab_cache.flush()
    registry = StoreRegistry()
    registry.open("s3://lab/", storage_options={**lab.lance_options(), "region": "eu-west-1"})
    registry.open("s3://lab/", storage_options=lab.lance_options())
    for root in ("s3://lab/", "s3://lab#2/"):
        again = DiskCache(DiskStore(tmp_path / "cache", MIB), registry)
        path = FILE.replace("s3://lab/", root)
        await again.recall([(path, 100), (path + "2", 100)])
        assert again.get(path, 0, 3) == b"abc"
        assert again.get(path, 0, 4) is None
        assert again.tail(path) == bytes(20)
        assert again.tail(path + "2") is None
        await again.recall([(path, 101)])  # another file by the same name
        assert again.get(path, 0, 3) is None


async def test_ranges_learned_in_two_processes_are_both_kept(
    lab_cache: DiskCache, tmp_path: Path
) -> None:
    other = DiskCache(DiskStore(tmp_path / "cache", MIB), lab_cache._registry)
    for item, span in ((lab_cache, (0, 3)), (other, (3, 6))):
        await item.recall([(FILE, 100)])
        item.put(FILE, *span, memoryview(b"abc"))
    await lab_cache.flush()
    await other.flush()
    assert len(DiskStore(tmp_path / "cache", MIB).load(lab_cache._held[FILE].key)) == 2


async def test_a_flush_while_a_write_is_just_ending_ends(lab_cache: DiskCache) -> None:
    writing = asyncio.get_running_loop().create_future()
    writing.add_done_callback(lab_cache._saved)
    lab_cache._saving = writing
    writing.set_result(None)  # its callback is called in the loop's next turn
    await lab_cache.flush()
    assert lab_cache._saving is None


async def test_objects_are_told_apart_by_their_entity(lab_cache: DiskCache) -> None:
    lab_cache.keep(FILE, "one", memoryview(b"first"))
    lab_cache.keep(FILE, "two", memoryview(b"second"))
    for _ in range(2):  # before they are written, and after
        assert await lab_cache.read(FILE, "one") == b"first"
        assert await lab_cache.read(FILE, "two") == b"second"
        assert await lab_cache.read(FILE, "three") is None
        await lab_cache.flush()
    lab_cache.drop(FILE, "one")
    assert await lab_cache.read(FILE, "one") is None
    assert await lab_cache.read(FILE, "two") == b"second"


async def test_a_file_that_makes_no_sense_is_dropped(lab_cache: DiskCache) -> None:
    await lab_cache.recall([(FILE, 100)])
    lab_cache.put(FILE, 0, 3, memoryview(b"abc"))
    await lab_cache.flush()
    lab_cache.discard(FILE)
    assert lab_cache.get(FILE, 0, 3) is None
    await lab_cache.recall([(FILE, 100)])
    assert lab_cache.get(FILE, 0, 3) is None


async def test_memory_of_recalled_files_is_bounded(
    lab_cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "RECALLED_BYTES", 10_000)
    for number in range(50):
        await lab_cache.recall([(f"{FILE}{number}", 5000)])
        lab_cache.put(f"{FILE}{number}", 0, 1000, memoryview(bytes(1000)))
        assert lab_cache._held_bytes == sum(value.num_bytes for value in lab_cache._held.values())
        assert lab_cache._held_bytes < 12_000
    await lab_cache.flush()
    await lab_cache.recall([(f"{FILE}0", 5000)])
    assert lab_cache.get(f"{FILE}0", 0, 1000) == bytes(1000)


async def test_what_is_learned_is_written_by_and_by(
    lab_cache: DiskCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, written, write = asyncio.get_running_loop(), asyncio.Event(), disk_cache._save_all

    def save(*arguments: Any) -> None:
        write(*arguments)
        loop.call_soon_threadsafe(written.set)

    monkeypatch.setattr(disk_cache, "_save_all", save)
    monkeypatch.setattr(disk_cache, "NEXT_WRITE_S", 0.01)
    await lab_cache.recall([(FILE, 100)])
    for number in range(3):
        lab_cache.put(FILE, number, number + 1, memoryview(b"a"))
        await written.wait()
        written.clear()
        loaded = DiskStore(tmp_path / "cache", MIB).load(lab_cache._held[FILE].key)
        assert len(loaded) == number + 1


def test_places_know_the_server_and_no_secret(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = StoreRegistry()

    def place(uri: str, **options: object) -> str | None:
        return registry.open(uri, storage_options=options or None)[0].lasting_name()

    secret = {"access_key_id": "AKID", "secret_access_key": "hush", "session_token": "tok"}
    first = place("s3://b/x", endpoint="http://one", **secret)
    assert first is not None
    assert first == place("s3://b/y", endpoint="http://one", region="eu-west-1")
    assert first != place("s3://b/x", endpoint="http://two", **secret)
    assert first != place("s3://c/x", endpoint="http://one", **secret)
    assert not any(word in first for word in ("AKID", "hush", "tok"))
    bare = place("s3://b/x", region="us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://three")
    assert bare not in (first, place("s3://b/x", region="us-east-1"))
    gcs = place("gs://b/x", **lab.gcs_options())
    assert gcs is not None
    assert lab.endpoint in gcs
    assert "private_key" not in gcs
    azure = place("az://b/x", account_name="me", account_key="QUJD")
    assert azure is not None
    assert "QUJD" not in azure
    assert azure != place("az://b/x", account_name="you", account_key="QUJD")
    assert place("http://h:1/x") != place("http://h:2/x")
    assert place(str(tmp_path)) is None
    assert place("memory://a/b") is None


WORKER = textwrap.dedent(
    """
    import asyncio, json, os, random, sys
    import alance

    async def main():
        uri, folder, options, seed, enough = json.loads(sys.argv[1])
        chosen, served, number = random.Random(seed), 0, 0
        while number < 25 or not served or not os.path.exists(enough):
            number += 1
            async with alance.Session(
                cache_dir=folder, cache_dir_bytes=400_000, decode_threads=1
            ) as session:
                with alance.trace() as recorder:
                    dataset = await alance.dataset(uri, storage_options=options, session=session)
                served += recorder.num_requests == 1  # the LIST
                rows = sorted(chosen.sample(range(4000), 5))
                table = await dataset.take(rows)
                assert table["x"].to_pylist() == rows, rows
                assert table["text"].to_pylist() == [f"row {n} " + "z" * (n % 300) for n in rows]
                assert table["items"].to_pylist() == [[n] * (n % 4) for n in rows], rows
        assert served < number
        print("all right")

    asyncio.run(main())
    """
)


def test_processes_share_a_folder_that_is_damaged_all_the_time(lab: Lab, tmp_path: Path) -> None:
    rows = 4000
    path = Path(lab.root) / "lab" / "shared.lance"
    numbers = range(rows)
    table = pa.table(
        {
            "x": pa.array(numbers),
            "text": [f"row {n} " + "z" * (n % 300) for n in numbers],
            "items": pa.array([[n] * (n % 4) for n in numbers]),
        }
    )
    lance.write_dataset(table, path, max_rows_per_file=rows // 4)
    lab.rescan()
    folder, enough = tmp_path / "cache", tmp_path / "enough"
    command = [sys.executable, "-W", "error", "-c", WORKER]
    place = ["s3://lab/shared.lance", str(folder), lab.lance_options()]
    workers = [
        subprocess.Popen(
            [*command, json.dumps([*place, n, str(enough)])],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for n in range(3)
    ]
    chosen = random.Random(1)
    damaged = 0
    while any(worker.poll() is None for worker in workers):
        files = files_of(folder)
        for item in chosen.sample(files, min(1, len(files))):
            damage(item, chosen, chosen.choice(["flip", "flip", "cut", "grow", "remove"]))
            damaged += 1
            if damaged == 20:
                enough.touch()
        time.sleep(0.005)
    values = [worker.communicate()[0] for worker in workers]
    assert values == ["all right\n"] * len(workers)
    assert damaged >= 20
    assert DiskStore(folder, 0).num_bytes() <= 400_000 * 9 // 8
    shutil.rmtree(path)
    lab.rescan()


async def test_sessions_refuse_a_negative_bound(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cache_dir_bytes=-1"):
        Session(cache_dir=tmp_path, cache_dir_bytes=-1)

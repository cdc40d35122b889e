"""The disk cache: its store against a dict, against damage, and against other processes."""

from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alance.errors import InvalidInputError
from alance.io import disk_cache, disk_store
from alance.io.disk_cache import DiskCache
from alance.io.disk_place import place_of
from alance.io.disk_store import BLOCK, DiskStore
from alance.io.registry import StoreRegistry
from alance.session import Session

if TYPE_CHECKING:
    from alance.testing.lab import Lab

MIB = 1 << 20


def key(name: object) -> bytes:
    return hashlib.sha256(str(name).encode()).digest()


def content(name: object, start: int, stop: int) -> memoryview:
    """Bytes that are the same in every process."""
    return memoryview(random.Random(f"{name} {start} {stop}").randbytes(stop - start))


def files_of(folder: Path) -> list[Path]:
    return [one for one in folder.rglob("*") if one.is_file()]


class Folder(RuleBasedStateMachine):
    """A store is a dict that may forget, but never tells anything wrong."""

    names = st.integers(0, 9)
    spans = st.lists(st.sampled_from([(0, 10), (0, 4000), (10, 30), (5, 5), (7, 9_000)]))

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.known: dict[int, set[tuple[int, int]]] = {}
        self.stores: list[DiskStore] = []
        self.forgets = False

    @initialize(max_bytes=st.sampled_from([30 * BLOCK, MIB]))
    def begin(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.stores = [DiskStore(self.folder / "cache", max_bytes) for _ in range(2)]
        self.forgets = max_bytes < MIB

    @rule(store=st.integers(0, 1), name=names, spans=spans)
    def save(self, store: int, name: int, spans: list[tuple[int, int]]) -> None:
        self.stores[store].save(key(name), {span: content(name, *span) for span in spans})
        self.known.setdefault(name, set()).update(spans)

    @rule(store=st.integers(0, 1), name=names)
    def load(self, store: int, name: int) -> None:
        found = self.stores[store].load(key(name))
        assert all(part == content(name, *span) for span, part in found.items())
        assert all(part.readonly for part in found.values())
        known = self.known.get(name, set())
        assert set(found) <= known if self.forgets else set(found) == known

    @rule(store=st.integers(0, 1), name=names)
    def discard(self, store: int, name: int) -> None:
        self.stores[store].discard(key(name))
        self.known.pop(name, None)

    @rule(store=st.integers(0, 1))
    def clear(self, store: int) -> None:
        self.stores[store].clear()
        self.known.clear()

    @rule(chosen=st.randoms(use_true_random=False), how=st.sampled_from(["flip", "cut", "grow"]))
    def damage(self, chosen: random.Random, how: str) -> None:
        files = sorted(files_of(self.folder))
        if files:
            damage(chosen.choice(files), chosen, how)
            self.forgets = True

    @invariant()
    def bounded(self) -> None:
        if self.stores:
            assert self.stores[0].num_bytes() <= self.max_bytes
            assert self.stores[0].can_write

    def teardown(self) -> None:
        shutil.rmtree(self.folder)


TestFolder = Folder.TestCase
TestFolder.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def damage(path: Path, chosen: random.Random, how: str) -> None:
    """Change a file as disks and crashes do; it may be gone meanwhile."""
    try:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            at = chosen.randrange(max(1, size))
            if how == "cut":
                file.truncate(at)
            elif how == "grow":
                file.seek(size)
                file.write(b"more")
            elif how == "flip":
                file.seek(at)
                old = file.read(1)
                file.seek(at)
                file.write(bytes([(old or b"\0")[0] ^ chosen.randrange(1, 256)]))
            else:
                path.unlink()
    except FileNotFoundError:
        pass


@pytest.fixture
def store(tmp_path: Path) -> DiskStore:
    return DiskStore(tmp_path / "cache", MIB)


def test_every_damaged_byte_is_noticed_and_the_file_removed(
    store: DiskStore, tmp_path: Path
) -> None:
    ranges = {(0, 20): content("a", 0, 20), (30, 33): content("a", 30, 33), (4, 4): memoryview(b"")}
    store.save(key("a"), ranges)
    (path,) = files_of(tmp_path)
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert store.load(key("a")) == {}
        assert not path.exists()
        path.write_bytes(whole[:at])
        assert store.load(key("a")) == {}
    path.write_bytes(whole)
    assert store.load(key("a")) == ranges


def test_a_file_in_the_place_of_another_is_noticed(store: DiskStore, tmp_path: Path) -> None:
    store.save(key("a"), {(0, 9): content("a", 0, 9)})
    (first,) = files_of(tmp_path)
    copy = first.read_bytes()
    store.save(key("b"), {(0, 9): content("b", 0, 9)})
    (second,) = set(files_of(tmp_path)) - {first}
    second.write_bytes(copy)
    assert store.load(key("b")) == {}


def test_the_bound_holds_and_the_oldest_go_first(store: DiskStore, tmp_path: Path) -> None:
    size = 30_000
    for number in range(100):
        store.save(key(number), {(0, size): content(number, 0, size)})
        assert store.num_bytes() <= MIB
        for path in files_of(tmp_path):  # all have been used for the last time an hour ago or so
            about = path.stat()
            os.utime(path, (about.st_atime, about.st_mtime - 60))
        assert store.load(key(0))  # used again and again
    assert store.num_bytes() > MIB // 2
    assert store.load(key(99))
    assert not store.load(key(1))


def test_too_large_an_object_is_not_kept(store: DiskStore) -> None:
    store.save(key("a"), {(0, MIB // 4): content("a", 0, MIB // 4)})
    assert store.load(key("a")) == {}
    half = MIB // 16 - BLOCK
    for number in range(4):
        span = (number * half, (number + 1) * half)
        store.save(key("a"), {span: content("a", *span)})
    assert (3 * half, 4 * half) in store.load(key("a"))
    assert store.num_bytes() <= store.max_object_bytes


def test_a_budget_of_nothing_keeps_nothing(tmp_path: Path) -> None:
    store = DiskStore(tmp_path, 0)
    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    assert store.load(key("a")) == {}
    assert not files_of(tmp_path)


def test_rights_are_the_owners_only(store: DiskStore, tmp_path: Path) -> None:
    for _ in range(2):
        store.save(key("a"), {(0, 3): memoryview(b"abc")})
        for path in (tmp_path / "cache").rglob("*"):
            assert path.stat().st_mode & 0o077 == 0
        assert (tmp_path / "cache").stat().st_mode & 0o077 == 0
        shutil.rmtree(tmp_path / "cache")  # it is made again


@pytest.mark.parametrize("how", ["others write", "a link", "a file", "another owner"])
def test_a_folder_that_is_not_our_own_is_not_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    folder = tmp_path / "v1"
    match how:
        case "others write":
            folder.mkdir()
            folder.chmod(0o777)
        case "a link":
            (tmp_path / "target").mkdir(mode=0o700)
            folder.symlink_to(tmp_path / "target")
        case "a file":
            folder.write_text("mine")
        case _:
            monkeypatch.setattr(os, "geteuid", lambda: 12345)
    store = DiskStore(tmp_path, MIB)
    for _ in range(2):
        store.save(key("a"), {(0, 3): memoryview(b"abc")})
        assert store.load(key("a")) == {}
    assert len(caplog.records) == 1
    assert "disk cache" in caplog.text


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_full_or_read_only_disk_is_told_once_and_still_read(
    store: DiskStore,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
) -> None:
    store.save(key("a"), {(0, 3): memoryview(b"abc")})

    def refuse(*_: object, **__: object) -> int:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(disk_store.os, "open", refuse)
    for _ in range(3):
        store.save(key("b"), {(0, 3): memoryview(b"abc")})
    assert len(caplog.records) == 1
    assert store.load(key("a")) == {(0, 3): b"abc"}
    assert store.load(key("b")) == {}
    assert len(files_of(tmp_path)) == 1


def test_a_disk_that_fails_while_it_is_written_leaves_no_part(
    store: DiskStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    monkeypatch.setattr(Path, "replace", fail)
    store.save(key("b"), {(0, 3): memoryview(b"abc")})
    assert len(files_of(tmp_path)) == 1


def test_what_processes_that_died_left_is_removed(store: DiskStore, tmp_path: Path) -> None:
    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    old, young = tmp_path / "cache/v1/1-a.tmp", tmp_path / "cache/v1/2-b.tmp"
    for path in (old, young):
        path.write_bytes(b"part")
    os.utime(old, (1, 1))
    assert store.num_bytes() == 2 * BLOCK
    assert young.exists()
    assert not old.exists()


def test_a_folder_removed_meanwhile_is_made_again(store: DiskStore, tmp_path: Path) -> None:
    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    shutil.rmtree(tmp_path / "cache")
    assert store.load(key("a")) == {}
    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    assert store.load(key("a")) == {(0, 3): b"abc"}
    assert store.can_write


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
    for one, span in ((lab_cache, (0, 3)), (other, (3, 6))):
        await one.recall([(FILE, 100)])
        one.put(FILE, *span, memoryview(b"abc"))
    await lab_cache.flush()
    await other.flush()
    assert len(DiskStore(tmp_path / "cache", MIB).load(lab_cache._held[FILE].key)) == 2


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
    monkeypatch.setattr(disk_cache, "HELD_BYTES", 10_000)
    for number in range(50):
        await lab_cache.recall([(f"{FILE}{number}", 5000)])
        lab_cache.put(f"{FILE}{number}", 0, 1000, memoryview(bytes(1000)))
        assert lab_cache._held_bytes == sum(one.num_bytes for one in lab_cache._held.values())
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
    monkeypatch.setattr(disk_cache, "LATER_S", 0.01)
    await lab_cache.recall([(FILE, 100)])
    for number in range(3):
        lab_cache.put(FILE, number, number + 1, memoryview(b"a"))
        await written.wait()
        written.clear()
        found = DiskStore(tmp_path / "cache", MIB).load(lab_cache._held[FILE].key)
        assert len(found) == number + 1


def test_places_know_the_server_and_no_secret(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = StoreRegistry()

    def place(uri: str, **options: object) -> str | None:
        return place_of(registry.open(uri, storage_options=options or None)[0])

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
    import asyncio, json, random, sys
    import alance

    async def main():
        uri, folder, options, seed = json.loads(sys.argv[1])
        chosen, served = random.Random(seed), 0
        for number in range(25):
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
        assert 0 < served < 25
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
    folder = tmp_path / "cache"
    command = [sys.executable, "-W", "error", "-c", WORKER]
    workers = [
        subprocess.Popen(
            [*command, json.dumps(["s3://lab/shared.lance", str(folder), lab.lance_options(), n])],
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
        for one in chosen.sample(files, min(1, len(files))):
            damage(one, chosen, chosen.choice(["flip", "flip", "cut", "grow", "remove"]))
            damaged += 1
        time.sleep(0.005)
    said = [worker.communicate()[0] for worker in workers]
    assert said == ["all right\n"] * len(workers)
    assert damaged > 20
    assert DiskStore(folder, 0).num_bytes() <= 400_000 * 9 // 8
    shutil.rmtree(path)
    lab.rescan()


async def test_sessions_refuse_a_negative_bound(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="cache_dir_bytes=-1"):
        Session(cache_dir=tmp_path, cache_dir_bytes=-1)

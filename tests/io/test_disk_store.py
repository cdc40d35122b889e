"""The disk cache's store: against a dict, against damage, full disks and folders of others."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from alance.io.caches import disk_store
from alance.io.caches.disk_store import DISK_BLOCK_BYTES, DiskStore
from tests.io.disk_files import MIB, content, damage, files_of, key

if TYPE_CHECKING:
    import random


class Folder(RuleBasedStateMachine):
    """A store is a dict that may forget, but never tells anything wrong."""

    names = st.integers(0, 9)
    spans = st.lists(st.sampled_from([(0, 10), (0, 4000), (10, 30), (5, 5), (7, 9_000)]))

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.saved: dict[int, set[tuple[int, int]]] = {}
        self.stores: list[DiskStore] = []
        self.forgets = False

    @initialize(max_bytes=st.sampled_from([30 * DISK_BLOCK_BYTES, MIB]))
    def begin(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.stores = [DiskStore(self.folder / "cache", max_bytes) for _ in range(2)]
        self.forgets = max_bytes < MIB

    @rule(store=st.integers(0, 1), name=names, spans=spans)
    def save(self, store: int, name: int, spans: list[tuple[int, int]]) -> None:
        self.stores[store].save(key(name), {span: content(name, *span) for span in spans})
        self.saved.setdefault(name, set()).update(spans)

    @rule(store=st.integers(0, 1), name=names)
    def load(self, store: int, name: int) -> None:
        loaded = self.stores[store].load(key(name))
        assert all(part == content(name, *span) for span, part in loaded.items())
        assert all(part.readonly for part in loaded.values())
        row = self.saved.get(name, set())
        assert set(loaded) <= row if self.forgets else set(loaded) == row

    @rule(store=st.integers(0, 1), name=names)
    def discard(self, store: int, name: int) -> None:
        self.stores[store].discard(key(name))
        self.saved.pop(name, None)

    @rule(store=st.integers(0, 1))
    def clear(self, store: int) -> None:
        self.stores[store].clear()
        self.saved.clear()

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
TestFolder.settings = settings(max_examples=40, stateful_step_count=25)


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
    half = MIB // 16 - DISK_BLOCK_BYTES
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
    assert store.num_bytes() == 2 * DISK_BLOCK_BYTES
    assert young.exists()
    assert not old.exists()


def test_a_folder_removed_meanwhile_is_made_again(store: DiskStore, tmp_path: Path) -> None:
    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    shutil.rmtree(tmp_path / "cache")
    assert store.load(key("a")) == {}
    store.save(key("a"), {(0, 3): memoryview(b"abc")})
    assert store.load(key("a")) == {(0, 3): b"abc"}
    assert store.can_write

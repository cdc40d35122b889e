"""Uploads to every kind of store: what arrives, what is held, and that the rest leaves no trace."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import InvalidInputError, NotFoundError, UnsupportedError
from alance.io.cloud import upload_remote
from alance.io.cloud.upload_remote import part_size
from alance.io.disk import upload_local
from alance.io.stores import upload
from alance.io.stores.memory import MemoryStore

if TYPE_CHECKING:
    from alance.io.stores.store import Store
    from tests.io.conftest import Place

PART = 64 << 10
CONTENT = np.random.default_rng(7).bytes(PART * 40)


@pytest.fixture(autouse=True)
def _small_parts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    small: Any = replace(place.store.profile, part_bytes=PART, upload_buffer_bytes=5 * PART)
    monkeypatch.setattr(place.store, "profile", small)
    monkeypatch.setattr(upload_local, "WRITE_JOB_BYTES", PART)
    monkeypatch.setattr(upload, "COPIED_WRITE_BYTES", PART // 4)
    monkeypatch.setattr(upload, "WRITE_BLOCK_BYTES", PART // 2)


def local_names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*"))


async def names(place: Place) -> list[str]:
    """All there is under the place; of a local one also what a listing hides."""
    if place.store.profile.kind == "local":
        return local_names(Path("/" + place.folder))
    items = place.store.list(place.folder)
    return [meta.path.removeprefix(place.folder + "/") async for meta in items]


async def send(store: Store, path: str, content: bytes, step: int) -> tuple[int, int]:
    view = memoryview(content)
    async with store.open_upload(path) as sink:
        for start in range(0, len(content), step):
            await sink.write(view[start : start + step])
        return await sink.finish(), sink.peak_bytes


@pytest.mark.parametrize("step", [1000, PART - 1, 3 * PART])
@pytest.mark.parametrize("size", [0, 1, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 5])
async def test_what_was_written_is_read(place: Place, size: int, step: int) -> None:
    assert (await send(place.store, place.path("x/a"), CONTENT[:size], step))[0] == size
    assert bytes(await place.store.get(place.path("x/a"))) == CONTENT[:size]
    assert await names(place) in (["x/a"], ["x"])


async def test_buffers_of_all_kinds_are_taken_in_order(place: Place) -> None:
    parts = [b"ab", bytearray(b"cd"), memoryview(b"ef"), np.arange(6, dtype=np.uint8), b""]
    big = np.frombuffer(CONTENT, np.uint8).reshape(-1, 64)
    async with place.store.open_upload(place.path("a")) as sink:
        for part in [*parts, big, *parts]:
            await sink.write(part)
        assert await sink.finish() == sink.num_bytes == len(CONTENT) + 24
    small = b"abcdef\x00\x01\x02\x03\x04\x05"
    assert bytes(await place.store.get(place.path("a"))) == small + CONTENT + small


async def test_nothing_is_there_before_the_end(place: Place) -> None:
    async with place.store.open_upload(place.path("a")) as sink:
        await sink.write(CONTENT)
        with pytest.raises(NotFoundError):
            await place.store.size(place.path("a"))
        assert [meta async for meta in place.store.list(place.folder)] == []
        await sink.finish()
    assert await place.store.size(place.path("a")) == len(CONTENT)


@pytest.mark.parametrize("size", [0, 10, PART * 9])
async def test_leaving_without_finish_leaves_nothing(place: Place, size: int) -> None:
    async with place.store.open_upload(place.path("a")) as sink:
        await sink.write(CONTENT[:size])

    async def fail() -> None:
        async with place.store.open_upload(place.path("b")) as sink:
            await sink.write(CONTENT[:size])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert await names(place) == []
    await sink.abort()  # once more is no error
    with pytest.raises(InvalidInputError, match="has ended"):
        await sink.write(b"x")
    with pytest.raises(InvalidInputError, match="has ended"):
        await sink.finish()


async def test_local_files_go_to_the_disk_while_they_are_written(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    begin = _kernels.begin_sync

    def begin_sync(fd: int) -> None:
        sizes.append(os.fstat(fd).st_size)
        begin(fd)

    monkeypatch.setattr(_kernels, "begin_sync", begin_sync)
    await send(place.store, place.path("a"), CONTENT, PART)
    if place.store.profile.kind != "local":
        assert sizes == []
        return
    assert sizes == sorted(set(sizes))
    assert PART <= sizes[0] < len(CONTENT)
    sizes.clear()
    async with place.store.open_upload(place.path("b"), durable=False) as sink:
        await sink.write(CONTENT)
        await sink.finish()
    assert sizes == []


async def test_an_abort_after_the_end_keeps_the_object(place: Place) -> None:
    async with place.store.open_upload(place.path("a")) as sink:
        await sink.write(CONTENT[:10])
        await sink.finish()
        await sink.abort()
    assert await names(place) == ["a"]


async def test_an_upload_replaces_an_object(place: Place) -> None:
    await place.store.put(place.path("a"), b"old")
    await send(place.store, place.path("a"), CONTENT, PART)
    assert bytes(await place.store.get(place.path("a"))) == CONTENT


async def test_two_tasks_do_not_write_at_once(place: Place) -> None:
    if place.store.profile.kind == "memory" and isinstance(place.store, MemoryStore):
        return  # never waits: tasks come one after the other
    async with place.store.open_upload(place.path("a")) as sink:
        writes = [sink.write(CONTENT) for _ in range(2)]
        item, other = await asyncio.gather(*writes, return_exceptions=True)
        assert item is None
        assert other is None or "another task" in str(other)


@pytest.mark.parametrize("step", [1000, PART // 2, PART])
async def test_what_is_held_is_bounded(place: Place, step: int) -> None:
    _, peak = await send(place.store, place.path("a"), CONTENT, step)
    if isinstance(place.store, MemoryStore):
        assert peak == len(CONTENT)
    elif place.store.profile.kind == "local":
        assert peak <= 2 * PART + 2 * step
    else:
        assert peak <= 5 * PART + step


async def test_more_parts_than_there_may_be(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upload_remote, "MAX_PARTS", 20)
    if not hasattr(place.store, "objects"):
        return
    with pytest.raises(UnsupportedError, match="more than 20 parts of 65536 bytes"):
        await send(place.store, place.path("a"), CONTENT, PART)
    assert await names(place) == []
    async with place.store.open_upload(place.path("a"), size_hint=len(CONTENT)) as sink:
        assert sink.part_bytes == 1 << 20
        await sink.write(CONTENT)
        await sink.finish()
    assert await place.store.size(place.path("a")) == len(CONTENT)


@given(st.integers(0, 5 << 40))
@settings(max_examples=200)
def test_ten_thousand_parts_suffice(size: int) -> None:
    part = part_size(8 << 20, size)
    assert part >= 8 << 20
    assert part * upload_remote.MAX_PARTS >= size * 1.1 or part == 8 << 20
    assert part == 8 << 20 or (part - (1 << 20)) * upload_remote.MAX_PARTS < size * 1.1


@pytest.mark.parametrize("durable", [True, False])
async def test_a_local_file_is_synced_if_it_is_to_last(
    tmp_path: Path, place: Place, monkeypatch: pytest.MonkeyPatch, durable: bool
) -> None:
    if place.store.profile.kind != "local":
        return
    synced = []
    real = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(fd), real(fd)))
    path = f"{str(tmp_path)[1:]}/new/folder/file"
    async with place.store.open_upload(path, durable=durable) as sink:
        await sink.write(CONTENT)
        await sink.finish()
    assert bool(synced) == durable
    assert (tmp_path / "new/folder/file").read_bytes() == CONTENT

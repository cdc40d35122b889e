"""Behaviour that all kinds of stores share."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance.errors import AlreadyExistsError, CorruptFileError, NotFoundError
from alance.io.disk.local import LocalStore

if TYPE_CHECKING:
    from tests.io.conftest import Place

CONTENT = bytes(range(256)) * 64


async def listed(place: Place, prefix: str = "", **options: str) -> list[str]:
    """Paths under the place, relative to it."""
    items = place.store.list(place.folder + prefix, **options)
    return [meta.path.removeprefix(place.folder + "/") async for meta in items]


async def test_ranges_come_in_the_order_asked_for(place: Place) -> None:
    await place.store.put(place.path("a"), CONTENT)
    spans = [(300, 310), (0, 5), (5, 9), (0, len(CONTENT)), (7, 7), (16000, 16384)]
    buffers = await place.store.get_ranges(place.path("a"), spans)
    assert [bytes(buffer) for buffer in buffers] == [CONTENT[a:b] for a, b in spans]
    assert all(buffer.readonly for buffer in buffers)


async def test_no_range_at_all_costs_nothing(place: Place) -> None:
    assert list(await place.store.get_ranges(place.path("missing"), [])) == []


async def test_many_ranges_at_once(place: Place) -> None:
    await place.store.put(place.path("a"), CONTENT)
    spans = [(n * 31 % 16000, n * 31 % 16000 + n % 40) for n in range(300)]
    buffers = await place.store.get_ranges(place.path("a"), spans)
    assert [bytes(buffer) for buffer in buffers] == [CONTENT[a:b] for a, b in spans]


@settings(max_examples=20)
@given(
    st.lists(
        st.tuples(st.integers(0, 200_000), st.integers(0, 70_000)).map(lambda at: (at[0], sum(at))),
        max_size=30,
    )
)
def test_any_ranges_of_a_local_file(tmp_path_factory: pytest.TempPathFactory, spans: list) -> None:
    content = bytes(n * 7 % 251 for n in range(1000)) * 270
    path = tmp_path_factory.getbasetemp() / "any-ranges"
    if not path.exists():
        path.write_bytes(content)

    async def read() -> None:
        store, name = LocalStore(), str(path)[1:]
        pooled = await store.get_ranges(name, spans)
        inline = store.read_now(name, spans)
        assert [bytes(buffer) for buffer in pooled] == [content[a:b] for a, b in spans]
        assert inline is None or [bytes(buffer) for buffer in inline] == pooled

    asyncio.run(read())


@pytest.mark.parametrize("span", [(16380, 16390), (16384, 16385), (99999, 100000)])
async def test_a_range_beyond_the_end_is_corruption(place: Place, span: tuple[int, int]) -> None:
    await place.store.put(place.path("a"), CONTENT)
    with pytest.raises(CorruptFileError, match=r"wanted bytes|starts beyond"):
        await place.store.get_ranges(place.path("a"), [span])
    with pytest.raises(CorruptFileError):
        await place.store.get_ranges(place.path("a"), [(0, 10), span])


@pytest.mark.parametrize("span", [(5, 4), (-1, 4), (-5, -3)])
async def test_a_range_that_is_none_fails_in_its_future(
    place: Place, span: tuple[int, int]
) -> None:
    await place.store.put(place.path("a"), CONTENT)
    future = place.store.get_ranges(place.path("a"), [(0, 1), span])
    with pytest.raises(CorruptFileError):
        await future


async def test_a_missing_object_is_not_found_in_every_way(place: Place) -> None:
    store, path = place.store, place.path("missing")
    calls = [
        store.get_ranges(path, [(0, 1)]),
        store.get_tail(path, 10),
        store.get(path),
        store.size(path),
        store.copy(path, place.path("b")),
    ]
    for call in calls:
        with pytest.raises(NotFoundError, match="missing: no such object") as caught:
            await call
        assert isinstance(caught.value, FileNotFoundError)


async def test_what_read_now_gives_is_right(place: Place) -> None:
    await place.store.put(place.path("a"), CONTENT)
    await place.store.get_ranges(place.path("a"), [(0, 1)])
    buffers = place.store.read_now(place.path("a"), [(4, 8), (100, 101)])
    if place.store.profile.kind in ("local", "memory") and buffers is not None:
        assert [bytes(buffer) for buffer in buffers] == [CONTENT[4:8], CONTENT[100:101]]
    else:
        assert buffers is None


@pytest.mark.parametrize("size", [None, len(CONTENT)])
async def test_the_tail_comes_with_the_size(place: Place, size: int | None) -> None:
    await place.store.put(place.path("a"), CONTENT)
    for num_bytes in (1, 100, len(CONTENT), 1 << 20):
        tail, total = await place.store.get_tail(place.path("a"), num_bytes, size=size)
        assert (bytes(tail), total) == (CONTENT[-num_bytes:], len(CONTENT))


async def test_an_empty_object_has_an_empty_tail(place: Place) -> None:
    await place.store.put(place.path("empty"), b"")
    assert await place.store.size(place.path("empty")) == 0
    assert bytes(await place.store.get(place.path("empty"))) == b""
    for size in (None, 0):
        tail, total = await place.store.get_tail(place.path("empty"), 8, size=size)
        assert (bytes(tail), total) == (b"", 0)


@pytest.mark.parametrize("body", [b"one", bytearray(b"one"), memoryview(b"one"), memoryview(b"")])
async def test_what_was_put_is_got(place: Place, body: bytes) -> None:
    await place.store.put(place.path("x/y/z"), body)
    assert bytes(await place.store.get(place.path("x/y/z"))) == bytes(body)
    await place.store.put(place.path("x/y/z"), b"another")
    assert bytes(await place.store.get(place.path("x/y/z"))) == b"another"
    assert await place.store.size(place.path("x/y/z")) == 7


async def test_put_if_absent_has_one_winner(place: Place) -> None:
    path = place.path("_versions/1.manifest")
    bodies = [b"%d" % n for n in range(8)]
    puts = [place.store.put(path, body, if_absent=True) for body in bodies]
    outcomes = await asyncio.gather(*puts, return_exceptions=True)
    losers = [outcome for outcome in outcomes if isinstance(outcome, AlreadyExistsError)]
    (tag,) = [outcome for outcome in outcomes if outcome not in losers]
    assert "_versions/1.manifest" in str(losers[0])
    assert bytes(await place.store.get(path)) == bodies[outcomes.index(tag)]
    assert [meta.e_tag async for meta in place.store.list(place.path("_versions"))] == [tag]


async def test_a_listing_is_sorted_by_key_and_starts_after(place: Place) -> None:
    names = ["a/b/c", "a/b.c", "a/b", "a.x", "b", "a-x/1", "ä/ö", "c d"]
    if place.store.profile.kind != "memory":
        names.remove("a/b")  # cannot be a file and a folder (the lab keeps files)
    for name in names:
        await place.store.put(place.path(name), name.encode())
    names.sort()
    assert await listed(place) == names
    for name in [*names, "a/", "a0", "zz"]:
        rest = [other for other in names if other > name]
        assert await listed(place, start_after=place.path(name)) == rest
    assert await listed(place, "/a") == [name for name in names if name.startswith("a/")]
    assert await listed(place, "/nothing here") == []


async def test_a_listing_tells_size_and_time(place: Place) -> None:
    await place.store.put(place.path("a"), b"12345")
    (meta,) = [meta async for meta in place.store.list(place.folder)]
    assert (meta.path, meta.num_bytes) == (place.path("a"), 5)
    assert meta.last_modified is not None
    assert abs(meta.last_modified - datetime.now(UTC)) < timedelta(minutes=1)
    assert meta.e_tag


async def test_folders_and_objects_of_a_folder(place: Place) -> None:
    for name in ("tree/dev/_versions/1", "tree/main/a/b", "tree/file", "other/x"):
        await place.store.put(place.path(name), b"")
    folders, objects = await place.store.list_level(place.path("tree"))
    assert folders == [place.path("tree/dev"), place.path("tree/main")]
    assert objects == [place.path("tree/file")]
    assert await place.store.list_level(place.path("nothing")) == ([], [])


async def test_deleting_a_missing_object_is_no_error(place: Place) -> None:
    for name in "abc":
        await place.store.put(place.path(name), b"")
    await place.store.delete([place.path(name) for name in ("a", "missing", "c", "x/y")])
    assert await listed(place) == ["b"]
    await place.store.delete([])


async def test_a_copy_replaces_its_target(place: Place) -> None:
    await place.store.put(place.path("a"), CONTENT)
    await place.store.put(place.path("b"), b"old")
    await place.store.copy(place.path("a"), place.path("b"))
    assert bytes(await place.store.get(place.path("b"))) == CONTENT
    assert bytes(await place.store.get(place.path("a"))) == CONTENT


async def test_a_replaced_object_is_read_anew(place: Place) -> None:
    path = place.path("hint")
    for body in (b"first", b"second", b"third"):
        await place.store.put(path, body)
        (buffer,) = await place.store.get_ranges(path, [(0, len(body))])
        assert bytes(buffer) == body


async def test_cancelled_reads_leave_nothing(place: Place) -> None:
    await place.store.put(place.path("a"), CONTENT)
    futures = [place.store.get_ranges(place.path("a"), [(n, n + 100)]) for n in range(20)]
    for future in futures:
        future.cancel()
    outcomes = await asyncio.gather(*futures, return_exceptions=True)
    assert all(
        isinstance(outcome, asyncio.CancelledError) or len(outcome) == 1 for outcome in outcomes
    )
    (buffer,) = await place.store.get_ranges(place.path("a"), [(0, 3)])
    assert bytes(buffer) == CONTENT[:3]


async def test_objects_in_order(place: Place) -> None:
    names = ["one/a", "two/b", "last"]
    objects = [(place.path(name), name.encode()) for name in names]
    await place.store.put_in_order(objects, if_absent=True)
    assert await listed(place) == sorted(names)
    again = [(path, b"again") for path, _ in objects]
    with pytest.raises(AlreadyExistsError, match="last"):
        await place.store.put_in_order(again, if_absent=True)
    assert bytes(await place.store.get(place.path("last"))) == b"last"
    await place.store.put_in_order(again)
    assert bytes(await place.store.get(place.path("last"))) == b"again"

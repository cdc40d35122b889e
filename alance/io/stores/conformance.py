"""Checks that a store behaves as reading, writing and committing require.

Servers that speak a cloud's protocol differ in ways that raise no error: they ignore conditions,
return wrong ranges, or list without order. Each check tests one behaviour with real requests and
reports the store's reaction. All objects are in one folder with a random name, deleted at the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from typing import TYPE_CHECKING, Final

from alance.errors import (
    AccessError,
    AlanceError,
    AlreadyExistsError,
    CorruptFileError,
    ForkedError,
    NotFoundError,
)
from alance.io.stores.store import without_number
from alance.io.stores.store_report import StoreCheck, StoreReport

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from alance.io.loop.background import Background
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.store import Store
    from alance.io.stores.store_report import Purpose

RACERS: Final = 8  # concurrent puts of one object
CONTENT: Final = bytes(range(256)) * 16


class _Unfit(Exception):
    """Raised if the store does not behave as expected; the text describes its behaviour."""


async def examine(store: Store, folder: str, background: Background) -> StoreReport:
    """Run all checks in a folder of a store.

    Cost: about 100 requests, and two uploads of a little more than one part each (8 MiB).

    Args:
        background: continues to remove the objects if the caller is cancelled.

    Raises:
        StoreError: nothing can be written to the folder.
        AccessError: the credentials lack a right.
    """
    trial = _Trial(store, f"{folder}/.probe-{uuid.uuid4()}".lstrip("/"))
    done: list[StoreCheck] = []
    try:
        await store.put(trial.path("first"), CONTENT)
        for name, purpose, check in CHECKS:
            failure = None
            try:
                await check(trial)
            except _Unfit as unfit:
                failure = str(unfit)
            except (AccessError, ForkedError):
                raise
            except AlanceError as error:
                failure = f"{type(error).__name__}: {error}"
            done.append(StoreCheck(name, purpose, failure))
    finally:
        await background.discard(trial.clean(), store)
    return StoreReport(without_number(store.root) + folder, tuple(done))


class _Trial:
    """A store and a folder in it that nobody else uses."""

    def __init__(self, store: Store, folder: str) -> None:
        self.store = store
        self.folder = folder
        self.profile: StoreProfile = store.profile

    def path(self, name: str) -> str:
        return f"{self.folder}/{name}"

    async def expect(self, name: str, content: bytes, what: str) -> None:
        body = bytes(await self.store.get(self.path(name)))
        if body != content:
            raise _Unfit(f"{what}: read {len(body)} bytes that differ from the {len(content)} put")

    async def names(self, folder: str = "", start_after: str | None = None) -> list[str]:
        after = None if start_after is None else self.path(start_after)
        prefix = self.path(folder).rstrip("/")
        listing = self.store.list(prefix, start_after=after)
        return [meta.path.removeprefix(self.folder + "/") async for meta in listing]

    async def clean(self) -> None:
        with contextlib.suppress(AlanceError):
            await self.store.delete([self.path(name) for name in await self.names()])


async def _reads_back(trial: _Trial) -> None:
    await trial.expect("first", CONTENT, "the first object")
    await trial.store.put(trial.path("first"), CONTENT[:100])
    await trial.expect("first", CONTENT[:100], "overwritten")
    if (size := await trial.store.size(trial.path("first"))) != 100:
        raise _Unfit(f"reported {size} bytes for an object of 100")


async def _gives_ranges(trial: _Trial) -> None:
    path = trial.path("ranges")
    await trial.store.put(path, CONTENT)
    spans = [(4000, 4096), (0, 1), (7, 7), (100, 300), (300, 301)]
    for span, body in zip(spans, await trial.store.get_ranges(path, spans), strict=True):
        if bytes(body) != CONTENT[span[0] : span[1]]:
            raise _Unfit(f"bytes {span[0]} to {span[1]} came out as {len(body)} other bytes")
    with contextlib.suppress(CorruptFileError):
        await trial.store.get_ranges(path, [(4090, 5000)])
        raise _Unfit("returned bytes behind the end of an object")


async def _gives_tails(trial: _Trial) -> None:
    path = trial.path("tail")
    await trial.store.put(path, CONTENT)
    for num_bytes in (1, 100, len(CONTENT) + 100):
        for size in (None, len(CONTENT)):
            tail, total = await trial.store.get_tail(path, num_bytes, size=size)
            if bytes(tail) != CONTENT[-num_bytes:] or total != len(CONTENT):
                raise _Unfit(f"the last {num_bytes} bytes came out as {len(tail)} of {total}")


async def _misses(trial: _Trial) -> None:
    path = trial.path("missing")
    calls: list[tuple[str, Callable[[], Awaitable[object]]]] = [
        ("GET", lambda: trial.store.get(path)),
        ("GET of a range", lambda: trial.store.get_ranges(path, [(0, 1)])),
        ("HEAD", lambda: trial.store.size(path)),
    ]
    for name, call in calls:
        try:
            await call()
        except NotFoundError:
            continue
        raise _Unfit(f"{name} of an object that is not there succeeded")
    if listed := await trial.names("nowhere"):
        raise _Unfit(f"listed {listed[0]!r} in a folder that is not there")


async def _lists(trial: _Trial) -> None:
    expected = sorted(
        [*(f"list/{number:02}" for number in range(12)), "list/deep/er", "list/é +&%"]
    )
    for name in [*expected, "listing/other"]:
        await trial.store.put(trial.path(name), name.encode())
    listed = [(meta.path, meta.num_bytes) async for meta in trial.store.list(trial.path("list"))]
    if sorted(listed) != [(trial.path(name), len(name.encode())) for name in expected]:
        raise _Unfit(f"{len(listed)} objects of {len(expected)} were listed, or with other sizes")
    folders, _ = await trial.store.list_level(trial.folder)
    if folders != [trial.path("list"), trial.path("listing")]:
        raise _Unfit(f"listed the folders {[folder.rpartition('/')[2] for folder in folders]}")


async def _lists_in_order(trial: _Trial) -> None:
    names = [f"order/{number:020}.manifest" for number in (3, 1, 9, 4, 7)]
    for name in names:
        await trial.store.put(trial.path(name), b"x")
    listed = await trial.names("order")
    if (listed if trial.profile.lists_in_order else sorted(listed)) != sorted(names):
        raise _Unfit("objects were not listed by name: the latest version would not be found")
    after = sorted(names)[1]
    if sorted(await trial.names("order", start_after=after)) != sorted(names)[2:]:
        raise _Unfit("a listing that starts after a name has wrong names")


async def _deletes(trial: _Trial) -> None:
    paths = [trial.path(f"gone/{number}") for number in range(3)]
    for path in paths:
        await trial.store.put(path, b"x")
    await trial.store.delete([*paths, trial.path("gone/never")])
    if remaining := await trial.names("gone"):
        raise _Unfit(f"{len(remaining)} of 3 deleted objects are still listed")
    with contextlib.suppress(NotFoundError):
        await trial.store.get(paths[0])
        raise _Unfit("a deleted object can be read")


async def _copies(trial: _Trial) -> None:
    await trial.store.put(trial.path("from"), CONTENT)
    await trial.store.put(trial.path("to"), b"before")
    await trial.store.copy(trial.path("from"), trial.path("to"))
    await trial.expect("to", CONTENT, "a copy")


async def _uploads(trial: _Trial) -> None:
    content = CONTENT * (trial.profile.part_bytes // len(CONTENT)) + CONTENT
    async with trial.store.open_upload(trial.path("large")) as upload:
        await upload.write(content)
        if "large" in await trial.names():
            raise _Unfit("an unfinished upload is visible")
        await upload.finish()
    await trial.expect("large", content, "an object of two parts")
    with contextlib.suppress(_Aborted):
        async with trial.store.open_upload(trial.path("aborted")) as upload:
            await upload.write(content)
            raise _Aborted
    if "aborted" in await trial.names():
        raise _Unfit("an aborted upload is visible")


class _Aborted(Exception):
    """Raised to abort an upload."""


async def _refuses_second(trial: _Trial) -> None:
    path = trial.path("once")
    await trial.store.put(path, b"first", if_absent=True)
    for body in (b"second", b"first"):
        try:
            await trial.store.put(path, body, if_absent=True)
        except AlreadyExistsError:
            continue
        raise _Unfit("overwrote where it was asked to create: concurrent commits would be lost")
    await trial.expect("once", b"first", "put if absent")


async def _has_a_single_winner(trial: _Trial) -> None:
    for number in range(3):
        name = f"race-{number}"

        async def put(body: bytes, path: str = trial.path(name)) -> bool:
            try:
                await trial.store.put(path, body, if_absent=True)
            except AlreadyExistsError:
                return False
            return True

        bodies = [f"racer {racer}".encode() for racer in range(RACERS)]
        wins = await asyncio.gather(*map(put, bodies))
        if sum(wins) != 1:
            raise _Unfit(
                f"{sum(wins)} of {RACERS} concurrent creators of the same object succeeded"
            )
        await trial.expect(name, bodies[wins.index(True)], "the winner's object")


async def _creates_again(trial: _Trial) -> None:
    path = trial.path("again")
    await trial.store.put(path, b"first", if_absent=True)
    await trial.store.delete([path])
    await trial.store.put(path, b"second", if_absent=True)
    await trial.expect("again", b"second", "created again")


CHECKS: Final[tuple[tuple[str, Purpose, Callable[[_Trial], Awaitable[None]]], ...]] = (
    ("reads what was written last", "reading", _reads_back),
    ("gives ranges", "reading", _gives_ranges),
    ("gives the end of an object", "reading", _gives_tails),
    ("tells that an object is missing", "reading", _misses),
    ("lists a folder", "reading", _lists),
    ("lists by name", "reading", _lists_in_order),
    ("deletes", "writing", _deletes),
    ("copies", "writing", _copies),
    ("takes uploads in parts, and aborts them", "writing", _uploads),
    ("creates an object only if it is absent", "commits", _refuses_second),
    ("lets one of many creators win", "commits", _has_a_single_winner),
    ("creates again what was deleted", "commits", _creates_again),
)

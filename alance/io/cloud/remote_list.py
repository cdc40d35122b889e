"""Listings of object stores, also of servers that never come to the end of one."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import obstore

from alance.errors import StoreError, UnsupportedError
from alance.io.loop import lifecycle
from alance.io.stores.store import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence

    from alance.io.cloud.remote import ObjectStore
    from alance.io.stores.profile import StoreProfile

    Chunk = Sequence[obstore.ObjectMeta]
    Run = Callable[[str, Callable[[], Awaitable[Chunk]]], Awaitable[Chunk]]

LIST_CHUNK: Final = 100  # objects a crossing; the page behind it has up to 1000
LOOK_S: Final = 5.0  # names of a folder that take longer are looked at; a page takes 0.05
MAX_FOLDER_NAMES: Final = 2_000_000  # of a folder: half a gigabyte
_NO_LISTING: Final = frozenset({400, 405, 501})  # plain HTTP servers say so to PROPFIND


async def list_objects(
    objects: ObjectStore,
    root: str,
    profile: StoreProfile,
    run: Run,
    prefix: str,
    start_after: str | None,
) -> AsyncGenerator[ObjectMeta]:
    """Objects under the folder `prefix`, as for `Store.list`. A page that fails is asked for again.

    Args:
        root: of the store, for messages.
        run: repeats an attempt while its failures are transient and there is time; pages that say
            that others follow, without an object, come to no end but by this.

    Raises:
        StoreError: the store failed, or the listing does not end.
    """
    folder = prefix.strip("/") or None
    ordered = profile.lists_in_order
    last = start_after
    seen: set[str] = set()  # where a listing that failed can only start again
    stream, rounds = None, _Rounds()

    async def attempt() -> Sequence[obstore.ObjectMeta]:
        nonlocal stream, rounds
        if stream is None:
            after = last if ordered else None
            stream = obstore.list(objects, folder, offset=after, chunk_size=LIST_CHUNK)
            rounds = _Rounds()
        try:
            return await lifecycle.watch(asyncio.ensure_future(stream.__anext__()))
        except StopAsyncIteration:
            return ()
        except BaseException:  # also where its time is over
            stream = None
            raise

    while True:
        try:
            chunk = await run(prefix, attempt)
        except StoreError as error:
            if profile.is_plain_server and error.status in _NO_LISTING:
                raise UnsupportedError(
                    f"{root}{prefix}: this server does not list its files; name the version to open"
                ) from error
            raise
        if not chunk:
            return
        for meta in chunk:
            path = meta["path"]
            if rounds.is_again(path):
                raise StoreError(
                    f"{root}{prefix}: the listing has {path!r} again and again, and does not end"
                )
            if path in seen or (start_after is not None and path <= start_after):
                continue
            if not ordered:
                seen.add(path)
            yield ObjectMeta(path, meta["size"], meta["last_modified"], meta["e_tag"])
        last = chunk[-1]["path"]


async def check_level(
    call: asyncio.Future[Any], listing: AsyncGenerator[ObjectMeta], prefix: str, where: str
) -> None:
    """Look whether the names of a folder come to an end, until they do or `call` is done.

    obstore collects the names of all pages before it gives one: those of a server that always
    says that more follows would fill the memory. So where that takes long, the objects below the
    folder are listed beside it, page by page.

    Args:
        call: collects the names.
        listing: the objects.
        prefix: the folder, in the store.
        where: its location, for messages.

    Raises:
        StoreError: the listing does not end, or there are too many names.
    """
    start = len(prefix) + 1 if prefix else 0
    count, last = 0, None
    async with aclosing(listing):
        async for meta in listing:
            if call.done():
                return
            name = meta.path[start:].partition("/")[0]
            count, last = count + (name != last), name
            if count > MAX_FOLDER_NAMES:
                raise StoreError(f"{where}: the folder has more than {MAX_FOLDER_NAMES} names")


class _Rounds:
    """Tells a listing that goes round in circles, in which a key comes again. In little memory:
    of the keys only one is kept, the last whose number is a power of two.
    """

    def __init__(self) -> None:
        self._count = 0
        self._kept: str | None = None
        self._keep_at = 1

    def is_again(self, key: str) -> bool:
        """Whether the key that comes next is the one that was kept."""
        if key == self._kept:
            return True
        self._count += 1
        if self._count == self._keep_at:
            self._kept, self._keep_at = key, 2 * self._keep_at
        return False

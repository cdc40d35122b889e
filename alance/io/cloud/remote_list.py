"""Listings of object stores, protected against servers whose listings never end."""

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

LIST_CHUNK: Final = 100  # objects per call of obstore; a page of the server has up to 1000
LOOK_S: Final = 5.0  # seconds after which a slow listing is checked for an end; a page takes 0.05 s
MAX_FOLDER_NAMES: Final = 2_000_000  # names of one folder: half a gigabyte
_NO_LISTING: Final = frozenset({400, 405, 501})  # HTTP statuses of servers without PROPFIND


async def list_objects(
    objects: ObjectStore,
    root: str,
    profile: StoreProfile,
    run: Run,
    prefix: str,
    start_after: str | None,
) -> AsyncGenerator[ObjectMeta]:
    """Yield the objects under a folder, as `Store.list` does. A failed page is requested again.

    Args:
        root: root of the store, for messages.
        run: retries an attempt after transient failures within a time limit, which also ends an
            endless series of empty pages.

    Raises:
        StoreError: the store failed, or the listing is endless.
        UnsupportedError: the server cannot list objects.
    """
    pages = _ListingPages(objects, prefix.strip("/") or None, start_after, profile.lists_in_order)
    seen: set[str] = set()  # an unordered listing restarts from the beginning after a failure
    while True:
        try:
            chunk = await run(prefix, pages.next)
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
            if pages.loop.is_again(path):
                raise StoreError(
                    f"{root}{prefix}: the listing has {path!r} again and again, and does not end"
                )
            if path in seen or (start_after is not None and path <= start_after):
                continue
            if not profile.lists_in_order:
                seen.add(path)
            yield ObjectMeta(path, meta["size"], meta["last_modified"], meta["e_tag"])
        pages.last = chunk[-1]["path"]


class _ListingPages:
    """The pages of one listing.

    After a failure, an ordered listing continues after `last`; an unordered one restarts.

    Attributes:
        last: path of the last listed object.
        loop: detects keys that repeat in the current listing.
    """

    def __init__(
        self, objects: ObjectStore, folder: str | None, start_after: str | None, is_ordered: bool
    ) -> None:
        self._objects, self._folder, self._is_ordered = objects, folder, is_ordered
        self._stream: obstore.ListStream[Chunk] | None = None
        self.last = start_after
        self.loop = _RepetitionCheck()

    async def next(self) -> Chunk:
        """Return the next objects; empty after the last page."""
        if self._stream is None:
            after = self.last if self._is_ordered else None
            self._stream = obstore.list(
                self._objects, self._folder, offset=after, chunk_size=LIST_CHUNK
            )
            self.loop = _RepetitionCheck()
        try:
            return await lifecycle.watch(asyncio.ensure_future(self._stream.__anext__()))
        except StopAsyncIteration:
            return ()
        except BaseException:  # also at the time limit
            self._stream = None
            raise


async def check_level(
    call: asyncio.Future[Any], listing: AsyncGenerator[ObjectMeta], prefix: str, where: str
) -> None:
    """Check that the listing of a folder ends; return when it ends or `call` is done.

    obstore collects the names of all pages before it returns, so a server that always announces
    another page would exhaust memory. If `call` takes long, the objects below the folder are
    therefore listed concurrently, page by page.

    Args:
        call: the call that collects the names.
        listing: the objects below the folder.
        prefix: path of the folder in the store.
        where: location of the folder, for messages.

    Raises:
        StoreError: the listing is endless, or there are too many names.
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


class _RepetitionCheck:
    """Detects a cyclic listing in constant memory (Brent's algorithm).

    Only one key is remembered: the latest key whose position is a power of two.
    """

    def __init__(self) -> None:
        self._count = 0
        self._sample: str | None = None
        self._sample_at = 1

    def is_again(self, key: str) -> bool:
        """Pass the next key of the listing; return True if it equals the remembered key."""
        if key == self._sample:
            return True
        self._count += 1
        if self._count == self._sample_at:
            self._sample, self._sample_at = key, 2 * self._sample_at
        return False

"""Objects in the memory of this process: for tests, examples and small temporary tables."""

from __future__ import annotations

import asyncio
import itertools
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from alance.errors import AlreadyExistsError, NotFoundError
from alance.io.loop import lifecycle
from alance.io.loop.background import LOCAL_GRACE_S
from alance.io.stores.profile import MEMORY, StoreProfile
from alance.io.stores.store import (
    ObjectMeta,
    check_spans,
    check_tag,
    put_each,
    short_read,
    without_number,
)
from alance.io.stores.upload import Upload
from alance.io.stores.uri import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from alance.io.stores.store import Body, Names, Span, Store


class _Object(NamedTuple):
    body: memoryview
    meta: ObjectMeta


class MemoryStore:
    """A store with its objects in a dict. Returned futures are already done.

    A forked child has a copy of the parent's objects.
    """

    def __init__(self, root: str = "memory:///", profile: StoreProfile = MEMORY) -> None:
        self.root = root
        self.profile = profile
        self._objects: dict[str, _Object] = {}
        self._tags = itertools.count(1)
        self._lock = threading.Lock()
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Replace the lock: another thread may have held it at the fork."""
        self._lock = threading.Lock()

    def _object(self, path: str) -> _Object:
        stored = self._objects.get(path)
        if stored is None:
            raise NotFoundError(f"{self.root}{path}: no such object")
        return stored

    @property
    def pieces(self) -> None:
        """Always None: a slice is as cheap as a reader of pieces."""

    def read_now(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview]:
        """Return views of the object, one for each range."""
        where = self.root + path
        check_spans(where, ranges)
        if not ranges:
            return []
        body = self._object(path).body
        num_bytes = len(body)
        for start, stop in ranges:
            if stop > num_bytes:
                raise short_read(where, (start, stop), max(0, num_bytes - start))
        return [body[start:stop] for start, stop in ranges]

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Return `read_now` as a done future."""
        future = asyncio.get_running_loop().create_future()
        try:
            future.set_result(self.read_now(path, ranges))
        except Exception as error:
            future.set_exception(error)
        return future

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """Return a view of the last `num_bytes`, and the object's size."""
        body = self._object(path).body
        return body[max(0, len(body) - num_bytes) :], len(body)

    def open_file(self, path: str) -> None:
        """Return None: a memory store has no files."""

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """Return a view of the whole object."""
        stored = self._object(path)
        check_tag(self.root + path, e_tag, stored.meta.e_tag)
        return stored.body

    async def size(self, path: str) -> int:
        """Size of the object in bytes."""
        return len(self._object(path).body)

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> str | None:
        """Store a copy of `body`."""
        content = memoryview(bytes(body))
        meta = ObjectMeta(path, len(content), datetime.now(UTC), f'"{next(self._tags)}"')
        with self._lock:
            if if_absent and path in self._objects:
                raise AlreadyExistsError(f"{self.root}{path}: exists already")
            self._objects[path] = _Object(content, meta)
        return meta.e_tag

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> str | None:
        """Store copies of objects, in order."""
        return await put_each(self, objects, if_absent=if_absent)

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Store copies of objects."""
        for path, body in objects:
            await self.put(path, body)

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> MemoryUpload:
        """Begin an object that is written piece by piece."""
        return MemoryUpload(self, path)

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; a missing object is no error."""
        for path in paths:
            self._objects.pop(path, None)

    async def copy(self, source: str, target: str) -> None:
        """Copy an object over `target`."""
        await self.put(target, self._object(source).body)

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return an empty sequence: an object becomes visible as a whole."""
        return ()

    async def remove_folders(self, prefix: str) -> None:
        """Do nothing: a memory store has no folders."""

    def uri_of(self, path: str) -> str:
        """Return the URI of an object or folder, which is valid only in this process."""
        return without_number(self.root) + quoted(path)

    def lasting_name(self) -> None:
        """Return None: the objects end with the process."""

    def heeds_conditions(self) -> bool:
        """Return True: `put` checks `if_absent` under a lock."""
        return True

    def _under(self, prefix: str) -> Names:
        folder = prefix.strip("/") + "/" if prefix.strip("/") else ""
        with self._lock:
            return sorted(path for path in self._objects if path.startswith(folder))

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Return the sorted paths of the folders and of the objects directly under `prefix`."""
        depth = len(prefix.strip("/").split("/")) if prefix.strip("/") else 0
        paths = self._under(prefix)
        folders = {tuple(path.split("/")[: depth + 1]) for path in paths if path.count("/") > depth}
        objects = [path for path in paths if path.count("/") == depth]
        return sorted("/".join(folder) for folder in folders), sorted(objects)

    async def list(
        self, prefix: str, *, start_after: str | None = None
    ) -> AsyncIterator[ObjectMeta]:
        """Yield the objects under the folder `prefix`, sorted by path."""
        for path in self._under(prefix):
            stored = self._objects.get(path)
            if stored is not None and (start_after is None or path > start_after):
                yield stored.meta


class MemoryUpload(Upload):
    """An upload whose pieces are joined into the object at the end."""

    grace_s = LOCAL_GRACE_S

    def __init__(self, store: Store, path: str) -> None:
        super().__init__(store.root + path)
        self._store = store
        self._path = path

    async def _advance(self) -> None:
        """Do nothing: all pieces are in memory until the end."""

    async def _publish(self) -> None:
        self._end_block()
        await self._store.put(self._path, b"".join(self._pieces))
        self._pieces.clear()
        self.held_bytes = 0

    async def _drop(self) -> None:
        """Do nothing: the object is created by the last step, after which nothing can fail."""

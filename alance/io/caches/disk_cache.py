"""The disk cache of a session: bytes of remote metadata that outlive the process.

Plans are pure and cannot wait for a disk. So before a plan runs, `recall` loads the cached ranges
of its files into memory. New ranges are written later, in threads and in no particular order. A
lost write costs a later read one more request, and nothing else.

Two kinds of bytes are cached. Ranges of data files have the file's name and size as their key,
because names are unique and files never change. Whole objects (manifests, deletion files) can be
replaced, so their key also has the entity tag of the object that was read.
"""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from aiofiles.os import wrap

from alance.base.records import dataclass
from alance.io.caches.disk_store import DiskStore
from alance.io.loop import lifecycle
from alance.io.loop.futures import threads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.io.caches.disk_store import Ranges
    from alance.io.opening.registry import StoreRegistry
    from alance.io.stores.store import Store

RECALLED_BYTES: Final = 32 << 20  # bytes of files in memory; those of the latest call may exceed it
MAX_PENDING_BYTES: Final = 16 << 20  # more pending bytes are written immediately
FIRST_WRITE_S: Final = 0.1  # seconds; a cold take ends within them, so its rounds share a write
NEXT_WRITE_S: Final = 1.0  # seconds between the writes of a busy process
FILES_PER_LOAD: Final = 32  # files of one job, which takes a millisecond or two


@dataclass(slots=True)
class _RecalledFile:
    """The cached ranges of one data file, in memory."""

    key: bytes
    file_bytes: int
    ranges: Ranges

    @property
    def num_bytes(self) -> int:
        return 500 + sum(len(content) + 150 for content in self.ranges.values())


class DiskCache:
    """A cache in a folder that sessions of many processes share. This object is for one event loop.

    Args:
        store: the folder.
        registry: resolves locations to stores. Only objects of remote stores are cached.
        trusts_versions: True to use a cached manifest of a version that is opened by number
            without asking the store whether the manifest was replaced.
    """

    def __init__(
        self, store: DiskStore, registry: StoreRegistry, *, trusts_versions: bool = False
    ) -> None:
        self.trusts_versions = trusts_versions
        self._store = store
        self._registry = registry
        self._places: weakref.WeakKeyDictionary[Store, bytes | None] = weakref.WeakKeyDictionary()
        self._held: OrderedDict[str, _RecalledFile] = OrderedDict()  # by location
        self._held_bytes = 0
        self._pending: dict[bytes, Ranges] = {}
        self._pending_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._saving: asyncio.Future[None] | None = None
        self._saved_at = float("-inf")
        lifecycle.on_fork(store)
        weakref.finalize(self, _save_all, store, self._pending)  # also called at exit

    async def recall(self, files: Iterable[tuple[str, int]]) -> None:
        """Load the cached ranges of data files into memory, for `get` and `put`. Costs no request.

        Args:
            files: locations and exact sizes.
        """
        unknown: dict[str, _RecalledFile] = {}
        for location, file_bytes in files:
            held = self._held.get(location)
            if held is not None and held.file_bytes == file_bytes:
                self._held.move_to_end(location)
                continue
            key = self._key(location, f"data file of {file_bytes} bytes")
            if key is not None:
                unknown[location] = _RecalledFile(key, file_bytes, {})
        if not unknown:
            return
        unread = [*unknown.values()]
        jobs = [
            unread[first : first + FILES_PER_LOAD]
            for first in range(0, len(unread), FILES_PER_LOAD)
        ]
        keys = [[held.key for held in job] for job in jobs]
        executor = threads.executor()
        loaded = await asyncio.gather(
            *(_load_all(self._store, job, executor=executor) for job in keys)
        )
        for job, contents in zip(jobs, loaded, strict=True):
            for held, ranges in zip(job, contents, strict=True):
                held.ranges = ranges
        for location, held in unknown.items():
            self.forget(location)
            self._held[location] = held
            self._held_bytes += held.num_bytes
        while self._held_bytes > RECALLED_BYTES and next(iter(self._held)) not in unknown:
            self.forget(next(iter(self._held)))

    def get(self, location: str, start: int, stop: int) -> memoryview | None:
        """Return a copy of a range of a recalled file; None if it is not cached."""
        held = self._held.get(location)
        content = None if held is None else held.ranges.get((start, stop))
        return None if content is None else memoryview(bytes(content))

    def tail(self, location: str) -> memoryview | None:
        """Return a copy of the longest range at the end of a recalled file; None without one."""
        held = self._held.get(location)
        if held is None:
            return None
        starts = [start for start, stop in held.ranges if stop == held.file_bytes]
        return self.get(location, min(starts), held.file_bytes) if starts else None

    def put(self, location: str, start: int, stop: int, content: memoryview) -> None:
        """Cache a range of a file that `recall` loaded; does nothing for other files."""
        held = self._held.get(location)
        if held is None or (start, stop) in held.ranges or stop - start != len(content):
            return
        before = held.num_bytes
        held.ranges[start, stop] = copy = memoryview(bytes(content))
        self._held_bytes += held.num_bytes - before
        self._keep(held.key, (start, stop), copy)

    def forget(self, location: str) -> None:
        """Drop a file from memory."""
        held = self._held.pop(location, None)
        if held is not None:
            self._held_bytes -= held.num_bytes

    def discard(self, location: str) -> None:
        """Drop a recalled file from memory and from disk, because its bytes are wrong."""
        held = self._held.get(location)
        self.forget(location)
        if held is not None:
            self._pending.pop(held.key, None)
            self._store.discard(held.key)

    def covers(self, location: str) -> bool:
        """Return True if the disk cache takes objects of the store of a location."""
        return self._key(location, "") is not None

    async def read(self, location: str, entity: str) -> memoryview | None:
        """Return a whole object; None if it is not cached. Costs no request.

        Args:
            entity: identifier of the object's content, which changes with its bytes.
        """
        key = self._key(location, entity)
        if key is None:
            return None
        ranges = self._pending.get(key)
        if ranges is None:
            (ranges,) = await _load_all(self._store, [key], executor=threads.executor())
        return next(iter(ranges.values()), None)

    def keep(self, location: str, entity: str, content: memoryview) -> None:
        """Cache a whole object."""
        key = self._key(location, entity)
        if key is not None:
            self._keep(key, (0, len(content)), content)

    def drop(self, location: str, entity: str) -> None:
        """Drop a whole object, because its bytes proved wrong."""
        key = self._key(location, entity)
        if key is not None:
            self._pending.pop(key, None)
            self._store.discard(key)

    async def clear(self) -> None:
        """Drop all entries in memory and on disk, for all processes."""
        self._held.clear()
        self._pending.clear()
        self._held_bytes = self._pending_bytes = 0
        await _clear(self._store, executor=threads.executor())

    async def flush(self) -> None:
        """Write all pending ranges; return when they are written."""
        while self._saving is not None or self._pending:
            saving = self._saving or self._save()
            # `await` of a done future would not let its callback `_saved` run; `asyncio.wait` does.
            await asyncio.wait([saving])
            saving.result()

    def _key(self, location: str, entity: str) -> bytes | None:
        """Return the key of an object, a hash of 32 bytes; None if its store is not cached."""
        store, path = self._registry.resolve(location)
        if store not in self._places:
            name = store.lasting_name()
            hashed = None if name is None else hashlib.sha256(name.encode()).digest()
            self._places[store] = hashed
        place = self._places[store]
        if place is None:
            return None
        return hashlib.sha256(place + f"{path}\0{entity}".encode()).digest()

    def _keep(self, key: bytes, span: tuple[int, int], content: memoryview) -> None:
        if not self._store.can_write or len(content) > self._store.max_object_bytes:
            return
        self._pending.setdefault(key, {})[span] = content
        self._pending_bytes += len(content)
        if self._saving is not None:
            return
        if self._pending_bytes > MAX_PENDING_BYTES:
            self._save()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            since = loop.time() - self._saved_at
            self._timer = loop.call_later(
                FIRST_WRITE_S if since > NEXT_WRITE_S else NEXT_WRITE_S, self._save
            )

    def _save(self) -> asyncio.Future[None]:
        """Begin to write the pending ranges."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        batch = dict(self._pending)
        self._pending.clear()
        self._pending_bytes = 0
        loop = asyncio.get_running_loop()
        self._saving = loop.run_in_executor(None, _save_all, self._store, batch)
        self._saving.add_done_callback(self._saved)
        return self._saving

    def _saved(self, saving: asyncio.Future[None]) -> None:
        loop = saving.get_loop()
        self._saving, self._saved_at = None, loop.time()
        if self._pending and self._timer is None:
            self._timer = loop.call_later(NEXT_WRITE_S, self._save)


# One hop to a thread for all files of a job: `aiofiles.open` takes a hop for each call.
@wrap
def _load_all(store: DiskStore, keys: Sequence[bytes]) -> list[Ranges]:
    return [store.load(key) for key in keys]


_clear = wrap(DiskStore.clear)


def _save_all(store: DiskStore, pending: Mapping[bytes, Ranges]) -> None:
    for key, ranges in list(pending.items()):
        store.save(key, ranges)

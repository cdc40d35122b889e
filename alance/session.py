"""Session: the scheduler, cache, pool and limits that the datasets of one event loop share."""

from __future__ import annotations

import asyncio
import math
import os
import re
from functools import partial
from numbers import Real
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple, TypedDict
from weakref import WeakKeyDictionary, WeakSet

from alance.base.calls import public
from alance.base.checks import check_count, check_type, unexpected
from alance.base.hints import Hinted
from alance.errors import InvalidInputError, UnsupportedError
from alance.io.caches.cache import SearchCache
from alance.io.events import observing
from alance.io.events.observing import Reading
from alance.io.loop import system
from alance.io.loop.limits import CONNECT_S, TIMEOUT_S, TimeLimits
from alance.io.opening.registry import StoreRegistry
from alance.io.reading.engine import Engine
from alance.io.reading.pool import DecodePool
from alance.io.reading.scheduler import Scheduler
from alance.versioning.table import open_table

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping
    from typing import Any, Unpack

    from alance.io.caches.cache import CacheStats
    from alance.io.caches.disk_store import DiskStore
    from alance.io.opening.credentials import StorageOptions
    from alance.io.stores.store import Store
    from alance.ops.cleanup.cleanup import ObjectsOf
    from alance.ops.version.following import Follower
    from alance.versioning.external_store import ExternalStore
    from alance.versioning.group_queue import GroupQueue
    from alance.versioning.lock import CommitLock
    from alance.versioning.table import Table

CACHE_BYTES: Final = 256 << 20  # footers and page tables of some 10^5 columns
BLOCK_CACHE_BYTES: Final = 256 << 20  # four thousand blocks of 64 KiB
IO_BUFFER_BYTES: Final = 256 << 20  # undecoded bytes of a scan; input and output of all takes
CACHE_DIR_BYTES: Final = 1 << 30  # metadata of ten thousand data files, or five hundred wide ones

USUAL_THREADS: Final = min(8, os.cpu_count() or 1)  # a constant: asking takes 16 us

_SIZE: Final = re.compile(r"(\d+)\s*(?:([KMGT])i?B?|B)?", re.IGNORECASE)

_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Session] = WeakKeyDictionary()


class OpenArguments(TypedDict, total=False):
    """Keyword arguments for opening a URI; see `alance.dataset`."""

    storage_options: StorageOptions | None
    session: Session | None


class StoreArguments(OpenArguments, total=False):
    """Keyword arguments for opening a URI, or a path inside a store; see `alance.dataset`."""

    store: object | None


class TableArguments(StoreArguments, total=False):
    """Keyword arguments for opening a table and its versions' store; see `alance.dataset`."""

    manifest_store: ExternalStore | None
    commit_lock: CommitLock | None


@public
class Session(Hinted):
    """Scheduler, caches and threads that the reads of one event loop share.

    A session belongs to the loop that first uses it. Closing it cancels all work under way and
    waits for its end; `async with Session() as session:` does so at the end of the block. Each loop
    also has its own session, for datasets that are opened without a session; such datasets can be
    used in any loop.

    An argument that is None is read from the environment variable of its name, such as
    `ALANCE_CACHE_BYTES=1GiB` or `ALANCE_TIMEOUT=30`; without the variable, the default is used.

    Args:
        cache_bytes: budget of the search cache (manifests, footers, page tables, deletions); 256
            MiB.
        max_requests: maximum number of requests under way to one store; by default that of the kind
            of store.
        io_buffer_bytes: maximum bytes that a scan fetches ahead of its consumer, and that all large
            takes together hold as input and output; 256 MiB.
        block_cache_bytes: budget of the block cache (data of remote stores that takes and searches
            have read); 256 MiB. Scans do not use it.
        decode_threads: threads that decode; by default one per processor, at most 8.
        timeout: seconds that a request to a remote store may take, with all its attempts and
            pauses, before it fails with a `StoreError`; 60. A second is added per 64 KiB of its
            body, which is the lowest accepted rate. `timeout` in the storage options (of one
            attempt) overrides it for that store.
        connect_timeout: seconds that connecting may take, 5; it is retried within `timeout`.
            `connect_timeout` in the storage options overrides it.
        cache_dir: folder of the disk cache, which stores manifests, footers, page tables and
            deletions of remote tables with checksums. A take in a new process then costs two
            rounds: LIST and data. Processes may share the folder. Its files have unencrypted bytes
            of the tables, which only the owner can read, even without access to the store. By
            default nothing is cached on disk.
        cache_dir_bytes: maximum size of that folder, 1 GiB; the least recently used entries are
            removed first.
        trust_versions: True to read a version opened by number from the disk cache without a
            request, which saves a round. Use it only if no table is ever deleted and created again
            at the same place; otherwise the old table would be read.
    """

    # Returns the objects of the managed blobs of versions, for the cleanup after a commit. This
    # needs scans, which commits cannot import, so `alance.datasets` sets it.
    _object_reader: ClassVar[Callable[[Session, Table], Awaitable[ObjectsOf]]]

    def __init__(
        self,
        *,
        cache_bytes: int | None = None,
        max_requests: int | None = None,
        io_buffer_bytes: int | None = None,
        block_cache_bytes: int | None = None,
        decode_threads: int | None = None,
        timeout: float | None = None,
        connect_timeout: float | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        cache_dir_bytes: int | None = None,
        trust_versions: bool = False,
    ) -> None:
        settings = _settings(
            {
                "cache_bytes": cache_bytes,
                "max_requests": max_requests,
                "io_buffer_bytes": io_buffer_bytes,
                "block_cache_bytes": block_cache_bytes,
                "decode_threads": decode_threads,
                "timeout": timeout,
                "connect_timeout": connect_timeout,
                "cache_dir": cache_dir or None,
                "cache_dir_bytes": cache_dir_bytes,
            }
        )
        self._cache_bytes: int = settings["cache_bytes"]
        self.io_buffer_bytes: int = settings["io_buffer_bytes"]
        self._block_cache_bytes: int = settings["block_cache_bytes"]
        self._max_requests: int | None = settings["max_requests"]
        self._limits = TimeLimits(float(settings["timeout"]), float(settings["connect_timeout"]))
        self._disk: DiskStore | None = None
        if settings["cache_dir"] is not None:
            from alance.io.caches.disk_store import DiskStore

            self._disk = DiskStore(settings["cache_dir"], settings["cache_dir_bytes"])
        self._trust_versions = trust_versions
        self._decode_threads: int = settings["decode_threads"]
        self._engine: Engine | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False
        self._is_own: bool = False  # True for the session of a loop, or of any loop (`of_any_loop`)
        self._commit_queues: dict[str, GroupQueue[Any]] = {}
        self._followers: WeakSet[Follower] | None = None  # created for the first one

    def __repr__(self) -> str:
        state = "closed, " if self._closed else ""
        budget = self._cache_bytes + self._block_cache_bytes
        return (
            f"Session({state}{self.size_bytes():,} of {budget:,} bytes cached, "
            f"decode_threads={self._decode_threads})"
        )

    @property
    def decode_threads(self) -> int:
        """Number of threads of the decode pool."""
        return self._decode_threads

    @property
    def engine(self) -> Engine:
        """Scheduler, caches and pool; created at the first use in a running loop.

        Raises:
            InvalidInputError: the session is closed, or belongs to another event loop.
            UnsupportedError: no event loop of asyncio is running.
        """
        try:  # inlined, because each step of a read gets the engine
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise _no_loop() from error
        if self._loop is loop and self._engine is not None and not self._closed:
            return self._engine
        if self._is_own and self._loop is not loop:
            return Session.of_loop()._engine_of(loop)
        return self._engine_of(loop)

    def _engine_of(self, loop: asyncio.AbstractEventLoop) -> Engine:
        if self._closed:
            raise InvalidInputError("the session is closed")
        if self._engine is None:
            registry = StoreRegistry.shared(self._limits)
            scheduler = Scheduler(
                registry,
                max_requests=self._max_requests,
                io_buffer_bytes=self.io_buffer_bytes,
                block_cache_bytes=self._block_cache_bytes,
            )
            disk_cache = None
            if self._disk is not None:
                from alance.io.caches.disk_cache import DiskCache

                disk_cache = DiskCache(self._disk, registry, trusts_versions=self._trust_versions)
            cache = SearchCache(self._cache_bytes, disk_cache)
            self._engine = Engine(registry, scheduler, cache, DecodePool(self._decode_threads))
            self._loop = loop
            observing.show(self)
        elif self._loop is not loop:
            raise InvalidInputError(
                "the session belongs to another event loop; open the dataset in this one"
            )
        return self._engine

    @property
    def cache_stats(self) -> CacheStats:
        """Hits, misses and bytes of the search cache."""
        return self.engine.cache.stats

    def size_bytes(self) -> int:
        """Return the bytes in memory of the search cache and the block cache."""
        engine = self._engine
        return 0 if engine is None else engine.cache.stats.num_bytes + engine.scheduler.block_bytes

    def readings(self) -> Iterator[Reading]:
        """Yield sizes of queues and caches, and counts of running work; see `alance.observe`."""
        engine = self._engine
        if engine is None:
            return
        yield from engine.scheduler.readings()
        yield from engine.cache.readings()
        yield Reading("decodes_waiting", "", engine.pool.num_waiting)
        yield Reading("cleanups_under_way", "", engine.background.num_pending)
        waiting = sum([queue.num_waiting for queue in list(self._commit_queues.values())])
        yield Reading("appends_waiting", "", waiting)

    async def settled(self, timeout_s: float = 60.0) -> int:
        """Wait until the cleanup of cancelled calls has ended.

        A cancelled call on a remote store returns within a second, even if the store is slow. The
        uncommitted files that the call wrote may then be removed later.

        Cost: no request of its own.

        Args:
            timeout_s: maximum seconds to wait.

        Returns:
            Number of cleanups that are still running.

        Raises:
            InvalidInputError: the session is closed, or belongs to another event loop.
        """
        return await self.engine.background.settled(timeout_s)

    async def clear_disk_cache(self) -> None:
        """Empty `cache_dir` for all processes that share it, as deleting the folder does.

        Cost: no request.

        Raises:
            InvalidInputError: the session is closed, or belongs to another event loop.
        """
        disk = self.engine.cache.disk
        if disk is not None:
            await disk.clear()

    @classmethod
    def of_loop(cls) -> Session:
        """Return the running loop's own session, which is created at its first use.

        Raises:
            UnsupportedError: no event loop of asyncio is running.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError as error:
            raise _no_loop() from error
        session = _of_loop.get(loop)
        if session is None or session._closed:
            for reference in _of_loop.keyrefs():
                other = reference()
                if other is not None and other.is_closed():
                    # The session references its loop, which would keep the entry forever.
                    # Concurrent threads that start loops may already have removed it.
                    _of_loop.pop(other, None)
            session = _of_loop[loop] = cls()
            session._is_own, session._loop = True, loop
        return session

    @classmethod
    def of_any_loop(cls) -> Session:
        """Return a session that acts, in each event loop, as that loop's own session."""
        return _of_any_loop

    async def aclose(self) -> None:
        """Cancel all work under way, wait for its end, flush the disk cache, and end the threads.

        The cleanup of cancelled calls gets two seconds to end, and is then dropped. May be called
        twice.

        Cost: no request of its own. Raises no error.
        """
        if self is _of_any_loop:
            await Session.of_loop().aclose()
            return
        self._closed = True
        for follower in list(self._followers or ()):
            await follower.end()
        engine, self._engine = self._engine, None
        if engine is not None:
            for queue in self._commit_queues.values():
                await queue.drop()
            await engine.background.aclose()
            await engine.scheduler.aclose()
            if engine.cache.disk is not None:
                await engine.cache.disk.flush()
            await engine.pool.aclose()
            engine.registry.close()
            engine.cache.clear()
            self._commit_queues.clear()

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _SettingKind(NamedTuple):
    """Kind of a setting.

    Attributes:
        parse: converts the text of an environment variable.
        check: raises an error for a value that is out of bounds.
        expected: description of valid texts, for error messages.
    """

    parse: Callable[[str], object]
    check: Callable[[str, object], None]
    expected: str


def _settings(arguments: Mapping[str, object]) -> dict[str, Any]:
    """Return each setting by name: the argument, else its environment variable, else the default.

    Args:
        arguments: value of each setting; None if the caller passed none.

    Raises:
        InvalidInputError: a value is invalid.
    """
    settings: dict[str, Any] = dict(_USUAL)
    texts = system.environment(_VARIABLES)
    if any(texts):
        for variable, name, text in zip(_VARIABLES, _KINDS, texts, strict=True):
            if text and text.strip() and arguments[name] is None:
                settings[name] = _parsed(name, variable, text.strip())
    for name, value in arguments.items():
        if value is not None:
            _KINDS[name].check(name, value)
            settings[name] = value
    return settings


def _parsed(name: str, variable: str, text: str) -> object:
    kind = _KINDS[name]
    try:
        value = kind.parse(text)
    except ValueError:
        raise InvalidInputError(f"variable {variable}={text!r}: expected {kind.expected}") from None
    kind.check(name, value)
    return value


def _bytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]) << 10 * " KMGT".index((match[2] or " ").upper())


def _check_seconds(name: str, value: object) -> None:
    if not isinstance(value, Real) or not 0 < float(value) < math.inf:
        raise InvalidInputError(f"{name}={value!r}: expected a positive number of seconds")


def _check_path(name: str, value: object) -> None:
    if not isinstance(value, str | os.PathLike):
        raise InvalidInputError(f"{name}={value!r}: expected a path")


_NUM_BYTES: Final = _SettingKind(
    _bytes, partial(check_count, least=0), "a number of bytes, such as 512MiB"
)
_COUNT: Final = _SettingKind(int, check_count, "a number")
_SECONDS: Final = _SettingKind(float, _check_seconds, "a number")
_KINDS: Final[Mapping[str, _SettingKind]] = {
    "cache_bytes": _NUM_BYTES,
    "max_requests": _COUNT,
    "io_buffer_bytes": _NUM_BYTES,
    "block_cache_bytes": _NUM_BYTES,
    "decode_threads": _COUNT,
    "timeout": _SECONDS,
    "connect_timeout": _SECONDS,
    "cache_dir": _SettingKind(str, _check_path, "a path"),
    "cache_dir_bytes": _NUM_BYTES,
}
_VARIABLES: Final = [f"ALANCE_{name.upper()}" for name in _KINDS]
_USUAL: Final[Mapping[str, object]] = {
    "cache_bytes": CACHE_BYTES,
    "max_requests": None,
    "io_buffer_bytes": IO_BUFFER_BYTES,
    "block_cache_bytes": BLOCK_CACHE_BYTES,
    "decode_threads": USUAL_THREADS,
    "timeout": TIMEOUT_S,
    "connect_timeout": CONNECT_S,
    "cache_dir": None,
    "cache_dir_bytes": CACHE_DIR_BYTES,
}

_of_any_loop: Final = Session()
_of_any_loop._is_own = True


def open_store(
    uri: str | os.PathLike[str], **place: Unpack[StoreArguments]
) -> tuple[Session, Store, str]:
    """Return the caller's session, the store of a URI and the path inside it. Sends no request.

    Raises:
        InvalidInputError: a bad URI or option.
    """
    session = _taken_from(place, StoreArguments)
    return session, *session.engine.registry.open(uri, **place)  # type: ignore[misc]  # the session is out


def table_at(uri: str | os.PathLike[str], **place: Unpack[TableArguments]) -> tuple[Session, Table]:
    """Return the caller's session, and the table at a URI. Sends no request.

    Raises:
        InvalidInputError: a bad URI or option.
    """
    session = _taken_from(place, TableArguments)
    return session, open_table(session.engine.registry, uri, **place)  # type: ignore[misc]  # as above


def _taken_from(place: StoreArguments, kind: type[StoreArguments]) -> Session:
    """Remove the session from the arguments, and return it or the loop's own session."""
    if unknown := place.keys() - kind.__annotations__.keys():
        raise unexpected(unknown, kind.__annotations__)
    session = place.pop("session", None)
    if session is not None:
        check_type("session", session, Session, "an alance.Session")
    return session or Session.of_loop()


def _no_loop() -> UnsupportedError:
    """Return the error for a caller without a running asyncio event loop, as under trio."""
    return UnsupportedError(
        "no event loop of asyncio is running: under trio or another library use `alance.sync` "
        "in a thread (`trio.to_thread.run_sync`); without a loop `alance.sync` or `asyncio.run`"
    )


def queues_of(session: Session) -> dict[str, GroupQueue[Any]]:
    """Return a session's queues of waiting commits.

    Their keys begin with the location of the table; see `Table.queue_key`.

    For a loop's own session, the queues are those of the running loop.
    """
    return _here(session)._commit_queues


def followers_of(session: Session) -> WeakSet[Follower] | None:
    """Return the followers of a session that poll for versions; None if the session is closed."""
    here = _here(session)
    if here._followers is None:
        here._followers = WeakSet()
    return None if here._closed else here._followers


def _here(session: Session) -> Session:
    """Return the running loop's own session in place of another loop's; else the session itself."""
    is_elsewhere = session._is_own and session._loop is not asyncio.get_running_loop()
    return Session.of_loop() if is_elsewhere else session

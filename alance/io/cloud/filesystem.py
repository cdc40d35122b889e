"""A file system of fsspec as a store, for reads alone.

fsspec has two kinds of file systems. The methods of an asynchronous one (`_cat_file`, `_ls`, ...)
run in its own event loop, which fsspec has in a thread, or in the caller's loop if it was made with
`asynchronous=True`. The methods of others block, so they run in worker threads. Either way, the
caller's loop never waits, and a cancelled caller is free at once: a coroutine is cancelled, too; a
thread goes on to the end of its call.

File systems cache listings. The cache of a folder is dropped before the folder is listed, so that
new versions are seen.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias, TypeVar
from urllib.parse import quote, unquote
from weakref import ref

from alance.errors import InvalidInputError, NotFoundError, StoreError, UnsupportedError
from alance.io.cloud.requests import RequestingStore
from alance.io.loop import lifecycle
from alance.io.loop.futures import Threads, in_thread
from alance.io.loop.limits import RequestLimit, TimeLimits
from alance.io.stores.profile import FSSPEC
from alance.io.stores.store import (
    ObjectMeta,
    check_tag,
    check_whole,
    is_of_repository,
)
from alance.io.stores.uri import quoted

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence

    from fsspec import AbstractFileSystem

    from alance.io.cloud.resilience import Retries
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.store import Body, Names, Span

    Entries: TypeAlias = list[tuple[str, Mapping[str, Any]]]  # paths and descriptions

T = TypeVar("T")

# Not the threads of local reads: a server that hangs would hold them.
_threads: Final = Threads("alance-fsspec")
_TAGS: Final = ("ETag", "etag", "blob_id", "xet_hash")
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime", "modified", "created")
_FIRST_PID: Final = os.getpid()  # in another process, archives may be those of a parent


class FileSystemStore(RequestingStore):
    """A file system of fsspec behind the protocol of a store. Writes are refused.

    Args:
        root: the store's root, unique in the process.
        files: the file system.
        base: prefix that the file system's paths have, and the store's paths lack.
        profile: parameters for planning reads.
        retries: policy for retries, after those of the file system.
        limits: time limits of a request, with all its retries.
        instead: what to write instead of a write to this store, for the error.
        is_of_user: True if the user passed the file system.

    Attributes:
        passed: the file system, also in a forked child, which uses another one like it.
    """

    def __init__(
        self,
        root: str,
        files: AbstractFileSystem,
        base: str,
        profile: StoreProfile = FSSPEC,
        retries: Retries | None = None,
        limits: TimeLimits | None = None,
        *,
        instead: str,
        is_of_user: bool = False,
    ) -> None:
        super().__init__(root, profile, retries, limits)
        self.base = base
        self.is_of_user = is_of_user
        self.passed = files
        self._files = files
        self._instead = instead
        self._loop: ref[asyncio.AbstractEventLoop] | None = None  # with `asynchronous=True`
        self._turn: threading.Lock | None = threading.Lock() if _is_archive(files) else None
        self._has_urls = _has_urls(files)
        self._is_inherited = self._turn is not None and os.getpid() != _FIRST_PID
        lifecycle.on_fork(self)

    def __repr__(self) -> str:
        return f"FileSystemStore({self.root!r})"

    def after_fork(self) -> None:
        """Forget the parent's loop, and a lock that another thread may have held."""
        self._loop = None
        self._turn = self._turn and threading.Lock()
        self._is_inherited = self._turn is not None

    @property
    def objects(self) -> AbstractFileSystem:
        """The file system, made anew in a forked child.

        There, an asynchronous one has no thread, and an archive shares the position in its file
        with the parent.
        """
        files = self._files
        if self._is_inherited or (_is_async(files) and files._pid != os.getpid()):
            files = self._files = _renewed(files)
            self._is_inherited = False
        return files

    @property
    def pieces(self) -> None:
        """Always None: a call of fsspec reads ranges, each to a buffer of its own."""

    def read_now(self, path: str, ranges: Sequence[Span]) -> None:
        """Return None: a file system may always wait."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading ranges; one call of fsspec reads a group of consecutive small ranges."""
        return self._read(path, ranges, self._start)

    def _start(self, path: str, spans: Sequence[Span]) -> asyncio.Future[Any]:
        files, place = self.objects, self._place(path)
        if _is_async(files):
            return self._awaited(files, partial(_cat_ranges, files, place, spans))
        return self._threaded(partial(_read_ranges, files, place, spans))

    def _awaited(
        self, files: AbstractFileSystem, work: Callable[[], Coroutine[Any, Any, T]]
    ) -> asyncio.Future[T]:
        """Start a coroutine in the loop of an asynchronous file system.

        Raises:
            InvalidInputError: the file system was made with `asynchronous=True`, and is in use in
                another event loop.
        """
        loop = asyncio.get_running_loop()
        if not files.asynchronous:
            answer = asyncio.run_coroutine_threadsafe(work(), files.loop)
            return asyncio.wrap_future(answer, loop=loop)
        home = None if self._loop is None else self._loop()
        if home is not None and home is not loop and not home.is_closed():
            raise InvalidInputError(
                f"{self.uri}: the file system has asynchronous=True, so it belongs to the event "
                f"loop that used it first; pass one without asynchronous=True"
            )
        self._loop = ref(loop)
        return loop.create_task(work())

    def _threaded(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Start a blocking call in a worker thread."""
        turn = self._turn
        if turn is None:
            return in_thread(_threads.executor(), work, asyncio.get_running_loop())

        def in_turn() -> T:
            with turn:
                return work()

        return in_thread(_threads.executor(), in_turn, asyncio.get_running_loop())

    def _call(self, name: str, *args: object, **options: object) -> asyncio.Future[Any]:
        """Start a method of the file system."""
        files = self.objects
        if _is_async(files):
            return self._awaited(files, partial(getattr(files, f"_{name}"), *args, **options))
        return self._threaded(partial(getattr(files, name), *args, **options))

    def _place(self, path: str) -> str:
        return self.base + (quote(path) if self._has_urls else path)

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """Return the last `num_bytes`, and the object's size, which costs a call if unknown."""
        if size is None:
            size = await self.size(path)
        (tail,) = await self.get_ranges(path, [(max(0, size - num_bytes), size)])
        return tail, size

    def open_file(self, path: str) -> None:
        """Return None: the store does not know which objects are files of this machine."""

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """Return the whole object. `e_tag` must be None, because fsspec cannot check a tag.

        Callers pass no tag, because listings of this store have only weak tags.
        """
        check_tag(self.uri + path, e_tag, None)
        limit = RequestLimit(self.limits.whole())

        async def attempt() -> memoryview:
            info = await self._info(path)
            num_bytes = info.get("size") or 0
            check_whole(self.uri + path, num_bytes)
            limit.become(self.limits.whole(num_bytes))
            return memoryview(await self._call("cat_file", self._place(path)))

        return await self._run("get", path, attempt, limit, len)

    async def size(self, path: str) -> int:
        """Size of the object in bytes. Costs a call, a HEAD of a web server."""
        info = await self._run("head", path, lambda: self._info(path))
        if info.get("size") is None:
            raise UnsupportedError(f"{self.uri}{path}: the file system does not tell its size")
        return int(info["size"])

    async def _info(self, path: str) -> Mapping[str, Any]:
        """Return fsspec's description of a file.

        Raises:
            FileNotFoundError: the file does not exist, not even in a new listing; or `path` is a
                folder.
        """
        place = self._place(path)
        try:
            info: Mapping[str, Any] = await self._call("info", place)
        except FileNotFoundError:
            self.objects.invalidate_cache(place)
            info = await self._call("info", place)
        if info.get("type") == "directory":
            raise FileNotFoundError(place)
        return info

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Return the sorted paths of the folders and of the objects directly under `prefix`."""
        entries = await self._listed("ls", prefix)
        folders = [path for path, info in entries if info.get("type") == "directory"]
        objects = [path for path, info in entries if info.get("type") != "directory"]
        return sorted(folders), sorted(objects)

    async def list(
        self, prefix: str, *, start_after: str | None = None
    ) -> AsyncIterator[ObjectMeta]:
        """Yield the objects under the folder `prefix`, sorted by path.

        fsspec lists all objects before the first is yielded. An object costs a call if the listing
        lacks its size, as an index page of a web server does.
        """
        for path, info in sorted(await self._listed("find", prefix), key=lambda entry: entry[0]):
            if start_after is not None and path <= start_after:
                continue
            size = info.get("size")
            if size is None:
                try:
                    size = await self.size(path)
                except NotFoundError:  # deleted since, or a link to something else
                    continue
            yield ObjectMeta(path, size, _time_of(info), _weak_tag(info))

    async def _listed(self, method: str, prefix: str) -> Entries:
        """Return the path and description of each folder entry; empty if the folder is missing."""
        folder = prefix.strip("/")
        place = self._place(folder)

        async def attempt() -> Any:
            self.objects.invalidate_cache(place)
            try:
                return await self._call(method, place, detail=True)
            except (FileNotFoundError, NotADirectoryError) as error:
                if is_of_repository(error):
                    raise
                return []

        answer = await self._run("list", folder, attempt)
        infos: Iterable[Mapping[str, Any]] = answer.values() if isinstance(answer, dict) else answer
        above = (self.base + folder).strip("/")
        start = above + "/" if above else ""
        inside = f"{folder}/" if folder else ""
        entries: Entries = []
        for info in infos:
            name = str(info["name"])
            name = (unquote(name) if self._has_urls else name).strip("/")
            if name.startswith(start):
                entries.append((inside + name[len(start) :], info))
        return entries

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> None:
        """Raise UnsupportedError."""
        self._refuse(path)

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> None:
        """Raise UnsupportedError."""
        self._refuse(objects[0][0])

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Raise UnsupportedError if there are objects."""
        if objects:
            self._refuse(objects[0][0])

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> NoReturn:
        """Raise UnsupportedError."""
        self._refuse(path)

    async def delete(self, paths: Sequence[str]) -> None:
        """Raise UnsupportedError if there are paths."""
        if paths:
            self._refuse(paths[0])

    async def copy(self, source: str, target: str) -> None:
        """Raise UnsupportedError."""
        self._refuse(target)

    def _refuse(self, path: str) -> NoReturn:
        raise UnsupportedError(f"{self.uri}{path}: cannot be written, {self._instead}")

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return an empty sequence: nothing is written here."""
        return ()

    async def remove_folders(self, prefix: str) -> None:
        """Raise UnsupportedError."""
        self._refuse(prefix)

    def uri_of(self, path: str) -> str | None:
        """Return the URI of an object; None if the user passed the file system.

        Other objects are on the Hub. The second part of their paths, the repository's name and
        revision, is already quoted.
        """
        if self.is_of_user:
            return None
        parts = [part if i == 1 else quoted(part) for i, part in enumerate(path.split("/"))]
        return self.uri + "/".join(parts)

    def lasting_name(self) -> None:
        """Return None: the identity of a file system's server is unknown."""

    def heeds_conditions(self) -> bool:
        """Return False: nothing is written here."""
        return False


def split_place(files: AbstractFileSystem, path: str) -> tuple[str, str]:
    """Split a path of a file system, or its URI, to the base of its store and the path inside.

    The base is the beginning of all paths: `/`, empty, or the server of a URL.

    Raises:
        InvalidInputError: a URL has a user, a query or a fragment: these may be secrets, which
            would appear in messages, and belong to a single file.
    """
    place = str(files._strip_protocol(path))
    scheme, mark, rest = place.partition("://")
    if mark:
        server, _, inside = rest.partition("/")
        if "@" in server or not {"?", "#"}.isdisjoint(rest):
            shown = server.rpartition("@")[2].partition("?")[0].partition("#")[0]
            raise InvalidInputError(
                f"uri '{scheme}://{shown}/…': expected a server and a path, without user, '?' or "
                f"'#'; pass credentials to the file system, and write %3F or %23 in a name"
            )
        return f"{scheme}://{server}/", unquote(inside) if _has_urls(files) else inside
    inside = place.lstrip("/")
    if _has_urls(files):  # in a folder of a web server
        return "", unquote(inside)
    return place[: len(place) - len(inside)], inside


async def _cat_ranges(files: AbstractFileSystem, place: str, spans: Sequence[Span]) -> Any:
    """Read ranges by an asynchronous file system: a body of one range, else a list of them."""
    if len(spans) == 1:
        body = await files._cat_file(place, start=spans[0][0], end=spans[0][1])
        return _checked(place, spans[0], body)
    starts, stops = [span[0] for span in spans], [span[1] for span in spans]
    bodies = await files._cat_ranges([place] * len(spans), starts, stops, on_error="raise")
    return [_checked(place, span, body) for span, body in zip(spans, bodies, strict=True)]


def _read_ranges(files: AbstractFileSystem, place: str, spans: Sequence[Span]) -> Any:
    """Read ranges by a blocking file system, as `_cat_ranges` does.

    Calls the file system's own `cat_file` if there is one. Else it opens the file once, without
    fsspec's cache, which would read ahead by megabytes, and without a request for the size.
    """
    from fsspec import AbstractFileSystem as Base

    if type(files).cat_file is not Base.cat_file:
        bodies = [files.cat_file(place, start, stop) for start, stop in spans]
    else:
        most = max([stop for _, stop in spans])
        with files.open(place, "rb", cache_type="none", size=most) as file:
            bodies = [_read_range(file, span) for span in spans]
    checked = [_checked(place, span, body) for span, body in zip(spans, bodies, strict=True)]
    return checked[0] if len(spans) == 1 else checked


def _read_range(file: Any, span: Span) -> bytes:
    start, stop = span
    file.seek(start)
    body: bytes = file.read(stop - start)
    while len(body) < stop - start and (more := file.read(stop - start - len(body))):
        body += more
    return body


def _checked(place: str, span: Span, body: Any) -> Any:
    """Return the body of a range, which is shorter if the file ends inside the range.

    Raises:
        StoreError: the body is longer than the range.
        Exception: the body itself, which is an error if the file could not be read.
    """
    if isinstance(body, BaseException):
        raise body
    if len(body) > span[1] - span[0]:
        raise StoreError(
            f"{place}: {len(body)} bytes came for a range of {span[1] - span[0]}; the server "
            f"ignores ranges"
        )
    return body


def _is_async(files: AbstractFileSystem) -> bool:
    """True if a file system, and the one that it wraps if any, is asynchronous."""
    return bool(files.async_impl and getattr(getattr(files, "fs", None), "async_impl", True))


def _is_archive(files: AbstractFileSystem) -> bool:
    """Return True for archives, whose members share one open file and so its position.

    A file system that wraps an archive is one, too.
    """
    from fsspec.archive import AbstractArchiveFileSystem

    inner = getattr(files, "fs", None)
    return isinstance(files, AbstractArchiveFileSystem) or (
        inner is not None and _is_archive(inner)
    )


def _has_urls(files: AbstractFileSystem) -> bool:
    """Return True if paths of a file system are quoted as in URLs: of a web server."""
    inner = getattr(files, "fs", None)
    http = sys.modules.get("fsspec.implementations.http")
    return (inner is not None and _has_urls(inner)) or (
        http is not None and isinstance(files, http.HTTPFileSystem)
    )


def _renewed(files: AbstractFileSystem) -> AbstractFileSystem:
    """Make a file system again by its arguments, and those that it wraps as well."""
    from fsspec import AbstractFileSystem as Base

    def again(argument: Any) -> Any:
        is_used = isinstance(argument, Base) and (_is_async(argument) or _is_archive(argument))
        return _renewed(argument) if is_used else argument

    options = {name: again(value) for name, value in files.storage_options.items()}
    return type(files)(*map(again, files.storage_args), **options)


def _time_of(info: Mapping[str, Any]) -> datetime | None:
    """Return the time of an object's last change; None if `info` has no key in `_TIMES`."""
    for name in _TIMES:
        value = info.get(name)
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value, UTC)
    return None


def _weak_tag(info: Mapping[str, Any]) -> str | None:
    """Return an entity tag that says whether an object changed, but which no read can check.

    Returns None if the file system reports none.
    """
    tag = next((info[name] for name in _TAGS if info.get(name)), None)
    return None if tag is None else f'W/"{str(tag).strip(chr(34))}"'

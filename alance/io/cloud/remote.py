"""The store of objects over the network, through obstore.

The functions of obstore (not the methods of its stores) return futures that have started. So a
request needs no task, and cancelling its future closes its connection. Each call into the library
costs 65 to 135 us, whatever its size, so one call reads a group of ten small ranges.
"""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import obstore

from alance.errors import CorruptFileError, NotFoundError
from alance.io.cloud.endpoints import lasting_name, names_server
from alance.io.cloud.remote_list import LOOK_S, check_level, list_objects
from alance.io.cloud.requests import RequestingStore
from alance.io.cloud.upload_remote import RemoteUpload
from alance.io.events import observing, trace
from alance.io.loop import forked, lifecycle
from alance.io.loop.limits import RequestLimit, TimeLimits, outlasted
from alance.io.loop.tasks import each
from alance.io.stores.store import (
    MAX_PUTS,
    ObjectMeta,
    check_tag,
    check_whole,
    put_each,
    short_read,
    translate,
)
from alance.io.stores.uri import quoted

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Callable,
        Coroutine,
        Iterator,
        Sequence,
    )

    from obstore import PutMode
    from obstore.store import AzureStore, GCSStore, HTTPStore, LocalStore, MemoryStore, S3Store

    from alance.io.cloud.resilience import Retries
    from alance.io.stores.profile import StoreProfile
    from alance.io.stores.store import Body, Names, Span

    ObjectStore: TypeAlias = S3Store | GCSStore | AzureStore | HTTPStore | LocalStore | MemoryStore

T = TypeVar("T")

SINGLE_PUT_BYTES: Final = 64 << 20  # larger bodies are uploaded in parts
# Bodies up to this size are sent by the store object for reads, within its `SILENCE_S`. The one for
# uploads would save their SHA-256 (0.2 ms), but takes 5 ms to create, mostly for certificates.
SMALL_PUT_BYTES: Final = 256 << 10
# The first bodies up to this size are sent by it as well, until creating the other one has paid: a
# line of less than 210 KB/s is too slow for `SILENCE_S`, and needs the other one for a retry.
FIRST_PUT_BYTES: Final = 1 << 20
FIRST_PUTS_BYTES: Final = 4 << 20  # bytes of all of these; their SHA-256 takes 3 ms
DELETE_BYTES: Final = 4096  # counted for the time limit: a second for 16 deleted objects


class RemoteStore(RequestingStore):
    """A bucket or container behind any store object of obstore.

    Args:
        root: the store's root, unique in the process.
        objects: the store object of obstore, which has retries of its own.
        profile: parameters for planning reads.
        retries: policy for further retries, after those of the store object.
        limits: time limits of a request, with all its retries.
        uploads: makes the store object for writes without a condition; None uses `objects`.
        is_of_user: True if the user passed the store object.
    """

    def __init__(
        self,
        root: str,
        objects: ObjectStore,
        profile: StoreProfile,
        retries: Retries | None = None,
        limits: TimeLimits | None = None,
        uploads: Callable[[], ObjectStore] | None = None,
        *,
        is_of_user: bool = False,
    ) -> None:
        super().__init__(root, profile, retries, limits)
        self.is_of_user = is_of_user
        self._current: ObjectStore | None = objects
        self._inherited = objects
        self._make_uploads = uploads  # no closure over self, which would keep it alive
        self._uploads: ObjectStore | None = None
        self._first_puts = 0  # bytes of bodies above `SMALL_PUT_BYTES` sent without `_uploads`
        lifecycle.on_fork(self)

    def __repr__(self) -> str:
        return f"RemoteStore({self.root!r})"

    def after_fork(self) -> None:
        """Mark the store objects to be rebuilt on next use: they do not work in a child."""
        lifecycle.inherit((self._current, self._uploads))
        self._inherited = self._current or self._inherited
        self._current = self._uploads = None

    @property
    def objects(self) -> ObjectStore:
        """Store object of obstore, rebuilt in a forked child."""
        if self._current is None:
            lifecycle.revive()
            self._current = forked.of_this_process(self._inherited)
        return self._current

    @property
    def upload_objects(self) -> ObjectStore:
        """Store object for large writes without a condition, created at the first such write."""
        if self._make_uploads is None:
            return self.objects
        if self._uploads is None:
            self._uploads = self._make_uploads()
        return self._uploads

    @property
    def pieces(self) -> None:
        """Always None: a request of these protocols has a single range."""

    def read_now(self, path: str, ranges: Sequence[Span]) -> None:
        """Return None: reading over a network always waits."""

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Start reading ranges; one call of obstore reads a group of consecutive small ranges."""
        return self._read(path, ranges, self._start)

    def _enter(self) -> None:
        lifecycle.enter()

    def _start(self, path: str, spans: Sequence[Span]) -> asyncio.Future[Any]:
        lifecycle.enter()
        if len(spans) == 1:
            begin, end = spans[0]
            return _watch(obstore.get_range_async(self.objects, path, start=begin, end=end))
        begins, ends = [span[0] for span in spans], [span[1] for span in spans]
        return _watch(
            obstore.get_ranges_async(self.objects, path, starts=begins, ends=ends, coalesce=0)
        )

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """Return the last `num_bytes`, and the object's size.

        Costs one GET if the size is known or the store has suffix ranges; otherwise (Azure) a HEAD
        before it. An empty object of unknown size costs a HEAD more.
        """
        if size is None and self.profile.has_suffix_ranges:
            try:
                return await self._get_suffix(path, num_bytes)
            except CorruptFileError:  # an empty object has no suffix range
                size = await self.size(path)
                if size:
                    raise
        elif size is None:
            size = await self.size(path)
        (tail,) = await self.get_ranges(path, [(max(0, size - num_bytes), size)])
        return tail, size

    async def _get_suffix(self, path: str, num_bytes: int) -> tuple[memoryview, int]:
        if not num_bytes:
            return memoryview(b""), await self.size(path)

        async def attempt() -> tuple[memoryview, int]:
            result = await _watch(
                obstore.get_async(self.objects, path, options={"range": {"suffix": num_bytes}})
            )
            trace.note_first_byte()
            return memoryview(await _watch(result.bytes_async())), result.meta["size"]

        limit = RequestLimit(self.limits.whole(num_bytes))
        tail, size = await self._run("tail", path, attempt, limit, lambda tail: len(tail[0]))
        if len(tail) != min(num_bytes, size):
            raise short_read(self.uri + path, (max(0, size - num_bytes), size), len(tail))
        return tail, size

    def open_file(self, path: str) -> None:
        """Return None: objects of a remote store are not files."""

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """Return the whole object. Costs a GET."""
        limit = RequestLimit(self.limits.whole())

        async def attempt() -> memoryview:
            result = await _watch(obstore.get_async(self.objects, path))
            trace.note_first_byte()
            check_tag(self.uri + path, e_tag, result.meta["e_tag"])
            check_whole(self.uri + path, result.meta["size"])
            limit.become(self.limits.whole(result.meta["size"]))
            return memoryview(await _watch(result.bytes_async()))

        return await self._run("get", path, attempt, limit, len)

    async def size(self, path: str) -> int:
        """Size of the object in bytes. Costs a HEAD."""
        meta = await self._run("head", path, lambda: _watch(obstore.head_async(self.objects, path)))
        return meta["size"]

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> str | None:
        """Write an object; retry after transient failures, except with `if_absent`.

        A conditional put must not be repeated before the caller knows whether the first one took
        effect. A body over 64 MiB without a condition is uploaded in parts.
        """
        content = memoryview(body).cast("B")
        if not if_absent and len(content) > SINGLE_PUT_BYTES:
            async with self.open_upload(path, size_hint=len(content)) as upload:
                await upload.write(content)
                await upload.finish()
            return None

        senders = repeat(self.objects) if if_absent else self._senders(len(content))
        mode: PutMode = "create" if if_absent else "overwrite"

        async def attempt() -> str | None:
            lifecycle.enter()
            limit = RequestLimit(self.limits.put(len(content)))
            sender = next(senders)
            try:
                async with limit.clock:
                    written = await _watch(
                        obstore.put_async(sender, path, content, mode=mode, use_multipart=False)
                    )
            except TimeoutError:
                raise outlasted(limit.seconds, None) from None
            return written["e_tag"]

        if not if_absent:
            limit = RequestLimit(self.limits.whole(len(content)))
            return await self._run("put", path, attempt, limit, sent=len(content))
        with observing.RequestUnderWay("put", self.uri, path) as request:
            request.sent = len(content)
            try:
                return await attempt()
            except Exception as error:
                failure = translate(error, self.uri + path)
                raise failure from failure.__cause__

    def _senders(self, num_bytes: int) -> Iterator[ObjectStore]:
        """Yield the store object for each attempt to write a body without a condition."""
        if num_bytes <= SMALL_PUT_BYTES:
            yield from repeat(self.objects)
        sent = self._first_puts + num_bytes
        if self._uploads is None and num_bytes <= FIRST_PUT_BYTES and sent <= FIRST_PUTS_BYTES:
            self._first_puts = sent
            yield self.objects
        yield from repeat(self.upload_objects)

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> str | None:
        """Write objects one after the other, by a PUT each."""
        return await put_each(self, objects, if_absent=if_absent)

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Write objects by a PUT each, up to `MAX_PUTS` at once."""
        await each(lambda pair: self.put(*pair), objects, at_once=MAX_PUTS)

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> RemoteUpload:
        """Begin an object that is written piece by piece."""
        return RemoteUpload(self, path, size_hint)

    async def delete(self, paths: Sequence[str]) -> None:
        """Delete objects; a missing object is no error."""
        names = [*paths]
        if not names:
            return
        try:
            limit = RequestLimit(self.limits.whole(len(names) * DELETE_BYTES))
            await self._run(
                "delete",
                names[0],
                lambda: _watch(obstore.delete_async(self.objects, names)),
                limit,
            )
        except NotFoundError:
            # An object was missing; it is unknown whether the others were deleted.
            if len(names) > 1:
                for name in names:
                    await self.delete([name])

    async def copy(self, source: str, target: str) -> None:
        """Copy an object over `target` inside the store, without downloading it."""
        await self._run(
            "copy", source, lambda: _watch(obstore.copy_async(self.objects, source, target))
        )

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return an empty sequence: listings do not show the parts of an upload."""
        return ()

    async def remove_folders(self, prefix: str) -> None:
        """Do nothing: object stores have no folders."""

    def uri_of(self, path: str) -> str | None:
        """Return the URI of an object; None if the store object has a prefix."""
        return None if getattr(self.objects, "prefix", None) else self.uri + quoted(path)

    def lasting_name(self) -> str | None:
        """Return the store's name in the disk cache; see `endpoints.lasting_name`."""
        return lasting_name(self.root, self.profile, self.objects)

    def heeds_conditions(self) -> bool:
        """Return True if the server is that of a cloud that has conditional puts."""
        config = getattr(self.objects, "config", None) or {}
        return self.profile.heeds_conditions and not names_server(self.profile.kind, config)

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Return the sorted paths of the folders and of the objects directly under `prefix`."""
        folder = prefix.strip("/")

        async def attempt() -> obstore.ListResult[Sequence[obstore.ObjectMeta]]:
            call = _watch(obstore.list_with_delimiter_async(self.objects, folder or None))
            try:
                await asyncio.wait({call}, timeout=LOOK_S)
                if not call.done():
                    await check_level(call, self._objects_below(folder), folder, self.uri + folder)
                return await call
            finally:
                call.cancel()

        listing = await self._run("list", folder, attempt)
        objects = (meta["path"] for meta in listing["objects"])
        return sorted(listing["common_prefixes"]), sorted(objects)

    def list(self, prefix: str, *, start_after: str | None = None) -> AsyncIterator[ObjectMeta]:
        """Yield the objects under the folder `prefix`. A page that fails is requested again."""
        return self._objects_below(prefix, start_after)

    def _objects_below(
        self, prefix: str, start_after: str | None = None
    ) -> AsyncGenerator[ObjectMeta]:
        run = partial(self._run, "list")
        return list_objects(self.objects, self.uri, self.profile, run, prefix, start_after)


def _watch(call: Coroutine[object, object, T]) -> asyncio.Future[T]:
    """Return the started future of an obstore function, which its stubs type as a coroutine."""
    return lifecycle.watch(asyncio.ensure_future(call))

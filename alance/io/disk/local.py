"""The store of local files. It does not use obstore, which takes 90 to 280 us per read."""

from __future__ import annotations

import asyncio
import itertools
import os
import stat
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from alance import _kernels
from alance.errors import AlanceError, CorruptFileError, InvalidInputError
from alance.io.disk import files, publish
from alance.io.disk.upload_local import LocalUpload
from alance.io.loop import lifecycle, system
from alance.io.loop.futures import JoinedFutures, ThreadJob, in_thread, threads
from alance.io.loop.readahead import grouped
from alance.io.loop.tasks import all_of, whole
from alance.io.stores.profile import LOCAL, StoreProfile
from alance.io.stores.store import (
    ObjectMeta,
    SystemErrors,
    check_spans,
    check_tag,
    check_whole,
    translate,
)
from alance.io.stores.uri import join

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from alance.format.plans import Pieces
    from alance.io.stores.store import Body, Names, Span

T = TypeVar("T")

INLINE_READ_BYTES: Final = 512 << 10  # takes 80 us to copy; a thread would add 200 us of Python
INLINE_TICK_BYTES: Final = 12 << 20  # bytes per tick of the loop, which take about a millisecond
PIECE_COST_BYTES: Final = 8 << 10  # fixed cost of a piece, as the bytes copied in the same time
GROUP_JOB_BYTES: Final = 4 << 20  # larger groups are split among the threads
MAX_OPEN_FILES: Final = 512
FILES_PER_SYNC: Final = 32  # files open at once, and written with one sync of their folder
MAX_SYNCS: Final = 8  # threads that sync files: file systems do concurrent syncs together
FIRST_LIST_PAGE: Final = 2  # names; the first two usually tell the latest version
LIST_PAGE: Final = 1000  # names
QUICK_LIST_S: Final = 0.001  # processor time of a quick listing, which may take a turn of the loop
MAX_QUICK_FOLDERS: Final = 1 << 10  # folders known to be listed within `QUICK_LIST_S`


class LocalSource:
    """Local files from which a kernel reads bytes while it decodes them, in one thread.

    Args:
        root: prefix of the paths in error messages.
        paths: paths of the files, in the order of the kernel's file numbers.
        opened: the files by path; they stay open as long as this object lives.
    """

    def __init__(
        self, root: str, paths: Sequence[str], opened: Mapping[str, files.OpenFile]
    ) -> None:
        self._root, self._paths, self._opened = root, paths, opened
        self._source = _kernels.FileSource([opened[path].fd for path in paths], files.PIECES_GAP)

    @contextmanager
    def reading(self) -> Iterator[_kernels.Source]:
        """Yield the kernel's source, and translate its failures.

        Raises:
            CorruptFileError: a file ends before the end of a piece.
            StoreError: a read fails.
        """
        source = self._source
        try:
            yield source
        except AlanceError:
            raise
        except OSError:
            path = self._root + self._paths[source.file]
            if source.status == files.PIECES_SHORT:
                raise CorruptFileError(
                    f"{path}: the file ends before the requested bytes"
                ) from None
            with SystemErrors(path):
                raise OSError(source.status, os.strerror(source.status)) from None


class LocalStore:
    """All files of this machine; the path inside the store is the absolute path without its `/`.

    The loop does not wait for a disk. Inline reads use only the page cache, and a folder is listed
    inline only if its last listing was quick. All other work is done in a pool of threads, which is
    started at the first use.
    """

    def __init__(self, root: str = "file:///", profile: StoreProfile = LOCAL) -> None:
        self.root = root
        self.profile = profile
        self._tick = _Tick()
        self._quick: set[str] = set()  # folders listed fast enough to be listed inline
        self.after_fork()
        lifecycle.on_fork(self)

    def after_fork(self) -> None:
        """Forget the open files of the parent."""
        most = system.max_open_files() // 4
        self._files = files.FileCache(max(8, min(MAX_OPEN_FILES, most)))

    def _start(self, loop: asyncio.AbstractEventLoop, job: Callable[[], T]) -> ThreadJob[T]:
        return in_thread(threads.executor(), job, loop)

    async def _run(self, path: str, job: Callable[[], T], *, inline: bool = False) -> T:
        try:  # not `SystemErrors`, whose three calls take a microsecond
            return job() if inline else await self._start(asyncio.get_running_loop(), job)
        except OSError as error:
            failure = translate(error, self.root + path)
            raise failure from failure.__cause__

    async def _change(self, path: str, job: Callable[[], T]) -> T:
        """Run a job that changes files, and return its result. Cancellation waits for the job."""
        with SystemErrors(self.root + path):
            return await whole(self._start(asyncio.get_running_loop(), job))

    def _note_speed(self, folder: str, *, is_quick: bool) -> None:
        """Record the speed of a folder's listing; the loop lists quick folders inline.

        A listing is quick if it did not wait and took no longer than a turn of the loop. On a busy
        machine, a listing that took 0.1 ms takes 0.3 ms, but a hop to a thread takes 0.4 ms.
        """
        if not is_quick:
            self._quick.discard(folder)
        elif folder not in self._quick:
            if len(self._quick) == MAX_QUICK_FOLDERS:
                self._quick.clear()  # folders in use are soon recorded again
            self._quick.add(folder)

    @property
    def pieces(self) -> LocalStore:
        """The store itself, which reads pieces of files."""
        return self

    def read_now(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview] | None:
        """Read ranges from the page cache.

        Returns None if a byte is not there, or if this tick of the loop has read its limit of
        inline bytes.
        """
        num_bytes = 0
        for start, stop in ranges:
            if stop - start > INLINE_READ_BYTES:
                return None
            num_bytes += stop - start
        return self._files.read_now(path, ranges) if self._tick.has(num_bytes) else None

    def open_file(self, path: str) -> files.OpenFile | None:
        """Return the open file of a path; None if it is not open, or was replaced since then.

        Costs a stat.
        """
        return self._files.peek(path)

    def get_ranges(self, path: str, ranges: Sequence[Span]) -> asyncio.Future[Sequence[memoryview]]:
        """Read ranges in the pool; a job reads up to 4 MiB, in up to `group_size` ranges."""
        loop = asyncio.get_running_loop()
        jobs = [
            self._start(loop, partial(self._read, path, group))
            for group in grouped(ranges, _size, GROUP_JOB_BYTES, self.profile.group_size)
        ]
        return jobs[0] if len(jobs) == 1 else JoinedFutures(jobs, loop)

    def pieces_now(self, requests: Sequence[Pieces]) -> Sequence[memoryview] | None:
        """Read pieces of files from the page cache, into one buffer for each request.

        Returns None if a byte is not there, or if this tick of the loop has read its limit of
        inline bytes.

        Args:
            requests: pieces with paths inside the store.
        """
        cost = 0
        for pieces in requests:
            cost += pieces.num_bytes + PIECE_COST_BYTES * len(pieces.starts)
        if not self._tick.has(cost):
            return None
        buffers = []
        for pieces in requests:
            content = self._files.read_pieces_now(pieces)
            if content is None:
                return None
            buffers.append(content)
        return buffers

    def get_pieces(self, pieces: Pieces) -> asyncio.Future[memoryview]:
        """Read pieces of files into one buffer, by one job of the pool.

        Raises:
            CorruptFileError: from the returned future: a file ends before the end of a piece.
        """

        def job() -> memoryview:
            contents = []
            for part in pieces.split(files.MAX_FILES_PER_READ):
                opened = self._open(part.paths)
                with SystemErrors(self.root + part.paths[-1]):
                    in_order = [*map(opened.__getitem__, part.paths)]
                    content = files.read_pieces(in_order, self.root, part, wait=True)
                assert content is not None
                contents.append(content)
            return contents[0] if len(contents) == 1 else memoryview(b"".join(contents))

        return self._start(asyncio.get_running_loop(), job)

    def get_many(
        self, requests: Sequence[tuple[str, Sequence[Span]]]
    ) -> asyncio.Future[Sequence[Sequence[memoryview]]]:
        """Read ranges of several files by one job of the pool."""
        job = partial(_read_each, self._read, requests)
        return self._start(asyncio.get_running_loop(), job)

    def source(self, paths: Sequence[str]) -> LocalSource:
        """Return a source from which a decoding kernel reads files, in one thread. Blocks.

        Raises:
            NotFoundError, StoreError: a file cannot be opened.
        """
        return LocalSource(self.root, paths, self._open(paths))

    def _open(self, paths: Sequence[str]) -> dict[str, files.OpenFile]:
        opened: dict[str, files.OpenFile] = {}
        for path in dict.fromkeys(paths):
            try:  # not `SystemErrors`, which takes half as long as opening a cached file
                opened[path] = self._files.open(path)
            except OSError as error:
                failure = translate(error, self.root + path)
                raise failure from failure.__cause__
        return opened

    def _read(self, path: str, ranges: Sequence[Span]) -> Sequence[memoryview]:
        where = self.root + path
        check_spans(where, ranges)
        with SystemErrors(where):
            return files.read(self._files.open(path), where, ranges)

    async def get_tail(
        self, path: str, num_bytes: int, *, size: int | None = None
    ) -> tuple[memoryview, int]:
        """Return the last `num_bytes`, and the current size of the file."""

        def job() -> tuple[memoryview, int]:
            file = self._files.open(path)
            stop = os.fstat(file.fd).st_size
            span = (max(0, stop - num_bytes), stop)
            return files.read(file, self.root + path, [span])[0], stop

        return await self._run(path, job)

    async def get(self, path: str, *, e_tag: str | None = None) -> memoryview:
        """Return the whole file."""

        def job() -> memoryview:
            file = self._files.open(path)
            about = os.fstat(file.fd)
            tag = publish.tag_of(about.st_size, about.st_mtime_ns, about.st_ino)
            check_tag(self.root + path, e_tag, tag)
            span = (0, about.st_size)
            check_whole(self.root + path, span[1])
            return files.read(file, self.root + path, [span])[0]

        return await self._run(path, job)

    async def size(self, path: str) -> int:
        """Size of the file in bytes."""

        def job() -> int:
            about = os.stat("/" + path)
            if stat.S_ISDIR(about.st_mode):
                raise IsADirectoryError
            if not stat.S_ISREG(about.st_mode):  # the size of a pipe or device is unknown
                raise InvalidInputError(f"{self.root}{path}: a pipe or a device, expected a file")
            return about.st_size

        return await self._run(path, job)

    async def put(self, path: str, body: Body, *, if_absent: bool = False) -> str | None:
        """Write a file; it and its folder are synced to the disk when this returns.

        A cancelled call waits for its thread: no file appears after the call has ended.
        """
        return await self.put_in_order([(path, body)], if_absent=if_absent)

    async def put_in_order(
        self, objects: Sequence[tuple[str, Body]], *, if_absent: bool = False
    ) -> str | None:
        """Write files in order, each as `put` does, in one job."""

        def job() -> str:
            tag = ""
            for number, (path, body) in enumerate(objects, 1):
                is_last = number == len(objects)
                with SystemErrors(self.root + path):
                    tag = publish.write("/" + path, body, if_absent=if_absent and is_last)
            return tag

        return await self._change(objects[-1][0], job)

    async def put_many(self, objects: Sequence[tuple[str, Body]]) -> None:
        """Write files, with few syncs of their folder."""
        groups = [objects[n : n + FILES_PER_SYNC] for n in range(0, len(objects), FILES_PER_SYNC)]
        with SystemErrors(self.root + objects[0][0]):
            await all_of(self._put_group(group) for group in groups)

    async def _put_group(self, files: Sequence[tuple[str, Body]]) -> None:
        start = partial(self._start, asyncio.get_running_loop())
        new_files = [publish.NewFile("/" + path) for path, _ in files]
        bodies = [body for _, body in files]
        try:
            if len(files) == 1:  # a single job is cheaper: there is nothing to sync in parallel
                await whole(start(partial(publish.write_together, new_files, bodies)))
                return
            await whole(start(partial(publish.write_apart, new_files, bodies)))
            parts = [new_files[n::MAX_SYNCS] for n in range(min(MAX_SYNCS, len(new_files)))]
            await all_of(start(partial(publish.sync_all, part)) for part in parts)
            await whole(start(partial(publish.name_together, new_files)))
        except BaseException:
            # `all_of` may cancel this task a second time, before the files are dropped.
            await whole(start(partial(publish.drop_all, new_files)), is_needed=True)
            raise

    def open_upload(
        self, path: str, *, size_hint: int | None = None, durable: bool = True
    ) -> LocalUpload:
        """Begin a file; must be called in a running loop."""
        start = partial(self._start, asyncio.get_running_loop())
        return LocalUpload(self.root + path, "/" + path, start, durable)

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove files; a missing file is no error."""
        for path in paths:
            await self._change(path, partial(publish.remove, "/" + path))

    async def copy(self, source: str, target: str) -> None:
        """Copy a file to `target`, replacing it; synced to the disk."""
        await self._change(source, lambda: publish.copy("/" + source, "/" + target))

    async def unfinished(self, prefix: str) -> Sequence[ObjectMeta]:
        """Return the hidden files of unfinished writes by alance and by the Rust writers."""
        folder = prefix.strip("/")
        return await self._run(folder, lambda: list(publish.unfinished("/" + folder, folder + "/")))

    async def remove_folders(self, prefix: str) -> None:
        """Remove empty folders, innermost first."""
        await self._change(prefix, lambda: publish.remove_folders("/" + prefix.strip("/")))

    def uri_of(self, path: str) -> str:
        """Return the absolute path."""
        return "/" + path

    def lasting_name(self) -> None:
        """Return None: a disk cache of local files would save nothing."""

    def heeds_conditions(self) -> bool:
        """Return True: the system supports exclusive creation of files."""
        return True

    async def list_level(self, prefix: str) -> tuple[Names, Names]:
        """Return the sorted paths of the folders and of the files directly under `prefix`."""
        folder = prefix.strip("/")
        folders, files = await self._run(folder, lambda: publish.level("/" + folder))
        return [join(folder, name) for name in folders], [join(folder, name) for name in files]

    async def list(
        self, prefix: str, *, start_after: str | None = None
    ) -> AsyncIterator[ObjectMeta]:
        """Yield the finished files under the folder `prefix`, sorted by path."""
        folder = prefix.strip("/")
        metas = publish.walk("/" + folder, folder + "/" if folder else "", start_after)
        for page_size in itertools.chain([FIRST_LIST_PAGE], itertools.repeat(LIST_PAGE)):
            job = partial(_timed_page, metas, page_size)
            page, is_quick = await self._run(folder, job, inline=folder in self._quick)
            self._note_speed(folder, is_quick=is_quick)
            for meta in page:
                yield meta
            if len(page) < page_size:
                return


class _Tick(threading.local):
    """Counter of the bytes read inline in the current tick of this thread's loop."""

    num_bytes = 0

    def has(self, num_bytes: int) -> bool:
        """Count `num_bytes` and return True, or return False if they exceed the tick's limit."""
        if self.num_bytes + num_bytes > INLINE_TICK_BYTES:
            return False
        if not self.num_bytes and num_bytes:
            try:
                asyncio.get_running_loop().call_soon(self._begin)
            except RuntimeError:  # no loop runs in this thread
                return True
        self.num_bytes += num_bytes
        return True

    def _begin(self) -> None:
        self.num_bytes = 0


def _timed_page(metas: Iterator[ObjectMeta], page_size: int) -> tuple[tuple[ObjectMeta, ...], bool]:
    """Return the next page of a listing, and True if it was quick: it did not wait.

    Processor time of other threads and programs does not count.
    """
    begun = system.processor_use()
    page = tuple(itertools.islice(metas, page_size))
    ended = system.processor_use()
    return page, ended.waits == begun.waits and ended.seconds - begun.seconds <= QUICK_LIST_S


def _read_each(
    read: Callable[[str, Sequence[Span]], Sequence[memoryview]],
    requests: Sequence[tuple[str, Sequence[Span]]],
) -> Sequence[Sequence[memoryview]]:
    return [read(path, ranges) for path, ranges in requests]


def _size(span: Span) -> int:
    return span[1] - span[0]

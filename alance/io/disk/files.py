"""Reads of local files: a cache of descriptors, aligned buffers, reads that never block.

A read from the page cache takes 3 microseconds with `preadv` and RWF_NOWAIT; a hop to a thread
takes 50 to 150. So reads are tried inline first, and only a read that would block goes to a thread.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from alance import _kernels
from alance.errors import StoreError
from alance.io.loop import system
from alance.io.stores.store import short_read

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.format.plans import Pieces
    from alance.io.stores.store import Span

BUFFER_ALIGNMENT: Final = 64  # bytes; alignment in Lance files and of arrays that Arrow allocates
ARENA_RANGE_BYTES: Final = 16 << 10  # smaller ranges share an allocation, which costs 1 us

_NOWAIT: Final[int | None] = getattr(os, "RWF_NOWAIT", None)
_OPENED, _NAMED, _NOWAITS = map(attrgetter, ("opened", "named", "nowait"))
_NO_NOWAIT: Final = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


class OpenFile:
    """A file descriptor that is closed when its last reference is gone.

    Attributes:
        opened: the file for kernels, which read it whatever its name is.
        named: the file for kernels that refuse to read it if its path names another file.
        nowait: False if reads that never wait are not possible.
    """

    __slots__ = ("fd", "named", "nowait", "opened")

    def __init__(self, path: str) -> None:
        self.fd = os.open(path, system.READ_FLAGS)
        about = os.fstat(self.fd)
        self.opened = self.fd, b"", 0, 0
        self.named = self.fd, os.fsencode(path), about.st_dev, about.st_ino
        self.nowait = _NOWAIT is not None

    def __del__(self) -> None:
        fd = getattr(self, "fd", None)
        if fd is not None:
            os.close(fd)


class FileCache:
    """An LRU cache of open files by path in the store. Safe to use from several threads.

    A file that was replaced under its path is opened again. The inode number identifies a file
    reliably, because no other file can get the inode of an open descriptor.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._files: OrderedDict[str, OpenFile] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._files)

    def peek(self, path: str) -> OpenFile | None:
        """Return the open file; None if it is not open, or was replaced. Costs a stat."""
        files = self._held((path,))
        if files is None:
            return None
        _, name, *identity = files[0].named
        try:
            about = os.stat(name)
        except OSError:
            about = None
        if about is None or [about.st_dev, about.st_ino] != identity:
            self._forget(path, files[0])
            return None
        return files[0]

    def read_now(self, path: str, ranges: Sequence[Span]) -> list[memoryview] | None:
        """Read ranges of an open file from the page cache into read-only buffers.

        Values that are aligned in the file are aligned in memory, so typed views need no copy.

        Returns None if the file is not open or was replaced, or if a read fails, would block or is
        short. Cost: one kernel call, with a stat.
        """
        files = self._held((path,))
        if files is None or not files[0].nowait:
            return None
        status, arrays = _kernels.read_ranges(files[0].named, ranges)
        if status == PIECES_DONE:
            return [array.data.toreadonly() for array in arrays]
        if status == PIECES_REPLACED:
            self._forget(path, files[0])
        elif status > 0:
            files[0].nowait = False
        return None

    def read_pieces_now(self, pieces: Pieces) -> memoryview | None:
        """Read pieces of open files from the page cache into one read-only buffer.

        Returns None as `read_now` does. Cost: one kernel call, with a stat for each file.
        """
        paths, ends, starts, stops, _ = pieces
        files = self._held(paths)
        if files is None or not all(map(_NOWAITS, files)):
            return None
        status, number, content = _kernels.read_pieces(
            [*map(_NAMED, files)], ends, starts, stops, PIECES_GAP, True
        )
        if status == PIECES_DONE:
            return content.data.toreadonly()
        if status == PIECES_REPLACED:
            self._forget(paths[number], files[number])
        return None

    def open(self, path: str) -> OpenFile:
        """Return the open file; open it if it is not open. May block."""
        file = self.peek(path)
        if file is None:
            file = OpenFile("/" + path)
            evicted = None  # closed outside the lock
            with self._lock:
                self._files[path] = file
                self._files.move_to_end(path)
                if len(self._files) > self._capacity:
                    _, evicted = self._files.popitem(last=False)
            del evicted
        return file

    def _held(self, paths: Collection[str]) -> list[OpenFile] | None:
        """Return the open files of paths; None if any is not open."""
        with self._lock:
            files: list[Any] = [*map(self._files.get, paths)]
            if None in files:
                return None
            for path in paths:
                self._files.move_to_end(path)
        return files

    def _forget(self, path: str, file: OpenFile) -> None:
        """Drop a file whose path now names another file."""
        with self._lock:
            if self._files.get(path) is file:
                del self._files[path]


MAX_FILES_PER_READ: Final = 128  # maximum number of open files per read
PIECES_GAP: Final = 4 << 10  # bytes; copying them takes as long as another system call
PIECES_DONE: Final = 0  # statuses of kernels/io/pieces.cpp; positive ones are errno
PIECES_SHORT: Final = -2
PIECES_REPLACED: Final = -3


def allocate(ranges: Sequence[Span]) -> list[memoryview]:
    """Allocate writable buffers for ranges of a file, at addresses congruent to their offsets.

    Values that are aligned in the file are aligned in memory, so typed views need no copy. Ranges
    of up to `ARENA_RANGE_BYTES` share one allocation.
    """
    if len(ranges) == 1:
        ((start, stop),) = ranges
        own, address = _allocate(stop - start + BUFFER_ALIGNMENT)
        skip = (start - address) % BUFFER_ALIGNMENT
        return [own[skip : skip + stop - start]]
    buffers = []
    arena, position, base = memoryview(b""), 0, 0
    sizes = [stop - start for start, stop in ranges]
    for (start, stop), size in zip(ranges, sizes, strict=True):
        if size > ARENA_RANGE_BYTES:
            own, address = _allocate(size + BUFFER_ALIGNMENT)
            skip = (start - address) % BUFFER_ALIGNMENT
            buffers.append(own[skip : skip + size])
            continue
        if not arena:
            small = [own + BUFFER_ALIGNMENT for own in sizes if own <= ARENA_RANGE_BYTES]
            (arena, base), position = _allocate(sum(small)), 0
        position += (start - base - position) % BUFFER_ALIGNMENT
        buffers.append(arena[position : position + stop - start])
        position += stop - start
    return buffers


def _allocate(num_bytes: int) -> tuple[memoryview, int]:
    array = _kernels.blank(num_bytes)
    return array.data, array.__array_interface__["data"][0]


def read(file: OpenFile, where: str, ranges: Sequence[Span]) -> list[memoryview]:
    """Read ranges into read-only buffers. Blocks.

    Raises:
        CorruptFileError: the file ends before the end of a range.
        StoreError: the ranges do not fit in memory, as in a sparse file.
        OSError: a read fails.
    """
    size = os.fstat(file.fd).st_size
    for start, stop in ranges:  # checked before memory is allocated for bytes that do not exist
        if stop > size:
            raise short_read(where, (start, stop), max(0, size - start))
    try:
        buffers = allocate(ranges)
    except MemoryError as error:
        num_bytes = sum(stop - start for start, stop in ranges)
        raise StoreError(f"{where}: no memory for {num_bytes} bytes of {size}") from error
    for (start, stop), buffer in zip(ranges, buffers, strict=True):
        done, num_bytes = 0, stop - start
        while done < num_bytes:
            count = system.read_at(file.fd, buffer[done:], start + done)
            if not count:
                raise short_read(where, (start, stop), done)
            done += count
    return [buffer.toreadonly() for buffer in buffers]


def read_held(file: OpenFile, span: Span) -> tuple[memoryview | None, bool]:
    """Read a range that is probably in the page cache; wait for bytes that are not there.

    Returns:
        The bytes, and True if the read did not wait. The bytes are None if the file ends before the
        end of the range, a read fails, or the system has no RWF_NOWAIT.
    """
    start, stop = span
    if not file.nowait or _NOWAIT is None or stop > os.fstat(file.fd).st_size:
        return None, False
    (buffer,) = allocate([span])
    done, is_held = 0, True
    while done < stop - start:
        try:
            count = system.read_at(file.fd, buffer[done:], start + done, _NOWAIT if is_held else 0)
        except BlockingIOError:
            count = 0
        except OSError as error:
            if error.errno in _NO_NOWAIT:
                file.nowait = False
            return None, False
        done += count
        if is_held:
            is_held = done == stop - start
        elif not count:
            return None, False
    return buffer.toreadonly(), is_held


def read_pieces(
    files: Sequence[OpenFile], root: str, pieces: Pieces, *, wait: bool = False
) -> memoryview | None:
    """Read pieces of files into one read-only buffer, by one call that releases the GIL.

    Args:
        files: the open file of each path of the pieces.
        root: prefix of the paths in error messages.
        wait: True to block for bytes that are not in the page cache.

    Returns:
        The concatenated pieces. Without `wait`, None if a piece cannot be read from the page cache.

    Raises:
        CorruptFileError: with `wait`, a file ends before the end of a piece.
        OSError: with `wait`, a read fails.
    """
    paths, ends, starts, stops, _ = pieces
    if not wait and not all(map(_NOWAITS, files)):
        return None
    status, number, content = _kernels.read_pieces(
        [*map(_OPENED, files)], ends, starts, stops, PIECES_GAP, not wait
    )
    if status == PIECES_DONE:
        return content.data.toreadonly()
    if not wait:
        return None
    if status == PIECES_SHORT:
        start, stop = int(starts[ends[number] - 1]), int(stops[ends[number] - 1])
        size = os.fstat(files[number].fd).st_size
        raise short_read(root + paths[number], (start, stop), max(0, size - start))
    raise OSError(status, os.strerror(status))


def source(opened: Sequence[OpenFile], *, patience: int) -> _kernels.FileSource:
    """Return a source from which a decoding kernel reads open files, in the order of `opened`.

    Args:
        patience: number of waits for the disk after which the source fails.
    """
    return _kernels.FileSource([file.fd for file in opened], PIECES_GAP, patience)

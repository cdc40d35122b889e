"""A bounded folder of byte ranges, shared by processes that know nothing of each other.

One file an object, named by a hash of what the object is; it holds all ranges that are kept of it:

      0  8   `ALKEPT1\\n`
      8  32  the object's key
     40  u32 number of ranges, n
     44  u32 CRC-32 of the 44 bytes before and of the table
     48  n times 24 bytes: start u64, stop u64, CRC-32 of the content u32, 4 zero bytes
         the contents, in the order of the table, to the end of the file

Files are written beside their place and moved there, so that readers need no lock: they see an
old file, a new one, or none. What fails a checksum is removed, and was never there. A file's time
of modification is that of its last use, to the minute; the oldest go first.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import stat
import struct
import threading
import time
import zlib
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from alance.io.loop import system

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Ranges: TypeAlias = "dict[tuple[int, int], memoryview]"  # content by (start, stop)

STORE_FORMAT: Final = "v1"  # of files; another one gets a folder of its own
ENTRY_MAGIC: Final = b"ALKEPT1\n"
ENTRY_HEAD: Final = struct.Struct("<8s32sI")
ENTRY_CRC: Final = struct.Struct("<I")
RANGE_RECORD: Final = struct.Struct("<QQII")
DISK_BLOCK_BYTES: Final = 4096  # what a file's size is rounded up to by most file systems
TOUCH_EVERY_S: Final = 60.0  # a use is noted at most so often
STALE_TEMPORARY_S: Final = 3600.0  # a temporary file as old belongs to a process that died
_log: Final = logging.getLogger(__name__)


class DiskStore:
    """Ranges of objects in a folder. Safe to use from many threads and processes; all calls block.

    Where the folder cannot be used, a warning is logged once, and nothing is kept or found.

    Args:
        folder: made with rights for its owner only. One that others may write to is not used.
        max_bytes: bound of all files together. Processes that write at the same moment may exceed
            it by a 32nd each, until one of them writes again.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int) -> None:
        self._folder = Path(folder).expanduser().absolute() / STORE_FORMAT
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._used: int | None = None  # bytes, when last counted and what was added; None: unknown
        self._added = 0  # since then
        self._is_checked = False
        self.can_read = self.can_write = max_bytes > 0

    @property
    def max_object_bytes(self) -> int:
        """The ranges of one object may take so much; larger ones are not kept."""
        return self._max_bytes // 8

    def after_fork(self) -> None:
        """Make the lock anew: another thread may have held it."""
        self._lock = threading.Lock()

    def load(self, key: bytes) -> Ranges:
        """What is kept of an object: read-only views of one buffer; empty where there is nothing.

        Args:
            key: 32 bytes.
        """
        if not self._check() or not self.can_read:
            return {}
        ranges = self._read(key, self._path(key))
        return {} if ranges is None else ranges

    def save(self, key: bytes, ranges: Mapping[tuple[int, int], memoryview]) -> None:
        """Keep ranges of an object, beside those that are kept already."""
        if not self._check() or not self.can_write or not ranges:
            return
        path = self._path(key)
        kept = self._read(key, path) or {}
        if all(span in kept for span in ranges):
            return
        try:
            merged = {**kept, **ranges}
            if _file_bytes(merged) > self.max_object_bytes:
                merged = dict(ranges)
            if _file_bytes(merged) <= self.max_object_bytes:
                self._make_room(_file_bytes(merged))
                self._write(path, _pack(key, merged))
        except FileNotFoundError:
            pass  # another process emptied the folder meanwhile
        except OSError as error:
            self._switch_off("written", error)

    def discard(self, key: bytes) -> None:
        """Forget an object."""
        _remove(self._path(key))

    def clear(self) -> None:
        """Forget everything, other processes' entries too."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._lock:
            self._used, self._is_checked = None, False

    def num_bytes(self) -> int:
        """Bytes of all files, rounded up to blocks of the disk. Looks at each."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key: bytes) -> Path:
        name = key.hex()
        return self._folder / name[:2] / name[2:34]

    def _check(self) -> bool:
        """Make the folder, and see that it is our own; once."""
        if self._is_checked:
            return True
        with self._lock:
            if self._is_checked or not self.can_read:
                return self._is_checked
            try:
                self._folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._folder.mkdir(mode=0o700, exist_ok=True)
                about = self._folder.lstat()
                if not stat.S_ISDIR(about.st_mode) or about.st_mode & 0o022:
                    raise PermissionError(f"{self._folder}: others may write to it")
                if hasattr(os, "geteuid") and about.st_uid != os.geteuid():
                    raise PermissionError(f"{self._folder}: it belongs to another user")
            except OSError as error:
                self.can_read = False
                self._switch_off("used", error)
                return False
            self._is_checked = True
            return True

    def _read(self, key: bytes, path: Path) -> Ranges | None:
        try:
            with path.open("rb") as file:
                about = os.fstat(file.fileno())
                content = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self.can_read = False
            self._switch_off("read", error)
            return None
        ranges = _unpack(key, content)
        if ranges is None:
            _remove(path)
        elif time.time() - about.st_mtime > TOUCH_EVERY_S:
            with suppress(OSError):
                os.utime(path)
        return ranges

    def _write(self, path: Path, parts: list[bytes | memoryview]) -> None:
        temporary = self._folder / f"{os.getpid()}-{secrets.token_hex(8)}.tmp"
        try:
            if not self._folder.exists():  # removed meanwhile
                self._is_checked = False
                self._check()
            path.parent.mkdir(mode=0o700, exist_ok=True)
            flags = system.WRITE_NEW_FLAGS
            with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
                file.writelines(parts)
            temporary.replace(path)
        except BaseException:
            _remove(temporary)
            raise

    def _make_room(self, num_bytes: int) -> None:
        """Count what is there where that is not known well, and remove the oldest if need be."""
        with self._lock:
            if (
                self._used is None
                or self._used + num_bytes > self._max_bytes
                or self._added + num_bytes > self._max_bytes // 32
            ):
                self._used, self._added = self._evict(num_bytes), 0
            self._used += num_bytes
            self._added += num_bytes

    def _evict(self, num_bytes: int) -> int:
        """Remove the files used longest ago until there is room; gives the bytes that are left."""
        files = sorted(self._files())
        used = sum(size for _, size, _ in files)
        if used + num_bytes <= self._max_bytes:
            return used
        allowed = self._max_bytes * 7 // 8 - num_bytes  # not for every file anew
        for _, size, path in files:
            if used <= allowed:
                break
            _remove(path)
            used -= size
        return used

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """(last use, bytes, path) of all files; what processes that died left is removed."""
        folders = [str(self._folder)]
        while folders:
            try:
                entries = list(os.scandir(folders.pop()))
            except OSError:  # removed meanwhile
                continue
            for entry in entries:
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                        continue
                    about = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                if entry.name.endswith(".tmp") and time.time() - about.st_mtime > STALE_TEMPORARY_S:
                    _remove(entry.path)
                else:
                    yield (
                        about.st_mtime,
                        -(-about.st_size // DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES,
                        entry.path,
                    )

    def _switch_off(self, verb: str, error: OSError) -> None:
        if self.can_write:
            self.can_write = False
            _log.warning("disk cache %s: it cannot be %s: %s", self._folder, verb, error)


def _remove(path: str | Path) -> None:
    with suppress(OSError):
        os.unlink(path)


def _file_bytes(ranges: Mapping[tuple[int, int], memoryview]) -> int:
    inside = sum(len(content) + RANGE_RECORD.size for content in ranges.values())
    return -(-(ENTRY_HEAD.size + ENTRY_CRC.size + inside) // DISK_BLOCK_BYTES) * DISK_BLOCK_BYTES


def _pack(key: bytes, ranges: Mapping[tuple[int, int], memoryview]) -> list[bytes | memoryview]:
    """The parts of a file, to be written one behind the other."""
    head = ENTRY_HEAD.pack(ENTRY_MAGIC, key, len(ranges))
    table = b"".join(
        RANGE_RECORD.pack(start, stop, zlib.crc32(content), 0)
        for (start, stop), content in ranges.items()
    )
    return [head, ENTRY_CRC.pack(zlib.crc32(table, zlib.crc32(head))), table, *ranges.values()]


def _unpack(key: bytes, content: bytes) -> Ranges | None:
    """The ranges of a file; None where it is not whole and right."""
    table_start = ENTRY_HEAD.size + ENTRY_CRC.size
    if len(content) < table_start:
        return None
    magic, found_key, count = ENTRY_HEAD.unpack_from(content)
    table_stop = table_start + count * RANGE_RECORD.size
    if magic != ENTRY_MAGIC or found_key != key or table_stop > len(content):
        return None
    view = memoryview(content)
    table = view[table_start:table_stop]
    if ENTRY_CRC.unpack_from(content, ENTRY_HEAD.size)[0] != zlib.crc32(
        table, zlib.crc32(view[: ENTRY_HEAD.size])
    ):
        return None
    ranges: Ranges = {}
    at = table_stop
    for start, stop, checksum, _ in RANGE_RECORD.iter_unpack(table):
        part = view[at : at + stop - start]
        if start > stop or len(part) != stop - start or zlib.crc32(part) != checksum:
            return None
        ranges[start, stop] = part
        at += len(part)
    return ranges if at == len(content) else None

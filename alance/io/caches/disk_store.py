"""A folder of byte ranges with a bounded size, shared by independent processes.

There is one file for each object, named by the object's key. The file holds all cached ranges of
the object:

      0  8   `ALKEPT1\\n`
      8  32  the object's key
     40  u32 number of ranges, n
     44  u32 CRC-32 of the 44 bytes before and of the table
     48  n times 24 bytes: start u64, stop u64, CRC-32 of the content u32, 4 zero bytes
         the contents, in the order of the table, to the end of the file

Files are written under a temporary name and renamed, so that readers need no lock: they see the old
file, the new file, or none. A file that fails a checksum is removed and counts as missing. A file's
modification time is the time of its last use, to the minute. The least recently used files are
removed first.
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

STORE_FORMAT: Final = "v1"  # each format of the files has a folder of its own
ENTRY_MAGIC: Final = b"ALKEPT1\n"
ENTRY_HEAD: Final = struct.Struct("<8s32sI")
ENTRY_CRC: Final = struct.Struct("<I")
RANGE_RECORD: Final = struct.Struct("<QQII")
DISK_BLOCK_BYTES: Final = 4096  # most file systems round file sizes up to a multiple of this
TOUCH_EVERY_S: Final = 60.0  # minimum time between two updates of a file's modification time
STALE_TEMPORARY_S: Final = 3600.0  # an older temporary file belongs to a process that died
_log: Final = logging.getLogger(__name__)


class DiskStore:
    """Ranges of objects in a folder. Safe to use from many threads and processes; all calls block.

    If the folder cannot be used, a warning is logged once, and the store stays empty.

    Args:
        folder: created with rights for its owner alone; not used if others may write to it.
        max_bytes: upper bound of all files together. A process recounts the files after it has
            written a 32nd of the bound, so concurrent processes may exceed the bound by a 32nd each
            for a while.
    """

    def __init__(self, folder: str | os.PathLike[str], max_bytes: int) -> None:
        self._folder = Path(folder).expanduser().absolute() / STORE_FORMAT
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._used: int | None = None  # bytes: the last count plus `_added`; None if not counted
        self._added = 0  # bytes written since the last count
        self._is_checked = False
        self.can_read = self.can_write = max_bytes > 0

    @property
    def max_object_bytes(self) -> int:
        """Upper bound of the cached bytes of one object."""
        return self._max_bytes // 8

    def after_fork(self) -> None:
        """Replace the lock: another thread may have held it at the fork."""
        self._lock = threading.Lock()

    def load(self, key: bytes) -> Ranges:
        """Return the cached ranges of an object, as read-only views of one buffer.

        The result is empty if nothing of the object is cached.

        Args:
            key: 32 bytes.
        """
        if not self._check() or not self.can_read:
            return {}
        ranges = self._read(key, self._path(key))
        return {} if ranges is None else ranges

    def save(self, key: bytes, ranges: Mapping[tuple[int, int], memoryview]) -> None:
        """Cache ranges of an object, in addition to its cached ranges.

        If all of them together exceed `max_object_bytes`, the new ranges replace the cached ones.
        """
        if not self._check() or not self.can_write or not ranges:
            return
        path = self._path(key)
        stored = self._read(key, path) or {}
        if all(span in stored for span in ranges):
            return
        try:
            merged = {**stored, **ranges}
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
        """Remove an object."""
        _remove(self._path(key))

    def clear(self) -> None:
        """Remove all objects, including objects of other processes."""
        shutil.rmtree(self._folder, ignore_errors=True)
        with self._lock:
            self._used, self._is_checked = None, False

    def num_bytes(self) -> int:
        """Bytes of all files, rounded up to disk blocks. Costs a stat for each file."""
        return sum(size for _, size, _ in self._files())

    def _path(self, key: bytes) -> Path:
        name = key.hex()
        return self._folder / name[:2] / name[2:34]

    def _check(self) -> bool:
        """Create the folder and check, once, that it is this user's; return True if it is."""
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
        """Count the used bytes if the last count is outdated; remove files if needed."""
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
        """Remove the least recently used files until there is room; return the used bytes."""
        files = sorted(self._files())
        used = sum(size for _, size, _ in files)
        if used + num_bytes <= self._max_bytes:
            return used
        allowed = self._max_bytes * 7 // 8 - num_bytes  # free an eighth at once
        for _, size, path in files:
            if used <= allowed:
                break
            _remove(path)
            used -= size
        return used

    def _files(self) -> Iterator[tuple[float, int, str]]:
        """Yield (time of last use, bytes, path) of all files; remove stale temporary files."""
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
    """Return the parts of a file, in order."""
    head = ENTRY_HEAD.pack(ENTRY_MAGIC, key, len(ranges))
    table = b"".join(
        RANGE_RECORD.pack(start, stop, zlib.crc32(content), 0)
        for (start, stop), content in ranges.items()
    )
    return [head, ENTRY_CRC.pack(zlib.crc32(table, zlib.crc32(head))), table, *ranges.values()]


def _unpack(key: bytes, content: bytes) -> Ranges | None:
    """Parse a file to its ranges; return None if the file is damaged or has another key."""
    table_start = ENTRY_HEAD.size + ENTRY_CRC.size
    if len(content) < table_start:
        return None
    magic, stored_key, count = ENTRY_HEAD.unpack_from(content)
    table_stop = table_start + count * RANGE_RECORD.size
    if magic != ENTRY_MAGIC or stored_key != key or table_stop > len(content):
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

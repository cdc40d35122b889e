"""Atomic, durable writes of local files, and listings of folders. All functions block.

The content is written to a temporary file in the same folder and synced; then the file gets its
name by one atomic step, and the folder is synced. After a crash a file is complete or does not
exist.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import logging
import os
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.io.loop import system
from alance.io.stores.store import ObjectMeta

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from alance.io.stores.store import Body

_log: Final = logging.getLogger(__name__)

TEMPORARY_PREFIX: Final = ".tmp-"
FIRST_KEYS: Final = 8  # entries of a folder to yield first; finding the latest version takes two
NEXT_KEYS: Final = 1000  # entries of the next page; a stat for each takes a millisecond in all
# Names of temporary files of alance, and of the Rust writers (name#1).
_UNFINISHED: Final = re.compile(r"\A\.tmp-|#\d+\Z")
_NO_LINKS: Final = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NO_RENAME: Final = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP})
_RENAME_NOREPLACE: Final = 1
_AT_FDCWD: Final = -100


class NewFile:
    """A file written piece by piece under a hidden name until it is published.

    Args:
        path: the final path; publishing replaces a file that exists there.
        is_durable: sync the file, its name and new folders to the disk.
    """

    def __init__(self, path: str, is_durable: bool = True) -> None:
        self.path = path
        self._is_durable = is_durable
        self._temporary = os.path.join(
            os.path.dirname(path), TEMPORARY_PREFIX + os.urandom(16).hex()
        )
        self._fd: int | None = None
        self._is_published = False
        self._is_synced = False  # True if all written bytes are on the disk

    def _open(self) -> int:
        if self._fd is None:
            try:
                self._fd = self._create()
            except FileNotFoundError:
                _make_folders(os.path.dirname(self.path), is_durable=self._is_durable)
                self._fd = self._create()
        return self._fd

    def _create(self) -> int:
        return os.open(self._temporary, system.WRITE_NEW_FLAGS, 0o666)

    def append(self, piece: memoryview) -> None:
        """Append a piece to the file."""
        self._is_synced = False
        _write_all(self._open(), piece)

    def begin_sync(self) -> None:
        """Start to write the appended bytes to the disk; does not wait."""
        if self._is_durable:
            _kernels.begin_sync(self._open())

    def sync(self) -> None:
        """Sync the appended bytes to the disk; does nothing if the file was dropped meanwhile."""
        if self._fd is not None:
            os.fsync(self._fd)
            self._is_synced = True

    def publish(self, *, with_folder: bool = True) -> None:
        """Give the file its final name, which survives a crash after a sync of the folder."""
        fd = self._open()
        if self._is_durable and not self._is_synced:
            os.fsync(fd)
        self._close()
        os.replace(self._temporary, self.path)
        self._is_published = True
        if self._is_durable and with_folder:
            _sync_folder(os.path.dirname(self.path))

    def drop(self) -> None:
        """Remove the file, published or not."""
        self._close()
        remove(self.path if self._is_published else self._temporary)

    def _close(self) -> None:
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def write(path: str, body: Body, *, if_absent: bool) -> str:
    """Write a whole file, and return its entity tag; it is durable when this returns.

    Raises:
        FileExistsError: `if_absent` is set, and the file exists.
    """
    content = memoryview(body).cast("B")

    def fill(fd: int) -> None:
        _write_all(fd, content)

    about = _publish(path, fill, if_absent=if_absent)
    return tag_of(about.st_size, about.st_mtime_ns, about.st_ino)


def write_apart(files: Sequence[NewFile], bodies: Sequence[Body]) -> None:
    """Write files under their hidden names, for `sync_all` and `name_together`."""
    for file, body in zip(files, bodies, strict=True):
        file.append(memoryview(body).cast("B"))


def sync_all(files: Sequence[NewFile]) -> None:
    """Sync files to the disk; concurrent syncs by several threads cost little more than one."""
    for file in files:
        file.sync()


def name_together(files: Sequence[NewFile]) -> None:
    """Give synced files their final names; then sync each folder once."""
    for file in files:
        file.publish(with_folder=False)
    for folder in dict.fromkeys(os.path.dirname(file.path) for file in files):
        _sync_folder(folder)


def write_together(files: Sequence[NewFile], bodies: Sequence[Body]) -> None:
    """Write files, sync them, and name them."""
    write_apart(files, bodies)
    sync_all(files)
    name_together(files)


def drop_all(files: Sequence[NewFile]) -> None:
    """Remove files, published or not."""
    for file in files:
        file.drop()


def copy(source: str, target: str) -> None:
    """Copy a file to `target`, replacing it."""

    import shutil  # imported late: it imports all compression modules

    def fill(fd: int) -> None:
        with open(source, "rb") as reader, open(fd, "wb", closefd=False) as writer:
            shutil.copyfileobj(reader, writer, 1 << 20)

    _publish(target, fill, if_absent=False)


def remove(path: str) -> None:
    """Remove a file; a missing file is no error."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.unlink(path)


def walk(top: str, prefix: str, start_after: str | None) -> Iterator[ObjectMeta]:
    """Yield the finished files under a folder, at any depth, in the key order of object stores.

    Args:
        top: the folder.
        prefix: the folder's path inside the store, empty or ending in "/".
        start_after: omit files whose path in the store is not greater.
    """
    for name, size, modified_ns, inode in _entries(top):
        key = prefix + name
        if _UNFINISHED.search(name.removesuffix("/")):
            continue
        if name.endswith("/"):
            if start_after is None or key > start_after or start_after.startswith(key):
                yield from walk(f"{top.rstrip('/')}/{name[:-1]}", key, start_after)
        elif size >= 0 and (start_after is None or key > start_after):
            yield _meta(key, size, modified_ns, inode)


def _entries(top: str) -> Iterator[tuple[str, int, int, int]]:
    """Yield name, size, time of change in ns and inode of a folder's entries, in key order.

    Names of folders end in "/", as in keys; only files have a size, others -1. The first
    `FIRST_KEYS` entries are yielded before the others are sorted. Yields nothing if the folder is
    missing.
    """
    last, most = b"", FIRST_KEYS
    while True:
        status, entries = _kernels.list_folder(os.fsencode(top), last, most)
        if status in (errno.ENOENT, errno.ENOTDIR):
            return
        if status:
            raise OSError(status, os.strerror(status), top)
        yield from entries
        if len(entries) < most:
            return
        # Each call reads the whole folder: with larger and larger pages, these are few calls.
        last, most = os.fsencode(entries[-1][0]), max(NEXT_KEYS, 8 * most)


def unfinished(top: str, prefix: str) -> Iterator[ObjectMeta]:
    """Yield the unpublished files under a folder, at any depth; arguments as in `walk`."""
    for folder, _, names in os.walk(top):
        for name in filter(_UNFINISHED.search, names):
            path = os.path.join(folder, name)
            with contextlib.suppress(FileNotFoundError):
                about = os.stat(path)
                key = prefix + os.path.relpath(path, top)
                yield _meta(key, about.st_size, about.st_mtime_ns, about.st_ino)


def level(top: str) -> tuple[list[str], list[str]]:
    """Return the sorted names of folders and of finished files in `top`; empty if it is missing."""
    try:
        with os.scandir(top) as entries:
            named = [entry for entry in entries if not _UNFINISHED.search(entry.name)]
            folders = sorted(entry.name for entry in named if entry.is_dir())
            return folders, sorted(entry.name for entry in named if entry.is_file())
    except (FileNotFoundError, NotADirectoryError):
        return [], []


def remove_folders(top: str) -> None:
    """Remove a folder and the folders in it where they are empty, innermost first."""
    for folder, _, _ in os.walk(top, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def tag_of(size: int, modified_ns: int, inode: int) -> str:
    """Return the entity tag of a file, which changes with the content."""
    return f'"{inode:x}-{modified_ns:x}-{size:x}"'


def _meta(key: str, size: int, modified_ns: int, inode: int) -> ObjectMeta:
    modified = datetime.fromtimestamp(modified_ns / 1e9, UTC)
    return ObjectMeta(key, size, modified, tag_of(size, modified_ns, inode))


def _publish(path: str, fill: Callable[[int], None], *, if_absent: bool) -> os.stat_result:
    folder = os.path.dirname(path)
    temporary = os.path.join(folder, TEMPORARY_PREFIX + os.urandom(16).hex())
    try:
        try:
            about = _write_new(temporary, fill)
        except FileNotFoundError:
            _make_folders(folder)
            about = _write_new(temporary, fill)
        if not if_absent:
            os.replace(temporary, path)
        elif not _link_new(temporary, path) and not _rename_new(temporary, path):
            _log.warning("%s: no atomic create here; a crash may leave a torn file", folder)
            about = _write_new(path, fill)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    _sync_folder(folder)
    return about


def _write_all(fd: int, content: memoryview) -> None:
    done = 0
    while done < len(content):
        done += os.write(fd, content[done:])


def _write_new(path: str, fill: Callable[[int], None]) -> os.stat_result:
    fd = os.open(path, system.WRITE_NEW_FLAGS, 0o666)
    try:
        fill(fd)
        os.fsync(fd)
        return os.fstat(fd)
    finally:
        os.close(fd)


def _link_new(temporary: str, path: str) -> bool:
    """Give the file a second name; return False if the file system has no hard links."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        # A network file system may repeat its request after the first answer was lost.
        if not os.path.samestat(os.stat(temporary), os.stat(path)):
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    return True


def _rename_new(temporary: str, path: str) -> bool:
    """Rename without replacing an existing file; return False if the system cannot."""
    if not sys.platform.startswith("linux"):
        return False
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    source, target = os.fsencode(temporary), os.fsencode(path)
    if rename(_AT_FDCWD, source, _AT_FDCWD, target, _RENAME_NOREPLACE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _NO_RENAME:
        return False
    raise OSError(code, os.strerror(code), path)


def _make_folders(folder: str, *, is_durable: bool = True) -> None:
    """Make a folder and its missing parents; if durable, sync each name into the parent folder."""
    missing = []
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for path in reversed(missing):
        with contextlib.suppress(FileExistsError):
            os.mkdir(path)
        if is_durable:
            _sync_folder(os.path.dirname(path))


def _sync_folder(folder: str) -> None:
    try:
        system.sync_folder(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some file systems need no sync
            raise

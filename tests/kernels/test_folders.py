"""Entries of a folder, in the order in which stores list keys."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def keys(folder: Path, after: bytes = b"", most: int = 1 << 40) -> list[bytes]:
    status, entries = _kernels.list_folder(os.fsencode(folder), after, most)
    assert status == 0
    for name, size, modified_ns, inode in entries:
        about = (folder / name).stat()
        of_file = about.st_size, about.st_mtime_ns, about.st_ino
        assert (size, modified_ns, inode) == (of_file if (folder / name).is_file() else (-1, 0, 0))
    return [os.fsencode(name) for name, *_ in entries]


def test_a_folder_sorts_by_the_keys_under_it(tmp_path: Path) -> None:
    for name in ("a", "b-c", "ü"):
        (tmp_path / name).write_bytes(b"")
    for name in ("b", "empty"):
        (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "b")
    expected = [b"a", b"b-c", b"b/", b"empty/", b"link", "ü".encode()]
    assert keys(tmp_path) == expected
    (tmp_path / "loose").symlink_to(tmp_path / "missing")
    assert _kernels.list_folder(os.fsencode(tmp_path), b"link", 1) == (0, [("loose", -1, 0, 0)])
    assert keys(tmp_path, most=0) == []


@settings(max_examples=30)
@given(st.integers(0, 60), st.integers(0, 70))
def test_the_first_ones_and_those_behind_them(
    tmp_path_factory: pytest.TempPathFactory, count: int, most: int
) -> None:
    folder = tmp_path_factory.mktemp("folder")
    names = [f"{number * 7919 % 1000:03d}".encode() for number in range(count)]
    for name in names:
        (folder / os.fsdecode(name)).write_bytes(b"")
    first = keys(folder, most=most)
    assert first == sorted(names)[:most]
    last = first[-1] if first else b""
    assert [*first, *keys(folder, last)] == sorted(names)


def test_what_is_no_folder_is_told_by_the_systems_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    for path, status in ((tmp_path / "missing", errno.ENOENT), (file, errno.ENOTDIR)):
        assert _kernels.list_folder(os.fsencode(path), b"", 5) == (status, [])


def test_what_begins_to_go_to_the_disk_changes_no_byte(tmp_path: Path) -> None:
    """And fails for no file: the sync at the end is what tells of errors."""
    content = bytes(range(256)) * 4096
    with (tmp_path / "file").open("wb", buffering=0) as file:
        for start in range(0, len(content), 1 << 18):
            file.write(content[start : start + (1 << 18)])
            _kernels.begin_sync(file.fileno())
    assert (tmp_path / "file").read_bytes() == content
    _kernels.begin_sync(-1)

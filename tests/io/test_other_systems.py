"""Local files where the system has less than Linux: what macOS and Windows do not have is away."""

from __future__ import annotations

import ctypes
import errno
import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import alance
from alance.io.disk import files, publish
from alance.io.loop import system

KERNELS = Path(alance.__file__).parent / "kernels"

# A program that has nothing that only Linux, or only POSIX, has; `taken` are names of `os`.
PROGRAM = """
import datetime, os, sys

for name in {taken!r}:
    delattr(os, name)
sys.modules["resource"] = None
sys.platform = "other"

import alance.sync as alance

for number in range(3):
    rows = {{"id": list(range(number * 10, number * 10 + 10)), "text": ["some"] * 10}}
    dataset = alance.write_dataset(rows, {uri!r}, mode="append" if number else "create")
dataset = dataset.delete("id = 5")
dataset.create_scalar_index("id", "BTREE")
dataset = alance.dataset({uri!r})
assert dataset.take([5, 20])["id"].to_pylist() == [6, 21]
assert dataset.to_table(filter="id > 25")["id"].to_pylist() == [26, 27, 28, 29]
assert dataset.get(7, "id") == {{"id": 7, "text": "some"}}
dataset.optimize.compact_files()
dataset.checkout_latest().cleanup_old_versions(datetime.timedelta(0))
assert alance.dataset({uri!r}).count_rows() == 29
"""
MACOS = ["posix_fadvise", "memfd_create", "RWF_NOWAIT"]
WINDOWS = [*MACOS, "preadv", "pread", "readv", "register_at_fork", "fork", "O_NONBLOCK"]


@pytest.mark.parametrize("taken", [MACOS, [*WINDOWS, "O_DIRECTORY"]], ids=["macos", "windows"])
def test_tables_on_local_disk(tmp_path: Path, taken: list[str]) -> None:
    program = PROGRAM.format(taken=taken, uri=str(tmp_path / "t"))
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, timeout=120, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_reads_at_a_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = random.Random(1).randbytes(1000)
    (tmp_path / "file").write_bytes(content)
    file = files.OpenFile(str(tmp_path / "file"))
    monkeypatch.delattr(os, "preadv")
    spans = [(0, 10), (500, 900), (20, 20), (999, 1000)]
    assert files.read(file, "file", spans) == [content[start:stop] for start, stop in spans]
    buffer = memoryview(bytearray(20))
    assert system.read_at(file.fd, buffer, 990) == 10
    assert bytes(buffer[:10]) == content[990:]


def test_names_without_hard_links_or_renames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_link(source: str, target: str) -> None:
        raise OSError(errno.ENOTSUP, "no links")

    monkeypatch.setattr(os, "link", no_link)
    monkeypatch.setattr(sys, "platform", "darwin")
    path = str(tmp_path / "new")
    publish.write(path, b"first", if_absent=True)
    with pytest.raises(FileExistsError):
        publish.write(path, b"second", if_absent=True)
    assert (tmp_path / "new").read_bytes() == b"first"
    assert "no atomic create here" in caplog.text


def test_the_kernel_reads_piece_by_piece(tmp_path: Path) -> None:
    """Compiled as for a system that has no call for several pieces."""
    source = tmp_path / "reads.cpp"
    source.write_text(
        textwrap.dedent("""
        #include <vector>
        #include "io/positions.hpp"
        extern "C" int read_two(int fd, char* first, long a, char* second, long b, long start,
                                int nowait) {
          std::vector<iovec> targets = {{first, size_t(a)}, {nullptr, 0}, {second, size_t(b)}};
          alance::Span span{start, targets.data(), targets.data() + targets.size()};
          return alance::read_span(fd, span, nowait != 0);
        }
        """)
    )
    library = tmp_path / "reads.so"
    flags = ["-std=c++20", "-shared", "-fPIC", "-DALANCE_PLAIN_READS", f"-I{KERNELS}"]
    subprocess.run(["c++", *flags, str(source), "-o", str(library)], check=True, timeout=120)
    read_two = ctypes.CDLL(str(library)).read_two
    content = random.Random(2).randbytes(500)
    (tmp_path / "file").write_bytes(content)
    with open(tmp_path / "file", "rb") as file:
        first, second = ctypes.create_string_buffer(100), ctypes.create_string_buffer(300)
        assert read_two(file.fileno(), first, 100, second, 300, 50, 0) == 0
        assert first.raw + second.raw == content[50:450]
        assert read_two(file.fileno(), first, 100, second, 300, 150, 0) == -2  # too short
        assert read_two(file.fileno(), first, 100, second, 300, 0, 1) == -1  # it might wait
    assert read_two(-1, first, 100, second, 300, 0, 0) == errno.EBADF

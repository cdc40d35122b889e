"""The pure half reads no disk: import-linter sees neither C++ nor built-in functions."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "alance"
READS_FILES = {"pieces.cpp", "positions.hpp", "folders.cpp"}  # the waiting half's own kernels

C_HEADERS = re.compile(
    r"#include\s*<(unistd\.h|fcntl\.h|sys/uio\.h|sys/stat\.h|dirent\.h|fstream|filesystem|cstdio"
    r"|stdio\.h)>"
)
C_CALLS = re.compile(
    r"\b(::)?(open|openat|fopen|pread|preadv2?|read|readv|write|pwrite|lseek|posix_fadvise|fstat)"
    r"\s*\((?=\s*(fd|fds|file|descriptor|path)\b)|\b(preadv2?|pread|posix_fadvise|openat|fopen)\s*\("
)
FILE_MAPPING = re.compile(
    r"\bmmap\s*\((?!nullptr, \w+, PROT_READ \| PROT_WRITE, MAP_PRIVATE \| MAP_ANON)"
)
PYTHON_CALLS = re.compile(
    r"\bos\.(open|read|pread|preadv|fstat|stat|fdopen)\b|\bfileno\(|(?<![\w.])open\(|\.fd\b"
    r"|^\s*(import|from) (os|mmap|io|pathlib)\b"
    r"|\b(FileSource|read_pieces|read_ranges|list_folder)\b",
    re.MULTILINE,
)


def code_of(path: Path) -> str:
    """A C++ source without comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", "", path.read_text(), flags=re.DOTALL)


def test_no_kernels_but_these_read_files_or_folders() -> None:
    sources = [*(PACKAGE / "kernels").rglob("*.?pp")]
    assert len(sources) > 60
    reading = {
        path.name
        for path in sources
        for pattern in (C_HEADERS, C_CALLS, FILE_MAPPING)
        if pattern.search(code_of(path))
    }
    assert reading == READS_FILES


def test_the_kernels_that_read_files_know_nothing_of_the_format() -> None:
    reading = PACKAGE / "kernels" / "io"
    included = re.findall(r'#include "([^"]+)"', code_of(reading / "pieces.cpp"))
    assert set(included) == {
        "base/owned.hpp",
        "io/coalesce.hpp",
        "io/positions.hpp",
        "io/source.hpp",
    }
    assert '#include "' not in code_of(reading / "coalesce.hpp")
    assert '#include "' not in code_of(reading / "positions.hpp")
    included = re.findall(r'#include "([^"]+)"', code_of(reading / "folders.cpp"))
    assert included == ["base/owned.hpp"]
    included = re.findall(r'#include "([^"]+)"', code_of(reading / "source.hpp"))
    assert included == ["base/owned.hpp"]


def test_neither_format_nor_filters_touch_files() -> None:
    mapping = {
        str(path.relative_to(PACKAGE)): match[0]
        for folder in ("format", "expr")
        for path in (PACKAGE / folder).rglob("*.py")
        if (match := PYTHON_CALLS.search(path.read_text()))
    }
    assert mapping == {}

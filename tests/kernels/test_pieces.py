"""Pieces of a file in one call."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import CorruptFileError, NotFoundError
from alance.format.plans import ByteRange, Pieces
from alance.io.disk import files as io_files
from alance.io.disk import local
from alance.io.disk.files import OpenFile
from alance.io.disk.local import LocalStore
from alance.io.events.trace import trace
from alance.io.opening.registry import StoreRegistry
from alance.io.reading.scheduler import Scheduler
from tests.reference.held_files import held_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CONTENT = bytes(n * 37 % 253 for n in range(3 << 20))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pieces") / "file"
    path.write_bytes(CONTENT)
    return path


@pytest.fixture
def nowait_folder(tmp_path: Path) -> Iterator[Path]:
    with held_folder(tmp_path) as folder:
        yield folder


def read_pieces(
    fds: list[int],
    ends: list[int],
    starts: np.ndarray,
    stops: np.ndarray,
    gap: int,
    **options: bool,
) -> tuple[int, int, np.ndarray]:
    """Pieces of copies of `CONTENT`."""
    files = [(fd, b"", 0, 0) for fd in fds]
    return _kernels.read_pieces(files, ends, starts, stops, gap, **{"nowait": False, **options})


def bounds(sizes: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Ascending pieces from gaps and sizes."""
    steps = np.array(sizes, np.int64).reshape(-1, 2)
    ends = np.cumsum(steps.reshape(-1)).reshape(-1, 2)
    return np.ascontiguousarray(ends[:, 0]), np.ascontiguousarray(ends[:, 1])


SIZES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 100, 5000, 40_000]), st.sampled_from([0, 1, 17, 4096, 90_000])
    ),
    min_size=1,
    max_size=20,
)


@given(sizes=SIZES, gap=st.sampled_from([0, 1, 8000, 1 << 20]))
def test_any_pieces_are_read_in_order(path: Path, sizes: list[tuple[int, int]], gap: int) -> None:
    starts, stops = bounds(sizes)
    fd = os.open(path, os.O_RDONLY)
    try:
        status, _, content = read_pieces([fd], [len(starts)], starts, stops, gap)
    finally:
        os.close(fd)
    assert status == 0
    expected = b"".join(CONTENT[a:b] for a, b in zip(starts, stops, strict=True))
    assert bytes(content) == expected


@given(sizes=st.lists(SIZES, min_size=1, max_size=4), nowait=st.booleans())
def test_pieces_of_several_files(
    path: Path, sizes: list[list[tuple[int, int]]], nowait: bool
) -> None:
    spans = [bounds(size) for size in sizes]
    starts, stops = (np.concatenate([span[side] for span in spans]) for side in (0, 1))
    ends = np.cumsum([len(size) for size in sizes]).tolist()
    fds = [os.open(path, os.O_RDONLY) for _ in spans]
    try:
        status, _, content = read_pieces(fds, ends, starts, stops, 4096, nowait=nowait)
    finally:
        for fd in fds:
            os.close(fd)
    if nowait and status == -1:
        return  # the page cache has not all
    assert status == 0
    expected = b"".join(CONTENT[a:b] for a, b in zip(starts, stops, strict=True))
    assert bytes(content) == expected


def test_what_cannot_be_read(path: Path) -> None:
    def read(fd: int, starts: list[int], stops: list[int]) -> tuple[int, int]:
        arrays = np.array(starts), np.array(stops)
        return read_pieces([fd, fd], [0, len(starts)], *arrays, 0)[:2]

    fd = os.open(path, os.O_RDONLY)
    end = len(CONTENT)
    try:
        for starts, stops in (([0, 5], [6, 9]), ([-1], [4]), ([4], [3]), ([1], [2, 3])):
            with pytest.raises(ValueError, match="pieces"):
                read(fd, starts, stops)
        for ends in ([2], [0], [], [1, 0], [-1, 1]):
            with pytest.raises(ValueError, match="pieces"):
                read_pieces([fd] * len(ends), ends, np.array([0]), np.array([1]), 0)
        assert read(fd, [end - 1], [end + 1]) == (-2, 1)
    finally:
        os.close(fd)
    status, number = read(fd, [0], [1])
    assert status > 0, "the number of the system's error"
    assert number == 1


def test_a_file_is_read_only_as_long_as_its_name_is_its_own(nowait_folder: Path) -> None:
    names = [nowait_folder / name for name in ("same", "replaced", "gone")]
    for name in names:
        name.write_bytes(b"old!")
    opened = [io_files.OpenFile(str(name)) for name in names]
    start, stop = np.array([1]), np.array([4])

    def read(file: OpenFile) -> tuple[object, ...]:
        status, _, content = _kernels.read_pieces([file.named], [1], start, stop, 0, True)
        other, ranges = _kernels.read_ranges(file.named, [(1, 4), (0, 2)])
        assert other == status
        return status, bytes(content), [*map(bytes, ranges)]

    assert [read(file) for file in opened] == [(0, b"ld!", [b"ld!", b"ol"])] * 3
    (nowait_folder / "other").write_bytes(b"new!")
    (nowait_folder / "other").rename(names[1])
    names[2].unlink()
    assert [*map(read, opened)] == [(0, b"ld!", [b"ld!", b"ol"]), *[(-3, b"", [])] * 2]
    content = _kernels.read_pieces([opened[1].opened], [1], start, stop, 0, False)[2]
    assert bytes(content) == b"ld!"
    names[0].write_bytes(b"new")
    assert read(opened[0]) == (-2, b"", [])


@given(starts=st.lists(st.integers(0, 1000), min_size=1, max_size=9), size=st.integers(0, 3000))
def test_ranges_lie_in_memory_as_in_their_file(path: Path, starts: list[int], size: int) -> None:
    file = OpenFile(str(path))
    ranges = [(start, start + size) for start in starts]
    status, arrays = _kernels.read_ranges(file.named, ranges)
    if status != -1 and status <= 0:  # the page cache has all, and the system can tell
        assert [*map(bytes, arrays)] == [CONTENT[start:stop] for start, stop in ranges]
        assert all(
            (array.ctypes.data - start) % 64 == 0
            for array, start in zip(arrays, starts, strict=True)
        )
    for wrong in ((-1, 4), (4, 3), (0, len(CONTENT) + 1)):
        assert _kernels.read_ranges(file.named, [wrong]) == (-2, [])


async def test_pieces_of_a_local_file(path: Path) -> None:
    registry = StoreRegistry()
    store, name = registry.open(str(path))
    scheduler, location = Scheduler(registry), store.root + name
    starts, stops = bounds([(10, 5), (100, 7), (500_000, 3)])
    pieces = Pieces.of(location, starts, stops)
    expected = b"".join(CONTENT[a:b] for a, b in zip(starts, stops, strict=True))
    for bulk in (False, True):
        with trace() as recorder:
            result, other = await scheduler.read(
                [pieces, ByteRange(location, 1, 3)], reason="test", bulk=bulk
            )
        assert bytes(result) == expected
        assert bytes(other) == CONTENT[1:3]
        assert recorder.num_bytes >= len(expected)
    beyond = Pieces.of(location, np.array([0, len(CONTENT)]), np.array([1, len(CONTENT) + 1]))
    with pytest.raises(CorruptFileError, match="ends"):
        await scheduler.read([beyond])
    missing = Pieces.of(location + "-missing", starts, stops)
    with pytest.raises(NotFoundError):
        await scheduler.read([ByteRange(location, 0, 1), missing], bulk=True)
    cancelled = scheduler.read([pieces, ByteRange(location, 1, 3)], bulk=True)
    cancelled.cancel()
    await scheduler.aclose()


@given(counts=st.lists(st.integers(1, 4), min_size=1, max_size=9), most=st.integers(1, 10))
def test_pieces_split_by_objects_are_the_same_pieces(counts: list[int], most: int) -> None:
    starts, stops = bounds([(3, 2)] * sum(counts))
    paths = [f"file{number}" for number in range(len(counts))]
    ends = np.cumsum(counts).tolist()
    pieces = Pieces(paths, ends, starts, stops, int((stops - starts).sum()))
    parts = pieces.split(most)
    assert [item for part in parts for item in part.ranges()] == pieces.ranges()
    assert sum(part.num_bytes for part in parts) == pieces.num_bytes
    assert max(len(part.paths) for part in parts) <= most


async def test_a_read_of_many_files_holds_few_of_them_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(io_files, "MAX_FILES_PER_READ", 3)
    monkeypatch.setattr(local, "MAX_OPEN_FILES", 1)  # that are kept open beyond a read: 8
    files = [tmp_path / f"{number:02}" for number in range(40)]
    for file in files:
        file.write_bytes(file.name.encode() * 10)
    num_open = most = 0
    opening, closing = OpenFile.__init__, OpenFile.__del__

    def opened(self: OpenFile, path: str) -> None:
        nonlocal num_open, most
        opening(self, path)
        num_open += 1
        most = max(most, num_open)

    def closed(self: OpenFile) -> None:
        nonlocal num_open
        closing(self)
        num_open -= 1

    monkeypatch.setattr(OpenFile, "__init__", opened)
    monkeypatch.setattr(OpenFile, "__del__", closed)
    four = np.full(len(files), 4, np.int64)
    paths, ends = [str(file)[1:] for file in files], [*range(1, len(files) + 1)]
    pieces = Pieces(paths, ends, four, 2 * four, int(four.sum()))
    content = await LocalStore().get_pieces(pieces)
    assert bytes(content) == b"".join(file.name.encode() * 2 for file in files)
    assert most <= 8 + 3 + 1  # those kept, those of a part, and one that is just opened


async def test_pieces_of_an_object_in_memory() -> None:
    registry = StoreRegistry()
    store, name = registry.open("memory://pieces/a")
    await store.put(name, CONTENT[:1000])
    scheduler = Scheduler(registry)
    starts, stops = bounds([(10, 5), (100, 7)])
    (result,) = await scheduler.read([Pieces.of(store.root + name, starts, stops)])
    assert bytes(result) == CONTENT[10:15] + CONTENT[115:122]
    await scheduler.aclose()

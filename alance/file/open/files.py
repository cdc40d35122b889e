"""Plans that open data files (containers and columns), with the search cache."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from alance.file.open.columns import keep_grown, kept_by, noted, recalled
from alance.format.container import (
    TAIL_BYTES,
    FileColumn,
    FileEnd,
    open_container,
    open_containers,
    read_columns,
    tail_range,
)
from alance.format.plans import PLANS_A_TURN, TURN, cut, through, together
from alance.format.v0_1.metadata import V0_1_FOOTER as BATCH_FOOTER
from alance.format.v0_1.metadata import is_batch_file, open_batch_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.file.open.columns import States
    from alance.format.container import Container
    from alance.format.plans import Extent, Plan, T
    from alance.io.caches.disk_cache import DiskCache

FILES_A_TURN: Final = 1 << 10  # open files to handle between turns, 1 to 5 us each
FILES_AT_ONCE: Final = 64  # tails to parse before other tasks get a turn: about a millisecond


class FileOf(NamedTuple):
    """A file to open: its location, and its exact size."""

    path: str
    file_bytes: int


def open_file(path: str, file_bytes: int, states: States) -> Plan[Container]:
    """Plan the container of a file; see `open_files`."""
    (container,) = yield from open_files([FileOf(path, file_bytes)], states)
    return container


def open_files(
    files: Sequence[FileOf], states: States, tail_bytes: int = TAIL_BYTES
) -> Plan[list[Container]]:
    """Plan the containers of files: no round if all are cached, else one, rarely two.

    A file of at most 64 KiB is read completely; its pages are then read from memory.

    Args:
        tail_bytes: bytes of a file's end that the first round reads.
    """
    if len(files) <= FILES_A_TURN:
        return (yield from _open_files(files, states, tail_bytes))
    parts = [files[first : first + FILES_A_TURN] for first in range(0, len(files), FILES_A_TURN)]
    opened = yield from together(
        [_open_files(part, states, tail_bytes, is_part=True) for part in parts]
    )
    return [*chain.from_iterable(opened)]


def _open_files(
    files: Sequence[FileOf], states: States, tail_bytes: int, *, is_part: bool = False
) -> Plan[list[Container]]:
    """Plan the containers of some files; a part of them begins and ends in turns of its own."""
    disk = kept_by(states)
    if is_part:
        yield TURN
    keys = [("file", path) for path, _ in files]
    containers: list[Container | None] = states.peek_all(keys)
    if None not in containers:
        return cast("list[Container]", containers)
    missing = [number for number, container in enumerate(containers) if container is None]
    if disk is not None:
        for number in missing:
            containers[number] = _recalled(files[number], disk, states)
        missing = [number for number in missing if containers[number] is None]
    if missing:
        tails = yield [tail_range(*files[number], tail_bytes) for number in missing]
        if is_part:
            yield TURN
        # Another caller may have parsed the same bytes during this round.
        cached = states.peek_all([*map(keys.__getitem__, missing)])
        unopened = []
        for number, tail, container in zip(missing, tails, cached, strict=True):
            containers[number] = container
            if container is None:
                unopened.append((number, FileEnd(*files[number], tail)))
        for first in range(0, len(unopened), FILES_AT_ONCE):
            batch = unopened[first : first + FILES_AT_ONCE]
            opened = yield from _opened([end for _, end in batch])
            for (number, end), container in zip(batch, opened, strict=True):
                containers[number] = container
                states.put(keys[number], container, container.num_bytes)
                if disk is not None:
                    start = container.content_start
                    disk.put(end.path, start, end.file_bytes, container.content)
            if len(batch) > PLANS_A_TURN:
                yield TURN
    return cast("list[Container]", containers)


def _recalled(file: FileOf, disk: DiskCache, states: States) -> Container | None:
    """Container of a file from the disk cache; None if it is not there."""
    tail = disk.tail(file.path)
    if tail is None:
        return None
    end = FileEnd(*file, tail)
    opened = recalled(lambda: _opened([end]), file.path, disk)
    if opened is None:
        return None
    states.put(("file", file.path), opened[0], opened[0].num_bytes)
    return opened[0]


def _opened(files: Sequence[FileEnd]) -> Plan[list[Container]]:
    """Plan the containers of files of any version, from their last bytes."""
    footers = {bytes(file.tail[-BATCH_FOOTER.size :]) for file in files}
    if not any(map(is_batch_file, footers)):
        return (yield from open_containers(files))
    openers = [open_batch_file if is_batch_file(file.tail) else open_container for file in files]
    return (
        yield from together([opener(*file) for opener, file in zip(openers, files, strict=True)])
    )


def open_columns(
    container: Container, indices: Sequence[int], states: States
) -> Plan[list[FileColumn]]:
    """Plan columns of an open file; see `open_columns_of`."""
    yield from open_columns_of([(container, indices)], states)
    return [FileColumn(index, container.columns.column(index)) for index in indices]


def open_columns_of(files: Sequence[tuple[Container, Sequence[int]]], states: States) -> Plan[None]:
    """Plan columns of open files: no round if tails or caches have their metadata, else one."""
    if len(files) <= FILES_A_TURN:
        return (yield from _columns_of(files, states))
    parts = [files[first : first + FILES_A_TURN] for first in range(0, len(files), FILES_A_TURN)]
    yield from together([_columns_of(part, states, is_part=True) for part in parts])


def _columns_of(
    files: Sequence[tuple[Container, Sequence[int]]], states: States, *, is_part: bool = False
) -> Plan[None]:
    """Plan columns of some files; a part of them begins and ends in turns of its own."""
    disk = kept_by(states)
    if is_part:
        yield TURN
    unopened = [
        (container, absent) for container, indices in files if (absent := container.absent(indices))
    ]
    missing: Sequence[tuple[Container, Sequence[int]]] = unopened
    if disk is not None:
        missing = [
            (container, columns)
            for container, absent in unopened
            if (columns := [index for index in absent if not _recall(container, index, disk)])
        ]
    if missing:
        yield from noted(read_columns(missing), disk)
        if is_part or sum([len(absent) for _, absent in missing]) > PLANS_A_TURN:
            yield TURN
    for container, _ in unopened:
        keep_grown(container, 0, states)


def _recall(container: Container, index: int, disk: DiskCache) -> bool:
    """Open a column from the disk cache. Returns False if the cache lacks its metadata."""
    recalled(lambda: read_columns([(container, [index])]), container.path, disk)
    return not container.absent([index])


def from_content(plan: Plan[T], container: Container) -> Plan[T]:
    """Run a plan; if the file is completely in memory, answer all ranges from there."""
    return from_end(plan, container) if container.is_whole else plan


def from_end(plan: Plan[T], container: Container) -> Plan[T]:
    """Run a plan, and answer ranges in the file's tail from memory."""
    return from_tail(plan, container.path, container.content, container.content_start)


def from_tail(plan: Plan[T], path: str, tail: memoryview, start: int) -> Plan[T]:
    """Run a plan, and answer ranges in a file's last bytes from memory.

    Args:
        tail: bytes of the file from `start` to its end.
    """

    def answer(ranges: Sequence[Extent]) -> Plan[Sequence[memoryview]]:
        here = [extent.start >= start and extent.path == path for extent in ranges]
        missing = [extent for extent, is_here in zip(ranges, here, strict=True) if not is_here]
        fetched = iter((yield missing) if missing else ())
        return [
            cut(extent, tail, start) if is_here else next(fetched)
            for extent, is_here in zip(ranges, here, strict=True)
        ]

    return through(plan, answer)

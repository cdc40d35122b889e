"""Plans that open data files (containers and columns), with the search cache."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple, cast

import numpy as np

from alance import _kernels
from alance.file.open.columns import FileColumns, OpenColumn
from alance.file.open.recall import ScanStates, kept_by, noted, recalled
from alance.format.container import (
    TAIL_BYTES,
    FileEnd,
    open_containers,
    read_columns,
    tail_range,
)
from alance.format.plans import PLANS_A_TURN, TURN, cut, through, together
from alance.format.v0_1.metadata import is_batch_file, open_batch_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.file.open.columns import States
    from alance.file.open.recall import Kept
    from alance.format.container import Container
    from alance.format.plans import Extent, Pieces, Plan, T

FILES_AT_ONCE: Final = 64  # number of tails to parse between turns, which takes about a millisecond


class FileOf(NamedTuple):
    """File to open: its location, its exact size, and the cache for it."""

    path: str
    file_bytes: int
    states: States


def open_file(
    path: str, file_bytes: int, states: States, tail_bytes: int = TAIL_BYTES
) -> Plan[Container]:
    """Plan the container of a file; see `open_files`."""
    (container,) = yield from open_files([FileOf(path, file_bytes, states)], tail_bytes)
    return container


def open_files(files: Sequence[FileOf], tail_bytes: int = TAIL_BYTES) -> Plan[list[Container]]:
    """Plan the containers of files: no round if the cache has all, else one.

    A file of at most 64 KiB is read completely; its pages are then read from memory.

    Args:
        tail_bytes: number of bytes at the end of each file to read in the first round.
    """
    containers: list[Container | None] = [_cached_container(file) for file in files]
    missing = [number for number, container in enumerate(containers) if container is None]
    if missing:
        tails = yield [tail_range(*files[number][:2], tail_bytes) for number in missing]
        unopened = []
        for number, tail in zip(missing, tails, strict=True):
            file = files[number]
            # Another caller may have parsed the same file during this round.
            containers[number] = file.states.peek(("file", file.path))
            if containers[number] is None:
                unopened.append((number, FileEnd(file.path, file.file_bytes, tail)))
        for first in range(0, len(unopened), FILES_AT_ONCE):
            batch = unopened[first : first + FILES_AT_ONCE]
            opened = yield from _opened([end for _, end in batch])
            for (number, _), container in zip(batch, opened, strict=True):
                containers[number] = _keep_container(container, files[number].states)
            if len(batch) > PLANS_A_TURN:
                yield TURN
    return cast("list[Container]", containers)


def _cached_container(file: FileOf) -> Container | None:
    """Return a file's container from the search cache or the disk cache; None if in neither."""
    path, file_bytes, states = file
    container: Container | None = states.peek(("file", path))
    disk = kept_by(states)
    tail = None if container is not None or disk is None else disk.tail(path)
    if tail is not None:
        end = FileEnd(path, file_bytes, tail)
        opened = recalled(lambda: _opened([end]), path, disk)
        if opened is not None:
            (container,) = opened
            states.put(("file", path), container, container.num_bytes)
    return container


def _opened(files: Sequence[FileEnd]) -> Plan[list[Container]]:
    """Plan the containers of files of any version, from their last bytes."""
    batched = [is_batch_file(file.tail) for file in files]
    if not any(batched):
        return (yield from open_containers(files))
    opened: list[list[Container]] = yield from together(
        [
            open_containers([file]) if not is_batched else _open_batched(file)
            for file, is_batched in zip(files, batched, strict=True)
        ]
    )
    return [container for (container,) in opened]


def _open_batched(file: FileEnd) -> Plan[list[Container]]:
    return [(yield from open_batch_file(*file))]


def _keep_container(container: Container, states: States) -> Container:
    """Add a container to the caches, with a copy of only those bytes that are worth caching.

    The bytes are also added to the disk cache, if there is one.
    """
    path, file_bytes = container.path, container.file_bytes
    start = container.content_start if file_bytes <= TAIL_BYTES else container.keep_from
    own = memoryview(bytes(container.content[start - container.content_start :]))
    container = replace(container, content=own, content_start=start)
    disk = kept_by(states)
    if disk is not None:
        disk.put(path, start, file_bytes, own)
    states.put(("file", path), container, container.num_bytes)
    return container


def open_columns(
    container: Container, indices: Sequence[int], states: States
) -> Plan[list[OpenColumn]]:
    """Plan columns of an open file; see `open_columns_of`."""
    (columns,) = yield from open_columns_of([ColumnsOf(container, indices, states)])
    return columns


class ColumnsOf(NamedTuple):
    """Columns to open in an open file, and the cache for them."""

    container: Container
    indices: Sequence[int]
    states: States


def open_columns_of(files: Sequence[ColumnsOf]) -> Plan[list[list[OpenColumn]]]:
    """Plan columns of open files: no round if tails or caches have their metadata, else one."""
    opened: list[FileColumns] = []
    missing: list[tuple[int, list[int]]] = []
    for number, (container, indices, states) in enumerate(files):
        file: FileColumns = states.peek(("columns", container.path)) or FileColumns(container)
        absent = [*dict.fromkeys(indices)]
        if file.columns:
            absent = [index for index in absent if index not in file.columns]
        opened.append(file)
        if absent and (disk := kept_by(states)) is not None:
            absent = [index for index in absent if not _recall(file, index, disk, states)]
        if absent:
            missing.append((number, absent))
    if missing:
        reading = read_columns([(files[number].container, absent) for number, absent in missing])
        columns = yield from noted(reading, kept_by(files[missing[0][0]].states))
        if sum([len(absent) for _, absent in missing]) > PLANS_A_TURN:
            yield TURN
        for (number, indices), of_file in zip(missing, columns, strict=True):
            path, states = files[number].container.path, files[number].states
            # Callers that waited for the same bytes share the object that the first of them
            # created.
            file = opened[number] = states.peek(("columns", path)) or opened[number]
            file.add(indices, of_file)
            states.put(("columns", path), file, file.num_bytes)
    columns_of = []
    for (container, indices, states), file in zip(files, opened, strict=True):
        if isinstance(states, ScanStates) and not states.shares(file, indices):
            file = file.copy(indices)
        columns_of.append(
            [OpenColumn(container, index, file.columns[index], file) for index in indices]
        )
    return columns_of


def _recall(file: FileColumns, index: int, disk: Kept, states: States) -> bool:
    """Open a column from the disk cache. Returns False if the cache lacks its metadata."""
    container = file.container
    columns = recalled(lambda: read_columns([(container, [index])]), container.path, disk)
    if columns is None:
        return False
    file.add([index], columns[0])
    states.put(("columns", container.path), file, file.num_bytes)
    return True


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


def bytes_at_hand(pieces: Pieces, containers: Mapping[str, Container]) -> memoryview:
    """Copy pieces of files into one buffer; the containers must have all these bytes in memory.

    Args:
        containers: container of each file, by path.

    Raises:
        CorruptFileError: the checksum of an entry of the search-cache buffer is wrong.
    """
    places = {path: place for place, path in enumerate(containers)}
    files = [*containers.values()]
    in_files = np.array([places[path] for path in pieces.paths], np.int64)
    numbers = np.repeat(in_files, np.diff(pieces.ends, prepend=0))
    first = np.array([file.content_start for file in files], np.int64)[numbers]
    sizes = pieces.stops - pieces.starts
    contents = [file.content for file in files]
    content = _kernels.gather_spans(contents, numbers, pieces.starts - first, sizes).data
    if [file.search for file in files].count(None) < len(files):
        ends = np.cumsum(sizes).tolist()
        starts, spans = pieces.starts.tolist(), zip([0, *ends], ends, strict=False)
        for number, start, (begin, end) in zip(numbers.tolist(), starts, spans, strict=True):
            files[number].check(start, content[begin:end])
    return content

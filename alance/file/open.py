"""Opening a data file by plan: container and columns, through the search cache."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alance.file.columns import OpenColumn, States
from alance.file.recall import kept_by, noted, recalled
from alance.format.container import TAIL_BYTES, Container, open_container, read_tail
from alance.format.plans import TURN, cut, through
from alance.format.v0_1.metadata import BatchContainer, is_batch_file, open_batch_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.plans import Extent, Plan, T


def open_file(
    path: str, file_bytes: int, states: States, tail_bytes: int = TAIL_BYTES
) -> Plan[Container]:
    """Plan the container of a file: no round where the cache has it, else one.

    A file of at most 64 KiB is read whole, and its pages are served from that.

    Args:
        tail_bytes: that are read first, where more is known to be needed.
    """
    container: Container | None = states.peek(("file", path))
    if container is None:
        kept = kept_by(states)
        tail = None if kept is None else kept.tail(path)
        if tail is not None:
            kept_tail = tail
            container = recalled(lambda: _opened(path, file_bytes, kept_tail), path, kept)
        if container is None:
            tail = yield from read_tail(path, file_bytes, tail_bytes)
            # Of callers that waited for the same bytes, one parses them.
            parsed: Container | None = states.peek(("file", path))
            if parsed is not None:
                return parsed
            if file_bytes <= TAIL_BYTES:  # it is kept whole: its pages are never asked for again
                tail = memoryview(bytes(tail))
            container = yield from _opened(path, file_bytes, tail)
            if file_bytes > TAIL_BYTES:
                container = _trimmed(container)
            if kept is not None:
                kept.put(path, container.content_start, file_bytes, container.content)
        states.put(("file", path), container, container.num_bytes)
    return container


def _opened(path: str, file_bytes: int, tail: memoryview) -> Plan[Container]:
    """Plan the container of a file of any version, from its last bytes."""
    if is_batch_file(tail):
        return (yield from open_batch_file(path, file_bytes, tail))
    return (yield from open_container(path, file_bytes, tail))


def open_columns(
    container: Container, indices: Sequence[int], states: States
) -> Plan[list[OpenColumn]]:
    """Plan columns of an open file: no round where the tail or the cache has their metadata."""
    keys = {index: ("column", container.path, index) for index in indices}
    by_index: dict[int, OpenColumn] = {}
    missing = []
    for index, key in keys.items():
        cached: OpenColumn | None = states.peek(key)
        if cached is not None:
            by_index[index] = cached
        else:
            missing.append(index)
    if missing:
        columns, kept = [], kept_by(states)
        if kept is not None:
            for index in missing:
                read = partial(container.read_columns, [index])
                columns += recalled(read, container.path, kept) or []
            from_disk = {column.index for column in columns}
            missing = [index for index in missing if index not in from_disk]
        if missing:
            columns += yield from noted(container.read_columns(missing), kept)
        yield TURN
        for column in columns:
            opened = by_index[column.index] = OpenColumn(container, column)
            states.put(keys[column.index], opened, column.num_bytes)
    return [by_index[index] for index in indices]


def from_content(plan: Plan[T], container: Container) -> Plan[T]:
    """The same plan, with the pages of a small file answered from its own bytes."""
    if not container.is_whole:
        return plan
    return from_tail(plan, container.path, container.content, container.content_start)


def from_tail(plan: Plan[T], path: str, tail: memoryview, start: int) -> Plan[T]:
    """The same plan, with ranges inside a file's last bytes answered at once.

    Args:
        path: location of the file.
        tail: its bytes from `start` to its end.
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


def _trimmed(container: Container) -> Container:
    """The container with no more of the file than is worth keeping, as an own copy."""
    starts = np.concatenate([container.columns[:, 0], container.buffers[:, 0]])
    starts = starts[starts >= container.content_start]
    spans = [int(starts.min())] if len(starts) else []
    if isinstance(container, BatchContainer):
        spans.append(max(container.content_start, container.page_table_start))
    if container.search is not None:  # its entries from there on are of use
        spans.append(max(container.content_start, int(container.buffers[-1, 0])))
    inside = [start for start in spans if start >= container.content_start]
    keep_from = min(inside, default=container.content_start)
    content = memoryview(bytes(container.content[keep_from - container.content_start :]))
    return replace(container, content=content, content_start=keep_from)

"""Reads that are answered at once from memory or the page cache, or by one job of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.io import trace
from alance.io.coalesce import coalesce

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.plans import Pieces
    from alance.io.local import LocalStore
    from alance.io.reads import Read
    from alance.io.store import Store


def answer_now(store: Store, path: str, wanted: Sequence[tuple[int, int, int]], read: Read) -> bool:
    """Answer ranges of an object from memory or the page cache, if that has them all.

    Args:
        wanted: the number of each range in the read, its start and stop.
    """
    profile, begun = store.profile, trace.now()
    spans = [(start, stop) for _, start, stop in wanted]
    plan = coalesce(spans, profile.take_gap, profile.max_request_bytes)
    buffers = store.read_now(path, plan.spans)
    if buffers is None:
        return False
    for (number, start, stop), owner in zip(wanted, plan.owners, strict=True):
        first = plan.spans[owner][0]
        read.buffers[number] = buffers[owner][start - first : stop - first]
    if read.recorder is not None:
        asked: list[list[tuple[int, int]]] = [[] for _ in plan.spans]
        for one, owner in zip(spans, plan.owners, strict=True):
            asked[owner].append(one)
        for span, buffer, mine in zip(plan.spans, buffers, asked, strict=True):
            _record(read, store.root + path, span, begun, buffer, mine)
    return True


def pieces_from_disk(
    store: LocalStore, path: str, pieces: Pieces, read: Read, number: int, *, inline: bool
) -> None:
    """Answer pieces of a file: at once if the page cache has them, else from a thread."""
    begun, span = trace.now(), (pieces.start, pieces.stop)

    def finish(content: memoryview) -> memoryview:
        if read.recorder is not None:
            wanted = list(zip(pieces.starts.tolist(), pieces.stops.tolist(), strict=True))
            _record(read, pieces.path, span, begun, content, wanted)
        return content

    found = store.pieces_now(path, pieces.starts, pieces.stops) if inline else None
    if found is not None:
        read.buffers[number] = finish(found)
    else:
        read.wait_for(number, store.get_pieces(path, pieces.starts, pieces.stops), finish)


def _record(
    read: Read,
    location: str,
    span: tuple[int, int],
    begun: float,
    content: memoryview,
    wanted: Sequence[tuple[int, int]],
) -> None:
    trace.record(
        [read.recorder],
        "get",
        location,
        span,
        [read.reason],
        begun,
        num_bytes=len(content),
        wanted=wanted,
        callers=[read.caller],
    )

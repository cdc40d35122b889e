"""What is asked for, by object; what of it is answered at once, or by one job of a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from alance.errors import CorruptFileError
from alance.format.plans import Pieces
from alance.io import trace
from alance.io.coalesce import coalesce, is_range
from alance.io.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.format.plans import Wanted
    from alance.io.blocks import BlockCache
    from alance.io.reads import Read
    from alance.io.registry import StoreRegistry
    from alance.io.store import Store

Asked: TypeAlias = tuple[int, int, int]  # the number of a range in its read, its start and stop


def sort_out(
    ranges: Iterable[Wanted], read: Read, registry: StoreRegistry, *, bulk: bool
) -> dict[str, list[Asked]]:
    """What a read asks for, by object; pieces of local files are read, each in one call.

    Raises:
        CorruptFileError: no range.
        InvalidInputError: no store with this root was opened.
    """
    found: dict[str, list[Asked]] = {}
    for number, one in enumerate(ranges):
        if not isinstance(one, Pieces):
            location, start, stop = one
            if not is_range(start, stop):
                raise CorruptFileError(f"{location}: bytes {start} to {stop} are no range")
            if start == stop:
                read.buffers[number] = memoryview(b"")
            else:
                found.setdefault(location, []).append((number, start, stop))
            continue
        location = one.path
        store, path = registry.resolve(location)
        if isinstance(store, LocalStore):
            pieces_from_disk(store, path, one, read, number, inline=not bulk)
            continue
        starts, stops = one.starts.tolist(), one.stops.tolist()
        first = read.add_pieces(number, len(starts))
        mine = found.setdefault(location, [])
        for slot, start, stop in zip(range(first, first + len(starts)), starts, stops, strict=True):
            if not is_range(start, stop):
                raise CorruptFileError(f"{location}: bytes {start} to {stop} are no range")
            if start == stop:
                read.buffers[slot] = memoryview(b"")
            else:
                mine.append((slot, start, stop))
    return found


def total(by_object: Mapping[str, Sequence[Asked]]) -> int:
    """Bytes asked for."""
    return sum([stop - start for asked in by_object.values() for _, start, stop in asked])


def from_blocks(
    blocks: BlockCache, location: str, wanted: Sequence[Asked], read: Read
) -> Sequence[Asked]:
    """Answer what the block cache has of an object; gives what it has not."""
    left = blocks.answer(location, wanted, read.buffers)
    if read.recorder is not None and blocks.num_bytes:
        for number, _, _ in wanted:
            found = read.buffers[number] is not None
            trace.look("block cache", found=found, recorder=read.recorder)
    return left


def answer_now(store: Store, path: str, wanted: Sequence[Asked], read: Read) -> bool:
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

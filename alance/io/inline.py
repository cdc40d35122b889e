"""What is asked for, by object; what of it is answered at once, or by one job of a thread."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from alance.errors import CorruptFileError
from alance.format.plans import Pieces
from alance.io import trace
from alance.io.coalesce import coalesce, is_range
from alance.io.files import PIECES_GAP
from alance.io.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.format.plans import ByteRange, Extent
    from alance.io.blocks import BlockCache
    from alance.io.reads import Read
    from alance.io.registry import StoreRegistry
    from alance.io.store import Store

Asked: TypeAlias = tuple[int, int, int]  # the number of a range in its read, its start and stop


def sort_out(
    ranges: Iterable[Extent], read: Read, registry: StoreRegistry, *, bulk: bool
) -> dict[str, list[Asked]]:
    """What a read asks for, by object; pieces of local files are read, each in one call.

    Raises:
        CorruptFileError: no range.
        InvalidInputError: no store with this root was opened.
    """
    found: dict[str, list[Asked]] = {}
    from_disk: dict[LocalStore, list[tuple[int, Pieces, Pieces]]] = {}
    for number, one in enumerate(ranges):
        if isinstance(one, Pieces):
            places = [registry.resolve(location) for location in one.paths]
            store = places[0][0]
            if isinstance(store, LocalStore) and all(other is store for other, _ in places):
                inside = one._replace(paths=[path for _, path in places])
                from_disk.setdefault(store, []).append((number, one, inside))
                continue
            single: Sequence[ByteRange] = one.ranges()
            slots = range(first := read.add_pieces(number, len(single)), first + len(single))
        else:
            single, slots = (one,), range(number, number + 1)
        for slot, (location, start, stop) in zip(slots, single, strict=True):
            if not is_range(start, stop):
                raise CorruptFileError(f"{location}: bytes {start} to {stop} are no range")
            if start == stop:
                read.buffers[slot] = memoryview(b"")
            else:
                found.setdefault(location, []).append((slot, start, stop))
    for store, asked in from_disk.items():
        pieces_from_disk(store, asked, read, inline=not bulk)
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
    store: LocalStore, asked: Sequence[tuple[int, Pieces, Pieces]], read: Read, *, inline: bool
) -> None:
    """Answer pieces of files: at once if the page cache has them all, else from threads.

    Args:
        asked: the number of the pieces in the read, these, and with paths inside of the store.
    """
    begun = trace.now()
    found = store.pieces_now([inside for *_, inside in asked]) if inline else None
    if found is not None:
        for (number, pieces, _), content in zip(asked, found, strict=True):
            read.buffers[number] = content
            note_pieces(pieces, read.recorder, read.reason, read.caller, begun)
        return
    for number, pieces, inside in asked:

        def finish(content: memoryview, pieces: Pieces = pieces) -> memoryview:
            note_pieces(pieces, read.recorder, read.reason, read.caller, begun)
            return content

        read.wait_for(number, store.get_pieces(inside), finish)


def note_pieces(
    pieces: Pieces, recorder: trace.Recorder | None, reason: str, caller: str, begun: float
) -> None:
    """Tell a trace of pieces of files that were read: an event a file and group, with the gaps
    that were read too.
    """
    if recorder is None:
        return
    for path, (first, end) in zip(pieces.paths, pairwise([0, *pieces.ends]), strict=True):
        starts, stops = pieces.starts[first:end].tolist(), pieces.stops[first:end].tolist()
        gaps = [start - stop for stop, start in zip(stops, starts[1:], strict=False)]
        trace.record(
            [recorder],
            "get",
            path,
            (starts[0], stops[-1]),
            [reason],
            begun,
            num_bytes=sum(stops) - sum(starts) + sum(gap for gap in gaps if gap <= PIECES_GAP),
            wanted=zip(starts, stops, strict=True),
            callers=[caller],
        )


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

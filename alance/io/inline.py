"""What is asked for, by object; what of it is answered at once, or by one job of a thread."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from alance.errors import CorruptFileError
from alance.format.plans import Pieces
from alance.io import trace
from alance.io.coalesce import coalesce, is_range
from alance.io.files import PIECES_GAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from alance.format.plans import ByteRange, Extent
    from alance.io.blocks import BlockCache
    from alance.io.reads import Read
    from alance.io.registry import StoreRegistry
    from alance.io.store import PieceReader, Store

    Asking: TypeAlias = tuple[int, Pieces, Pieces]  # a number in its read; inside of the store

Asked: TypeAlias = tuple[int, int, int]  # the number of a range in its read, its start and stop


def sort_out(
    ranges: Iterable[Extent], read: Read, registry: StoreRegistry, *, bulk: bool
) -> dict[str, list[Asked]]:
    """What a read asks for, by object; pieces of local files are read, each in one call.

    Raises:
        CorruptFileError: no range.
        InvalidInputError: no store with this root was opened.
    """
    by_object: dict[str, list[Asked]] = {}
    by_reader: dict[PieceReader, list[Asking]] = {}
    for number, extent in enumerate(ranges):
        if isinstance(extent, Pieces):
            reader, paths = registry.piece_reader(extent.paths)
            if reader is not None:
                inside = extent._replace(paths=paths)
                by_reader.setdefault(reader, []).append((number, extent, inside))
                continue
            single: Sequence[ByteRange] = extent.ranges()
            slots = range(first := read.add_pieces(number, len(single)), first + len(single))
        else:
            single, slots = (extent,), range(number, number + 1)
        for slot, (location, start, stop) in zip(slots, single, strict=True):
            if not is_range(start, stop):
                raise CorruptFileError(f"{location}: bytes {start} to {stop} are no range")
            if start == stop:
                read.buffers[slot] = memoryview(b"")
            else:
                by_object.setdefault(location, []).append((slot, start, stop))
    for reader, asked in by_reader.items():
        _read_pieces(reader, asked, read, inline=not bulk)
    return by_object


def total(by_object: Mapping[str, Sequence[Asked]]) -> int:
    """Bytes asked for."""
    return sum([stop - start for asked in by_object.values() for _, start, stop in asked])


def from_blocks(
    blocks: BlockCache, location: str, ranges: Sequence[Asked], read: Read
) -> Sequence[Asked]:
    """Answer what the block cache has of an object; gives what it has not."""
    left = blocks.answer(location, ranges, read.buffers)
    if read.recorder is not None and blocks.num_bytes:
        for number, _, _ in ranges:
            hit = read.buffers[number] is not None
            trace.look("block cache", hit=hit, recorder=read.recorder)
    return left


def answer_now(store: Store, path: str, ranges: Sequence[Asked], read: Read) -> bool:
    """Answer ranges of an object from memory or the page cache, if that has them all.

    Args:
        ranges: the number of each range in the read, its start and stop.
    """
    profile, begun = store.profile, trace.now()
    spans = [(start, stop) for _, start, stop in ranges]
    plan = coalesce(spans, profile.take_gap, profile.max_request_bytes)
    buffers = store.read_now(path, plan.spans)
    if buffers is None:
        return False
    for (number, start, stop), owner in zip(ranges, plan.owners, strict=True):
        first = plan.spans[owner][0]
        read.buffers[number] = buffers[owner][start - first : stop - first]
    if read.recorder is not None:
        asked: list[list[tuple[int, int]]] = [[] for _ in plan.spans]
        for span, owner in zip(spans, plan.owners, strict=True):
            asked[owner].append(span)
        for span, buffer, parts in zip(plan.spans, buffers, asked, strict=True):
            _record(read, store.root + path, span, begun, buffer, parts)
    return True


def _read_pieces(reader: PieceReader, asked: Sequence[Asking], read: Read, *, inline: bool) -> None:
    """Answer pieces of objects: at once if they are at hand, all of them, else from threads."""
    note, begun = Note(read.recorder, read.reason, read.caller), trace.now()
    contents = reader.pieces_now([inside for *_, inside in asked]) if inline else None
    if contents is not None:
        for (number, pieces, _), content in zip(asked, contents, strict=True):
            read.buffers[number] = content
            note.read(pieces, begun)
        return
    for number, pieces, inside in asked:

        def finish(content: memoryview, pieces: Pieces = pieces) -> memoryview:
            note.read(pieces, begun)
            return content

        read.wait_for(number, reader.get_pieces(inside), finish)


@dataclass(frozen=True, slots=True)
class Note:
    """Whom to tell of what is read: by itself where threads read that know of no trace."""

    recorder: trace.Recorder | None
    reason: str
    caller: str

    @classmethod
    def of_caller(cls, reason: str) -> Note:
        """For the trace of the task that runs now."""
        return cls(trace.current(), reason, trace.caller())

    def read(self, extent: Extent, begun: float) -> None:
        """Bytes of objects were read: an event an object, with the gaps that were read too."""
        if self.recorder is None:
            return
        if isinstance(extent, Pieces):
            _note_pieces(extent, self.recorder, self.reason, self.caller, begun)
            return
        trace.record(
            [self.recorder],
            "get",
            extent.path,
            (extent.start, extent.stop),
            [self.reason],
            begun,
            num_bytes=extent.num_bytes,
            callers=[self.caller],
        )


def _note_pieces(
    pieces: Pieces, recorder: trace.Recorder, reason: str, caller: str, begun: float
) -> None:
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
            asked=zip(starts, stops, strict=True),
            callers=[caller],
        )


def _record(
    read: Read,
    location: str,
    span: tuple[int, int],
    begun: float,
    content: memoryview,
    asked: Sequence[tuple[int, int]],
) -> None:
    trace.record(
        [read.recorder],
        "get",
        location,
        span,
        [read.reason],
        begun,
        num_bytes=len(content),
        asked=asked,
        callers=[read.caller],
    )

"""Reads from memory and the page cache on the event loop; other reads are grouped by object.

A hop to a thread costs more than a read of the page cache, so reads that do not block are done
here. Small ranges of many objects become one job of a thread, because each job costs a hop.
"""

from __future__ import annotations

from dataclasses import field
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.numbers import offsets_of
from alance.format.plans import Coalesced, Pieces, are_ranges, coalesce, is_range
from alance.io.disk.files import PIECES_GAP
from alance.io.events import trace
from alance.io.reading.booking import RangeRequest

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from alance.base.arrays import Int64s
    from alance.format.plans import Extent
    from alance.io.opening.registry import StoreRegistry
    from alance.io.reading.reads import Read
    from alance.io.stores.store import PieceReader, Store

    # Index of an extent in its read; its pieces by location; the same pieces by path in the store.
    PieceRequest: TypeAlias = tuple[int, Pieces, Pieces]
    # Spans of one object, each with the index of its extent and its place in the extent.
    _Spans: TypeAlias = tuple[list[tuple[int, int]], list[tuple[int, int]]]


# Upper bounds of a thread's job that reads small ranges of many objects.
MANY_JOB_OBJECTS: Final = 64
MANY_JOB_BYTES: Final = 8 << 20
SMALL_OBJECT_BYTES: Final = 256 << 10  # larger requests to an object have jobs of their own
OBJECTS_A_LOOK: Final = 64  # objects to sort, at some 3 us each, between looks at the clock
# Upper bounds of a read on the loop: at 4 GB/s and 3 us per read, the page cache takes a
# millisecond or two. Larger reads go to threads.
AT_HAND_BYTES: Final = 8 << 20
AT_HAND_RANGES: Final = 2048
EMPTY_BUFFER: Final = memoryview(b"")


@dataclass(slots=True)
class ObjectRanges:
    """Ranges of one object that a read requests, and the sum of their lengths."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    pieces: list[tuple[Int64s, Int64s]] = field(default_factory=list)  # starts and stops
    num_bytes: int = 0

    def request(self, read: Read) -> RangeRequest:
        """Return all ranges as arrays."""
        starts, stops = [[part[side] for part in self.pieces] for side in (0, 1)]
        if self.spans:
            bounds = np.array(self.spans, np.int64)
            starts.append(bounds[:, 0])
            stops.append(bounds[:, 1])
        if len(starts) == 1:
            return RangeRequest(read, starts[0], stops[0])
        return RangeRequest(read, np.concatenate(starts), np.concatenate(stops))

    def listed(self) -> list[tuple[int, int]]:
        """Return all ranges as a list of (start, stop)."""
        if not self.pieces:
            return self.spans
        singly = [zip(*map(np.ndarray.tolist, part), strict=True) for part in self.pieces]
        return [*self.spans, *chain.from_iterable(singly)]


def at_hand(
    extents: Sequence[Extent], registry: StoreRegistry, reason: str
) -> list[memoryview] | None:
    """Read ranges and pieces if all of their bytes are in memory or in the page cache.

    Returns None if a range is invalid or not in memory, if there are too many ranges or bytes, or
    if reading would block the loop.

    Raises:
        CorruptFileError, NotFoundError, StoreError: the store failed.
        InvalidInputError: no store with this root is open.
    """
    if not extents or len(extents) > AT_HAND_RANGES:
        return None
    first = extents[0]
    location = first.paths[0] if isinstance(first, Pieces) else first.path
    store, _ = registry.resolve(location)
    if not store.profile.answers_now:
        return None
    by_location: dict[str, _Spans] = {}
    by_reader: dict[PieceReader, list[PieceRequest]] = {}
    parts: list[list[memoryview]] = []
    num_ranges = num_bytes = 0
    for number, extent in enumerate(extents):
        parts.append([EMPTY_BUFFER])
        if isinstance(extent, Pieces):
            reader, paths = registry.piece_reader(extent.paths)
            if reader is not None:
                inside = Pieces(paths, *extent[1:])
                by_reader.setdefault(reader, []).append((number, extent, inside))
                continue
            num_ranges += len(extent.starts)
            if num_ranges > AT_HAND_RANGES:
                return None
            ranges = extent.ranges()
            parts[number] = [EMPTY_BUFFER] * len(ranges)
        else:
            ranges = [extent]
        for slot, (location, start, stop) in enumerate(ranges):
            if not is_range(start, stop):
                return None
            if start < stop:
                spans, owners = by_location.setdefault(location, ([], []))
                spans.append((start, stop))
                owners.append((number, slot))
                num_bytes += stop - start
    if num_bytes > AT_HAND_BYTES:
        return None
    note = UNTRACED if trace.current() is None else Note.of_caller(reason)
    for location, (spans, owners) in by_location.items():
        if not location.startswith(store.root):
            store, _ = registry.resolve(location)
        buffers = _spans_now(location, spans, store, note)
        if buffers is None:
            return None
        for (number, slot), buffer in zip(owners, buffers, strict=True):
            parts[number][slot] = buffer
    if by_reader and not _add_pieces(by_reader, parts, note):
        return None
    return [own[0] if len(own) == 1 else memoryview(b"".join(own)) for own in parts]


def _add_pieces(
    by_reader: Mapping[PieceReader, Sequence[PieceRequest]],
    parts: list[list[memoryview]],
    note: Note,
) -> bool:
    """Read pieces from the page cache into `parts`; return False if some bytes are not there."""
    for reader, requests in by_reader.items():
        begun = trace.now()
        contents = reader.pieces_now([inside for *_, inside in requests])
        if contents is None:
            return False
        for (number, pieces, _), content in zip(requests, contents, strict=True):
            parts[number] = [content]
            if note.recorder is not None:
                note.read(pieces, begun)
    return True


def _spans_now(
    location: str, spans: list[tuple[int, int]], store: Store, note: Note
) -> Sequence[memoryview] | None:
    """Read ranges of an object from memory or the page cache; None if some bytes are not there."""
    profile, begun = store.profile, trace.now()
    if not profile.answers_now:
        return None
    path = location[len(store.root) :]
    plan = Coalesced(spans, [0])
    if len(spans) > 1:
        plan = coalesce(spans, profile.take_gap, profile.max_request_bytes)
    buffers = store.read_now(path, plan.spans)
    if buffers is None:
        return None
    if note.recorder is not None:
        note.coalesced(location, spans, plan, buffers, begun)
    return buffers if plan.spans == spans else plan.cut(spans, buffers)


def sort_out(
    extents: Iterable[Extent], read: Read, registry: StoreRegistry
) -> Generator[None, None, dict[str, ObjectRanges]]:
    """Group the ranges of a read by object, and start the reads that need no grouping.

    Yields after every few extents.

    A `Pieces` whose store has a reader of pieces, as local files have, becomes a job of its own,
    unless more reads of the same objects follow (`Read.is_part`).

    Raises:
        CorruptFileError: a range is invalid.
        InvalidInputError: no store with this root is open.
    """
    by_object: dict[str, ObjectRanges] = {}
    by_reader: dict[PieceReader, list[PieceRequest]] = {}
    for number, extent in enumerate(extents):
        if number % OBJECTS_A_LOOK == OBJECTS_A_LOOK - 1:
            yield
        if isinstance(extent, Pieces):
            reader, paths = (None, ()) if read.is_part else registry.piece_reader(extent.paths)
            if reader is not None:
                inside = extent._replace(paths=paths)
                by_reader.setdefault(reader, []).append((number, extent, inside))
            else:
                yield from _sort_pieces(extent, by_object)
            continue
        location, start, stop = extent
        if not is_range(start, stop):
            raise CorruptFileError(f"{location}: bytes {start} to {stop} are no range")
        if start == stop:
            read.answers[number] = memoryview(b"")
            continue
        ranges = by_object.get(location)
        if ranges is None:
            ranges = by_object[location] = ObjectRanges()
        ranges.spans.append((start, stop))
        ranges.num_bytes += stop - start
    for reader, requests in by_reader.items():
        _read_pieces(reader, requests, read)
    return by_object


def _sort_pieces(pieces: Pieces, by_object: dict[str, ObjectRanges]) -> Iterator[None]:
    # Many columns have thousands of parts of few pieces, so the arrays are checked as a whole.
    are_good = are_ranges(pieces.starts, pieces.stops)
    has_empty = bool((pieces.starts == pieces.stops).any())
    bounds = [0, *pieces.ends]
    upto = offsets_of(pieces.stops - pieces.starts)[bounds].tolist()
    for number, (path, (first, end), (before, after)) in enumerate(
        zip(pieces.paths, pairwise(bounds), pairwise(upto), strict=True), 1
    ):
        if number % OBJECTS_A_LOOK == 0:
            yield
        starts, stops = pieces.starts[first:end], pieces.stops[first:end]
        if not (are_good or are_ranges(starts, stops)):
            raise CorruptFileError(f"{path}: pieces of which one is no range")
        if before == after:
            continue
        if has_empty and (is_empty := starts == stops).any():
            starts, stops = starts[~is_empty], stops[~is_empty]
        ranges = by_object.get(path)
        if ranges is None:
            ranges = by_object[path] = ObjectRanges()
        ranges.pieces.append((starts, stops))
        ranges.num_bytes += after - before


def read_many(
    store: Store,
    reader: PieceReader,
    objects: Sequence[tuple[str, ObjectRanges]],
    read: Read,
    gap: int,
) -> Iterator[None]:
    """Read ranges of several objects in jobs of threads, each for many objects.

    Yields after each job.
    """
    job: list[tuple[str, list[tuple[int, int]], Coalesced]] = []
    num_bytes = 0
    begun = trace.now()

    def start() -> None:
        def bring(contents: Sequence[Sequence[memoryview]], job: Any = job) -> None:
            for (path, spans, plan), buffers in zip(job, contents, strict=True):
                _bring(read, store.root + path, spans, plan, buffers, begun)

        read.wait_for(reader.get_many([(path, plan.spans) for path, _, plan in job]), bring)

    for path, ranges in objects:
        if num_bytes >= MANY_JOB_BYTES or len(job) == MANY_JOB_OBJECTS:
            start()
            job, num_bytes = [], 0
            yield
        spans = ranges.listed()
        plan = coalesce(spans, gap, store.profile.max_request_bytes)
        job.append((path, spans, plan))
        num_bytes += sum([stop - start for start, stop in plan.spans])
    start()


def _bring(
    read: Read,
    location: str,
    ranges: Sequence[tuple[int, int]],
    plan: Coalesced,
    buffers: Sequence[memoryview],
    begun: float,
) -> None:
    """Add an object's bytes to a read, and record them in the read's trace."""
    begins = [start for start, _ in plan.spans]
    read.bring(location, zip(begins, buffers, strict=True))
    note = Note(read.recorder, read.reason, read.callers)
    if note.recorder is not None:
        note.coalesced(location, ranges, plan, buffers, begun)


def _read_pieces(reader: PieceReader, requests: Sequence[PieceRequest], read: Read) -> None:
    """Read pieces of objects in jobs of threads."""
    note, begun = Note(read.recorder, read.reason, read.callers), trace.now()
    for number, pieces, inside in requests:

        def bring(content: memoryview, number: int = number, pieces: Pieces = pieces) -> None:
            note.read(pieces, begun)
            read.answers[number] = content

        read.wait_for(reader.get_pieces(inside), bring)


class Note(NamedTuple):
    """Recorder, reason and callers of a read, for threads, which have no trace context."""

    recorder: trace.RequestRecorder | None
    reason: str
    callers: tuple[str, ...]

    @classmethod
    def of_caller(cls, reason: str) -> Note:
        """Return the note of the current task."""
        recorder = trace.current()
        return cls(recorder, reason, () if recorder is None else trace.callers())

    def read(self, extent: Extent, begun: float) -> None:
        """Record that an extent was read: one event per object, gaps included."""
        if self.recorder is None:
            return
        if isinstance(extent, Pieces):
            _note_pieces(extent, self.recorder, self.reason, self.callers, begun)
            return
        trace.record(
            [self.recorder],
            "get",
            extent.path,
            (extent.start, extent.stop),
            [self.reason],
            begun,
            num_bytes=extent.num_bytes,
            callers=self.callers,
        )

    def coalesced(
        self,
        location: str,
        ranges: Sequence[tuple[int, int]],
        plan: Coalesced,
        buffers: Sequence[memoryview],
        begun: float,
    ) -> None:
        """Record that merged spans of an object were read for `ranges`: one event per span."""
        requested: list[list[tuple[int, int]]] = [[] for _ in plan.spans]
        for span, owner in zip(ranges, plan.owners, strict=True):
            requested[owner].append(span)
        for span, buffer, parts in zip(plan.spans, buffers, requested, strict=True):
            trace.record(
                [self.recorder],
                "get",
                location,
                span,
                [self.reason],
                begun,
                num_bytes=len(buffer),
                ranges=parts,
                callers=self.callers,
            )


UNTRACED: Final = Note(None, "", ())


def _note_pieces(
    pieces: Pieces,
    recorder: trace.RequestRecorder,
    reason: str,
    callers: tuple[str, ...],
    begun: float,
) -> None:
    for path, (first, end) in zip(pieces.paths, pairwise([0, *pieces.ends]), strict=True):
        starts, stops = pieces.starts[first:end].tolist(), pieces.stops[first:end].tolist()
        ranges = [*zip(starts, stops, strict=True)]
        trace.record(
            [recorder],
            "get",
            path,
            (starts[0], stops[-1]),
            [reason],
            begun,
            num_bytes=sum(stop - start for start, stop in coalesce(ranges, PIECES_GAP).spans),
            ranges=ranges,
            callers=callers,
        )

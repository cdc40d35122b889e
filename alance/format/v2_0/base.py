"""Spans of rows, and tasks that decode their bytes, for all array encodings of 2.0."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import bits_at
from alance.format.layouts.place import fetch
from alance.format.numbers import bits_of, positions_of
from alance.format.plans import Pieces

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_0_pb2 as pb

# Bits of rows up to this distance (32 Ki rows) are read as one range.
NEAR_BYTES: Final = 4 << 10


@dataclass(frozen=True, slots=True)
class Spans:
    """Half-open ranges of rows: ascending, not empty, not adjacent."""

    starts: Int64s  # shape (n,)
    stops: Int64s  # shape (n,), exclusive

    @classmethod
    def of(cls, starts: Int64s, stops: Int64s) -> Spans:
        """Build spans from ascending ranges; drop empty ranges, and merge adjacent ones."""
        has_bytes = stops > starts
        if not has_bytes.all():
            starts, stops = starts[has_bytes], stops[has_bytes]
        if len(starts) > 1:
            first = np.concatenate([[True], starts[1:] != stops[:-1]])
            if not first.all():
                starts = starts[first]
                stops = stops[np.append(first[1:], True)]
        return cls(starts, stops)

    @classmethod
    def of_range(cls, start: int, stop: int) -> Spans:
        """Return a single span; no span if the range is empty."""
        if start >= stop:
            return cls(np.empty(0, np.int64), np.empty(0, np.int64))
        return cls(np.array([start], np.int64), np.array([stop], np.int64))

    @classmethod
    def of_rows(cls, rows: Int64s) -> Spans:
        """Return the spans of ascending, distinct rows."""
        return cls(rows, rows + 1) if len(rows) == 1 else cls.of(rows, rows + 1)

    @property
    def counts(self) -> Int64s:
        """Number of rows in each span."""
        return self.stops - self.starts

    @property
    def num_rows(self) -> int:
        return int(self.counts.sum())

    def times(self, factor: int) -> Spans:
        """Convert spans of rows to spans of values, with `factor` values per row."""
        return self if factor == 1 else Spans(self.starts * factor, self.stops * factor)

    def is_all(self, num_rows: int) -> bool:
        """True if the spans cover all of `num_rows` rows."""
        return len(self.starts) == 1 and self.starts[0] == 0 and self.stops[0] == num_rows

    def positions(self) -> Int64s:
        """Enumerate all rows."""
        return positions_of(self.starts, self.counts)


@dataclass(frozen=True, slots=True)
class PageParts:
    """Ascending ranges of rows, each within one page."""

    pages: Int64s  # shape (n,)
    starts: Int64s  # shape (n,): first rows, relative to the page
    counts: Int64s  # shape (n,): numbers of rows, all positive

    @classmethod
    def of(cls, spans: Spans, first_rows: Int64s) -> PageParts:
        """Split spans of rows at the ends of pages.

        Args:
            first_rows: first row of each page, then the number of rows; shape (pages + 1,).
        """
        starts, stops = spans.starts, spans.stops
        if not len(starts):
            return cls(starts, starts, starts)
        if len(starts) == 1:  # the usual case of takes, without the arrays of the general case
            page = int(first_rows.searchsorted(starts[0], "right")) - 1
            if stops[0] <= first_rows[page + 1]:
                return cls(np.array([page]), starts - first_rows[page], stops - starts)
        pages = np.searchsorted(first_rows, starts, "right") - 1
        last = np.searchsorted(first_rows, stops, "left") - 1
        counts = last - pages + 1
        if (counts > 1).any():
            pages = positions_of(pages, counts)
            starts = np.maximum(np.repeat(starts, counts), first_rows[pages])
            stops = np.minimum(np.repeat(stops, counts), first_rows[pages + 1])
            has_rows = stops > starts
            if not has_rows.all():
                pages, starts, stops = pages[has_rows], starts[has_rows], stops[has_rows]
        return cls(pages, starts - first_rows[pages], stops - starts)

    @property
    def num_rows(self) -> int:
        return int(self.counts.sum())


def fetch_spans(place: PagePlace, buffer: int, spans: Spans) -> Plan[memoryview]:
    """Plan spans of a buffer's bytes in one round. The result is their concatenation."""
    starts, stops = spans.starts, spans.stops
    offset, size = place.buffers[buffer]
    if len(starts) == 0:
        return memoryview(b"")
    if len(starts) == 1:
        (content,) = yield from fetch([place.part(buffer, int(starts[0]), int(stops[0]))])
        return content
    bad = (starts < 0) | (stops < starts) | (stops > size)
    bad[1:] |= starts[1:] < stops[:-1]
    if bad.any():
        number = int(np.argmax(bad))
        raise place.corrupt(
            f"bytes {starts[number]} to {stops[number]} of buffer {buffer}, which has {size}"
        )
    pieces = Pieces.of(place.path, starts + offset, stops + offset)
    (content,) = yield [pieces]
    if len(content) != pieces.num_bytes:
        raise CorruptFileError(
            f"{len(content)} bytes in {len(starts)} pieces of {place.path}, "
            f"expected {pieces.num_bytes}"
        )
    return content


def unpinned(piece: memoryview) -> Bytes:
    """Return the bytes of a piece: a view, or a copy if a view would keep far more bytes in memory.

    A piece can be a small part of the response to a large request.
    """
    data = np.frombuffer(piece, np.uint8)
    return data.copy() if memoryview(piece.obj).nbytes > 4 * len(piece) else data


@dataclass(frozen=True, slots=True)
class BitPiece:
    """Fetched bytes, and the positions of the rows' bits in them."""

    content: memoryview
    first_bit: int  # bit of the first row, if the rows are a single span
    # Position of each row's bit in `content`; None if the bits are consecutive.
    places: Int64s | None
    num_rows: int

    def bits(self) -> Bytes:
        """Return the bits of the rows, LSB first; a view if they begin at a byte."""
        data = np.frombuffer(self.content, np.uint8)
        if self.places is None:
            return bits_of(data, self.first_bit, self.num_rows)
        return bits_at(data, self.places)

    def mask(self) -> Mask:
        """Return the bits as a mask, shape (num_rows,)."""
        bits = np.unpackbits(self.bits(), count=self.num_rows, bitorder="little")
        return bits.view(np.bool_)


def fetch_bits(place: PagePlace, buffer: int, spans: Spans) -> Plan[BitPiece]:
    """Plan the bits of rows in one round; no round if there are no rows."""
    if len(spans.starts) == 0:
        return BitPiece(memoryview(b""), 0, None, 0)
    starts, stops = spans.starts // 8, (spans.stops + 7) // 8
    begin, end = starts[:1], stops[-1:]
    if len(starts) == 1 or int(end[0] - begin[0]) <= NEAR_BYTES:
        content = yield from fetch_spans(place, buffer, Spans(begin, end))
        first = int(begin[0]) * 8
        if len(starts) == 1:
            return BitPiece(content, int(spans.starts[0]) - first, None, spans.num_rows)
        places = spans.positions() - first
        return BitPiece(content, 0, places, len(places))
    # A byte that two spans share is read for the first span.
    starts[1:] = np.maximum(starts[1:], stops[:-1])
    pieces = Spans.of(starts, stops)
    content = yield from fetch_spans(place, buffer, pieces)
    rows = spans.positions()
    owners = np.searchsorted(pieces.starts, rows // 8, "right") - 1
    counts = pieces.counts
    shifts = (np.cumsum(counts) - counts - pieces.starts) * 8
    return BitPiece(content, 0, rows + shifts[owners], len(rows))


class ArrayPiece(NamedTuple):
    """Rows that were read, and a function that decodes them.

    Attributes:
        num_bytes: bytes of the input.
        build: builds an array of a storage type with exactly the requested rows. Its buffers may
            be views of the bytes read. A row is null if it is stored as null, or if it is false in
            the second argument, a mask of shape (rows,) or None. It raises `CorruptFileError` if
            bytes contradict the description or the type, and `BatchTooLargeError` if strings have
            more bytes than 32-bit offsets can address.
    """

    num_bytes: int
    build: Callable[[pa.DataType, Mask | None], pa.Array]


class ArrayEncoding(Protocol):
    """Node of a page's description, checked against the page's buffers."""

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        """Plan rows in one round; two rounds for a part of a large page of strings."""
        ...


@dataclass(frozen=True, slots=True)
class AllNulls:
    """Encoding of nulls only, without buffers."""

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        count = spans.num_rows
        return ArrayPiece(0, lambda arrow, _: pa.nulls(count, arrow))
        yield


def joint(valid: Mask | None, other: Mask | None) -> Mask | None:
    """Combine two masks; None means that all rows are valid."""
    return other if valid is None else valid if other is None else valid & other


def unsupported(what: str) -> UnsupportedError:
    """Build the error for an encoding that no release writes in 2.0 pages."""
    return UnsupportedError(f"array encoding {what}: not in pages of 2.0")


def kind_of(message: pb.ArrayEncoding) -> str:
    """Return the name of the encoding that a message describes."""
    kind: str | None = message.WhichOneof("array_encoding")
    if kind is None:
        raise UnsupportedError("array encoding: none that pages of 2.0 have")
    return kind

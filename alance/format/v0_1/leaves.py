"""Leaves of 0.1 files: fixed-width values, dictionary keys, strings, and positions of blobs.

  plain       values in Arrow's form; booleans a bit each, each batch from a whole byte
  dictionary  plain keys; the values are one block for each file or table
  strings     bytes of all values | i64 offsets, absolute: one more than values
                                  ^ position of the page

A null is read as the value of its stored bytes, normally zeros; in a nullable field, an empty
string is null. Only the offsets record where the bytes of strings begin. But pages are adjacent, so
the bytes begin at the end of the preceding page, and one round can read bytes and offsets. Blobs
are stored as strings, and read as the positions of their bytes.

Rows are numbered over all batches, and items of lists over the item pages of all batches.

Source: docs/format/file-0.1.md, "Pages", "What nulls decode to" and "Strings and binary".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.layouts.fields import json_array, variable_array
from alance.format.layouts.place import PagePlace
from alance.format.numbers import is_first, offsets_of
from alance.format.plans import together
from alance.format.v2_0.base import (
    BitPiece,
    PageParts,
    Spans,
    fetch_bits,
    fetch_spans,
    unpinned,
)
from alance.format.v2_0.fields import FieldPiece
from alance.format.v2_0.fixed import plain_array
from alance.format.v2_0.strings import blob_places, bytes_of_spans, decode_ends, looked_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Bytes, Int64s
    from alance.format.field import Field
    from alance.format.plans import Plan
    from alance.format.v0_1.metadata import PageRun
    from alance.format.v2_0.strings import Ends

# Up to this size, string bytes are read completely in one round with the offsets: at 100 MB/s that
# takes 5 ms, another round 30 ms.
MAX_WHOLE_TEXT_BYTES: Final = 512 << 10


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of a field, with their numbers of rows.

    Attributes:
        place: location of the pages, which is the whole file.
        first_rows: first row of each page, then the number of rows; shape (batches + 1,).
        positions: start of each page; for strings, start of its offsets.
    """

    place: PagePlace
    first_rows: Int64s
    positions: Int64s

    @classmethod
    def of(
        cls, path: str, file_bytes: int, run: PageRun, num_rows: Int64s, bits: int, extra: int
    ) -> Pages:
        """Build the pages of a field from its entries in the page table."""
        # This does not overflow: there are less than 2^40 entries, and vectors have less than 2^31
        # items.
        ends = run.positions + np.minimum((num_rows + extra) * (bits / 8), 2.0**62)
        if (ends > file_bytes).any():
            batch = int(np.argmax(ends > file_bytes))
            raise CorruptFileError(
                f"{path}: {num_rows[batch]} rows at {run.positions[batch]} in batch {batch}, "
                f"{bits} bits each, in a file of {file_bytes} bytes"
            )
        place = PagePlace(path, ((0, file_bytes),), int(num_rows.sum()))
        return cls(place, offsets_of(num_rows), run.positions)

    def parts(self, spans: Spans) -> PageParts:
        """Split spans of rows at the ends of batches."""
        stops, first_rows = spans.stops, self.first_rows
        if len(stops) and stops[-1] > first_rows[-1]:
            raise self.place.corrupt(f"row {stops[-1] - 1} of a field of {first_rows[-1]} rows")
        return PageParts.of(spans, first_rows)

    def fetch(self, parts: PageParts, width: int, extra: int = 0) -> Plan[memoryview]:
        """Plan entries of `width` bytes in one round, with `extra` more entries after each part."""
        starts = self.positions[parts.pages] + parts.starts * width
        return (yield from self.read(starts, starts + (parts.counts + extra) * width))

    def read(self, starts: Int64s, stops: Int64s) -> Plan[memoryview]:
        """Plan ascending ranges of the file in one round; merge adjacent ones, skip empty ones."""
        return (yield from fetch_spans(self.place, 0, Spans.of(starts, stops)))

    def fetch_bits(self, parts: PageParts, per_row: int) -> Plan[BitPiece]:
        """Plan `per_row` bits per row, in one round."""
        starts = self.positions[parts.pages] * 8 + parts.starts * per_row
        stops = starts + parts.counts * per_row
        if len(starts) > 1 and not (starts % 8).any() and not (stops[:-1] % 8).any():
            # Each part has whole bytes, so their concatenated bits have no gaps.
            content = yield from self.read(starts // 8, (stops + 7) // 8)
            return BitPiece(content, 0, None, int((stops - starts).sum()))
        return (yield from fetch_bits(self.place, 0, Spans.of(starts, stops)))


@dataclass(frozen=True, slots=True)
class PlainNode:
    """Fixed-width leaf."""

    field: Field
    pages: Pages
    bits: int  # bits per row
    items: pa.Array | None  # values of the dictionary; None for other fields

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        """Plan rows in one round."""
        parts = self.pages.parts(spans)
        if self.bits % 8:
            bits = yield from self.pages.fetch_bits(parts, self.bits)
            return FieldPiece(len(bits.content), partial(self._array, parts.num_rows, bits.bits))
        content = yield from self.pages.fetch(parts, self.bits // 8)
        data = partial(unpinned, content)
        return FieldPiece(len(content), partial(self._array, parts.num_rows, data))

    def _array(self, num_rows: int, data: Callable[[], Bytes], arrow: pa.DataType) -> pa.Array:
        if self.items is None:
            return plain_array(arrow, num_rows, data())
        keys = data().view(f"<u{self.bits // 8}")
        if not len(self.items) and not keys.any():
            return pa.nulls(num_rows, arrow)
        return looked_up(arrow, keys, self.items, None)


def texts(field: Field, offsets: Int64s, data: Bytes, arrow: pa.DataType) -> pa.Array:
    """Build strings of a field; empty ones are null if the field is nullable."""
    valid = None
    if field.nullable:
        valid = offsets[1:] > offsets[:-1]
        if valid.all():
            valid = None
    if field.is_json:
        return json_array(variable_array(pa.large_binary(), offsets, data, valid), arrow)
    return variable_array(arrow, offsets, data, valid)


@dataclass(frozen=True, slots=True)
class TextNode:
    """Leaf of strings or bytes."""

    field: Field
    pages: Pages
    # Start of each page's string bytes, inferred from the preceding page, shape (batches,); None if
    # unknown.
    begins: Int64s | None

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        """Plan one round if the batches' bytes are few or mostly requested, else two rounds."""
        parts = self.pages.parts(spans)
        if self.begins is not None and len(parts.pages):
            hit = parts.pages[is_first(parts.pages)]
            begins, ends = self.begins[hit], self.pages.positions[hit]
            first_rows = self.pages.first_rows
            size = int((ends - begins).sum())
            share = parts.num_rows / int((first_rows[hit + 1] - first_rows[hit]).sum())
            if size <= MAX_WHOLE_TEXT_BYTES or share > 0.5:
                rows = yield from self._whole(parts, hit, begins, ends)
                if rows is not None:
                    return rows
        return (yield from self._by_offsets(parts))

    def _whole(
        self, parts: PageParts, hit: Int64s, begins: Int64s, ends: Int64s
    ) -> Plan[FieldPiece | None]:
        """Plan the offsets and all string bytes in one round.

        Returns None if the offsets show that the bytes begin before `begins`.
        """
        entries, content = yield from together(
            [self.pages.fetch(parts, 8, extra=1), self.pages.read(begins, ends)]
        )
        owner = np.searchsorted(hit, parts.pages)
        heads = np.frombuffer(entries, "<i8")[offsets_of(parts.counts + 1)[:-1]]
        if (heads < begins[owner]).any():
            return None
        shifts = offsets_of(ends - begins)[:-1] - begins
        extents = begins[owner], ends[owner], shifts[owner]
        rows = partial(self._whole_array, parts.counts, entries, content, extents)
        return FieldPiece(len(entries) + len(content), rows)

    def _whole_array(
        self,
        counts: Int64s,
        entries: memoryview,
        content: memoryview,
        extents: tuple[Int64s, Int64s, Int64s],
        arrow: pa.DataType,
    ) -> pa.Array:
        """Build strings from their offsets, and the bytes of all strings in their batches.

        Args:
            counts: number of rows of each part.
            extents: for each part, start and end of its batch's string bytes in the file, and their
                position in `content`, minus the start.
        """
        data, (begins, stop, shifts) = unpinned(content), extents
        limit = int(stop[-1]) if len(stop) else 0
        ends = decode_ends(entries, counts, limit)
        starts, sizes = ends.spans.starts, ends.spans.counts
        if (starts < begins).any() or (ends.spans.stops > stop).any():
            raise CorruptFileError(f"field {self.field.name!r}: strings outside of their pages")
        data = bytes_of_spans(data, starts + shifts, sizes)
        return texts(self.field, ends.offsets, data, arrow)

    def _by_offsets(self, parts: PageParts) -> Plan[FieldPiece]:
        entries = yield from self.pages.fetch(parts, 8, extra=1)
        limit = self.pages.place.size(0)
        with self.pages.place.checking():
            ends = decode_ends(entries, parts.counts, limit)
        content = yield from self.pages.read(ends.spans.starts, ends.spans.stops)
        num_bytes = len(content) + 8 * len(ends.offsets)
        return FieldPiece(num_bytes, partial(self._array, ends, content))

    def _array(self, ends: Ends, content: memoryview, arrow: pa.DataType) -> pa.Array:
        return texts(self.field, ends.offsets, unpinned(content), arrow)


@dataclass(frozen=True, slots=True)
class BlobNode:
    """Blob leaf; only the positions of its blobs are read."""

    field: Field
    pages: Pages

    def plan(self, spans: Spans) -> Plan[FieldPiece]:
        """Plan rows in one round."""
        parts = self.pages.parts(spans)
        entries = yield from self.pages.fetch(parts, 8, extra=1)
        return FieldPiece(len(entries), partial(self._places, parts, entries))

    def _places(self, parts: PageParts, entries: memoryview, arrow: pa.DataType) -> pa.Array:
        file_bytes = self.pages.place.size(0)
        try:
            ends = decode_ends(entries, parts.counts, file_bytes)
        except CorruptFileError as error:
            raise CorruptFileError(
                f"field {self.field.name!r}: blobs outside of a file of {file_bytes} bytes"
            ) from error
        starts, sizes = ends.places(parts.counts)
        valid = sizes > 0 if self.field.nullable else None
        return blob_places(arrow, starts, sizes, valid)

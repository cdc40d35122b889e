"""Encodings of strings: binary (perhaps compressed) and FSST; and dictionaries.

  indices   a u64 per value: its end in the bytes, plus `adjustment` if the value is null
  bytes     all values of the page, the first one at 0; a null may have bytes, too

A dictionary has indices into the distinct items of a page. In a field of a dictionary type, a null
is the index of a null item. In a string field, where the dictionary is only a compression, index 0
is null, and index k means item k - 1.

Source: encodings_v2_0.proto, Binary, Fsst, Dictionary.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import BatchTooLargeError, CorruptFileError, kernel_errors
from alance.format.codecs.general import Scheme, decompress
from alance.format.layouts.fields import variable_array
from alance.format.numbers import (
    bitmap,
    bytes_of,
    numpy_type,
    offsets_of,
    strings_of,
    to_arrow,
    validity_of,
)
from alance.format.plans import together
from alance.format.v2_0.base import ArrayPiece, Spans, fetch_spans, joint, unpinned

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s, Mask
    from alance.format.codecs.strings import SymbolTable
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.v2_0.base import ArrayEncoding

# Bytes; a buffer up to this size is read completely, in one round with the indices: at 100 MB/s
# that takes 2.5 ms, another round 30 ms.
MAX_WHOLE_BUFFER_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class Ends:
    """Decoded ends of rows."""

    spans: Spans  # spans of bytes or items, one for each span of rows
    offsets: Int64s  # shape (n + 1,), from 0
    valid: Mask | None  # shape (n,); None if all are valid

    def places(self, counts: Int64s) -> tuple[Int64s, Int64s]:
        """Return the position and the size of each row, given the number of rows of each span."""
        before = np.cumsum(counts) - counts
        shifts = np.repeat(self.spans.starts - self.offsets[before], counts)
        return self.offsets[:-1] + shifts, np.diff(self.offsets)


@dataclass(frozen=True, slots=True)
class Indices:
    """A u64 per row: the end of the row's bytes or items."""

    buffer: int
    adjustment: int

    def fetch(self, place: PagePlace, spans: Spans) -> Plan[memoryview]:
        """Plan the entries of rows, and the entry before each span of rows, in one round."""
        entries = Spans(np.maximum(spans.starts - 1, 0), spans.stops)
        return (yield from fetch_spans(place, self.buffer, entries.times(8)))

    def decode(self, content: memoryview, spans: Spans, limit: int) -> Ends:
        """Decode the ends of rows; see `decode_ends`."""
        entries = np.frombuffer(content, np.uint8)
        from_start = bool(len(spans.starts)) and int(spans.starts[0]) == 0
        if from_start:
            entries = np.concatenate([np.zeros(8, np.uint8), entries])
        return decode_ends(entries, spans.counts, limit, self.adjustment)


def decode_ends(
    entries: Bytes | memoryview, counts: Int64s, limit: int, adjustment: int = 0
) -> Ends:
    """Compute the ends of rows, span by span, from an entry per row and one before each span.

    Args:
        entries: numbers of 64 bits.
        counts: number of rows in each span.
        limit: largest allowed end.
        adjustment: number that is added to the ends of nulls; 0 if there are no nulls.
    """
    expected = int(counts.sum()) + len(counts)
    if len(entries) != 8 * expected:
        raise CorruptFileError(f"offsets: {len(entries)} bytes for {expected} entries")
    stored = np.frombuffer(entries, "<u8")
    is_valid = stored < adjustment if adjustment else None
    ends = (
        stored if is_valid is None else np.where(is_valid, stored, stored - np.uint64(adjustment))
    )
    if (ends[1:] < ends[:-1]).any() or (len(ends) and int(ends[-1]) > limit):
        raise CorruptFileError(f"offsets decrease, or end behind {limit}")
    places = ends.astype(np.int64)
    lasts = np.cumsum(counts + 1) - 1
    is_row = np.ones(expected, np.bool_)
    is_row[lasts - counts] = False
    offsets = offsets_of(np.diff(places, prepend=0)[is_row])
    valid = None if is_valid is None or is_valid[is_row].all() else is_valid[is_row]
    spans = Spans(places[lasts - counts], places[lasts])
    return Ends(spans, offsets, valid)


def bytes_of_spans(data: Bytes, starts: Int64s, sizes: Int64s) -> Bytes:
    """Return the bytes of consecutive spans of rows; a view if they are a single piece."""
    if int(sizes.sum()) == len(data):
        return data
    if len(starts) == 1:
        return data[int(starts[0]) : int(starts[0] + sizes[0])]
    with kernel_errors:
        return _kernels.concat_spans(data, starts, sizes)[1]


@dataclass(frozen=True, slots=True)
class Binary:
    """Strings of varying length."""

    indices: Indices
    buffer: int  # number of the buffer with the bytes
    num_values: int
    scheme: Scheme | None  # compression of all bytes together; None for uncompressed bytes

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        size = place.size(self.buffer)
        if (
            self.scheme is None
            and size > MAX_WHOLE_BUFFER_BYTES
            and not spans.is_all(self.num_values)
        ):
            return (yield from self._plan_parts(place, spans))
        entries, content = yield from together(
            [
                self.indices.fetch(place, spans),
                fetch_spans(place, self.buffer, Spans.of_range(0, size)),
            ]
        )
        num_bytes = len(entries) + len(content)
        return ArrayPiece(num_bytes, partial(self._built, spans, entries, content))

    def _built(
        self,
        spans: Spans,
        entries: memoryview,
        content: memoryview,
        arrow: pa.DataType,
        valid: Mask | None,
    ) -> pa.Array:
        data = unpinned(content)
        if self.scheme is not None:
            data = decompress(self.scheme, data)
        ends = self.indices.decode(entries, spans, len(data))
        data = bytes_of_spans(data, ends.spans.starts, ends.spans.counts)
        return variable_array(arrow, ends.offsets, data, joint(valid, ends.valid))

    def _plan_parts(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        entries = yield from self.indices.fetch(place, spans)
        size = place.size(self.buffer)
        with place.checking():
            ends = self.indices.decode(entries, spans, size)
        read = Spans.of(ends.spans.starts, ends.spans.stops)
        content = yield from fetch_spans(place, self.buffer, read)
        num_bytes = len(content) + 8 * len(ends.offsets)
        return ArrayPiece(num_bytes, partial(_strings, ends, content))


def _strings(ends: Ends, content: memoryview, arrow: pa.DataType, valid: Mask | None) -> pa.Array:
    return variable_array(arrow, ends.offsets, unpinned(content), joint(valid, ends.valid))


@dataclass(frozen=True, slots=True)
class StringPlaces:
    """Blobs that old releases stored as strings; one round reads only their positions."""

    page: Binary

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        entries = yield from self.page.indices.fetch(place, spans)
        bytes_at = place.buffers[self.page.buffer]
        return ArrayPiece(len(entries), partial(self._built, spans, entries, *bytes_at))

    def _built(
        self,
        spans: Spans,
        entries: memoryview,
        first_byte: int,
        size: int,
        arrow: pa.DataType,
        valid: Mask | None,
    ) -> pa.Array:
        ends = self.page.indices.decode(entries, spans, size)
        positions, sizes = ends.places(spans.counts)
        positions = np.where(sizes > 0, positions + first_byte, 0)
        if ends.valid is not None:
            positions, sizes = np.where(ends.valid, positions, 1), np.where(ends.valid, sizes, 0)
        return blob_places(arrow, positions, sizes, valid)


def blob_places(
    arrow: pa.DataType, positions: Int64s, sizes: Int64s, valid: Mask | None
) -> pa.Array:
    """Build blob descriptions, structs of a position and a size."""
    children = [to_arrow(numbers.view(np.uint64)) for numbers in (positions, sizes)]
    return pa.Array.from_buffers(arrow, len(sizes), [bitmap(valid)], children=children)


@dataclass(frozen=True, slots=True)
class FsstEncoding:
    """Strings that are compressed one by one by FSST."""

    table: SymbolTable | None  # None if the strings are not compressed
    inner: Binary

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        piece = yield from self.inner.plan(place, spans)
        if self.table is None:
            return piece
        return ArrayPiece(piece.num_bytes, partial(_expanded, self.table, piece))


def _expanded(
    table: SymbolTable, piece: ArrayPiece, arrow: pa.DataType, valid: Mask | None
) -> pa.Array:
    """Decompress FSST codes to strings."""
    codes = piece.build(pa.large_binary(), valid)
    with kernel_errors:
        offsets, data, is_ascii = _kernels.decode_fsst(
            *strings_of(codes), table.symbols, table.lengths
        )
    return variable_array(arrow, offsets, data, validity_of(codes), is_ascii=is_ascii)


@dataclass(frozen=True, slots=True)
class DictionaryEncoding:
    """Indices with an encoding of their own; all items are read in the same round."""

    indices: ArrayEncoding
    index_type: pa.DataType  # unsigned
    items: ArrayEncoding
    num_items: int
    of_strings: bool  # True for a string field, where index 0 is null

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        everything = Spans.of_range(0, self.num_items)
        indices, items = yield from together(
            [self.indices.plan(place, spans), self.items.plan(place, everything)]
        )
        num_bytes = indices.num_bytes + items.num_bytes
        return ArrayPiece(num_bytes, partial(self._built, indices, items))

    def _built(
        self, indices: ArrayPiece, items: ArrayPiece, arrow: pa.DataType, valid: Mask | None
    ) -> pa.Array:
        stored = indices.build(self.index_type, valid)
        numbers, valid = bytes_of(stored).view(numpy_type(stored.type)), validity_of(stored)
        if self.of_strings:
            valid, numbers = joint(valid, numbers > 0), numbers - numbers.dtype.type(1)
        item_type = arrow.value_type if pa.types.is_dictionary(arrow) else arrow
        return looked_up(arrow, numbers, items.build(item_type, None), valid)


def looked_up(
    arrow: pa.DataType, numbers: npt.NDArray[Any], items: pa.Array, valid: Mask | None
) -> pa.Array:
    """Look up the items of indices, as a dictionary or as their values. Null items make nulls.

    Args:
        numbers: index of each row, unsigned; shape (n,). Those of nulls are arbitrary.
    """
    if valid is not None:
        numbers = np.where(valid, numbers, 0)
    if len(numbers) and int(numbers.max()) >= len(items):
        if valid is not None and not valid.any():
            return pa.nulls(len(numbers), arrow)
        raise CorruptFileError(f"index {numbers.max()} into a dictionary of {len(items)} values")
    if not pa.types.is_dictionary(arrow):
        try:
            return items.take(to_arrow(numbers.astype(np.int64), valid))
        except pa.ArrowException as error:
            raise BatchTooLargeError(f"{error}: read fewer rows at once") from error
    has_value = validity_of(items)
    if has_value is not None:
        valid = has_value[numbers] if valid is None else valid & has_value[numbers]
        # Arrow maps the indices of nulls, too, and does not check them.
        numbers = np.where(valid, (np.cumsum(has_value) - 1)[numbers], 0)
        items = items.drop_null()
    index_type = arrow.index_type
    most = 1 << (index_type.bit_width - pa.types.is_signed_integer(index_type))
    if len(items) <= most:
        indices = to_arrow(numbers.astype(numpy_type(index_type)), valid)
    else:  # releases up to 0.33 wrote wider indices if the declared type had too few
        used = items.take(to_arrow(numbers.astype(np.int64), valid)).dictionary_encode()
        items = used.dictionary
        if len(items) > most:
            raise BatchTooLargeError(
                f"{len(items)} distinct values for {arrow}: read fewer rows at once"
            )
        indices = used.indices.cast(index_type)
    return pa.DictionaryArray.from_arrays(indices, items, ordered=arrow.ordered)

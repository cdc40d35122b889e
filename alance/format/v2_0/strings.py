"""Encodings of strings: binary (perhaps compressed), FSST, of equal length, and dictionaries.

  indices   a u64 per value: its end in the bytes, plus `adjustment` if the value is null
  bytes     all values of the page, the first one at 0; a null may have bytes, too

A dictionary has indices into the distinct items of a page. In a field of a dictionary type, a null
is the index of a null item. In a string field, where the dictionary is only a compression, index 0
is null, and index k means item k - 1.

Source: encodings_v2_0.proto, Binary, Fsst, FixedSizeBinary, Dictionary.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import BatchTooLargeError, CorruptFileError, kernel_errors
from alance.format.blocks import (
    DictionaryBlock,
    FixedWidth,
    NullBlock,
    VariableWidth,
    gather,
    pairs_block,
)
from alance.format.codecs.general import Scheme, decompress
from alance.format.layouts.place import fetch_pieces, unpinned
from alance.format.numbers import offsets_of
from alance.format.plans import together
from alance.format.v2_0.base import ArrayEncoding, ArrayPiece, NullableBlock, Spans, fetch_values

if TYPE_CHECKING:
    from typing import Any

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int32s, Int64s, Mask
    from alance.format.blocks import Block
    from alance.format.codecs.strings import SymbolTable
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.v2_0.base import ArrayEncoding

# Bytes; a buffer up to this size is read completely, in one round with the indices: at 100 MB/s
# that takes 2.5 ms, another round 30 ms.
MAX_WHOLE_BUFFER_BYTES: Final = 256 << 10
WIDE_BYTES: Final = (1 << 31) - 1  # bytes; larger contents need 64-bit offsets


@dataclass(frozen=True, slots=True)
class Ends:
    """Decoded ends of rows."""

    spans: Spans  # spans of bytes or items, one for each span of rows
    offsets: Int32s | Int64s  # shape (n + 1,), from 0
    valid: Mask | None  # shape (n,); None if all are valid

    def places(self, counts: Int64s) -> tuple[Int64s, Int64s]:
        """Return the position and the size of each row, given the number of rows of each span."""
        offsets = self.offsets.astype(np.int64, copy=False)
        before = np.cumsum(counts) - counts
        shifts = np.repeat(self.spans.starts - offsets[before], counts)
        return offsets[:-1] + shifts, np.diff(offsets)


@dataclass(frozen=True, slots=True)
class Indices:
    """A u64 per row: the end of the row's bytes or items."""

    buffer: int
    adjustment: int

    def fetch(self, place: PagePlace, spans: Spans) -> Plan[memoryview]:
        """Plan the entries of rows, and the entry before each span of rows, in one round."""
        starts = np.maximum(spans.starts - 1, 0)
        return (yield from fetch_pieces(place, self.buffer, starts * 8, spans.stops * 8))

    def decode(self, content: memoryview, spans: Spans, limit: int, *, wide: bool) -> Ends:
        """Decode the ends of rows; see `decode_ends`."""
        entries = np.frombuffer(content, np.uint8)
        from_start = bool(len(spans.starts)) and int(spans.starts[0]) == 0
        if from_start:
            entries = np.concatenate([np.zeros(8, np.uint8), entries])
        return decode_ends(entries, spans.counts, limit, adjustment=self.adjustment, wide=wide)


def decode_ends(
    entries: Bytes | memoryview,
    counts: Int64s,
    limit: int,
    *,
    adjustment: int = 0,
    wide: bool,
) -> Ends:
    """Compute the ends of rows, span by span, from an entry per row and one before each span.

    Args:
        entries: numbers of 64 bits.
        counts: number of rows in each span.
        limit: largest allowed end.
        adjustment: number that is added to the ends of nulls; 0 if there are no nulls.
        wide: True to return 64-bit offsets even if 32 bits suffice.
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
    if not wide and int(offsets[-1]) > WIDE_BYTES:
        raise BatchTooLargeError(
            f"strings or lists of {offsets[-1]} bytes or items are too many for the offsets of "
            "this type: read fewer rows at once"
        )
    valid = None if is_valid is None or is_valid[is_row].all() else is_valid[is_row]
    spans = Spans(places[lasts - counts], places[lasts])
    return Ends(spans, offsets if wide else offsets.astype(np.int32), valid)


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
                fetch_values(place, self.buffer, Spans.of_range(0, size), 1),
            ]
        )
        num_bytes = len(entries) + len(content)
        return ArrayPiece(num_bytes, partial(self._decoded, spans, entries, content))

    def _decoded(self, spans: Spans, entries: memoryview, content: memoryview) -> NullableBlock:
        data = unpinned(content)
        if self.scheme is not None:
            data = decompress(self.scheme, data)
        wide = len(data) > WIDE_BYTES
        ends = self.indices.decode(entries, spans, len(data), wide=wide)
        begins, sizes = ends.spans.starts, ends.spans.counts
        if len(begins) == 1:
            data = data[int(begins[0]) : int(begins[0] + sizes[0])]
        elif len(begins):
            with kernel_errors:
                data = _kernels.concat_spans(data, begins, sizes)[1]
        return NullableBlock(VariableWidth(ends.offsets, data), ends.valid)

    def _plan_parts(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        entries = yield from self.indices.fetch(place, spans)
        size = place.size(self.buffer)
        with place.checking():
            ends = self.indices.decode(entries, spans, size, wide=size > WIDE_BYTES)
        read = Spans.of(ends.spans.starts, ends.spans.stops)
        content = yield from fetch_pieces(place, self.buffer, read.starts, read.stops)
        num_bytes = len(content) + 8 * len(ends.offsets)
        return ArrayPiece(num_bytes, partial(_strings, ends, content))


def _strings(ends: Ends, content: memoryview) -> NullableBlock:
    return NullableBlock(VariableWidth(ends.offsets, unpinned(content)), ends.valid)


@dataclass(frozen=True, slots=True)
class StringPlaces:
    """Blobs that old releases stored as strings; one round reads only their positions."""

    page: Binary

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        entries = yield from self.page.indices.fetch(place, spans)
        bytes_at = place.buffers[self.page.buffer]
        return ArrayPiece(len(entries), partial(self._decoded, spans, entries, *bytes_at))

    def _decoded(
        self, spans: Spans, entries: memoryview, first_byte: int, size: int
    ) -> NullableBlock:
        ends = self.page.indices.decode(entries, spans, size, wide=True)
        positions, sizes = ends.places(spans.counts)
        positions = np.where(sizes > 0, positions + first_byte, 0)
        if ends.valid is not None:
            positions, sizes = np.where(ends.valid, positions, 1), np.where(ends.valid, sizes, 0)
        return NullableBlock(pairs_block(positions, sizes), None)


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


def _expanded(table: SymbolTable, piece: ArrayPiece) -> NullableBlock:
    """Decompress FSST codes to strings."""
    codes = piece.decode()
    block = codes.block
    assert isinstance(block, VariableWidth)
    with kernel_errors:
        expanded = _kernels.decode_fsst(block.offsets, block.data, table.symbols, table.lengths)
    return NullableBlock(VariableWidth(*expanded), codes.valid)


@dataclass(frozen=True, slots=True)
class SameLength:
    """Strings of equal length, without indices."""

    width: int
    per_row: int  # inner values per row: 1, or `width` if inner values are bytes
    inner: ArrayEncoding

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        piece = yield from self.inner.plan(place, spans.times(self.per_row))
        return ArrayPiece(piece.num_bytes, partial(self._decoded, spans.num_rows, piece))

    def _decoded(self, num_rows: int, piece: ArrayPiece) -> NullableBlock:
        values = piece.decode()
        block = values.block
        if not isinstance(block, FixedWidth) or values.valid is not None:
            kind = type(block).__name__
            raise CorruptFileError(f"fixed-size binary: {kind}, expected plain values")
        total = num_rows * self.width
        if len(block.data) != total:
            raise CorruptFileError(
                f"fixed-size binary: {len(block.data)} bytes, expected {total} in "
                f"{num_rows} values of {self.width}"
            )
        offsets = np.arange(num_rows + 1, dtype=np.int64) * self.width
        return NullableBlock(VariableWidth(offsets, block.data), None)


def _block(raw: npt.NDArray[Any], items: Block) -> DictionaryBlock:
    data = np.ascontiguousarray(raw).view(np.uint8)
    return DictionaryBlock(FixedWidth(8 * raw.itemsize, len(raw), data), items)


def _anded(mask: Mask, other: Mask | None) -> Mask:
    return mask if other is None else mask & other


def _unsigned(block: Block) -> npt.NDArray[Any]:
    if not isinstance(block, FixedWidth) or block.bits_per_value not in (8, 16, 32, 64):
        raise CorruptFileError("dictionary: indices that are no integers")
    return block.data.view(f"<u{block.bits_per_value // 8}")


@dataclass(frozen=True, slots=True)
class DictionaryEncoding:
    """Indices with an encoding of their own; all items are read in the same round."""

    indices: ArrayEncoding
    items: ArrayEncoding
    num_items: int
    of_strings: bool  # True for a string field, where index 0 is null

    def plan(self, place: PagePlace, spans: Spans) -> Plan[ArrayPiece]:
        everything = Spans.of_range(0, self.num_items)
        indices, items = yield from together(
            [self.indices.plan(place, spans), self.items.plan(place, everything)]
        )
        num_bytes = indices.num_bytes + items.num_bytes
        return ArrayPiece(num_bytes, partial(self._decoded, indices, items))

    def _decoded(self, of_indices: ArrayPiece, of_items: ArrayPiece) -> NullableBlock:
        indices, items = of_indices.decode(), of_items.decode()
        if isinstance(indices.block, NullBlock):
            return NullableBlock(indices.block, indices.valid)
        raw = _unsigned(indices.block)
        if self.of_strings:
            valid = raw > 0
            raw = raw - raw.dtype.type(1)
            return NullableBlock(_block(raw, items.block), _anded(valid, indices.valid))
        valid_items = items.valid
        if valid_items is None or valid_items.all():
            return NullableBlock(_block(raw, items.block), indices.valid)
        places = np.minimum(raw, len(valid_items) - 1)
        valid = valid_items[places] | (raw >= len(valid_items))
        used = np.flatnonzero(valid_items)
        if not len(used):
            return NullableBlock(NullBlock(len(raw)), np.zeros(len(raw), np.bool_))
        block = items.block
        if int(used[-1]) < items.num_values - 1:
            # The null item is the last one, so drop it with all items after the last used one.
            block = gather(block, np.arange(int(used[-1]) + 1))
        return NullableBlock(_block(raw, block), _anded(valid, indices.valid))


def narrowed(values: NullableBlock, arrow: pa.DataType) -> NullableBlock:
    """Reduce a dictionary to the used items if its indices cannot address all items.

    Releases up to 0.33 wrote wider indices if there were too many items for the declared type.
    """
    block = values.block
    if not isinstance(block, DictionaryBlock) or not pa.types.is_dictionary(arrow):
        return values
    bits = arrow.index_type.bit_width
    most = 1 << (bits - pa.types.is_signed_integer(arrow.index_type))
    if block.items.num_values <= most:
        return values
    raw = _unsigned(block.indices)
    used, places = np.unique(
        raw if values.valid is None else raw[values.valid], return_inverse=True
    )
    if len(used) > most or (len(used) and int(used[-1]) >= block.items.num_values):
        raise BatchTooLargeError(
            f"{len(used)} distinct values for {arrow}: read fewer rows at once"
        )
    indices = np.zeros(len(raw), np.uint64)
    indices[slice(None) if values.valid is None else values.valid] = places.reshape(-1)
    items = gather(block.items, used.astype(np.int64))
    return NullableBlock(_block(indices, items), values.valid)

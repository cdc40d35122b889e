"""Full-zip pages: large values, each directly after its levels and its length.

    buffer 0  zipped rows
    buffer 1  repetition index, if rows differ in length: num_rows + 1 unsigned integers of
              1, 2, 4 or 8 bytes, the offsets of all rows in buffer 0, and its end

A read of rows of equal length takes one round, and needs no state. Rows of varying length are
located by two entries of the index. A small index is part of the state. A large one stays in the
store, so that a read takes two rounds.

A row is a sequence of unaligned entries. An entry without a value slot only has a control word:

    control word    repetition << bits_def | definition, in 0, 1, 2 or 4 bytes
    fixed width     the value's bytes, also of a null
    variable width  a length of 4 or 8 bytes and the value's bytes; nothing for a null

Source: encodings_v2_1.proto, FullZipLayout; docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs import per_value_codec
from alance.format.layouts.levels import Levels, Shape
from alance.format.layouts.place import fetch, fetch_pieces, joined, unpinned
from alance.format.layouts.row_pages import MAX_INDEX_BYTES
from alance.format.layouts.selection import spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s
    from alance.format.blocks import Block
    from alance.format.codecs.base import PerValueCodec
    from alance.format.layouts.base import PageState, PageValues
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import ByteRange, Plan
    from alance.format.proto import encodings_v2_1_pb2 as pb


class ZipForm(NamedTuple):
    """Parsed description: format of a page's entries."""

    shape: Shape
    bits_rep: int
    bits_def: int
    is_fixed: bool
    width: int  # bytes of a fixed-width value, or of a length
    codec: PerValueCodec

    @classmethod
    def from_proto(cls, message: pb.FullZipLayout) -> ZipForm:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        if message.bits_rep > 16 or message.bits_def > 16:
            raise CorruptFileError(
                f"full-zip: levels of {message.bits_rep} and {message.bits_def} bits, at most 16"
            )
        codec = per_value_codec(message.value_compression)
        details = message.WhichOneof("details")
        is_fixed = details == "bits_per_value"
        if is_fixed:
            bits = message.bits_per_value
            if bits % 8:
                raise CorruptFileError(f"full-zip: values of {bits} bits are not whole bytes")
            if codec.encoded != "fixed" or codec.bits_per_value != bits:
                raise CorruptFileError(
                    f"full-zip: values of {bits} bits, the codec gives {codec.encoded} "
                    f"{codec.bits_per_value or 'width'}"
                )
        else:
            bits = message.bits_per_offset
            if details is None or bits not in (32, 64):
                raise CorruptFileError(f"full-zip: lengths of {bits} bits, expected 32 or 64")
            if codec.encoded != "variable":
                raise CorruptFileError("full-zip: values have lengths, the codec gives fixed width")
        shape = Shape.from_proto(message.layers)
        return cls(shape, message.bits_rep, message.bits_def, is_fixed, bits // 8, codec)

    @property
    def control_bytes(self) -> int:
        """Bytes per control word."""
        bits = self.bits_rep + self.bits_def
        return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4

    @property
    def row_bytes(self) -> int | None:
        """Bytes per row; None if rows vary in length."""
        if self.is_fixed and not self.shape.has_lists:
            return self.control_bytes + self.width
        return None


class FullZipTask(NamedTuple):
    """Zipped rows to decode."""

    place: PagePlace
    form: ZipForm
    pieces: tuple[memoryview, ...]
    piece_rows: Int64s  # number of rows in each piece, shape (pieces,)
    num_entries: int | None = None  # entries in all pieces; None if unknown
    num_visible: int | None = None  # entries with a value slot; None if unknown
    # Ends of the runs of rows in a single piece; None if each piece is a run.
    stops: Int64s | None = None

    @property
    def num_bytes(self) -> int:
        return sum(len(piece) for piece in self.pieces)

    def decode(self) -> PageValues:
        """Decode all rows of the pieces.

        Raises:
            CorruptFileError: the rows contradict the description.
        """
        with self.place.checking():
            data = joined(self.pieces)
            num_rows = int(self.piece_rows.sum())
            stops = self.stops
            if stops is None:
                stops = np.cumsum([len(piece) for piece in self.pieces], dtype=np.int64)
            if self.form.row_bytes is not None:
                self._check_sizes(num_rows, stops)
            if self.form.row_bytes is not None and self.form.control_bytes == 0:
                # Rows without control words are a plain array of values.
                if len(self.pieces) == 1:
                    data = unpinned(self.pieces[0])
                values: Block = FixedWidth(8 * self.form.width, num_rows, data)
                self._check_counts(num_rows, num_rows)
                levels = Levels(self.form.shape, num_rows, None, None)
            else:
                levels, values = self._unzip(data, stops)
            return levels.all_rows(self._decoded(values, levels), num_rows)

    def _check_sizes(self, num_rows: int, stops: Int64s) -> None:
        expected = np.cumsum(self.piece_rows) * (self.form.row_bytes or 0)
        if not np.array_equal(stops, expected):
            raise CorruptFileError(f"{self.num_bytes} bytes of {num_rows} rows of equal length")

    def _check_counts(self, entries: int, visible: int) -> None:
        if self.num_entries not in (None, entries) or self.num_visible not in (None, visible):
            raise CorruptFileError(
                f"{entries} entries, {visible} of them with values, "
                f"expected {self.num_entries} and {self.num_visible}"
            )

    def _unzip(self, data: Bytes, stops: Int64s) -> tuple[Levels, Block]:
        """Split entries into levels and encoded values; nulls of variable width have no value."""
        form, shape = self.form, self.form.shape
        walk = (
            data,
            stops,
            self.piece_rows,
            form.control_bytes,
            form.bits_def,
            shape.max_rep,
            shape.max_def,
            shape.max_visible,
            form.width,
        )
        rep, definition, starts, sizes = _kernels.zipped_entries(*walk, form.is_fixed)
        visible = int(np.count_nonzero(definition <= shape.max_visible))
        self._check_counts(len(rep), visible)
        offsets, content = _kernels.concat_spans(data, starts, sizes)
        values: Block = VariableWidth(offsets, content)
        if form.is_fixed:
            values = FixedWidth(8 * form.width, visible, content)
        levels = Levels(
            shape,
            len(rep),
            rep if shape.has_lists else None,
            definition if shape.max_def else None,
        )
        return levels, values

    def _decoded(self, values: Block, levels: Levels) -> Block:
        """Decode a value for each visible entry."""
        assert isinstance(values, FixedWidth | VariableWidth)
        block = self.form.codec.decode_values(values)
        if block.num_values != values.num_values:
            raise CorruptFileError(
                f"{block.num_values} values decoded, expected {values.num_values}"
            )
        if self.form.is_fixed or levels.definition is None:
            return block
        # Nulls have no bytes, so the codec only decoded the other values.
        present = levels.definition[levels.definition <= self.form.shape.max_visible] == 0
        return block if present.all() else spread(block, present)


ZIPPED_ROWS_BUFFER: Final = 0  # buffer of zipped rows
INDEX: Final = 1  # buffer of the repetition index


@dataclass(slots=True)
class FullZipState:
    """Repetition index of a page: the offset of each row."""

    # Shape (num_rows + 1,); None if it stays in the store.
    index: npt.NDArray[np.unsignedinteger] | None

    @property
    def num_bytes(self) -> int:
        """Memory of the index in bytes."""
        return 100 + (0 if self.index is None else self.index.nbytes)


class FullZipPage(NamedTuple):
    """Page of zipped rows."""

    place: PagePlace
    form: ZipForm
    num_items: int
    num_visible_items: int
    max_index_bytes: int = MAX_INDEX_BYTES  # a larger index stays in the store

    @classmethod
    def from_proto(cls, message: pb.FullZipLayout, place: PagePlace) -> FullZipPage:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent, or contradicts the buffers.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        form = ZipForm.from_proto(message)
        place.need_buffers(1 if form.row_bytes is not None else 2, "a full-zip page")
        if form.row_bytes is not None and place.num_rows * form.row_bytes != place.size(
            ZIPPED_ROWS_BUFFER
        ):
            raise CorruptFileError(
                f"full-zip: {place.num_rows} rows of {form.row_bytes} bytes in a buffer of "
                f"{place.size(ZIPPED_ROWS_BUFFER)}"
            )
        page = cls(place, form, message.num_items, message.num_visible_items)
        if form.row_bytes is None:
            page._check_index_size()
        if not form.shape.has_lists and message.num_items != place.num_rows:
            raise CorruptFileError(
                f"full-zip: {message.num_items} entries in {place.num_rows} rows without lists"
            )
        return page

    @property
    def num_rows(self) -> int:
        return self.place.num_rows

    @property
    def index_width(self) -> int:
        """Bytes per entry of the repetition index."""
        return self.place.size(INDEX) // (self.num_rows + 1)

    @property
    def keeps_index(self) -> bool:
        """True if the page has a repetition index that is small enough to be part of the state."""
        return self.form.row_bytes is None and self.place.size(INDEX) <= self.max_index_bytes

    def load(self) -> Plan[PageState]:
        """Plan the repetition index in one round; no round if there is none, or it is large."""
        if not self.keeps_index:
            return FullZipState(None)
        (content,) = yield from fetch([self.place.whole(INDEX)])
        return self._state(content)

    def take(self, state: PageState, rows: Int64s) -> Plan[FullZipTask]:
        """Plan single rows in one round, or in two if the index is in the store.

        Consecutive rows are requested as one range.
        """
        assert isinstance(state, FullZipState)
        first, counts = _neighbours(rows)
        starts, stops = yield from self._bounds(state, first, counts)
        content = yield from fetch_pieces(self.place, ZIPPED_ROWS_BUFFER, starts, stops)
        return self._task([content], counts, np.cumsum(stops - starts))

    def read(self, state: PageState, start: int, stop: int) -> Plan[FullZipTask]:
        """Plan a range of rows in one round, or in two if the index is in the store."""
        assert isinstance(state, FullZipState)
        if start >= stop:
            return self._task([], np.empty(0, np.int64))
        first, counts = np.array([start], np.int64), np.array([stop - start], np.int64)
        starts, stops = yield from self._bounds(state, first, counts)
        content = yield from fetch_pieces(self.place, ZIPPED_ROWS_BUFFER, starts, stops)
        return self._task([content], counts)

    def read_page(self) -> Plan[FullZipTask]:
        """Plan all zipped rows in one round; this does not need the index."""
        pieces = yield from fetch([self.place.whole(ZIPPED_ROWS_BUFFER)])
        counts = np.array([self.num_rows], np.int64)
        return FullZipTask(
            self.place, self.form, tuple(pieces), counts, self.num_items, self.num_visible_items
        )

    def _task(
        self, pieces: Sequence[memoryview], counts: Int64s, stops: Int64s | None = None
    ) -> FullZipTask:
        return FullZipTask(self.place, self.form, tuple(pieces), counts, stops=stops)

    def _check_index_size(self) -> None:
        size, entries = self.place.size(INDEX), self.num_rows + 1
        if size % entries or size // entries not in (1, 2, 4, 8):
            raise CorruptFileError(
                f"full-zip: repetition index of {size} bytes for {self.num_rows} rows"
            )

    def _state(self, content: memoryview) -> FullZipState:
        index = np.frombuffer(content, f"<u{self.index_width}").copy()
        if (
            index[0] != 0
            or index[-1] != self.place.size(ZIPPED_ROWS_BUFFER)
            or (index[1:] < index[:-1]).any()
        ):
            raise self.place.corrupt(
                f"repetition index from {index[0]} to {index[-1]}, expected ascending numbers "
                f"from 0 to {self.place.size(ZIPPED_ROWS_BUFFER)}"
            )
        return FullZipState(index)

    def _bounds(
        self, state: FullZipState, first: Int64s, counts: Int64s
    ) -> Plan[tuple[Int64s, Int64s]]:
        """Plan the byte ranges of runs of rows: no round, or one if the index is in the store."""
        if self.form.row_bytes is not None:
            starts, stops = first * self.form.row_bytes, (first + counts) * self.form.row_bytes
        elif state.index is not None:
            starts = state.index[first].astype(np.int64)
            stops = state.index[first + counts].astype(np.int64)
        else:
            starts, stops = yield from self._index_entries(first, counts)
        return starts, stops

    def _index_entries(self, first: Int64s, counts: Int64s) -> Plan[tuple[Int64s, Int64s]]:
        """Plan the index entries for the start and end of each run, in one round."""
        width = self.index_width
        ranges: list[ByteRange] = []
        for start, count in zip(first.tolist(), counts.tolist(), strict=True):
            if count == 1:
                ranges.append(self.place.part(INDEX, start * width, (start + 2) * width))
            else:
                stop = start + count
                ranges.append(self.place.part(INDEX, start * width, (start + 1) * width))
                ranges.append(self.place.part(INDEX, stop * width, (stop + 1) * width))
        buffers = yield from fetch(ranges)
        entries = np.frombuffer(b"".join(buffers), f"<u{width}").reshape(-1, 2)
        size = self.place.size(ZIPPED_ROWS_BUFFER)
        if (entries[:, 0] > entries[:, 1]).any() or (entries[:, 1] > size).any():
            raise self.place.corrupt(
                f"repetition index: rows {first.tolist()[:5]}... end before they begin, "
                f"or behind {size}"
            )
        pairs = entries.astype(np.int64)
        return pairs[:, 0], pairs[:, 1]


def _neighbours(rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return the first row and the length of each run of consecutive rows."""
    if len(rows) == 0:
        return rows, rows
    begins = np.flatnonzero(np.concatenate([[True], np.diff(rows) != 1]))
    counts: Int64s = np.diff(np.append(begins, len(rows)))
    return rows[begins], counts

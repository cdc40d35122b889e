"""Full-zip pages: large values, each with its levels and length right in front of it.

    buffer 0  the zipped rows
    buffer 1  repetition index, where rows differ in length: num_rows + 1 unsigned integers of
              1, 2, 4 or 8 bytes, the places in buffer 0 where the rows begin, and its end

Rows of equal length cost one round and need no state. Others need their two index entries: the
index is kept as state, or left on the store if it is large, and then a read costs two rounds.

Source: encodings_v2_1.proto, FullZipLayout; docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.errors import CorruptFileError
from alance.format.layouts.fullzip_form import FullZipTask, ZipForm
from alance.format.layouts.paged_rows import RowPage
from alance.format.layouts.place import (
    MAX_WHOLE_BYTES,
    fetch,
    fetch_missing,
    fetch_pieces,
    guess_spans,
)
from alance.format.layouts.row_pages import zipped_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.arrays import Int64s
    from alance.format.layouts.base import PageState
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import ByteRange, Plan
    from alance.format.proto import encodings_v2_1_pb2 as pb

ROWS: Final = 0  # the buffer of zipped rows
INDEX: Final = 1
# An index up to this size is loaded and kept: a quarter of a million rows of 1 KB, and more than
# a second round costs to read once.
MAX_INDEX_BYTES: Final = 1 << 20


@dataclass(slots=True)
class FullZipState:
    """Where the rows of a page begin."""

    index: npt.NDArray[np.unsignedinteger] | None  # shape (num_rows + 1,); None: not loaded
    rows: RowPage | None = None  # made when first used

    @property
    def num_bytes(self) -> int:
        """Memory that the state holds."""
        return 100 + (0 if self.index is None else self.index.nbytes)


class FullZipPage(NamedTuple):
    """A page of zipped rows."""

    place: PagePlace
    form: ZipForm
    num_items: int
    num_visible_items: int
    max_index_bytes: int = MAX_INDEX_BYTES  # a larger index stays on the store

    @classmethod
    def from_proto(cls, message: pb.FullZipLayout, place: PagePlace) -> FullZipPage:
        """The page that a description says.

        Raises:
            CorruptFileError: the description contradicts itself or the buffers.
            UnsupportedError: a codec that is not known, or not legal here.
        """
        form = ZipForm.from_proto(message)
        place.need_buffers(1 if form.row_bytes is not None else 2, "a full-zip page")
        if form.row_bytes is not None and place.num_rows * form.row_bytes != place.size(ROWS):
            raise CorruptFileError(
                f"full-zip: {place.num_rows} rows of {form.row_bytes} bytes in a buffer of "
                f"{place.size(ROWS)}"
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
        """Bytes of an entry of the repetition index."""
        return self.place.size(INDEX) // (self.num_rows + 1)

    @property
    def keeps_index(self) -> bool:
        """Whether the repetition index becomes state."""
        return self.form.row_bytes is None and self.place.size(INDEX) <= self.max_index_bytes

    def load(self) -> Plan[PageState]:
        """Plan the repetition index: one round, none if rows have equal length or it is large."""
        if not self.keeps_index:
            return FullZipState(None)
        (content,) = yield from fetch([self.place.whole(INDEX)])
        return self._state(content)

    def take(self, state: PageState, rows: Int64s) -> Plan[FullZipTask]:
        """Plan single rows: one round, or two where the index is on the store.

        Neighbouring rows are one range.
        """
        assert isinstance(state, FullZipState)
        first, counts = _neighbours(rows)
        starts, stops = yield from self._bounds(state, first, counts)
        content = yield from fetch_pieces(self.place, ROWS, starts, stops)
        return self._task([content], counts, np.cumsum(stops - starts))

    def read(self, state: PageState, start: int, stop: int) -> Plan[FullZipTask]:
        """Plan neighbouring rows: one range, one round more where the index is on the store."""
        assert isinstance(state, FullZipState)
        if start >= stop:
            return self._task([], np.empty(0, np.int64))
        first, counts = np.array([start], np.int64), np.array([stop - start], np.int64)
        starts, stops = yield from self._bounds(state, first, counts)
        content = yield from fetch_pieces(self.place, ROWS, starts, stops)
        return self._task([content], counts)

    def row_page(self, state: PageState) -> RowPage | None:
        """The page for the taking of single rows in one call; None for rows of any length."""
        assert isinstance(state, FullZipState)
        if state.rows is None and self.form.row_bytes is not None:
            with self.place.checking():
                kernel = zipped_rows(self.form, self.place, ROWS)
            if kernel is not None:
                state.rows = RowPage(
                    kernel, self.place, self.form.shape, self.form.codec.decode_values
                )
        return state.rows

    def load_and_take(self, rows: Int64s) -> Plan[tuple[PageState, FullZipTask]]:
        """Plan state and rows: one round where rows have equal length, the page is small or the
        guess holds, else two."""
        state: PageState
        if not self.keeps_index:
            state = FullZipState(None)
            return state, (yield from self.take(state, rows))
        size = self.place.size(ROWS)
        spans = guess_spans(rows, self.num_rows, size)
        if self.place.num_bytes <= MAX_WHOLE_BYTES:
            spans = [(0, size)]
        guessed = [self.place.part(ROWS, *span) for span in spans]
        content, *read = yield from fetch([self.place.whole(INDEX), *guessed])
        state = self._state(content)
        first, counts = _neighbours(rows)
        starts, stops = yield from self._bounds(state, first, counts)
        asked = list(zip(starts.tolist(), stops.tolist(), strict=True))
        pieces = yield from fetch_missing(self.place, ROWS, asked, spans, read)
        return state, self._task(pieces, counts)

    def read_page(self) -> Plan[FullZipTask]:
        """Plan the zipped rows: one round; the index is not needed."""
        pieces = yield from fetch([self.place.whole(ROWS)])
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
        if index[0] != 0 or index[-1] != self.place.size(ROWS) or (index[1:] < index[:-1]).any():
            raise self.place.corrupt(
                f"repetition index from {index[0]} to {index[-1]}, expected ascending numbers "
                f"from 0 to {self.place.size(ROWS)}"
            )
        return FullZipState(index)

    def _bounds(
        self, state: FullZipState, first: Int64s, counts: Int64s
    ) -> Plan[tuple[Int64s, Int64s]]:
        """The byte ranges of runs of rows: where they begin and end."""
        if self.form.row_bytes is not None:
            starts, stops = first * self.form.row_bytes, (first + counts) * self.form.row_bytes
        elif state.index is not None:
            starts = state.index[first].astype(np.int64)
            stops = state.index[first + counts].astype(np.int64)
        else:
            starts, stops = yield from self._index_entries(first, counts)
        return starts, stops

    def _index_entries(self, first: Int64s, counts: Int64s) -> Plan[tuple[Int64s, Int64s]]:
        """Index entries of the first and behind the last row of each run: one round."""
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
        size = self.place.size(ROWS)
        if (entries[:, 0] > entries[:, 1]).any() or (entries[:, 1] > size).any():
            raise self.place.corrupt(
                f"repetition index: rows {first.tolist()[:5]}... end before they begin, "
                f"or behind {size}"
            )
        pairs = entries.astype(np.int64)
        return pairs[:, 0], pairs[:, 1]


def _neighbours(rows: Int64s) -> tuple[Int64s, Int64s]:
    """First row and length of each run of consecutive rows."""
    if len(rows) == 0:
        return rows, rows
    begins = np.flatnonzero(np.concatenate([[True], np.diff(rows) != 1]))
    counts: Int64s = np.diff(np.append(begins, len(rows)))
    return rows[begins], counts

"""Mini-block pages: small values in chunks; a chunk is decoded as a whole.

    buffer 0     chunk words
    buffer 1     the chunks
    buffer 2     dictionary items, if the values are indices into them
    last buffer  repetition index, if the page has lists

The page's state has the chunk words, the repetition index and the dictionary. With it, a read of
rows takes one round.

Source: encodings_v2_1.proto, MiniBlockLayout; docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs import block_codec, mini_block_codec
from alance.format.layouts.dictionary import Dictionary
from alance.format.layouts.levels import Shape
from alance.format.layouts.miniblock_chunks import CHUNKS_BUFFER, Chunks
from alance.format.layouts.miniblock_task import ChunkForm, MiniBlockTask
from alance.format.layouts.place import PagePlace, fetch, fetch_pieces
from alance.format.layouts.row_pages import row_form, set_items

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s
    from alance.format.codecs.base import BlockCodec
    from alance.format.layouts.base import PageState
    from alance.format.layouts.miniblock_chunks import ChunkRuns
    from alance.format.plans import ByteRange, Plan
    from alance.format.proto import encodings_v2_1_pb2 as pb

NO_PLACE: Final = PagePlace("", (), 0)


class MiniBlockState:
    """Positions of the chunks of a page, and its dictionary."""

    __slots__ = ("_chunks", "dictionary", "table")

    def __init__(self, table: _kernels.ChunkTable, dictionary: Dictionary | None) -> None:
        self.table = table
        self.dictionary = dictionary
        self._chunks: Chunks | None = None

    @property
    def chunks(self) -> Chunks:
        """Chunks as arrays, for reads chunk by chunk."""
        if self._chunks is None:
            self._chunks = Chunks.of(self.table)
        return self._chunks

    @property
    def num_bytes(self) -> int:
        """Memory of the state in bytes."""
        items = self.dictionary.num_bytes if self.dictionary else 0
        return 200 + self.table.num_bytes + items


class Description(NamedTuple):
    """Parsed description of a page without its location; pages with equal descriptions share it."""

    form: ChunkForm  # without a location
    num_items: int
    num_dictionary_items: int
    num_buffers: int  # number of buffers that the page must have
    rows: _kernels.PageForm | None  # the kernel's form; None if the kernel cannot take rows
    items: BlockCodec | None  # codec of the dictionary; None if there is none

    def dictionary_of(self, content: bytes) -> Dictionary:
        """Return the dictionary of a page; the description must have one."""
        assert self.items is not None
        return Dictionary(self.items, content, self.num_dictionary_items)


class MiniBlockPage(NamedTuple):
    """Page of small values in chunks."""

    place: PagePlace
    description: Description

    @classmethod
    def from_proto(cls, message: pb.MiniBlockLayout, place: PagePlace) -> MiniBlockPage:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent, or contradicts the buffers.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        return cls.described(message).at(place)

    @classmethod
    def described(cls, message: pb.MiniBlockLayout) -> MiniBlockPage:
        """Parse a description into a page without a location.

        Raises:
            CorruptFileError: the description is inconsistent.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        shape = Shape.from_proto(message.layers)
        if shape.has_lists:
            _check_lists(message)
        values = mini_block_codec(message.value_compression)
        if values.num_buffers != message.num_buffers:
            raise CorruptFileError(
                f"mini-block: {message.num_buffers} value buffers, the codec has "
                f"{values.num_buffers}"
            )
        has_rep = message.HasField("rep_compression")
        has_def = message.HasField("def_compression")
        has_dictionary = message.HasField("dictionary")
        form = ChunkForm(
            place=NO_PLACE,
            shape=shape,
            rep=block_codec(message.rep_compression) if has_rep else None,
            definition=block_codec(message.def_compression) if has_def else None,
            values=values,
            is_large=message.has_large_chunk,
        )
        rows = row_form(form, message.num_items, has_items=has_dictionary)
        items = block_codec(message.dictionary) if has_dictionary else None
        if message.num_dictionary_items >> 62:
            raise CorruptFileError(f"mini-block: {message.num_dictionary_items} dictionary items")
        if items is not None and rows is not None:
            rows = rows if set_items(rows, items, message.num_dictionary_items) else None
        description = Description(
            form=form,
            num_items=message.num_items,
            num_dictionary_items=message.num_dictionary_items,
            num_buffers=2 + has_dictionary + (message.repetition_index_depth > 0),
            rows=rows,
            items=items,
        )
        return cls(NO_PLACE, description)

    def at(self, place: PagePlace) -> MiniBlockPage:
        """Return the page with this description at a location.

        Raises:
            CorruptFileError: the page has too few buffers.
        """
        place.need_buffers(self.description.num_buffers, "a mini-block page")
        return MiniBlockPage(place, self.description)

    @property
    def form(self) -> ChunkForm:
        """Format of the chunks, with the page's location."""
        form = self.description.form
        return ChunkForm(
            self.place, form.shape, form.rep, form.definition, form.values, form.is_large
        )

    @property
    def num_rows(self) -> int:
        return self.place.num_rows

    def load(self) -> Plan[PageState]:
        """Plan chunk words, dictionary and repetition index in one round."""
        buffers = yield from fetch(self.state_ranges())
        return self.state_of(buffers)

    def take(self, state: PageState, rows: Int64s) -> Plan[MiniBlockTask]:
        """Plan the chunks of single rows in one round; adjacent chunks are one range."""
        assert isinstance(state, MiniBlockState)
        runs = state.chunks.locate(rows)
        content = yield from fetch_pieces(self.place, CHUNKS_BUFFER, *runs.bounds)
        return self._task(state, [content], runs, rows)

    def read(self, state: PageState, start: int, stop: int) -> Plan[MiniBlockTask]:
        """Plan the chunks of a range of rows, as one range."""
        assert isinstance(state, MiniBlockState)
        runs = state.chunks.locate_range(start, stop)
        content = yield from fetch_pieces(self.place, CHUNKS_BUFFER, *runs.bounds)
        return self._task(state, [content], runs, range(start, stop))

    def read_page(self) -> Plan[MiniBlockTask]:
        """Plan all buffers in one round."""
        ranges = self.state_ranges()
        buffers = yield from fetch([*ranges, self.place.whole(CHUNKS_BUFFER)])
        state = self.state_of(buffers[: len(ranges)])
        runs = state.chunks.all()
        return self._task(state, buffers[-1:], runs, range(self.num_rows))

    def state_ranges(self) -> list[ByteRange]:
        """Return the ranges of the chunk words, the dictionary and the repetition index."""
        buffers = [0]
        if self.description.items is not None:
            buffers.append(2)
        if self.description.form.shape.has_lists:
            buffers.append(3 if self.description.items is not None else 2)
        return [self.place.whole(buffer) for buffer in buffers]

    def state_of(self, buffers: Sequence[memoryview]) -> MiniBlockState:
        """Parse the state from the bytes of `state_ranges`.

        Raises:
            CorruptFileError: the bytes contradict each other or the page.
        """
        description = self.description
        try:
            table = _kernels.chunk_table(
                buffers[0],
                buffers[-1] if description.form.shape.has_lists else None,
                description.form.is_large,
                description.num_items,
                self.num_rows,
                self.place.size(CHUNKS_BUFFER),
            )
        except ValueError as error:
            raise self.place.corrupt(str(error)) from None
        items = None if description.items is None else description.dictionary_of(bytes(buffers[1]))
        return MiniBlockState(table, items)

    def _task(
        self,
        state: MiniBlockState,
        pieces: Sequence[memoryview],
        runs: ChunkRuns,
        rows: Int64s | range,
    ) -> MiniBlockTask:
        return MiniBlockTask(self.form, state.dictionary, tuple(pieces), runs, rows)


def _check_lists(message: pb.MiniBlockLayout) -> None:
    depth = message.repetition_index_depth
    if depth > 1:
        raise UnsupportedError(f"mini-block: repetition index of depth {depth}, known is 1")
    if depth < 1:
        raise CorruptFileError("mini-block: layers have lists, but there is no index of rows")
    if not message.HasField("rep_compression"):
        raise CorruptFileError("mini-block: layers have lists, but there are no levels of them")

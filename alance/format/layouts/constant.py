"""Constant pages: all items have the same value, or are null.

    inline_value  buffers
    set           0        every item has the value
    set           2        raw u16 repetition levels, definition levels; either may be empty
    absent        1        the value
    absent        3        the value, raw repetition levels, raw definition levels
    absent        0        all null
    absent        2        all null; repetition and definition levels, perhaps compressed

The buffer of the value has: u32 n, n u32 sizes of Arrow buffers, and the n buffers of an array with
one value.

Source: encodings_v2_1.proto, ConstantLayout; docs/format/file.md, "Constant layout".
"""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.blocks import ConstantBlock, FixedWidth, VariableWidth
from alance.format.codecs import block_codec
from alance.format.layouts.levels import Levels, Shape, as_rows
from alance.format.layouts.miniblock_task import decode_levels
from alance.format.layouts.place import fetch, joined, levels_view
from alance.format.layouts.row_pages import constant_form

if TYPE_CHECKING:
    from alance import _kernels
    from alance.base.arrays import Int64s, UInt16s
    from alance.format.blocks import Block
    from alance.format.codecs.base import BlockCodec
    from alance.format.layouts.base import PageState, PageValues
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_INLINE_BYTES: Final = 32  # bytes of an inline value


@dataclass(slots=True)
class ConstantState:
    """Value and encoded levels of a page; the levels are decoded on first use, and then cached.

    Two threads may decode at the same time; they get equal levels.
    """

    page: ConstantPage
    value: Block | None
    content: tuple[bytes, bytes]  # repetition and definition levels
    _levels: Levels | None = field(default=None, repr=False)

    @property
    def num_bytes(self) -> int:
        """Estimated memory in bytes, with decoded levels."""
        encoded = len(self.content[0]) + len(self.content[1])
        counts = self.page.num_rep_values, self.page.num_def_values
        num_levels = max(encoded // 2, *counts) if encoded else 0
        return 300 + encoded + 4 * num_levels

    def levels(self) -> Levels | None:
        """Return the checked levels of the whole page; None if the page has none.

        Raises:
            CorruptFileError: the levels contradict each other or the page.
            ValueError: the kernel cannot decode the levels.
        """
        if self._levels is None and any(self.content):
            self._levels = self.page.decode_levels(*self.content)
        return self._levels


class ConstantTask(NamedTuple):
    """Rows of a constant page; the state has all bytes that they need."""

    state: ConstantState
    rows: Int64s | range  # sorted and unique

    @property
    def num_bytes(self) -> int:
        return self.state.num_bytes

    def decode(self) -> PageValues:
        """Return the levels of the rows, and the value repeated for each visible entry.

        Raises:
            CorruptFileError: the levels contradict each other or the page.
        """
        page, rows = self.state.page, self.rows
        with page.place.checking():
            levels = self.state.levels()
            if levels is None:
                block = ConstantBlock(len(rows), self.state.value)
                return Levels(page.shape, len(rows), None, None).all_rows(block, len(rows))
            block = ConstantBlock(levels.num_visible(), self.state.value)
            breaks = np.array([levels.num_entries], np.int64)
            if len(rows) == page.num_rows:
                return levels.all_rows(block, len(rows))
            chosen = levels.choose(as_rows(rows), breaks)
            return levels.page_values(block, len(rows), chosen)


class ConstantPage(NamedTuple):
    """Page of a column whose non-null items all have the same value."""

    place: PagePlace
    shape: Shape
    inline_value: bytes | None
    has_value_buffer: bool
    rep: BlockCodec | None  # codec of levels; None if they are raw
    definition: BlockCodec | None
    num_rep_values: int
    num_def_values: int

    @classmethod
    def from_proto(cls, message: pb.ConstantLayout, place: PagePlace) -> ConstantPage:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent, or contradicts the buffers.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        shape = Shape.from_proto(message.layers)
        is_inline = message.HasField("inline_value")
        count = len(place.buffers)
        if count > 3 or (is_inline and count in (1, 3)):
            raise CorruptFileError(
                f"constant: {count} buffers {'with' if is_inline else 'without'} an inline value"
            )
        _check_value(message)
        has_value = is_inline or count in (1, 3)
        if count == 0 and not has_value and shape.max_def == 0:
            raise CorruptFileError("constant: neither a value nor a layer that can be null")
        if count < 2 and shape.has_lists:
            raise CorruptFileError("constant: layers have lists, but there are no levels of them")
        has_rep = message.HasField("rep_compression")
        has_def = message.HasField("def_compression")
        return cls(
            place=place,
            shape=shape,
            inline_value=message.inline_value if is_inline else None,
            has_value_buffer=count in (1, 3),
            rep=block_codec(message.rep_compression) if has_rep else None,
            definition=block_codec(message.def_compression) if has_def else None,
            num_rep_values=message.num_rep_values,
            num_def_values=message.num_def_values,
        )

    @property
    def num_rows(self) -> int:
        return self.place.num_rows

    def load(self) -> Plan[PageState]:
        """Plan all buffers in one round; no round if the page has no buffers."""
        return (yield from self._load())

    def take(self, state: PageState, rows: Int64s) -> Plan[ConstantTask]:
        """Plan single rows without a round."""
        assert isinstance(state, ConstantState)
        return ConstantTask(state, rows)
        yield  # makes the function a generator, without rounds

    def read(self, state: PageState, start: int, stop: int) -> Plan[ConstantTask]:
        """Plan a range of rows without a round."""
        assert isinstance(state, ConstantState)
        return ConstantTask(state, range(start, stop))
        yield  # makes the function a generator, without rounds

    def read_page(self) -> Plan[ConstantTask]:
        """Plan the whole page in one round; no round if the page has no buffers."""
        state = yield from self._load()
        return ConstantTask(state, range(self.num_rows))

    def decode_levels(self, rep_content: bytes, def_content: bytes) -> Levels:
        """Decode and check all levels of the page.

        Raises:
            CorruptFileError: the levels contradict each other or the page.
            ValueError: the kernel cannot decode the levels.
        """
        rep = _decode_levels(self.rep, rep_content, self.num_rep_values)
        definition = _decode_levels(self.definition, def_content, self.num_def_values)
        if rep is not None and definition is not None and len(rep) != len(definition):
            raise CorruptFileError(
                f"constant: {len(rep)} repetition and {len(definition)} definition levels"
            )
        if self.shape.has_lists and rep is None:
            raise CorruptFileError("constant: layers have lists, but there are no levels of them")
        num_entries = len(next(part for part in (rep, definition) if part is not None))
        levels = Levels(self.shape, num_entries, rep, definition)
        # Check all levels as a single chunk that begins with a row.
        levels.check(
            np.array([num_entries], np.int64),
            rows=np.array([self.num_rows], np.int64),
            carries=np.zeros(1, np.bool_),
        )
        return Levels(
            self.shape,
            num_entries,
            rep if self.shape.has_lists else None,
            definition if self.shape.max_def else None,
        )

    def _load(self) -> Plan[ConstantState]:
        count = len(self.place.buffers)
        buffers = yield from fetch([self.place.whole(buffer) for buffer in range(count)])
        value: Block | None = None
        if self.inline_value is not None:
            value = _fixed(self.inline_value)
        elif self.has_value_buffer:
            with self.place.checking():
                value = parse_value(buffers[0])
        rep, definition = buffers[-2:] if count >= 2 else (b"", b"")
        return ConstantState(self, value, (bytes(rep), bytes(definition)))


def form_of(message: pb.ConstantLayout) -> _kernels.PageForm | None:
    """Return the kernel's form of a description; None if the kernel cannot decode such pages.

    Raises:
        CorruptFileError: a layer number is unknown, or a codec's description is invalid.
        UnsupportedError: a codec is unknown.
    """
    has_value = message.HasField("inline_value")
    _check_value(message)
    has_rep, has_def = message.HasField("rep_compression"), message.HasField("def_compression")
    rep = block_codec(message.rep_compression) if has_rep else None
    definition = block_codec(message.def_compression) if has_def else None
    return constant_form(
        Shape.from_proto(message.layers),
        (rep, message.num_rep_values),
        (definition, message.num_def_values),
        message.inline_value if has_value else None,
    )


def _check_value(message: pb.ConstantLayout) -> None:
    size = len(message.inline_value)
    if size > MAX_INLINE_BYTES:
        raise CorruptFileError(
            f"constant: inline value of {size} bytes, at most {MAX_INLINE_BYTES}"
        )


def parse_value(content: memoryview) -> Block:
    """Parse a buffer with a single value: a string with its offsets, or bytes of a fixed width.

    Raises:
        CorruptFileError: the sizes contradict each other.
    """
    count = int.from_bytes(content[:4], "little")
    if len(content) < 4 or count not in (1, 2):
        raise CorruptFileError(f"constant: value of {count} Arrow buffers, expected 1 or 2")
    start = 4 + 4 * count
    if len(content) < start:
        raise CorruptFileError(f"constant: {len(content)} bytes of a value, its header has {start}")
    sizes = np.frombuffer(content, "<u4", count, 4).tolist()
    if start + sum(sizes) != len(content):
        raise CorruptFileError(
            f"constant: value of {sizes} bytes in a buffer of {len(content)}, {start} are header"
        )
    if count == 1:
        return _fixed(bytes(content[start:]))
    if sizes[0] not in (8, 16):
        raise CorruptFileError(f"constant: offsets of {sizes[0]} bytes, expected 8 or 16")
    offsets = np.frombuffer(content, f"<i{sizes[0] // 2}", 2, start)
    first, last = offsets.tolist()
    if not 0 <= first <= last <= sizes[1]:
        raise CorruptFileError(f"constant: value at {first} to {last} of {sizes[1]} bytes")
    data = bytes(content[start + sizes[0] + first : start + sizes[0] + last])
    return VariableWidth(offsets - offsets[0], joined([memoryview(data)]))


def _fixed(value: bytes) -> FixedWidth:
    return FixedWidth(8 * len(value), 1, joined([memoryview(value)]))


def _decode_levels(codec: BlockCodec | None, content: bytes, num_values: int) -> UInt16s | None:
    """Decode repetition or definition levels; None if there are none."""
    if not content:
        return None
    data = joined([memoryview(content)])
    if codec is None:
        if len(data) % 2:
            raise CorruptFileError(f"constant: {len(data)} bytes of levels of 2 bytes")
        return levels_view(data)
    return decode_levels(codec, data, num_values)

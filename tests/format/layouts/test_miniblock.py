"""Mini-block pages cut into chunks in every legal way, and pages that contradict themselves."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.built_pages import PageBytes, ReadFile, built_file
from tests.reference.chunks import padded
from tests.reference.encodings import flat

UINT16: Final = pa.uint16()
LIST: Final = pa.list_(UINT16)
PAIR: Final = pa.binary(2)


@dataclass(frozen=True)
class Chunk:
    """One chunk: an entry has a value exactly if its definition level is at most 1."""

    rep: list[int]
    definition: list[int]
    values: list[int]

    def write(self, large: bool) -> bytes:
        sizes = struct.pack("<HHH", len(self.rep), 2 * len(self.rep), 2 * len(self.definition))
        sizes += struct.pack("<I" if large else "<H", 2 * len(self.values))
        arrays = (self.rep, self.definition, self.values)
        return padded(sizes) + b"".join(
            padded(struct.pack(f"<{len(array)}H", *array)) for array in arrays
        )


@dataclass(frozen=True)
class Content:
    """A page of lists of u16, with everything that a test may want to spoil."""

    message: pb.MiniBlockLayout
    buffers: list[bytes]
    num_rows: int

    def file(self, arrow: pa.DataType = LIST) -> ReadFile:
        layout = pb.PageLayout(mini_block_layout=self.message)
        page = PageBytes(layout.SerializeToString(), self.buffers, self.num_rows)
        return built_file(arrow, [page])

    def spoiled(self, buffer: int, content: bytes) -> Content:
        buffers = list(self.buffers)
        buffers[buffer] = content
        return replace(self, buffers=buffers)

    def described(self, **fields: Any) -> Content:
        message = pb.MiniBlockLayout()
        message.CopyFrom(self.message)
        for name, value in fields.items():
            if value is None or isinstance(value, list):
                message.ClearField(name)
            if isinstance(value, list):
                getattr(message, name).extend(value)
            elif isinstance(value, pb.CompressiveEncoding):
                getattr(message, name).CopyFrom(value)
            elif value is not None:
                setattr(message, name, value)
        return replace(self, message=message)


def content_of(chunks: list[Chunk], large: bool = False) -> Content:
    written = [chunk.write(large) for chunk in chunks]
    words, index = b"", b""
    for number, (chunk, bytes_) in enumerate(zip(chunks, written, strict=True)):
        log = 0 if number == len(chunks) - 1 else len(chunk.values).bit_length() - 1
        words += struct.pack("<I" if large else "<H", (len(bytes_) // 8 - 1) << 4 | log)
        later = [level for item in chunks[number + 1 :] for level in item.rep]
        starts = [i for i, level in enumerate(chunk.rep) if level == 1]
        goes_on = bool(later) and later[0] != 1
        # Rows that end here: all that are open or begin, but the last if it goes on.
        first = [item.rep for item in chunks[number:] if item.rep]
        carried = number > 0 and bool(first) and bool(chunk.rep) and chunk.rep[0] != 1
        if not chunk.rep:
            carried = goes_on
        ends = len(starts) + carried - goes_on
        if not goes_on:
            partial = 0
        elif ends or starts:
            partial = len(chunk.rep) - (starts[-1] if starts else 0)
        else:
            partial = max(1, len(chunk.rep))
        index += struct.pack("<QQ", ends, partial)
    message = pb.MiniBlockLayout(
        rep_compression=flat(16),
        def_compression=flat(16),
        value_compression=flat(16),
        layers=[3, 6],
        num_buffers=1,
        repetition_index_depth=1,
        num_items=sum(len(chunk.values) for chunk in chunks),
        has_large_chunk=large,
    )
    num_rows = sum(level == 1 for chunk in chunks for level in chunk.rep)
    return Content(message, [words, b"".join(written), index], num_rows)


# A row: None, or a list of None and numbers.
LISTS = st.lists(
    st.none() | st.lists(st.none() | st.integers(0, 65535), max_size=9), min_size=1, max_size=20
)


def entries_of(rows: list[Any]) -> list[tuple[int, int, int | None]]:
    """(repetition, definition, value) of each entry; a value of None is no value slot."""
    entries: list[tuple[int, int, int | None]] = []
    for row in rows:
        if row is None:
            entries.append((1, 2, None))
        elif not row:
            entries.append((1, 3, None))
        for number, item in enumerate(row or []):
            entries.append((int(number == 0), int(item is None), item or 0))
    return entries


@st.composite
def cut(draw: st.DrawFn, rows: list[Any]) -> list[Chunk]:
    """The entries of rows in chunks of 2, 4 or 8 values, invisible entries on any side of a cut."""
    entries = entries_of(rows)
    chunks, start = [], 0
    while True:
        expected = draw(st.sampled_from([2, 4, 8]))
        stop, values = start, 0
        while stop < len(entries) and values < expected:
            values += entries[stop][2] is not None
            stop += 1
        if values == expected:
            while stop < len(entries) and entries[stop][2] is None and draw(st.booleans()):
                stop += 1
        is_last = values < expected or (stop == len(entries) and draw(st.booleans()))
        part = entries[start:stop]
        chunks.append(
            Chunk(
                [item for item, _, _ in part],
                [item for _, item, _ in part],
                [item for _, _, item in part if item is not None],
            )
        )
        start = stop
        if is_last:
            return chunks


@given(data=st.data(), lists=LISTS, large=st.booleans())
def test_rows_are_read_wherever_the_chunks_are_cut(
    data: st.DataObject, lists: list[Any], large: bool
) -> None:
    file = content_of(data.draw(cut(lists)), large).file()
    assert file.all_rows() == lists
    numbers = sorted(data.draw(st.sets(st.integers(0, len(lists) - 1), min_size=1)))
    for rows in file.ways(numbers):
        assert rows == [lists[number] for number in numbers]
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(lists))] * 2)))
    assert file.range(start, stop) == lists[start:stop]


# Rows: [1, 2, 3], null, [4, null], []
GOOD = content_of(
    [Chunk([1, 0], [0, 0], [1, 2]), Chunk([0, 1, 1], [0, 2, 0], [3, 4]), Chunk([0, 1], [1, 3], [0])]
)


def test_the_good_page_is_good() -> None:
    assert GOOD.file().all_rows() == [[1, 2, 3], None, [4, None], []]


def with_chunk(number: int, chunk: Chunk) -> Content:
    """The good page with another chunk, of the same size, but the same words and index."""
    written = chunk.write(large=False)
    start = 32 * number
    assert len(written) == 32
    return GOOD.spoiled(1, GOOD.buffers[1][:start] + written + GOOD.buffers[1][start + 32 :])


def index(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack("<QQ", *pair) for pair in pairs)


BROKEN: dict[str, tuple[Content, str]] = {
    "words of a wrong size": (GOOD.spoiled(0, b"\x31\0\x31\0\x30"), "5 bytes of chunk words"),
    "chunks longer than their buffer": (
        GOOD.spoiled(0, b"\x31\0\x31\0\x40\0"),
        "chunks of together 104 bytes, their buffer has 96",
    ),
    "a chunk without a number of values": (
        GOOD.spoiled(0, b"\x31\0\x30\0\x30\0"),
        "chunk 1 of 3 does not say",
    ),
    "a last chunk that says another number": (
        GOOD.spoiled(0, b"\x31\0\x31\0\x31\0"),
        "the last chunk has 2 values, 1 are left",
    ),
    "fewer values than in the first chunks": (
        GOOD.described(num_items=3),
        "4 values before the last of 3 chunks, 3 in all",
    ),
    "more values than chunks can hold": (GOOD.described(num_items=1 << 63), "values before"),
    "no chunks": (GOOD.spoiled(0, b"").spoiled(1, b"").spoiled(2, b""), "no chunks for 5 values"),
    "an index of a wrong size": (GOOD.spoiled(2, bytes(40)), "index of 40 bytes for 3 chunks"),
    "an index of other rows": (
        GOOD.spoiled(2, index((0, 2), (2, 1), (1, 0))),
        "3 rows end, the page has 4",
    ),
    "an index that goes on behind the end": (
        GOOD.spoiled(2, index((0, 2), (2, 1), (2, 1))),
        "behind the last chunk",
    ),
    "an index of a row that never ends": (
        GOOD.spoiled(2, index((0, 2), (0, 0), (4, 0))),
        "the row open in chunk 1 never ends",
    ),
    "an index of huge numbers": (
        GOOD.spoiled(2, index((0, 2), (2**63, 1), (2**63 + 4, 0))),
        "rows or entries in one chunk",
    ),
    "an index of other starts": (
        GOOD.spoiled(2, index((0, 2), (1, 1), (3, 0))),
        "chunk 1: 3 rows begin up to its end, expected 2",
    ),
    "a row that begins where one should go on": (
        with_chunk(1, Chunk([1, 0, 1], [0, 0, 2], [3, 4])),
        "chunk 1: begins with a row, expected the rest of one",
    ),
    "a repetition level too many": (
        with_chunk(1, Chunk([0, 2, 1], [0, 2, 0], [3, 4])),
        "chunk 1: repetition level 2",
    ),
    "a definition level too many": (
        with_chunk(1, Chunk([0, 1, 1], [0, 4, 0], [3, 4])),
        "chunk 1: definition level 4",
    ),
    "fewer levels than entries": (
        GOOD.spoiled(1, GOOD.buffers[1][:32] + b"\x04" + GOOD.buffers[1][33:]),
        "6 bytes of 4 levels",
    ),
    "a buffer behind its chunk": (
        GOOD.spoiled(1, GOOD.buffers[1][:38] + b"\x20" + GOOD.buffers[1][39:]),
        "chunk 1: buffer 2 of 32 bytes at 24, the chunk has 32",
    ),
    "fewer values than the word says": (
        GOOD.spoiled(1, GOOD.buffers[1][:38] + b"\x02" + GOOD.buffers[1][39:]),
        "flat",
    ),
    "rows without lists that are not values": (
        GOOD.described(layers=[3], rep_compression=None, repetition_index_depth=0),
        "5 values in 4 rows",
    ),
    "levels that the layers do not have": (
        content_of([Chunk([1, 0], [0, 1], [1, 2])]).described(layers=[1, 2]),
        "levels that the layers do not have",
    ),
    "levels of 8 bits": (GOOD.described(rep_compression=flat(8)), "flat|levels of 16 bits"),
}

NOT_DESCRIBED: dict[str, tuple[Content, str]] = {
    "no layers": (GOOD.described(layers=[]), "layers"),
    "a layer without a meaning": (GOOD.described(layers=[3, 0]), "layers"),
    "lists without levels": (GOOD.described(rep_compression=None), "no levels of them"),
    "lists without an index": (GOOD.described(repetition_index_depth=0), "no index of rows"),
    "more value buffers than the codec has": (GOOD.described(num_buffers=2), "2 value buffers"),
    "too few buffers": (replace(GOOD, buffers=GOOD.buffers[:2]), "needs 3 buffers"),
    "too few buffers with a dictionary": (GOOD.described(dictionary=flat(16)), "needs 4 buffers"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_page_that_contradicts_itself_is_refused(name: str) -> None:
    content, message = BROKEN[name]
    file = content.file(UINT16 if 6 not in content.message.layers else LIST)
    for read in (file.all_rows, lambda: list(file.ways(range(content.num_rows)))):
        with pytest.raises(CorruptFileError) as error:
            read()
        text = [str(error.value), *getattr(error.value, "__notes__", [])]
        assert any(re.search(message, item) for item in text), text
        assert any("memory://1/file" in item for item in text)


@pytest.mark.parametrize("name", NOT_DESCRIBED)
def test_a_description_that_contradicts_itself_is_refused(name: str) -> None:
    content, message = NOT_DESCRIBED[name]
    with pytest.raises(CorruptFileError, match=message):
        content.file().all_rows()


def test_an_index_of_unknown_depth_is_not_supported() -> None:
    with pytest.raises(UnsupportedError, match="depth 2"):
        GOOD.described(repetition_index_depth=2).file().all_rows()


def test_the_last_word_may_say_the_true_number_of_values() -> None:
    content = content_of([Chunk([1, 0], [0, 0], [1, 2]), Chunk([0, 1], [0, 0], [3, 4])])
    words = content.buffers[0]
    file = content.spoiled(0, words[:2] + bytes([words[2] | 1]) + words[3:]).file()
    assert file.all_rows() == [[1, 2, 3], [4]]


def test_wrong_but_positive_partial_counts_are_read() -> None:
    file = GOOD.spoiled(2, index((0, 9), (2, 9), (2, 0))).file()
    for rows in file.ways([0, 2]):
        assert rows == [[1, 2, 3], [4, None]]


def dictionary_page(indices: bytes, levels: bytes, num_items: int = 2) -> Content:
    """Four u8 indices into two items of two bytes, with definition levels."""
    chunk = padded(struct.pack("<HHH", 4, 8, len(indices))) + padded(levels) + padded(indices)
    message = pb.MiniBlockLayout(
        def_compression=flat(16),
        value_compression=flat(8),
        dictionary=flat(16),
        num_dictionary_items=num_items,
        layers=[3],
        num_buffers=1,
        num_items=4,
    )
    words = struct.pack("<H", (len(chunk) // 8 - 1) << 4)
    return Content(message, [words, chunk, b"aabb"], 4)


def test_an_index_outside_the_dictionary_is_refused() -> None:
    file = dictionary_page(b"\0\x01\x02\0", bytes(8)).file(PAIR)
    with pytest.raises(CorruptFileError, match="dictionary index 2, the dictionary has 2 items"):
        file.all_rows()


def test_indices_that_are_no_words_are_refused() -> None:
    content = dictionary_page(bytes(12), bytes(8)).described(value_compression=flat(24))
    with pytest.raises(CorruptFileError, match="8, 16, 32 or 64 bits"):
        content.file(PAIR).all_rows()


def test_the_index_of_a_null_may_be_anything() -> None:
    file = dictionary_page(b"\0\x01\xff\0", b"\0\0\0\0\x01\0\0\0").file(PAIR)
    for rows in file.ways([0, 1, 2, 3]):
        assert rows == [b"aa", b"bb", None, b"aa"]


def test_a_dictionary_of_another_size_is_refused() -> None:
    with pytest.raises(CorruptFileError):
        dictionary_page(bytes(4), bytes(8), num_items=3).file(PAIR).all_rows()


@given(data=st.data())
def test_spoiled_pages_are_refused_or_read_without_harm(data: st.DataObject) -> None:
    content = data.draw(st.sampled_from([GOOD, dictionary_page(b"\0\x01\x01\0", bytes(8))]))
    buffer = data.draw(st.integers(0, len(content.buffers) - 1))
    spoiled = bytearray(content.buffers[buffer])
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    file = content.spoiled(buffer, bytes(spoiled)).file(LIST if content is GOOD else PAIR)
    numbers = sorted(data.draw(st.sets(st.integers(0, 3), min_size=1)))
    for read in (file.all_rows, lambda: list(file.ways(numbers))):
        try:
            read()
        except AlanceError:
            continue

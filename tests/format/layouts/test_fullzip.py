"""Full-zip pages: what is read for which rows, and pages that contradict themselves."""

from __future__ import annotations

import struct
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.built_pages import PageBytes, ReadFile, built_file
from tests.reference.driven import Known
from tests.reference.encodings import flat

BYTES: Final = pa.binary()
INT32: Final = pa.int32()
VARIABLE = pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(32)))


def strings_of(rows: list[bytes | None], width: int = 4) -> tuple[pb.FullZipLayout, list[bytes]]:
    """Nullable strings."""
    zipped, starts = b"", [0]
    for row in rows:
        zipped += b"\1" if row is None else b"\0" + struct.pack("<I", len(row)) + row
        starts.append(len(zipped))
    message = pb.FullZipLayout(
        bits_def=1,
        bits_per_offset=32,
        num_items=len(rows),
        num_visible_items=len(rows),
        value_compression=VARIABLE,
        layers=[3],
    )
    return message, [zipped, np.array(starts, f"<u{width}").tobytes()]


def file_of(
    arrow: pa.DataType, message: pb.FullZipLayout, buffers: list[bytes], num_rows: int
) -> ReadFile:
    layout = pb.PageLayout(full_zip_layout=message)
    return built_file(arrow, [PageBytes(layout.SerializeToString(), buffers, num_rows)])


def lists_of(
    rows: list[bytes], length_bytes: int = 4, bits_def: int = 2, bits_rep: int = 1
) -> ReadFile:
    """A page of lists of strings, of the zipped bytes of its rows."""
    message = pb.FullZipLayout(
        bits_rep=bits_rep,
        bits_def=bits_def,
        bits_per_offset=8 * length_bytes,
        value_compression=VARIABLE,
        layers=[3, 6],
    )
    starts = np.cumsum([0, *map(len, rows)])
    buffers = [b"".join(rows), starts.astype("<i4").tobytes()]
    return file_of(pa.list_(BYTES), message, buffers, len(rows))


STRINGS = [b"ab", None, b"", b"xyz", b"q" * 9, None, b"r"]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_an_index_of_any_width_is_read(width: int) -> None:
    file = file_of(BYTES, *strings_of(STRINGS, width), len(STRINGS))
    for numbers in ([0], [1, 2], [0, 4, 6], list(range(7))):
        for rows in file.ways(numbers):
            assert rows == [STRINGS[number] for number in numbers]


def warm(file: ReadFile, numbers: list[int]) -> list[Any]:
    """Take rows where the index is known."""
    states, rows = Known(), np.array(numbers)
    fragment = file.open(states)
    file.run(fragment.take(rows, states))
    return file.run(fragment.take(rows, states)).decode().column(0).to_pylist()


def test_neighbouring_rows_are_one_range() -> None:
    file = file_of(BYTES, *strings_of(STRINGS), len(STRINGS))
    assert warm(file, [0, 1, 3, 5, 6]) == [b"ab", None, b"xyz", None, b"r"]
    assert len(file.ranges) == 3


def test_rows_of_equal_length_need_neither_index_nor_state() -> None:
    message = pb.FullZipLayout(
        bits_per_value=32, num_items=9, num_visible_items=9, value_compression=flat(32), layers=[1]
    )
    content = bytes(range(36))
    file = file_of(INT32, message, [content], 9)
    values = np.frombuffer(content, "<i4")
    assert file.taken([2, 3, 7], guess=False) == values[[2, 3, 7]].tolist()
    assert file.rounds == 1
    assert [(item.start, item.stop) for item in file.ranges] == [(8, 16), (28, 32)]


def broken() -> dict[str, tuple[pb.FullZipLayout, list[bytes], str]]:
    message, (zipped, index) = strings_of(STRINGS)
    entries = np.frombuffer(index, "<i4")

    def described(**fields: Any) -> pb.FullZipLayout:
        other = pb.FullZipLayout()
        other.CopyFrom(message)
        for name, value in fields.items():
            setattr(other, name, value)
        return other

    def moved(number: int, by: int) -> bytes:
        other = entries.copy()
        other[number] += by
        return other.tobytes()

    return {
        "index that is not ascending": (message, [zipped, moved(2, 40)], "ascending"),
        "index that does not end with the rows": (message, [zipped, moved(-1, -1)], "ascending"),
        "index that does not begin at 0": (message, [zipped, moved(0, 1)], "ascending"),
        "index that cuts a row": (message, [zipped, moved(2, -1)], "full-zip"),
        "a length behind the end": (
            message,
            [zipped.replace(b"\1\0\0\0r", b"\2\0\0\0r"), index],
            "a value of 2 bytes",
        ),
        "a definition level too many": (
            described(bits_def=2),
            [b"\2" + zipped[1:], index],
            "levels 0 and 2",
        ),
    }


@pytest.mark.parametrize("name", broken())
def test_a_page_that_contradicts_itself_is_refused(name: str) -> None:
    message, buffers, text = broken()[name]
    file = file_of(BYTES, message, buffers, len(STRINGS))

    def read_in_every_way() -> None:
        for number in range(len(STRINGS)):
            list(file.ways([number]))
        file.all_rows()

    with pytest.raises(CorruptFileError, match=text):
        read_in_every_way()


@pytest.mark.parametrize(
    ("fields", "num_rows", "text"),
    [
        ({"bits_def": 17}, 7, "levels of 0 and 17 bits"),
        ({"bits_per_offset": 16}, 7, "lengths of 16 bits"),
        ({"bits_per_value": 32}, 7, "values of 32 bits, the codec gives variable"),
        ({"bits_per_value": 12}, 7, "not whole bytes"),
        ({"bits_per_value": 0}, 7, "values of 0 bits, the codec gives variable"),
        ({"num_items": 8}, 7, "8 entries in 7 rows"),
        ({}, 8, "index of 32 bytes for 8 rows"),
        ({"num_items": 3}, 3, "ascending"),
    ],
)
def test_a_description_that_contradicts_itself_is_refused(
    fields: dict[str, int], num_rows: int, text: str
) -> None:
    message, buffers = strings_of(STRINGS)
    for name, value in fields.items():
        setattr(message, name, value)
    with pytest.raises(CorruptFileError, match=text):
        file_of(BYTES, message, buffers, num_rows).taken([0])


def test_rows_of_equal_length_must_fill_the_buffer() -> None:
    message = pb.FullZipLayout(
        bits_per_value=32, num_items=9, num_visible_items=9, value_compression=flat(32), layers=[1]
    )
    with pytest.raises(CorruptFileError, match="9 rows of 4 bytes in a buffer of 35"):
        file_of(INT32, message, [bytes(35)], 9).all_rows()
    message.num_items = message.num_visible_items = 1 << 31
    with pytest.raises(CorruptFileError, match="rows of 4 bytes in a buffer of 36"):
        file_of(INT32, message, [bytes(36)], 1 << 60).taken([0])


def test_variable_width_needs_an_index() -> None:
    message, buffers = strings_of(STRINGS)
    with pytest.raises(CorruptFileError, match="needs 2 buffers"):
        file_of(BYTES, message, buffers[:1], 7).all_rows()


@given(data=st.data())
def test_spoiled_pages_are_refused_or_read_without_harm(data: st.DataObject) -> None:
    message, buffers = strings_of(STRINGS)
    buffer = data.draw(st.integers(0, 1))
    spoiled = bytearray(buffers[buffer])
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    buffers[buffer] = bytes(spoiled)
    file = file_of(BYTES, message, buffers, len(STRINGS))
    numbers = sorted(data.draw(st.sets(st.integers(0, 6), min_size=1)))
    for read in (file.all_rows, lambda: list(file.ways(numbers))):
        try:
            read()
        except AlanceError:
            continue


def test_nine_nested_lists_have_control_words_of_two_bytes() -> None:
    message = pb.FullZipLayout(
        bits_rep=4,
        bits_def=5,
        bits_per_value=8,
        num_items=3,
        num_visible_items=2,
        value_compression=flat(8),
        layers=[3, *[6] * 9],
    )
    words = [9 << 5, 3 << 5, 9 << 5 | 18]
    zipped = struct.pack("<HBHBH", words[0], 7, words[1], 8, words[2])
    arrow: pa.DataType = pa.int8()
    for _ in range(9):
        arrow = pa.list_(arrow)
    file = file_of(arrow, message, [zipped, bytes([0, 6, 8])], 2)

    def nested(depth: int, value: Any) -> Any:
        return value if depth == 0 else [nested(depth - 1, value)]

    # The second value begins a list of the third layer; the last row is null.
    expected = [nested(5, [nested(3, 7), nested(3, 8)]), None]
    assert file.all_rows() == expected
    for rows in file.ways([1]):
        assert rows == [None]


def test_zipped_constants_are_not_supported() -> None:
    """No known writer makes such pages."""
    constant = pb.CompressiveEncoding(constant=pb.Constant(value=b"xy"))
    message = pb.FullZipLayout(
        bits_def=1,
        bits_per_value=0,
        num_items=5,
        num_visible_items=5,
        value_compression=constant,
        layers=[3],
    )
    with pytest.raises(UnsupportedError, match="compression constant in full-zip pages"):
        file_of(pa.binary(2), message, [bytes([0, 1, 0, 0, 1])], 5).all_rows()


@given(
    rows=st.lists(
        st.none() | st.lists(st.none() | st.binary(max_size=9), max_size=4), min_size=1, max_size=9
    ),
    bits_def=st.sampled_from([2, 9, 16]),  # control words of 1, 2 and 4 bytes
    length_bytes=st.sampled_from([4, 8]),
)
def test_lists_are_read_as_they_were_zipped(
    rows: list[list[bytes | None] | None], bits_def: int, length_bytes: int
) -> None:
    control_bytes = {2: 1, 9: 2, 16: 4}[bits_def]

    def entry(rep: int, definition: int, value: bytes | None = None) -> bytes:
        word = (rep << bits_def | definition).to_bytes(control_bytes, "little")
        return word if value is None else word + len(value).to_bytes(length_bytes, "little") + value

    def zipped(row: list[bytes | None] | None) -> bytes:
        if not row:
            return entry(1, 2 if row is None else 3)
        return b"".join(
            entry(number == 0, value is None, value) for number, value in enumerate(row)
        )

    file = lists_of([*map(zipped, rows)], length_bytes, bits_def)
    assert file.all_rows() == rows
    for result in file.ways([len(rows) - 1]):
        assert result == rows[-1:]


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (b"\x04\x02\0\0\0a", "a value of 2 bytes"),
        (b"\x04\x02\0\0", "a row ends inside of a length"),
        (b"\x04\xff\xff\xff\xff", "a value of 4294967295 bytes"),
        (b"\x00\0\0\0\0", "a row of repetition level 0"),
        (b"\x08", "levels 2 and 0"),
        (b"\x05\x05", "a row of repetition level 1"),
        (b"", "row 1 begins at 0 of 0"),
    ],
)
def test_broken_rows_are_refused(row: bytes, text: str) -> None:
    file = lists_of([row])
    with pytest.raises(CorruptFileError, match=text):
        file.all_rows()
    with pytest.raises(CorruptFileError, match=text):
        file.taken([0])


def test_a_control_word_that_ends_behind_its_row_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="a row ends inside of levels"):
        lists_of([b"\x01\x02\x05"], bits_def=9).all_rows()


def test_a_64_bit_length_cannot_wrap_around() -> None:
    with pytest.raises(CorruptFileError, match="a value of 18446744073709551615 bytes"):
        lists_of([b"\x04" + b"\xff" * 8 + b"abc"], length_bytes=8).all_rows()

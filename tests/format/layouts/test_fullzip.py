"""Full-zip pages: what is read for which rows, and pages that contradict themselves."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import AlanceError, CorruptFileError
from alance.format.layouts.fullzip import FullZipPage
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.encodings import flat
from tests.reference.one_page import OnePage, type_of

if TYPE_CHECKING:
    from collections.abc import Callable


BINARY = pa.binary()
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


def page_of(
    make_page: Callable, message: pb.FullZipLayout, buffers: list[bytes], num_rows: int
) -> Any:
    layout = pb.PageLayout(full_zip_layout=message)
    return make_page(
        layout.SerializeToString().hex(), [buffer.hex() for buffer in buffers], num_rows
    )


STRINGS = [b"ab", None, b"", b"xyz", b"q" * 9, None, b"r"]


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_an_index_of_any_width_is_read(width: int, make_page: Callable, rows: Callable) -> None:
    page = page_of(make_page, *strings_of(STRINGS, width), len(STRINGS))
    for numbers in ([0], [1, 2], [0, 4, 6], list(range(7))):
        for way in page.ways(numbers):
            assert rows(way) == [STRINGS[number] for number in numbers]


def test_neighbouring_rows_are_one_range(make_page: Callable) -> None:
    page = page_of(make_page, *strings_of(STRINGS), len(STRINGS))
    state = page.run(page.layout.load())
    page.run(page.layout.take(state, np.array([0, 1, 3, 5, 6])))
    assert len(page.ranges) == 3


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_an_index_left_on_the_store_costs_a_second_round(
    width: int, make_page: Callable, rows: Callable
) -> None:
    page = page_of(make_page, *strings_of(STRINGS, width), len(STRINGS))
    assert isinstance(page.layout, FullZipPage)
    page.layout = page.layout._replace(max_index_bytes=0)
    state = page.run(page.layout.load())
    assert (page.rounds, state.num_bytes) == (0, 100)
    for numbers in ([0], [1, 2], [0, 4, 6], list(range(7))):
        for way in page.ways(numbers):
            assert page.rounds == 2
            assert rows(way) == [STRINGS[number] for number in numbers]
    page.run(page.layout.read(state, 2, 6))
    assert [item.num_bytes for item in page.ranges] == [width, width, 5 + 8 + 14 + 1]


def test_rows_of_equal_length_need_neither_index_nor_state(make_page: Callable) -> None:
    message = pb.FullZipLayout(
        bits_per_value=32, num_items=9, num_visible_items=9, value_compression=flat(32), layers=[1]
    )
    page = page_of(make_page, message, [bytes(range(36))], 9)
    state = page.run(page.layout.load())
    assert page.rounds == 0
    decoded = page.run(page.layout.take(state, np.array([2, 3, 7]))).decode()
    assert [(item.start, item.stop) for item in page.ranges] == [(8, 16), (28, 32)]
    assert decoded.values.data.tolist() == [*range(8, 16), *range(28, 32)]


def test_a_page_without_levels_is_handed_on_without_a_copy(make_page: Callable) -> None:
    message = pb.FullZipLayout(
        bits_per_value=32, num_items=9, num_visible_items=9, value_compression=flat(32), layers=[1]
    )
    page = page_of(make_page, message, [bytes(range(36))], 9)
    values = page.read_page().values.data
    assert np.shares_memory(values, np.frombuffer(page.content, np.uint8))


def alone(
    message: pb.FullZipLayout, buffers: list[bytes], num_rows: int, leaf: pa.DataType = BINARY
) -> OnePage:
    """The page as the only one of a column."""
    layout = pb.PageLayout(full_zip_layout=message)
    return OnePage(layout, buffers, num_rows, type_of(message.layers, leaf))


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
def test_a_page_that_contradicts_itself_is_refused(name: str, make_page: Callable) -> None:
    message, buffers, text = broken()[name]
    page = page_of(make_page, message, buffers, len(STRINGS))

    def read_in_every_way() -> None:
        for number in range(len(STRINGS)):
            list(page.ways([number]))
        page.read_page()

    with pytest.raises(CorruptFileError, match=text):
        read_in_every_way()
    alone(message, buffers, len(STRINGS)).check_refused(text)


@pytest.mark.parametrize(
    ("fields", "num_rows", "expected_error"),
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
    fields: dict[str, int], num_rows: int, expected_error: str, make_page: Callable
) -> None:
    message, buffers = strings_of(STRINGS)
    for name, value in fields.items():
        setattr(message, name, value)
    with pytest.raises(CorruptFileError, match=expected_error):
        page_of(make_page, message, buffers, num_rows).ways([0]).__next__()
    alone(message, buffers, num_rows).check_refused(said)


def test_rows_of_equal_length_must_fill_the_buffer(make_page: Callable) -> None:
    message = pb.FullZipLayout(
        bits_per_value=32, num_items=9, num_visible_items=9, value_compression=flat(32), layers=[1]
    )
    with pytest.raises(CorruptFileError, match="9 rows of 4 bytes in a buffer of 35"):
        page_of(make_page, message, [bytes(35)], 9)
    fixed = pa.binary(4)
    alone(message, [bytes(35)], 9, fixed).check_refused("9 rows of 4 bytes in a buffer of 35")
    message.num_items = message.num_visible_items = 1 << 31
    with pytest.raises(CorruptFileError, match="rows of 4 bytes in a buffer of 36"):
        page_of(make_page, message, [bytes(36)], 1 << 60)


def test_variable_width_needs_an_index(make_page: Callable) -> None:
    message, buffers = strings_of(STRINGS)
    with pytest.raises(CorruptFileError, match="needs 2 buffers"):
        page_of(make_page, message, buffers[:1], 7)
    alone(message, buffers[:1], 7).check_refused("needs 2 buffers")


@given(data=st.data())
def test_spoiled_pages_are_refused_or_read_without_harm(
    data: st.DataObject, make_page: Callable
) -> None:
    message, buffers = strings_of(STRINGS)
    buffer = data.draw(st.integers(0, 1))
    spoiled = bytearray(buffers[buffer])
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
    buffers[buffer] = bytes(spoiled)
    page = page_of(make_page, message, buffers, len(STRINGS))
    numbers = sorted(data.draw(st.sets(st.integers(0, 6), min_size=1)))
    for keeps_index in (True, False):
        page.layout = page.layout._replace(max_index_bytes=100 * keeps_index)
        for read in (page.read_page, lambda: list(page.ways(numbers))):
            try:
                read()
            except AlanceError:
                continue


def test_nine_nested_lists_have_control_words_of_two_bytes(
    make_page: Callable, rows: Callable
) -> None:
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
    page = page_of(make_page, message, [zipped, bytes([0, 6, 8])], 2)

    def nested(depth: int, value: Any) -> Any:
        return value if depth == 0 else [nested(depth - 1, value)]

    # The second value begins a list of the third layer; the last row is null.
    expected = [nested(5, [nested(3, b"\7"), nested(3, b"\x08")]), None]
    assert rows(page.read_page()) == expected
    assert [rows(way) for way in page.ways([1])] == [[None]] * 2


CONSTANT = pb.CompressiveEncoding(constant=pb.Constant(value=b"xy"))


@pytest.mark.parametrize("nulls", [False, True])
def test_values_that_are_all_the_same_take_no_bytes(
    nulls: bool, make_page: Callable, rows: Callable
) -> None:
    """Where some are null, the control words are there alone."""
    message = pb.FullZipLayout(
        bits_def=1 if nulls else 0,
        bits_per_value=0,
        num_items=5,
        num_visible_items=5,
        value_compression=CONSTANT,
        layers=[3 if nulls else 1],
    )
    content = bytes([0, 1, 0, 0, 1]) if nulls else b""
    page = page_of(make_page, message, [content], 5)
    values = [b"xy", None, b"xy", b"xy", None] if nulls else [b"xy"] * 5
    for numbers in ([0], [1, 2], [0, 2, 4], list(range(5))):
        for way in page.ways(numbers):
            assert rows(way) == [values[number] for number in numbers]
    assert rows(page.read_page()) == values


@pytest.mark.parametrize("content", [b"\0\1\0\0", b"\0\1\0\0\1\0", b"\0\1\0\0\7"])
def test_control_words_alone_that_contradict_the_page_are_refused(
    content: bytes, make_page: Callable
) -> None:
    message = pb.FullZipLayout(
        bits_def=1,
        bits_per_value=0,
        num_items=5,
        num_visible_items=5,
        value_compression=CONSTANT,
        layers=[3],
    )
    with pytest.raises(CorruptFileError):
        page_of(make_page, message, [content], 5).read_page()

"""Constant pages: equal rows take no memory, pages that contradict themselves."""

from __future__ import annotations

import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from alance.errors import CorruptFileError
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.encodings import flat
from tests.reference.one_page import OnePage, type_of

if TYPE_CHECKING:
    from collections.abc import Callable


def page_of(make_page: Callable, buffers: list[bytes], num_rows: int, **fields: Any) -> Any:
    layout = pb.PageLayout(constant_layout=pb.ConstantLayout(**fields))
    return make_page(
        layout.SerializeToString().hex(), [buffer.hex() for buffer in buffers], num_rows
    )


def levels(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}H", *numbers)


def value(*buffers: bytes) -> bytes:
    sizes = struct.pack(f"<{len(buffers) + 1}I", len(buffers), *map(len, buffers))
    return sizes + b"".join(buffers)


@pytest.mark.parametrize("fields", [{"layers": [3]}, {"layers": [1], "inline_value": b"\7"}])
def test_any_number_of_equal_rows_takes_no_memory(
    fields: dict[str, Any], make_page: Callable
) -> None:
    num_rows = 1 << 60
    page = page_of(make_page, [], num_rows, **fields)
    tracemalloc.start()
    try:
        state = page.run(page.layout.load())
        result = [
            page.read_page(),
            page.run(page.layout.read(state, 5, num_rows)).decode(),
            page.run(page.layout.take(state, np.array([3, num_rows - 1]))).decode(),
        ]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert [item.num_rows for item in result] == [num_rows, num_rows - 5, 2]
    assert [item.values.num_values for item in result] == [num_rows, num_rows - 5, 2]
    assert all(item.rep is None and item.definition is None for item in result)


def test_a_wide_value_has_one_buffer(make_page: Callable, rows: Callable) -> None:
    page = page_of(make_page, [value(b"x" * 40)], 2, layers=[1])
    assert rows(page.read_page()) == [b"x" * 40] * 2


@pytest.mark.parametrize("width", [4, 8])
def test_a_string_may_begin_behind_the_start_of_its_buffer(
    width: int, make_page: Callable, rows: Callable
) -> None:
    offsets = np.array([2, 5], f"<i{width}").tobytes()
    page = page_of(make_page, [value(offsets, b"..abc..")], 2, layers=[1])
    assert rows(page.read_page()) == [b"abc", b"abc"]
    assert page.read_page().values.value.offsets.itemsize == width


@pytest.mark.parametrize(
    ("buffers", "num_rows", "fields", "message"),
    [
        ([], 2, {"layers": [1]}, "neither a value nor"),
        ([], 2, {"layers": [3, 6]}, "no levels of them"),
        ([b""], 2, {"layers": [1], "inline_value": b"\7"}, "1 buffers with an inline value"),
        ([b""] * 4, 2, {"layers": [1]}, "4 buffers without"),
        ([], 2, {"layers": [1], "inline_value": b"x" * 33}, "inline value of 33 bytes"),
        ([b"\1\0"], 2, {"layers": [1]}, "value of 1 Arrow buffers|2 bytes of a value"),
        ([b"\1\0\0\0\1\0"], 2, {"layers": [1]}, "6 bytes of a value"),
        ([value(b"a", b"b", b"c")], 2, {"layers": [1]}, "value of 3 Arrow buffers"),
        ([value(b"abc")[:-1]], 2, {"layers": [1]}, r"value of \[3\] bytes in a buffer of 10"),
        ([value(b"abc", b"abc")], 2, {"layers": [1]}, "offsets of 3 bytes"),
        ([value(struct.pack("<ii", 0, 4), b"abc")], 2, {"layers": [1]}, "value at 0 to 4"),
        ([value(struct.pack("<ii", 2, 1), b"abc")], 2, {"layers": [1]}, "value at 2 to 1"),
        ([b"", levels(1, 2)], 2, {"layers": [3]}, "level 2"),
        ([b"", levels(1)], 2, {"layers": [3]}, "1 rows begin, expected 2|1 levels of 2 rows"),
        ([b"", b"\1\0\0"], 2, {"layers": [3]}, "3 bytes of levels"),
        (
            [levels(1, 1), levels(1)],
            2,
            {"layers": [3, 6]},
            "2 repetition and 1 def|1 levels of a kind, 2 of",
        ),
        ([b"", levels(1, 1)], 2, {"layers": [3, 6]}, "no levels of them|without rep"),
        ([levels(0, 1), b""], 1, {"layers": [3, 6]}, "begins with a row|begins inside a row"),
        ([levels(1, 1), b""], 1, {"layers": [3, 6]}, "2 rows begin"),
        ([levels(2, 1), b""], 2, {"layers": [3, 6]}, "level 2"),
        (
            [b"", levels(1, 1)],
            2,
            {"layers": [3], "def_compression": flat(16), "num_def_values": 1 << 63},
            "a block of",
        ),
        (
            [b"", levels(1, 1)],
            2,
            {"layers": [3], "def_compression": flat(16), "num_def_values": 1 << 40},
            "flat",
        ),
        (
            [b"", levels(1, 1)],
            4,
            {"layers": [3], "def_compression": flat(8), "num_def_values": 4},
            "levels of 16 bits",
        ),
    ],
)
def test_a_page_that_contradicts_itself_is_refused(
    buffers: list[bytes], num_rows: int, fields: dict[str, Any], message: str, make_page: Callable
) -> None:
    with pytest.raises(CorruptFileError, match=message):
        page_of(make_page, buffers, num_rows, **fields).read_page()
    layout = pb.PageLayout(constant_layout=pb.ConstantLayout(**fields))
    arrow = type_of(fields["layers"], pa.binary(1))
    OnePage(layout, buffers, num_rows, arrow).check_refused(said)


def test_levels_are_kept_once_decoded(make_page: Callable) -> None:
    page = page_of(make_page, [b"", levels(0, 1, 0)], 3, layers=[3], inline_value=b"\7")
    state = page.run(page.layout.load())
    assert state.levels() is state.levels()
    assert state.num_bytes < 400

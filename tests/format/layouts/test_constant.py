"""Constant pages: equal rows take no memory, pages that contradict themselves."""

from __future__ import annotations

import struct
import tracemalloc
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest

from alance.errors import CorruptFileError
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.built_pages import PageBytes, ReadFile, built_file
from tests.reference.driven import Known
from tests.reference.encodings import flat

INT8: Final = pa.int8()
LIST: Final = pa.list_(INT8)
BYTES: Final = pa.binary()


def file_of(arrow: pa.DataType, buffers: list[bytes], num_rows: int, **fields: Any) -> ReadFile:
    layout = pb.PageLayout(constant_layout=pb.ConstantLayout(**fields))
    return built_file(arrow, [PageBytes(layout.SerializeToString(), buffers, num_rows)])


def levels(*numbers: int) -> bytes:
    return struct.pack(f"<{len(numbers)}H", *numbers)


def value(*buffers: bytes) -> bytes:
    sizes = struct.pack(f"<{len(buffers) + 1}I", len(buffers), *map(len, buffers))
    return sizes + b"".join(buffers)


@pytest.mark.parametrize(
    ("fields", "value"), [({"layers": [3]}, None), ({"layers": [1], "inline_value": b"\7"}, 7)]
)
@pytest.mark.parametrize("num_rows", [1 << 34, (1 << 60) + 1])
def test_billions_of_equal_rows_take_no_memory(
    fields: dict[str, Any], value: Any, num_rows: int
) -> None:
    file = file_of(INT8, [], num_rows, **fields)
    states = Known()
    tracemalloc.start()
    try:
        fragment = file.open(states)
        tasks = [
            file.run(fragment.take(np.array([3, num_rows - 1]), states)),
            file.run(fragment.read(num_rows - 3, num_rows, states)),
        ]
        columns = [task.decode().column(0).to_pylist() for task in tasks]
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    assert columns == [[value] * 2, [value] * 3]


def test_a_wide_value_has_one_buffer() -> None:
    file = file_of(pa.binary(40), [value(b"x" * 40)], 2, layers=[1])
    assert file.all_rows() == [b"x" * 40] * 2


@pytest.mark.parametrize("width", [4, 8])
def test_a_string_may_begin_behind_the_start_of_its_buffer(width: int) -> None:
    offsets = np.array([2, 5], f"<i{width}").tobytes()
    arrow = BYTES if width == 4 else pa.large_binary()
    file = file_of(arrow, [value(offsets, b"..abc..")], 2, layers=[1])
    assert file.all_rows() == [b"abc", b"abc"]


@pytest.mark.parametrize(
    ("buffers", "num_rows", "fields", "message"),
    [
        ([], 2, {"layers": [1]}, "neither a value nor"),
        ([], 2, {"layers": [3, 6]}, "no levels of them"),
        ([b""], 2, {"layers": [1], "inline_value": b"\7"}, "1 buffers with an inline value"),
        ([b""] * 4, 2, {"layers": [1]}, "4 buffers without"),
        ([], 2, {"layers": [1], "inline_value": b"x" * 33}, "inline value of 33 bytes"),
        ([b"\1\0"], 2, {"layers": [1]}, "2 bytes of a value"),
        ([b"\1\0\0\0\1\0"], 2, {"layers": [1]}, "6 bytes of a value"),
        ([value(b"a", b"b", b"c")], 2, {"layers": [1]}, "value of 3 Arrow buffers"),
        ([value(b"abc")[:-1]], 2, {"layers": [1]}, r"value of \[3\] bytes in a buffer of 10"),
        ([value(b"abc", b"abc")], 2, {"layers": [1]}, "offsets of 3 bytes"),
        (
            [value(struct.pack("<ii", 0, 4), b"abc")],
            2,
            {"layers": [1]},
            "value at 0 to 4",
        ),
        (
            [value(struct.pack("<ii", 2, 1), b"abc")],
            2,
            {"layers": [1]},
            "value at 2 to 1",
        ),
        ([b"", levels(1, 2)], 2, {"layers": [3]}, "level 2, the layers have 1"),
        ([b"", levels(1)], 2, {"layers": [3]}, "1 levels of 2 rows"),
        ([b"", b"\1\0\0"], 2, {"layers": [3]}, "3 bytes of levels"),
        ([levels(1, 1), levels(1)], 2, {"layers": [3, 6]}, "1 levels of a kind, 2 of the other"),
        ([b"", levels(1, 1)], 2, {"layers": [3, 6]}, "lists without repetition levels"),
        ([levels(0, 1), b""], 1, {"layers": [3, 6]}, "begins inside a row"),
        ([levels(1, 1), b""], 1, {"layers": [3, 6]}, "2 rows begin in its levels, expected 1"),
        ([levels(2, 1), b""], 2, {"layers": [3, 6]}, "level 2, the layers have 1"),
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
            "levels in 4 bytes",
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
    buffers: list[bytes], num_rows: int, fields: dict[str, Any], message: str
) -> None:
    has_lists = len(fields["layers"]) > 1
    arrow = LIST if has_lists else BYTES if b"abc" in b"".join(buffers) else INT8
    with pytest.raises(CorruptFileError, match=message):
        file_of(arrow, buffers, num_rows, **fields).all_rows()

"""Pages by the byte: descriptions and buffers of the format's document, and what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.any_pb2 import Any
from google.protobuf.text_format import Parse

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.plans import run
from alance.format.proto import encodings_v2_0_pb2 as pb
from alance.format.schema import Schema
from alance.format.v2_0.arrays import ARRAY_ENCODING, array_page, plain_values, value_buffers
from alance.format.v2_0.base import Spans

if TYPE_CHECKING:
    from alance.format.v2_0.arrays import ArrayPage

BIT = "flat { bits_per_value: 1 buffer {} }"


def u64(*values: int) -> bytes:
    return np.array(values, "<u8").tobytes()


def flat(bits: int, buffer: int) -> str:
    return f"flat {{ bits_per_value: {bits} buffer {{ buffer_index: {buffer} }} }}"


def some_nulls(values: str) -> str:
    return f"nullable {{ some_nulls {{ validity {{ {BIT} }} values {{ {values} }} }} }}"


def no_nulls(values: str) -> str:
    return f"nullable {{ no_nulls {{ values {{ {values} }} }} }}"


def binary(adjustment: int, first: int = 0, extra: str = "") -> str:
    bytes_ = f"flat {{ bits_per_value: 8 buffer {{ buffer_index: {first + 1} }} {extra} }}"
    return (
        f"binary {{ indices {{ {no_nulls(flat(64, first))} }} bytes {{ {bytes_} }} "
        f"null_adjustment: {adjustment} }}"
    )


def encoded(text: str) -> bytes:
    message = Parse(text, pb.ArrayEncoding())
    return Any(type_url=ARRAY_ENCODING, value=message.SerializeToString()).SerializeToString()


def page_of(
    text: str, buffers: list[bytes], num_rows: int, logical: str
) -> tuple[ArrayPage, bytes]:
    places, content = [], b"\xff" * 3  # nothing is aligned
    for buffer in buffers:
        places.append((len(content), len(buffer)))
        content += buffer + b"\xee"
    page = array_page(
        encoded(text), path="f", buffers=places, num_rows=num_rows, logical_type=logical
    )
    return page, content


def read(text: str, buffers: list[bytes], rows: Spans, num_rows: int, arrow: pa.DataType) -> list:
    field = Schema.from_arrow(pa.schema([pa.field("a", arrow)])).fields[0]
    page, content = page_of(text, buffers, num_rows, field.logical_type)
    piece, _ = run(page.values(rows), content)
    array = piece.build(arrow, None)
    array.validate(full=True)
    return array.to_pylist()


FSL = some_nulls(
    f"fixed_size_list {{ dimension: 2 items {{ {some_nulls(flat(32, 2))} }} }}"
).replace("buffer {} } } values { flat", "buffer { buffer_index: 1 } } } values { flat")
DICTIONARY = (
    f"dictionary {{ indices {{ {no_nulls(flat(8, 0))} }} items {{ {binary(7, 1)} }} "
    "num_dictionary_items: 3 }"
)
PACKED = (
    f"packed_struct {{ inner {{ {no_nulls(flat(32, 0))} }} inner {{ {no_nulls(flat(64, 0))} }} "
    f"inner {{ {no_nulls(flat(8, 0))} }} buffer {{}} }}"
)
ZSTD = bytes.fromhex("1c0000000000000028b52ffd201c6500003061616262626201000ac002")
OLD_ZSTD = bytes.fromhex("28b52ffd00586500003061616262626201000ac002")
LZ4 = bytes.fromhex("1c0000001f61010003506162626262")
LONG = ["a" * 24, "bbbb"]
WORDS = ["x", "yy", None, "zzz"] * 25
VECTORS = {
    "bool": (
        some_nulls(flat(1, 1)),
        ["fd01", "9901"],
        pa.bool_(),
        [True, None, False, True, True, False, False, True, True],
    ),
    "bool without nulls": (
        no_nulls(flat(1, 0)),
        ["9d01"],
        pa.bool_(),
        [True, False, True, True, True, False, False, True, True],
    ),
    "all nulls": ("nullable { all_nulls {} }", [], pa.int32(), [None] * 3),
    "all null strings": ("nullable { all_nulls {} }", [], pa.string(), [None] * 3),
    "string": (
        binary(7),
        [u64(1, 4, 4, 6).hex(), b"abcdef".hex()],
        pa.string(),
        ["a", "bcd", "", "ef"],
    ),
    "string with null": (
        binary(4),
        [u64(1, 5, 1, 3).hex(), b"aef".hex()],
        pa.large_string(),
        ["a", None, "", "ef"],
    ),
    "null that owns bytes": (
        binary(5),
        [u64(1, 8, 4).hex(), b"aXXb".hex()],
        pa.binary(),
        [b"a", None, b"b"],
    ),
    "null strings": (binary(1), [u64(1, 1).hex(), ""], pa.string(), [None, None]),
    "fixed-size binary": (
        some_nulls(flat(24, 1)),
        ["05", "616161000000656667"],
        pa.binary(3),
        [b"aaa", None, b"efg"],
    ),
    "vectors": (
        FSL,
        ["05", "13", "0000803f00000040000000000000000000004040" + "00000000"],
        pa.list_(pa.float32(), 2),
        [[1, 2], None, [3, None]],
    ),
    "dictionary": (
        DICTIONARY,
        ["00010200", u64(3, 6, 13).hex(), b"foobar".hex()],
        pa.dictionary(pa.int8(), pa.string()),
        ["foo", "bar", None, "foo"],
    ),
    "string through dictionary": (
        DICTIONARY,
        ["01020003" * 25, u64(1, 3, 6).hex(), b"xyyzzz".hex()],
        pa.string(),
        WORDS,
    ),
    "packed struct": (
        PACKED,
        ["01000000" + "0000000000000040" + "07" + "02000000" + "0000000000000840" + "08"],
        pa.struct([("x", pa.int32()), ("y", pa.float64()), ("z", pa.uint8())]),
        [{"x": 1, "y": 2.0, "z": 7}, {"x": 2, "y": 3.0, "z": 8}],
    ),
    "zstd": (
        binary(29, extra='compression { scheme: "zstd" level: 3 }'),
        [u64(24, 28).hex(), ZSTD.hex()],
        pa.string(),
        LONG,
    ),
    "zstd without its size": (
        binary(29, extra='compression { scheme: "zstd" }'),
        [u64(24, 28).hex(), OLD_ZSTD.hex()],
        pa.string(),
        LONG,
    ),
    "lz4": (
        binary(29, extra='compression { scheme: "lz4" }'),
        [u64(24, 28).hex(), LZ4.hex()],
        pa.string(),
        LONG,
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_pages_of_the_page_are_read_in_every_way(name: str) -> None:
    """All rows, ranges of them, and single ones."""
    text, buffers, arrow, want = VECTORS[name]
    contents = [bytes.fromhex(buffer) for buffer in buffers]
    count = len(want)
    assert read(text, contents, Spans.of_range(0, count), count, arrow) == want
    for start in range(min(count, 6)):
        for stop in range(start + 1, min(count, 9) + 1):
            content = read(text, contents, Spans.of_range(start, stop), count, arrow)
            assert content == want[start:stop]
    rows = np.arange(0, count, 2)
    assert read(text, contents, Spans.of_rows(rows), count, arrow) == want[::2]
    assert value_buffers(encoded(text)) <= set(range(len(buffers)))


@pytest.mark.parametrize(
    "name", [name for name in VECTORS if any(VECTORS[name][1]) and "null strings" not in name]
)
def test_cut_buffers_are_corrupt(name: str) -> None:
    """A buffer that lacks a byte is told, whichever it is."""
    text, buffers, arrow, want = VECTORS[name]
    contents = [bytes.fromhex(buffer) for buffer in buffers]
    for number, item in enumerate(contents):
        cut = [*contents[:number], item[:-1], *contents[number + 1 :]]
        with pytest.raises(AlanceError):
            read(text, cut, Spans.of_range(0, len(want)), len(want), arrow)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (flat(7, 0), CorruptFileError),
        (flat(32, 4), CorruptFileError),
        (
            f"nullable {{ some_nulls {{ validity {{ {flat(8, 0)} }} values {{ {BIT} }} }} }}",
            CorruptFileError,
        ),
        ("nullable {}", CorruptFileError),
        ("fixed_size_list { dimension: 0 }", CorruptFileError),
        ("constant {}", UnsupportedError),
        ("", UnsupportedError),
        ("bitpacked { buffer {} }", UnsupportedError),
        ("bitpacked_for_non_neg { buffer {} }", UnsupportedError),
        ("fixed_size_binary { byte_width: 2 }", UnsupportedError),
        ("packed_struct { buffer {} }", CorruptFileError),
        ('flat { bits_per_value: 8 buffer {} compression { scheme: "zstd" } }', UnsupportedError),
        ("flat { bits_per_value: 8 buffer { buffer_type: file } }", UnsupportedError),
        (binary(3, extra='compression { scheme: "gzip" }'), UnsupportedError),
    ],
)
def test_contradictions_in_descriptions_are_refused(text: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        page_of(text, [b"12345678", b"12345678"], 1, "int8")


def test_ends_that_decrease() -> None:
    with pytest.raises(CorruptFileError, match="offsets decrease"):
        read(binary(9), [u64(2, 1), b"ab"], Spans.of_range(0, 2), 2, pa.string())
    with pytest.raises(CorruptFileError, match="end behind 2"):
        read(binary(9), [u64(2, 3), b"ab"], Spans.of_range(0, 2), 2, pa.string())


def test_text_that_is_no_utf_8_is_refused() -> None:
    with pytest.raises(CorruptFileError, match="UTF-8"):
        read(binary(9), [u64(1, 2), b"a\xff"], Spans.of_range(0, 2), 2, pa.string())


def test_values_too_wide_for_the_kernel_are_not_given_to_it() -> None:
    """Also values of a page without rows, which may be wider than any file."""

    def lists(dimensions: list[int]) -> str:
        text = flat(8, 0)
        for dimension in dimensions:
            text = f"fixed_size_list {{ dimension: {dimension} items {{ {text} }} }}"
        return text

    def plain(dimensions: list[int], num_bytes: int, num_rows: int) -> tuple[int, int] | None:
        page = array_page(
            encoded(lists(dimensions)),
            path="f",
            buffers=[(64, num_bytes)],
            num_rows=num_rows,
            logical_type="fixed_size_list:uint8:4",
        )
        return plain_values(page)

    assert plain([4], 12, 3) == (0, 32)
    assert plain([(1 << 28) - 1], 1 << 28, 1) == (0, (1 << 31) - 8)
    assert plain([1 << 28], 1 << 28, 1) is None
    assert plain([(1 << 32) - 1] * 3, 0, 0) is None

"""Bytes of known files: what each codec must make of them, with descriptions as they were written.

Made with pylance 14.0.2, or by hand and read by it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import pyarrow as pa
import pytest

from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.built_values import (
    as_dictionary,
    as_levels,
    check,
    in_full_zip,
    in_mini_blocks,
    levels_of,
)
from tests.reference.encodings import encoding_of
from tests.reference.fastlanes import DIGESTS, pack

BYTES: Final = pa.binary()


def check_chunks(
    arrow: pa.DataType | pa.Field,
    description: str,
    counts: list[int],
    *chunks: list[str],
    expected: list[Any],
) -> None:
    """Decode chunks given as hexadecimal buffers."""
    buffers = [[*map(bytes.fromhex, chunk)] for chunk in chunks]
    check(in_mini_blocks(arrow, encoding_of(description), buffers, counts), expected)


def levels(description: str, counts: list[int], *buffers: str) -> list[int]:
    """Decode definition levels of chunks given as hexadecimal digits."""
    return levels_of(as_levels(encoding_of(description), [*map(bytes.fromhex, buffers)], counts))


def test_flat_numbers_are_decoded() -> None:
    check_chunks(pa.int32(), "0a020820", [3], ["0100000070110100ffffffff"], expected=[1, 70000, -1])


def test_flat_booleans_are_decoded() -> None:
    flags = [1, 0, 1, 1, 0, 0, 0, 1, 1]
    check_chunks(pa.bool_(), "0a020801", [9], ["8d01"], expected=[*map(bool, flags)])


def test_flat_booleans_of_many_chunks_are_joined() -> None:
    flags = [1, 0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 0]
    chunks = [["8d"], ["fe"], ["03"]]
    check_chunks(pa.bool_(), "0a020801", [8, 2, 3], *chunks, expected=[*map(bool, flags)])


def test_flat_booleans_in_full_zip_pages_are_decoded() -> None:
    file = in_full_zip(pa.bool_(), encoding_of("0a020808"), [b"\1", b"\0", b"\1"])
    check(file, [True, False, True])


def test_variable_strings_are_decoded() -> None:
    buffer = "100000001200000012000000150000006162636465484848"
    check_chunks(BYTES, "12060a040a020820", [3], [buffer], expected=[b"ab", b"", b"cde"])


def test_strings_with_offsets_of_64_bits_are_decoded() -> None:
    buffer = "20000000000000002200000000000000220000000000000025000000000000006162636465484848"
    arrow = pa.large_binary()
    check_chunks(arrow, "12060a040a020840", [3], [buffer], expected=[b"ab", b"", b"cde"])


def test_inline_bitpacking_of_one_bit_in_u8() -> None:
    packed = (
        "0100020203010100020203010100020203010100020203010100020203010100020203010100020203010100"
        "0202030101000202030101000202030101000202030101000202030101000000010101000000010101000000"
        "0101010000000101010000000101010000000101010000000101010000000101010000000101010000"
    )
    bits = [i // 3 % 2 for i in range(200)]
    check_chunks(pa.uint8(), "2a020808", [200], [packed], expected=bits)


@pytest.mark.parametrize(("width", "packed_width", "digest"), DIGESTS)
def test_inline_bitpacking_of_full_blocks(width: int, packed_width: int, digest: str) -> None:
    if width == 64 and packed_width > 7:
        values = [(i * 0x9E3779B97F4A7C15) % 2**64 >> (64 - packed_width) for i in range(1024)]
    else:
        values = [((i * 2654435761 + 12345) >> 5) % 2**packed_width for i in range(1024)]
    # The oracle packs what pylance packed, so its result stands for the bytes of the file.
    buffer = packed_width.to_bytes(width // 8, "little") + pack(values, width, packed_width)
    assert sha256(buffer).hexdigest() == digest
    message = pb.CompressiveEncoding(
        inline_bitpacking=pb.InlineBitpacking(uncompressed_bits_per_value=width)
    )
    arrow = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}[width]
    check(in_mini_blocks(arrow, message, [[buffer]], [1024]), values)


def test_inline_bitpacking_of_levels() -> None:
    buffer = (
        "0100000001010000010100000101000001000000010000000100000001000000010000000100000001000000"
        "0100000001000000010000000100000001000000010000000100000001000000010000000100000001000000"
        "010000000100000001000000010000000100000001000000010000000100000001000000010000000100"
    )
    assert levels("2a020810", [70], buffer) == [i % 2 for i in range(70)]


def test_out_of_line_bitpacking_of_levels_with_a_raw_tail() -> None:
    first = (
        "1042841021840821420810428410218408214208104284102184082142081042841021840821420810428410"
        "2184082142081042841021840821420810428410218408214208104284102184082142081042841021840821"
        "42081042841021840821420810428410218408214208104284102184082142081042841021840821"
    )
    decoded = levels("220808101a040a020801", [1024, 6], first, "000000000000010000000000")
    assert decoded == [int(i % 5 == 2) for i in range(1030)]


@pytest.mark.parametrize("count", [1024, 2048, 4])
def test_levels_that_are_all_zero_are_packed_to_no_bytes(count: int) -> None:
    """As pylance writes lists of which the page's are all filled, and others are empty."""
    assert levels("220608101a020a00", [count, 5], "", "00" * 10) == [0] * (count + 5)


FSST_STRINGS = [b"hello world", b"hello", b"", b"xyz world", b"hello hello hello"]
FSST_TABLES = {
    "one symbol": (
        "010000015453534668656c6c6f00000005",
        (
            "18000000250000002600000026000000380000003f00000000ff20ff77ff6fff72ff6cff6400ff78ff79"
            "ff7aff20ff77ff6fff72ff6cff6400ff2000ff200048"
        ),
    ),
    "three symbols": (
        "0300000154535346680000000000000068656c6c6f00000020776f726c640000010506",
        (
            "180000001a0000001b0000001b0000002200000029000000010201ff78ff79ff7a0201ff2001ff200148"
            "4848"
        ),
    ),
    "no symbol": (
        "0000000154535346",
        (
            "180000002e00000038000000380000004a0000006c000000ff68ff65ff6cff6cff6fff20ff77ff6fff72"
            "ff6cff64ff68ff65ff6cff6cff6fff78ff79ff7aff20ff77ff6fff72ff6cff64ff68ff65ff6cff6cff6f"
            "ff20ff68ff65ff6cff6cff6fff20ff68ff65ff6cff6cff6f"
        ),
    ),
    "flag clear": (
        "0000000054535346",
        (
            "18000000230000002800000028000000310000004200000068656c6c6f20776f726c6468656c6c6f7879"
            "7a20776f726c6468656c6c6f2068656c6c6f2068656c6c6f4848"
        ),
    ),
}


@pytest.mark.parametrize("name", FSST_TABLES)
def test_strings_with_a_symbol_table_are_decoded(name: str) -> None:
    table, buffer = FSST_TABLES[name]
    message = pb.CompressiveEncoding(
        fsst=pb.Fsst(
            symbol_table=bytes.fromhex(table).ljust(2312, b"\0"),
            values=encoding_of("12060a040a020820"),
        )
    )
    check(in_mini_blocks(BYTES, message, [[bytes.fromhex(buffer)]], [5]), FSST_STRINGS)


def test_runs_of_numbers_are_decoded() -> None:
    chunk = ["070000000700000009000000", "ff2d02"]
    values = [7] * 300 + [9] * 2
    check_chunks(pa.int32(), "420c0a040a02082012040a020808", [302], chunk, expected=values)


def test_runs_of_levels_are_decoded() -> None:
    buffer = "0a00000000000000000001000100000000000aff87ff2d"
    decoded = levels("420c0a040a02081012040a020808", [700], buffer)
    assert decoded == [0] * 10 + [1] * 390 + [0] * 300


def test_split_bytes_of_floats_are_decoded() -> None:
    chunk = ["0000000000000000800040803f404040"]
    floats = [1.0, 2.0, 3.0, 4.0]
    check_chunks(pa.float32(), "4a060a040a020820", [4], chunk, expected=floats)


@pytest.mark.parametrize(
    ("description", "first", "second"),
    [
        (
            "520e0a0208011a084a060a040a020820",
            "001000001f000100fffffffffffffff31ff00100ffffffef1f400100ffffffea504040404040",
            "040000004000000841",
        ),
        (
            "520e0a0208021a084a060a040a020820",
            "001000000000000028b52ffd60000f850000200000f040031000fc2be15fddfd7f2c",
            "040000000000000028b52ffd200421000000000841",
        ),
    ],
    ids=["lz4", "zstd"],
)
def test_general_around_byte_stream_split(description: str, first: str, second: str) -> None:
    floats = [7.5] * 1024 + [8.5]
    check_chunks(pa.float32(), description, [1024, 1], [first], [second], expected=floats)


def test_zstd_of_each_value_is_decoded() -> None:
    units = [
        "409c00000000000028b52ffd60409b55000010414101003b1c1d6001",
        "000000000000000028b52ffd2000010000",
        "409c00000000000028b52ffd60409b55000010424201003b1c1d6001",
    ]
    encoding = encoding_of("52100a04080210001a0812060a040a020820")
    file = in_full_zip(BYTES, encoding, [*map(bytes.fromhex, units)], bits_per_length=64)
    check(file, [b"A" * 40000, b"", b"B" * 40000])


LISTS = "5a0a080312040a0208101801"
ITEMS = [[1, None, 3], [4, 5, 6], [None, None, 9], [10, 11, 12]]
TRIPLE: Final = pa.list_(pa.int16(), 3)


def test_lists_of_one_length_in_mini_blocks_are_decoded() -> None:
    chunk = ["3d0f", "0100000003000400050006000000000009000a000b000c00"]
    check_chunks(TRIPLE, LISTS, [4], chunk, expected=ITEMS)


def test_lists_of_one_length_in_full_zip_pages_are_decoded() -> None:
    rows = ["3d010000000300", "07040005000600", "04000000000900", "070a000b000c00"]
    file = in_full_zip(TRIPLE, encoding_of(LISTS), [*map(bytes.fromhex, rows)])
    check(file, ITEMS)


def test_lists_of_lists_of_one_length_are_decoded() -> None:
    chunk = ["3d", "f10f", "0100000005060708090a0b0c"]
    arrow = pa.list_(pa.list_(pa.int8(), 2), 3)
    lists = [[[1, None], None, [5, 6]], [[7, 8], [9, 10], [11, 12]]]
    description = "5a120803120c5a0a080212040a02080818011801"
    check_chunks(arrow, description, [2], chunk, expected=lists)


def test_a_packed_struct_is_decoded() -> None:
    rows = "000000000100000000000000000100000002000000000000f03f"
    arrow = pa.struct({"a": pa.int32(), "b": pa.int8(), "c": pa.float64()})
    field = pa.field("s", arrow, metadata={"lance-encoding:packed": "true"})
    structs = [{"a": 0, "b": 1, "c": 0.0}, {"a": 1, "b": 2, "c": 1.0}]
    check_chunks(field, "620b0a0320084012040a020868", [2], [rows], expected=structs)


def test_a_packed_struct_of_any_length_is_decoded() -> None:
    rows = [
        "00000000000000000000030000007a7a7a",
        "010002000000000000006162020000007a7a",
        "0200040000000000000061626162010000007a",
    ]
    encoding = encoding_of(
        "6a260a080a040a02081010100a0c0a0812060a040a02084018400a0c0a0812060a040a0208201820"
    )
    arrow = pa.struct({"a": pa.int16(), "b": pa.large_binary(), "c": BYTES})
    field = pa.field("s", arrow, metadata={"lance-encoding:packed": "true"})
    file = in_full_zip(field, encoding, [*map(bytes.fromhex, rows)], bits_per_length=64)
    columns = zip([0, 1, 2], [b"", b"ab", b"abab"], [b"zzz", b"zz", b"z"], strict=True)
    check(file, [dict(zip("abc", row, strict=True)) for row in columns])


@pytest.mark.parametrize(
    ("description", "buffer"),
    [
        (
            "12060a040a020820",
            "2000000018000000000000000100000003000000060000007879797a7a7a",
        ),
        (
            "520e0a0208011a0812060a040a020820",
            "1e000000622000000018000100f0030100000003000000060000007879797a7a7a",
        ),
    ],
    ids=["plain", "lz4"],
)
def test_dictionaries_of_strings_are_decoded(description: str, buffer: str) -> None:
    content = bytes.fromhex(buffer)
    check(as_dictionary(BYTES, encoding_of(description), content, 3), [b"x", b"yy", b"zzz"])


def test_dictionaries_of_strings_with_wide_offsets_are_decoded() -> None:
    content = bytes.fromhex(
        "40000000000000002800000000000000000000000000000001000000000000000300000000000000787979"
    )
    encoding = encoding_of("12060a040a020840")
    check(as_dictionary(pa.large_binary(), encoding, content, 2), [b"x", b"yy"])


def test_dictionaries_of_numbers_are_decoded() -> None:
    content = bytes.fromhex("10000000f00100008a5d78456301000014bbf08ac602")
    encoding = encoding_of("520a0a0208011a040a020840")
    check(as_dictionary(pa.int64(), encoding, content, 2), [10**17, 2 * 10**17])


def test_dictionaries_of_lists_of_one_length_are_decoded() -> None:
    rows = (
        "1500000000000000000000000000000000010100000000000000000000000000000001000000000000000000"
        "00000000000000"
    )
    encoding = encoding_of("5a0a080212040a0208401801")
    file = as_dictionary(pa.list_(pa.int64(), 2), encoding, bytes.fromhex(rows), 3)
    check(file, [[0, None], [1, None], [0, None]])


def test_lists_of_nulls_alone_have_no_items() -> None:
    message = pb.CompressiveEncoding(
        fixed_size_list=pb.FixedSizeList(
            items_per_value=3,
            values=pb.CompressiveEncoding(constant=pb.Constant()),
            has_validity=True,
        )
    )
    file = in_full_zip(pa.list_(pa.int32(), 3), message, [b"\0", b"\0"])
    check(file, [[None] * 3] * 2)

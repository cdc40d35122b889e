"""Bytes of known files: what each codec must make of them, with descriptions as they were written.

Made with pylance 14.0.2, or by hand and read by it.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np
import pytest

from alance.format.blocks import ConstantBlock, FixedSizeListBlock, FixedWidth, StructBlock
from alance.format.codecs import block_codec, mini_block_codec, per_value_codec
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.chunks import chunked, decode_blocks, decode_chunks, fixed, strings, variable
from tests.reference.encodings import encoding_of
from tests.reference.fastlanes import DIGESTS, pack

if TYPE_CHECKING:
    from alance.format.blocks import Block


def mini_block(description: str, counts: list[int], *chunks: list[str]) -> Block:
    """Decode chunks given as hexadecimal buffers."""
    codec = mini_block_codec(encoding_of(description))
    buffers = [[bytes.fromhex(buffer) for buffer in chunk] for chunk in chunks]
    assert all(len(chunk) == codec.num_buffers for chunk in buffers)
    return decode_chunks(codec, chunked(buffers, counts))


def one_block(description: str, count: int, buffer: str) -> Block:
    data = np.frombuffer(bytes.fromhex(buffer), np.uint8)
    return block_codec(encoding_of(description)).decode_block(data, count)


def bits(block: Block) -> list[int]:
    assert isinstance(block, FixedWidth)
    return np.unpackbits(block.data, count=block.num_values, bitorder="little").tolist()


def test_flat_numbers_are_decoded() -> None:
    block = mini_block("0a020820", [3], ["0100000070110100ffffffff"])
    assert fixed(block, "i4") == [1, 70000, -1]


def test_flat_booleans_are_decoded() -> None:
    assert bits(mini_block("0a020801", [9], ["8d01"])) == [1, 0, 1, 1, 0, 0, 0, 1, 1]


def test_flat_bool_of_many_chunks_joins_bits() -> None:
    block = mini_block("0a020801", [9, 2, 3], ["8d01"], ["fe"], ["03"])
    assert bits(block) == [1, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 0]


def test_flat_bool_in_full_zip() -> None:
    zipped = FixedWidth(8, 3, np.array([1, 0, 1], np.uint8))
    assert fixed(per_value_codec(encoding_of("0a020808")).decode_values(zipped), "u1") == [1, 0, 1]


def test_variable_strings_are_decoded() -> None:
    buffer = "100000001200000012000000150000006162636465484848"
    assert strings(mini_block("12060a040a020820", [3], [buffer])) == [b"ab", b"", b"cde"]


def test_variable_large_utf8() -> None:
    buffer = "20000000000000002200000000000000220000000000000025000000000000006162636465484848"
    block = mini_block("12060a040a020840", [3], [buffer])
    assert strings(block) == [b"ab", b"", b"cde"]
    assert block.offsets.dtype == np.int64  # type: ignore[union-attr]  # strings() asserts it


def test_inline_bitpacking_of_one_bit_in_u8() -> None:
    packed = (
        "0100020203010100020203010100020203010100020203010100020203010100020203010100020203010100"
        "0202030101000202030101000202030101000202030101000202030101000000010101000000010101000000"
        "0101010000000101010000000101010000000101010000000101010000000101010000000101010000"
    )
    block = mini_block("2a020808", [200], [packed])
    assert fixed(block, "u1") == [i // 3 % 2 for i in range(200)]


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
    block = decode_chunks(mini_block_codec(message), chunked([[buffer]], [1024]))
    assert fixed(block, f"u{width // 8}") == values


def test_inline_bitpacking_of_levels() -> None:
    buffer = (
        "0100000001010000010100000101000001000000010000000100000001000000010000000100000001000000"
        "0100000001000000010000000100000001000000010000000100000001000000010000000100000001000000"
        "010000000100000001000000010000000100000001000000010000000100000001000000010000000100"
    )
    assert fixed(one_block("2a020810", 70, buffer), "u2") == [i % 2 for i in range(70)]


def test_out_of_line_bitpacking_of_levels_with_a_raw_tail() -> None:
    first = (
        "1042841021840821420810428410218408214208104284102184082142081042841021840821420810428410"
        "2184082142081042841021840821420810428410218408214208104284102184082142081042841021840821"
        "42081042841021840821420810428410218408214208104284102184082142081042841021840821"
    )
    codec = block_codec(encoding_of("220808101a040a020801"))
    chunks = [[bytes.fromhex(first)], [bytes.fromhex("000000000000010000000000")]]
    block = decode_blocks(codec, chunked(chunks, [1024, 6]))
    assert fixed(block, "u2") == [int(i % 5 == 2) for i in range(1030)]


@pytest.mark.parametrize("count", [1024, 1030, 2048, 5])
def test_levels_that_are_all_zero_are_packed_to_no_bytes(count: int) -> None:
    """As pylance writes lists of which the page's are all filled, and others are empty."""
    codec = block_codec(encoding_of("220608101a020a00"))
    block = decode_blocks(codec, chunked([[b""], [bytes(10)]], [count, 5]))
    assert fixed(block, "u2") == [0] * (count + 5)


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
    block = decode_chunks(mini_block_codec(message), chunked([[bytes.fromhex(buffer)]], [5]))
    assert strings(block) == FSST_STRINGS


def test_runs_of_numbers_are_decoded() -> None:
    chunk = ["070000000700000009000000", "ff2d02"]
    block = mini_block("420c0a040a02082012040a020808", [302], chunk)
    assert fixed(block, "i4") == [7] * 300 + [9] * 2


def test_rle_of_levels() -> None:
    buffer = "0a00000000000000000001000100000000000aff87ff2d"
    block = one_block("420c0a040a02081012040a020808", 700, buffer)
    assert fixed(block, "u2") == [0] * 10 + [1] * 390 + [0] * 300


def test_byte_stream_split_float32() -> None:
    block = mini_block("4a060a040a020820", [4], ["0000000000000000800040803f404040"])
    assert fixed(block, "f4") == [1.0, 2.0, 3.0, 4.0]


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
    block = mini_block(description, [1024, 1], [first], [second])
    assert fixed(block, "f4") == [7.5] * 1024 + [8.5]


def test_general_zstd_per_value() -> None:
    units = [
        "409c00000000000028b52ffd60409b55000010414101003b1c1d6001",
        "000000000000000028b52ffd2000010000",
        "409c00000000000028b52ffd60409b55000010424201003b1c1d6001",
    ]
    zipped = variable([bytes.fromhex(unit) for unit in units], "i8")
    codec = per_value_codec(encoding_of("52100a04080210001a0812060a040a020820"))
    assert strings(codec.decode_values(zipped)) == [b"A" * 40000, b"", b"B" * 40000]


LISTS = "5a0a080312040a0208101801"
ITEMS = [1, None, 3, 4, 5, 6, None, None, 9, 10, 11, 12]


def items(block: Block, dtype: str) -> list[int | None]:
    """Items of a list block, flat, with None where they are null."""
    assert isinstance(block, FixedSizeListBlock)
    assert block.validity is not None
    values = fixed(block.items, dtype)
    valid = np.unpackbits(block.validity, count=len(values), bitorder="little")
    return [value if ok else None for value, ok in zip(values, valid, strict=True)]


def test_fixed_size_list_in_mini_blocks() -> None:
    chunk = ["3d0f", "0100000003000400050006000000000009000a000b000c00"]
    block = mini_block(LISTS, [4], chunk)
    assert items(block, "i2") == ITEMS


def test_fixed_size_list_in_full_zip() -> None:
    rows = "3d0100000003000704000500060004000000000900070a000b000c00"
    zipped = FixedWidth(56, 4, np.frombuffer(bytes.fromhex(rows), np.uint8))
    codec = per_value_codec(encoding_of(LISTS))
    assert codec.bits_per_value == 56
    assert items(codec.decode_values(zipped), "i2") == ITEMS


def test_fixed_size_list_of_lists() -> None:
    chunk = ["3d", "f10f", "0100000005060708090a0b0c"]
    block = mini_block("5a120803120c5a0a080212040a02080818011801", [2], chunk)
    assert isinstance(block, FixedSizeListBlock)
    assert block.validity is not None
    assert np.unpackbits(block.validity, count=6, bitorder="little").tolist() == [1, 0, 1, 1, 1, 1]
    inner = items(block.items, "i1")
    assert inner[:2] + inner[4:] == [1, None, 5, 6, 7, 8, 9, 10, 11, 12]


def test_a_packed_struct_is_decoded() -> None:
    rows = "000000000100000000000000000100000002000000000000f03f"
    block = mini_block("620b0a0320084012040a020868", [2], [rows])
    assert isinstance(block, StructBlock)
    children = [
        fixed(child, dtype) for child, dtype in zip(block.children, ["i4", "i1", "f8"], strict=True)
    ]
    assert children == [[0, 1], [1, 2], [0.0, 1.0]]


def test_variable_packed_struct() -> None:
    rows = [
        "00000000000000000000030000007a7a7a",
        "010002000000000000006162020000007a7a",
        "0200040000000000000061626162010000007a",
    ]
    zipped = variable([bytes.fromhex(row) for row in rows], "i8")
    codec = per_value_codec(
        encoding_of(
            "6a260a080a040a02081010100a0c0a0812060a040a02084018400a0c0a0812060a040a0208201820"
        )
    )
    block = codec.decode_values(zipped)
    assert isinstance(block, StructBlock)
    assert fixed(block.children[0], "i2") == [0, 1, 2]
    assert strings(block.children[1]) == [b"", b"ab", b"abab"]
    assert strings(block.children[2]) == [b"zzz", b"zz", b"z"]
    assert block.children[1].offsets.dtype == np.int64  # type: ignore[union-attr]
    assert block.children[2].offsets.dtype == np.int32  # type: ignore[union-attr]


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
def test_dictionary_of_utf8(description: str, buffer: str) -> None:
    assert strings(one_block(description, 3, buffer)) == [b"x", b"yy", b"zzz"]


def test_dictionary_of_large_utf8() -> None:
    buffer = (
        "40000000000000002800000000000000000000000000000001000000000000000300000000000000787979"
    )
    assert strings(one_block("12060a040a020840", 2, buffer)) == [b"x", b"yy"]


def test_dictionary_of_int64() -> None:
    buffer = "10000000f00100008a5d78456301000014bbf08ac602"
    assert fixed(one_block("520a0a0208011a040a020840", 2, buffer), "i8") == [10**17, 2 * 10**17]


def test_dictionary_of_fixed_size_lists_masks_the_validity() -> None:
    rows = (
        "1500000000000000000000000000000000010100000000000000000000000000000001000000000000000000"
        "00000000000000"
    )
    block = one_block("5a0a080212040a0208401801", 3, rows)
    assert items(block, "i8") == [0, None, 1, None, 0, None]


def test_lists_of_nulls_only_have_no_items() -> None:
    message = pb.CompressiveEncoding(
        fixed_size_list=pb.FixedSizeList(
            items_per_value=3,
            values=pb.CompressiveEncoding(constant=pb.Constant()),
            has_validity=True,
        )
    )
    codec = per_value_codec(message)
    block = codec.decode_values(FixedWidth(8, 2, np.zeros(2, np.uint8)))
    assert block == FixedSizeListBlock(3, ConstantBlock(6, None), block.validity)  # type: ignore[union-attr]
    assert block.num_values == 2

"""Strings, plain and compressed by symbols, whose bytes are unusual or wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pytest

from alance.errors import CorruptFileError
from tests.reference import encodings, fsst
from tests.reference.built_values import as_dictionary, check, in_full_zip, in_mini_blocks
from tests.reference.chunks import variable_chunk

if TYPE_CHECKING:
    from alance.format.proto import encodings_v2_1_pb2 as pb
    from tests.reference.built_pages import ReadFile

TYPES: Final = {32: pa.binary(), 64: pa.large_binary()}


def dictionary(buffer: bytes, count: int, bits: int = 32) -> ReadFile:
    return as_dictionary(TYPES[bits], encodings.variable(bits), buffer, count)


def words(bits: int, *values: int) -> bytes:
    return np.array(values, f"<i{bits // 8}").tobytes()


@pytest.mark.parametrize("bits", [32, 64])
def test_dictionaries_of_early_writers_are_read(bits: int) -> None:
    start = 1 + bits // 8 * 5
    buffer = bytes([bits]) + words(bits, 2, start, 0, 1, 3) + b"abb"
    check(dictionary(buffer, 2, bits), [b"a", b"bb"])


@pytest.mark.parametrize(
    ("buffer", "count"),
    [
        (b"", 1),
        (words(32, 32), 1),
        (words(32, 64, 20, 0, 1, 3) + b"abb", 2),  # another width
        (words(32, 32, 16, 0, 1, 3) + b"abb", 2),  # bytes inside of the offsets
        (words(32, 32, 24, 0, 1, 3) + b"abb", 2),  # bytes behind the buffer
        (words(32, 32, -1, 0, 1, 3) + b"abb", 2),
        (words(32, 32, 20, 1, 1, 3) + b"abb", 2),  # does not begin at 0
        (words(32, 32, 20, 0, 2, 1) + b"abb", 2),  # decreases
        (words(32, 32, 20, 0, 1, 4) + b"abb", 2),  # beyond the bytes
        (words(32, 32, 20, 0, -1, 3) + b"abb", 2),
        (words(32, 32, 20, 0, 1, 3) + b"abb", 3),  # more values than offsets
        (b"\x20" + words(32, 3, 21, 0, 1, 3) + b"abb", 2),  # early form, another count
        (b"\x21" + words(32, 2, 21, 0, 1, 3) + b"abb", 2),  # early form, another width
    ],
)
def test_dictionaries_that_contradict_themselves_are_refused(buffer: bytes, count: int) -> None:
    with pytest.raises(CorruptFileError, match=r"variable|dictionary"):
        dictionary(buffer, count).all_rows()


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("bits_per_length", [32, 64])
def test_zipped_strings_may_have_lengths_of_any_width(bits: int, bits_per_length: int) -> None:
    values = [b"a", b"bc", b""]
    encoding = encodings.variable(bits)
    check(in_full_zip(TYPES[bits], encoding, values, bits_per_length=bits_per_length), values)


def test_values_of_the_other_kind_are_refused() -> None:
    pattern = re.compile("variable|fixed|values of 8 bits|codec gives")
    for encoding, bits in ((encodings.variable(32), 0), (encodings.flat(16), 32)):
        file = in_full_zip(TYPES[32], encoding, [b"a"], bits_per_length=bits)
        with pytest.raises(CorruptFileError, match=pattern):
            file.all_rows()
    with pytest.raises(CorruptFileError, match=r"8 bits|16 bits"):
        in_full_zip(pa.int16(), encodings.flat(16), [b"a"]).all_rows()


SYMBOLS: Final = [b"hello", b" world"]
TEXTS: Final = [b"hello world", b"", b"other", b"hello hello"]


def compressed(
    symbols: list[bytes], bits: int = 32, *, flag: bool = True
) -> pb.CompressiveEncoding:
    return encodings.fsst(fsst.table(symbols, compressed=flag), encodings.variable(bits))


@pytest.mark.parametrize("bits", [32, 64])
def test_compressed_strings_of_many_chunks_are_read(bits: int) -> None:
    codes = [fsst.encode(text, SYMBOLS) for text in TEXTS]
    chunks = [[variable_chunk(codes[:2], bits)], [variable_chunk(codes[2:], bits)]]
    check(in_mini_blocks(TYPES[bits], compressed(SYMBOLS, bits), chunks, [2, 2]), TEXTS)


@pytest.mark.parametrize("flag", [True, False])
def test_compressed_strings_in_full_zip_pages_are_read(flag: bool) -> None:
    values = [fsst.encode(text, SYMBOLS) for text in TEXTS] if flag else TEXTS
    encoding = compressed(SYMBOLS, flag=flag)
    check(in_full_zip(TYPES[32], encoding, values, bits_per_length=64), TEXTS)


def test_a_table_without_the_flag_is_not_looked_at() -> None:
    table = b"\xff\0\0\0" + bytes.fromhex("54535346") + b"\xff" * 2304
    encoding = encodings.fsst(table, encodings.variable(32))
    check(in_mini_blocks(TYPES[32], encoding, [[variable_chunk(TEXTS)]], [4]), TEXTS)


@pytest.mark.parametrize("codes", [b"\2", b"\0\xff", b"\xfe"])
def test_codes_without_a_symbol_are_refused(codes: bytes) -> None:
    file = in_full_zip(TYPES[32], compressed(SYMBOLS), [codes], bits_per_length=32)
    with pytest.raises(CorruptFileError, match="fsst"):
        file.all_rows()
    file = in_mini_blocks(TYPES[32], compressed(SYMBOLS), [[variable_chunk([codes])]], [1])
    with pytest.raises(CorruptFileError, match="fsst"):
        file.all_rows()

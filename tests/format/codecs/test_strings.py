"""Variable and Fsst where their bytes are unusual or wrong."""

from __future__ import annotations

import numpy as np
import pytest

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs import block_codec, mini_block_codec, per_value_codec
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import fsst
from tests.reference.chunks import chunked, decode_chunks, strings, variable, variable_chunk


def described(bits: int) -> pb.CompressiveEncoding:
    flat = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=bits))
    return pb.CompressiveEncoding(variable=pb.Variable(offsets=flat))


def decode_dictionary(buffer: bytes, count: int, bits: int = 32) -> VariableWidth:
    block = block_codec(described(bits)).decode_block(np.frombuffer(buffer, np.uint8), count)
    assert isinstance(block, VariableWidth)
    return block


def words(bits: int, *values: int) -> bytes:
    return np.array(values, f"<i{bits // 8}").tobytes()


@pytest.mark.parametrize("bits", [32, 64])
def test_blocks_of_early_writers(bits: int) -> None:
    start = 1 + bits // 8 * 5
    buffer = bytes([bits]) + words(bits, 2, start, 0, 1, 3) + b"abb"
    assert strings(decode_dictionary(buffer, 2, bits)) == [b"a", b"bb"]


@pytest.mark.parametrize("bits", [32, 64])
def test_a_block_owns_its_memory(bits: int) -> None:
    start = bits // 8 * 5
    data = np.frombuffer(words(bits, bits, start, 0, 1, 3) + b"abb", np.uint8).copy()
    block = block_codec(described(bits)).decode_block(data, 2)
    data[:] = 0
    assert strings(block) == [b"a", b"bb"]


def test_a_block_without_values() -> None:
    assert strings(decode_dictionary(words(32, 32, 12, 0), 0)) == []


@pytest.mark.parametrize(
    ("buffer", "count"),
    [
        (b"", 0),
        (words(32, 32), 0),
        (words(32, 64, 20, 0, 1, 3) + b"abb", 2),  # another width
        (words(32, 32, 16, 0, 1, 3) + b"abb", 2),  # bytes inside of the offsets
        (words(32, 32, 24, 0, 1, 3) + b"abb", 2),  # bytes behind the buffer
        (words(32, 32, -1, 0, 1, 3) + b"abb", 2),
        (words(32, 32, 20, 1, 1, 3) + b"abb", 2),  # does not begin at 0
        (words(32, 32, 20, 0, 2, 1) + b"abb", 2),  # decreases
        (words(32, 32, 20, 0, 1, 4) + b"abb", 2),  # beyond the bytes
        (words(32, 32, 20, 0, -1, 3) + b"abb", 2),
        (words(32, 32, 20, 0, 1, 3) + b"abb", 3),  # more values than offsets
        (words(32, 32, 20, 0, 1, 3) + b"abb", 2**40),
        (b"\x20" + words(32, 3, 21, 0, 1, 3) + b"abb", 2),  # early form, another count
        (b"\x21" + words(32, 2, 21, 0, 1, 3) + b"abb", 2),  # early form, another width
    ],
)
def test_blocks_that_contradict_themselves_are_refused(buffer: bytes, count: int) -> None:
    with pytest.raises(CorruptFileError, match="variable"):
        decode_dictionary(buffer, count)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("dtype", ["i4", "i8"])
def test_zipped_strings_get_the_offsets_of_the_description(bits: int, dtype: str) -> None:
    block = per_value_codec(described(bits)).decode_values(variable([b"a", b"bc"], dtype))
    assert strings(block) == [b"a", b"bc"]
    assert isinstance(block, VariableWidth)
    assert block.offsets.itemsize * 8 == bits


def test_zipped_strings_of_more_than_2_gib_do_not_fit_32_bits() -> None:
    values = VariableWidth(np.array([0, 2**31], np.int64), np.zeros(0, np.uint8))
    with pytest.raises(UnsupportedError, match="fewer rows"):
        per_value_codec(described(32)).decode_values(values)


def test_values_of_the_other_kind_are_refused() -> None:
    flat = pb.CompressiveEncoding(flat=pb.Flat(bits_per_value=16))
    with pytest.raises(CorruptFileError, match="variable"):
        per_value_codec(described(32)).decode_values(FixedWidth(8, 1, np.zeros(1, np.uint8)))
    with pytest.raises(CorruptFileError, match="variable"):
        per_value_codec(flat).decode_values(variable([b"ab"]))
    with pytest.raises(CorruptFileError, match="values of 8 bits"):
        per_value_codec(flat).decode_values(FixedWidth(8, 2, np.zeros(2, np.uint8)))


SYMBOLS = [b"hello", b" world"]
TEXTS = [b"hello world", b"", b"other", b"hello hello"]


def compressed(symbols: list[bytes], bits: int = 32, *, flag: bool = True) -> pb.Fsst:
    return pb.Fsst(symbol_table=fsst.table(symbols, compressed=flag), values=described(bits))


@pytest.mark.parametrize("bits", [32, 64])
def test_fsst_of_many_chunks(bits: int) -> None:
    codes = [fsst.encode(text, SYMBOLS) for text in TEXTS]
    chunks = [[variable_chunk(codes[:2], bits)], [variable_chunk(codes[2:], bits)]]
    codec = mini_block_codec(pb.CompressiveEncoding(fsst=compressed(SYMBOLS, bits)))
    block = decode_chunks(codec, chunked(chunks, [2, 2]))
    assert strings(block) == TEXTS
    assert isinstance(block, VariableWidth)
    assert block.offsets.itemsize * 8 == bits


@pytest.mark.parametrize("flag", [True, False])
def test_fsst_in_rows(flag: bool) -> None:
    values = [fsst.encode(text, SYMBOLS) for text in TEXTS] if flag else TEXTS
    codec = per_value_codec(pb.CompressiveEncoding(fsst=compressed(SYMBOLS, flag=flag)))
    assert strings(codec.decode_values(variable(values, "i8"))) == TEXTS


def test_a_table_without_the_flag_is_not_looked_at() -> None:
    table = b"\xff\0\0\0" + bytes.fromhex("54535346") + b"\xff" * 2304
    message = pb.Fsst(symbol_table=table, values=described(32))
    codec = mini_block_codec(pb.CompressiveEncoding(fsst=message))
    assert strings(decode_chunks(codec, chunked([[variable_chunk(TEXTS)]], [4]))) == TEXTS


@pytest.mark.parametrize("codes", [b"\2", b"\0\xff", b"\xfe"])
def test_bad_codes_are_corrupt(codes: bytes) -> None:
    codec = per_value_codec(pb.CompressiveEncoding(fsst=compressed(SYMBOLS)))
    with pytest.raises(CorruptFileError, match="fsst"):
        codec.decode_values(variable([codes]))

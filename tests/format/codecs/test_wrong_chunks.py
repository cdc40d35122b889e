"""Chunks whose bytes contradict their description or the number of their values."""

from __future__ import annotations

from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference import encodings
from tests.reference.built_values import as_levels, check, in_full_zip, in_mini_blocks
from tests.reference.chunks import variable_chunk
from tests.reference.encodings import byte_stream_split, flat, inline_bitpacking, rle

INT32: Final = pa.int32()
BYTES: Final = pa.binary()
TEXTS: Final = st.lists(st.binary(max_size=50), min_size=1, max_size=12)
Run = tuple[int, int]


def power_of_two(count: int) -> int:
    """Largest power of two that is no larger."""
    return 1 << (count.bit_length() - 1)


@given(st.lists(st.lists(st.booleans(), min_size=2, max_size=200), min_size=1, max_size=6))
def test_bits_of_chunks_are_joined(chunks: list[list[bool]]) -> None:
    cut = [own[: power_of_two(len(own))] for own in chunks[:-1]] + [chunks[-1]]
    packed = [[np.packbits(own, bitorder="little").tobytes()] for own in cut]
    file = in_mini_blocks(pa.bool_(), flat(1), packed, [*map(len, cut)])
    check(file, [*chain.from_iterable(cut)])


@pytest.mark.parametrize(
    ("size", "count", "bits"), [(1, 9, 1), (2, 8, 1), (3, 2, 32), (7, 2, 32), (9, 2, 32)]
)
def test_values_of_another_size_are_refused(size: int, count: int, bits: int) -> None:
    arrow = {1: pa.bool_(), 32: INT32}[bits]
    file = in_mini_blocks(arrow, flat(bits), [[bytes(size)]], [count])
    for read in (file.all_rows, lambda: [*file.ways([0])]):
        with pytest.raises(
            CorruptFileError, match=f"{size} bytes of {count} values of {bits} bits"
        ):
            read()


@pytest.mark.parametrize("bits", [32, 64])
@given(count=st.integers(1, 100), seed=st.integers(0, 2**32))
def test_split_bytes_are_joined(bits: int, count: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 256, (count, bits // 8), dtype=np.uint8)
    arrow = {32: pa.uint32(), 64: pa.uint64()}[bits]
    chunks = [[values.T.tobytes()]]
    file = in_mini_blocks(arrow, byte_stream_split(bits), chunks, [count])
    check(file, values.view(f"<u{bits // 8}").reshape(-1).tolist())


def test_split_bytes_that_are_no_values_are_refused() -> None:
    file = in_mini_blocks(INT32, byte_stream_split(32), [[bytes(7)]], [1])
    with pytest.raises(CorruptFileError, match="byte stream split"):
        file.all_rows()


@given(st.lists(TEXTS, min_size=1, max_size=5), st.sampled_from([32, 64]), st.integers(0, 9))
def test_strings_of_chunks_are_joined(chunks: list[list[bytes]], bits: int, gap: int) -> None:
    full = [own for own in chunks[:-1] if len(own) > 1]
    cut = [own[: power_of_two(len(own))] for own in full] + [chunks[-1]]
    buffers = [[variable_chunk(values, bits, gap)] for values in cut]
    arrow = {32: BYTES, 64: pa.large_binary()}[bits]
    file = in_mini_blocks(arrow, encodings.variable(bits), buffers, [*map(len, cut)])
    check(file, [*chain.from_iterable(cut)])


@pytest.mark.parametrize(
    ("words", "count", "message"),
    [
        ([], 1, " 0 bytes (for|of) 1 values"),
        ([8], 1, " 4 bytes (for|of) 1 values"),
        ([4, 8], 1, "values? from 4 to 8"),
        ([8, 9], 1, "values? from 8 to 9"),
        ([12, 11, 12], 2, "offsets decrease|a value from 12 to 11"),
        ([12, 12, 8], 2, "values? from 12 to 8"),
        ([-1, 8], 1, "values? from -1 to 8"),
    ],
)
def test_offsets_that_contradict_the_chunk_are_refused(
    words: list[int], count: int, message: str
) -> None:
    chunk = np.array(words, "<i4").tobytes()
    file = in_mini_blocks(BYTES, encodings.variable(32), [[chunk]], [count])
    for read in (file.all_rows, lambda: [*file.ways(range(count))]):
        with pytest.raises(CorruptFileError, match=message):
            read()


@pytest.mark.parametrize(
    ("chunk", "count", "message"),
    [
        (b"\1" + bytes(127), 1024, "a block of 128 bytes, width 1"),
        (b"\1" + bytes(129), 1024, "a block of 130 bytes, width 1"),
        (b"\x09" + bytes(128 * 9), 1024, "a block of 1153 bytes, width 9"),
        (b"\1" + bytes(128), 1025, "1025 values in a block of 129 bytes"),
        (b"", 1, "1 values in a block of 0 bytes"),
    ],
)
def test_packed_blocks_that_contradict_themselves_are_refused(
    chunk: bytes, count: int, message: str
) -> None:
    file = in_mini_blocks(pa.uint8(), inline_bitpacking(8), [[chunk]], [count])
    for read in (file.all_rows, lambda: [*file.ways([0])]):
        with pytest.raises(CorruptFileError, match=f"bit-packing: {message}"):
            read()


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 255)), min_size=1, max_size=40),
    st.data(),
)
def test_runs_are_repeated(runs: list[Run], data: st.DataObject) -> None:
    values, lengths = zip(*runs, strict=True)
    cut = data.draw(st.integers(0, lengths[-1] - 1))
    buffers = [np.array(values, "<u4").tobytes(), bytes(lengths)]
    expected = np.repeat(values, lengths).tolist()
    count = len(expected) - cut
    check(in_mini_blocks(pa.uint32(), rle(32), [buffers], [count]), expected[:count])


@pytest.mark.parametrize(
    ("values", "lengths", "count", "message"),
    [
        ([7, 9], [2, 2], 5, "runs of 4 values, expected 5"),
        ([7, 9], [2, 2], 2, "runs of other lengths"),
        ([7, 9], [2, 0], 2, "runs of other lengths"),
        ([7], [2, 2], 4, "4 bytes of values"),
        ([], [], 1, "runs of 0 values, expected 1"),
        ([7, 9], [1, 1], 1, "runs of other lengths"),
    ],
)
def test_runs_that_do_not_make_the_count_are_refused(
    values: list[int], lengths: list[int], count: int, message: str
) -> None:
    chunk = [np.array(values, "<u4").tobytes(), bytes(lengths)]
    file = in_mini_blocks(pa.uint32(), rle(32), [chunk], [count])
    with pytest.raises(CorruptFileError, match=f"rle: {message}"):
        file.all_rows()


@pytest.mark.parametrize(
    ("block", "message"),
    [
        (b"1234567", "a block of 7 bytes"),
        ((1).to_bytes(8, "little"), "1 bytes of values in a block with 0"),
        (b"\xff" * 20, f"{(1 << 64) - 1} bytes of values in a block with 12"),
    ],
)
def test_runs_of_levels_shorter_than_their_values_are_refused(block: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=f"rle: {message}"):
        as_levels(rle(16), [block], [1]).all_rows()


Field = pb.VariablePackedStruct.FieldEncoding
PACKED: Final = pb.CompressiveEncoding(
    variable_packed_struct=pb.VariablePackedStruct(
        fields=[
            Field(value=flat(16), bits_per_value=16),
            Field(value=encodings.variable(32), bits_per_length=32),
        ]
    )
)
STRUCT: Final = pa.field(
    "s", pa.struct({"a": pa.uint16(), "b": BYTES}), metadata={"lance-encoding:packed": "true"}
)


@given(st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=20)), min_size=1))
def test_packed_rows_are_taken_apart(rows: list[tuple[int, bytes]]) -> None:
    values = [
        number.to_bytes(2, "little") + len(text).to_bytes(4, "little") + text
        for number, text in rows
    ]
    file = in_full_zip(STRUCT, PACKED, values, bits_per_length=32)
    check(file, [{"a": number, "b": text} for number, text in rows])


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"", "a row ends inside a value"),
        (b"a", "a row ends inside a value"),
        (b"ab\1\0\0", "a row ends inside a value"),
        (b"ab\1\0\0\0", "a value of 1 bytes where the row has 0"),
        (b"ab\xff\xff\xff\xff", "a value of 4294967295 bytes where the row has 0"),
        (b"ab\0\0\0\0x", "1 bytes are left"),
    ],
)
def test_rows_that_are_not_their_parts_are_refused(row: bytes, message: str) -> None:
    file = in_full_zip(STRUCT, PACKED, [b"ab\0\0\0\0", row], bits_per_length=32)
    for read in (file.all_rows, lambda: file.taken([1])):
        with pytest.raises(CorruptFileError, match=message):
            read()

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


@pytest.mark.parametrize("size", [3, 7, 9])
def test_values_of_another_size_are_refused(size: int) -> None:
    file = in_mini_blocks(INT32, flat(32), [[bytes(size)]], [2])
    with pytest.raises(CorruptFileError, match=f"{size} bytes"):
        file.all_rows()


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
    ("words", "count"),
    [
        ([], 1),
        ([8], 1),
        ([4, 8], 1),
        ([8, 9], 1),
        ([12, 11, 12], 2),
        ([12, 12, 8], 2),
        ([-1, 8], 1),
    ],
)
def test_offsets_that_contradict_the_chunk_are_refused(words: list[int], count: int) -> None:
    chunk = np.array(words, "<i4").tobytes()
    file = in_mini_blocks(BYTES, encodings.variable(32), [[chunk]], [count])
    for read in (file.all_rows, lambda: [*file.ways(range(count))]):
        with pytest.raises(CorruptFileError, match=r"offset|bytes|values"):
            read()


@pytest.mark.parametrize(
    ("chunk", "count"),
    [
        (b"\1" + bytes(127), 1024),
        (b"\1" + bytes(129), 1024),
        (b"\x09" + bytes(128 * 9), 1024),
        (b"\1" + bytes(128), 1025),
        (b"", 1),
    ],
)
def test_packed_blocks_that_contradict_themselves_are_refused(chunk: bytes, count: int) -> None:
    file = in_mini_blocks(pa.uint8(), inline_bitpacking(8), [[chunk]], [count])
    for read in (file.all_rows, lambda: [*file.ways([0])]):
        with pytest.raises(CorruptFileError, match="pack"):
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
    ("values", "lengths", "count"),
    [
        ([7, 9], [2, 2], 5),
        ([7, 9], [2, 2], 2),
        ([7, 9], [2, 0], 2),
        ([7], [2, 2], 4),
        ([], [], 1),
        ([7, 9], [1, 1], 1),
    ],
)
def test_runs_that_do_not_make_the_count_are_refused(
    values: list[int], lengths: list[int], count: int
) -> None:
    chunk = [np.array(values, "<u4").tobytes(), bytes(lengths)]
    file = in_mini_blocks(pa.uint32(), rle(32), [chunk], [count])
    with pytest.raises(CorruptFileError, match="rle"):
        file.all_rows()


@pytest.mark.parametrize("block", [b"1234567", (1).to_bytes(8, "little"), b"\xff" * 20])
def test_runs_of_levels_shorter_than_their_values_are_refused(block: bytes) -> None:
    with pytest.raises(CorruptFileError, match="rle"):
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
    "row", [b"", b"a", b"ab\1\0\0", b"ab\1\0\0\0", b"ab\xff\xff\xff\xff", b"ab\0\0\0\0x"]
)
def test_rows_that_are_not_their_parts_are_refused(row: bytes) -> None:
    file = in_full_zip(STRUCT, PACKED, [b"ab\0\0\0\0", row], bits_per_length=32)
    for read in (file.all_rows, lambda: file.taken([1])):
        with pytest.raises(CorruptFileError, match=r"pack|value|length"):
            read()

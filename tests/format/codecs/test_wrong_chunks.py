"""Chunks whose bytes contradict their description or the number of their values."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, StructBlock
from alance.format.codecs import block_codec, mini_block_codec, per_value_codec
from alance.format.codecs.fixed import (
    ByteStreamSplit,
    Constant,
    Flat,
    InlineBitpacking,
    OutOfLineBitpacking,
    column_of,
)
from alance.format.codecs.strings import Variable
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.chunks import (
    chunked,
    decode_chunks,
    fixed,
    strings,
    variable,
    variable_chunk,
)
from tests.reference.encodings import flat

texts = st.lists(st.binary(max_size=50), max_size=12)
bit_lists = st.lists(st.lists(st.integers(0, 1), max_size=200), min_size=1, max_size=6)
Run = tuple[int, int]


def content(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


@given(bit_lists, st.integers(0, 1))
def test_bits_of_chunks_are_joined(chunks: list[list[int]], filler: int) -> None:
    packed = [
        np.packbits(
            np.array(bits + [filler] * (-len(bits) % 8), np.uint8), bitorder="little"
        ).tobytes()
        for bits in chunks
    ]
    block = decode_chunks(Flat(1), chunked([[own] for own in packed], [*map(len, chunks)]))
    assert isinstance(block, FixedWidth)
    bits = np.unpackbits(block.data, count=block.num_values, bitorder="little")
    assert bits.tolist() == [*chain.from_iterable(chunks)]


@pytest.mark.parametrize(("size", "count", "bits"), [(1, 9, 1), (2, 8, 1), (7, 2, 32), (9, 2, 32)])
def test_values_of_another_size_are_refused(size: int, count: int, bits: int) -> None:
    with pytest.raises(CorruptFileError, match=f"{size} bytes for {count} values of {bits} bits"):
        Flat(bits).decode_block(content(bytes(size)), count)


def test_blocks_without_bytes_are_bounded() -> None:
    nothing = content(b"")
    for codec in (Constant(b"ab"), OutOfLineBitpacking(16, 0)):
        with pytest.raises(UnsupportedError, match="a block of 1099511627776"):
            codec.decode_block(nothing, 1 << 40)


@pytest.mark.parametrize("bits", [32, 64])
@given(count=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_split_bytes_are_joined(bits: int, count: int, seed: int) -> None:
    values = np.random.default_rng(seed).integers(0, 256, (count, bits // 8), dtype=np.uint8)
    block = ByteStreamSplit(bits).decode_chunk([content(values.T.tobytes())], count)
    assert block.data.tobytes() == values.tobytes()
    with pytest.raises(CorruptFileError, match="byte stream split"):
        ByteStreamSplit(bits).decode_chunk([content(bytes(7))], 1)


@given(st.integers(1, 70), st.integers(0, 20), st.integers(0, 2**32))
def test_bits_of_rows_are_unzipped_without_gaps(bits: int, num_rows: int, seed: int) -> None:
    size = (bits + 7) // 8
    rows = np.random.default_rng(seed).integers(0, 256, (num_rows, size + 3), dtype=np.uint8)
    column = column_of(FixedWidth(8 * (size + 3), num_rows, rows.reshape(-1)), 2, bits)
    expected = np.unpackbits(rows[:, 2 : 2 + size], axis=1, count=bits, bitorder="little")
    unpacked = np.unpackbits(column, count=num_rows * bits, bitorder="little")
    assert unpacked.tolist() == expected.reshape(-1).tolist()


@given(st.lists(texts, max_size=5), st.sampled_from([32, 64]), st.integers(0, 9))
def test_strings_of_chunks_are_joined(chunks: list[list[bytes]], bits: int, gap: int) -> None:
    buffers = [[variable_chunk(values, bits, gap)] for values in chunks]
    block = decode_chunks(Variable(bits), chunked(buffers, [*map(len, chunks)]))
    assert strings(block) == [*chain.from_iterable(chunks)]
    assert block.offsets.itemsize * 8 == bits  # type: ignore[union-attr]  # strings() asserts it


@pytest.mark.parametrize(
    ("words", "count", "message"),
    [
        ([], 1, "a chunk of 0 bytes for 1 values"),
        ([8], 1, "a chunk of 4 bytes for 1 values"),
        ([4, 8], 1, "values from 4 to 8"),
        ([8, 9], 1, "values from 8 to 9"),
        ([12, 11, 12], 2, "offsets decrease"),
        ([12, 12, 8], 2, "values from 12 to 8"),
        ([-1, 8], 1, "values from -1 to 8"),
    ],
)
def test_offsets_that_contradict_the_chunk_are_refused(
    words: list[int], count: int, message: str
) -> None:
    with pytest.raises(CorruptFileError, match=message):
        Variable(32).decode_chunk([content(np.array(words, "<i4").tobytes())], count)


@pytest.mark.parametrize(
    ("chunk", "count", "message"),
    [
        (b"\1" + bytes(127), 1024, "needs 129"),
        (b"\1" + bytes(129), 1024, "needs 129"),
        (b"\x09" + bytes(128 * 9), 1024, "width 9 of 8"),
        (b"\1" + bytes(128), 1025, "1025 values"),
        (b"", 1, "no width"),
    ],
)
def test_contradictions_of_a_packed_block_are_found(chunk: bytes, count: int, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        InlineBitpacking(8).decode_chunk([content(chunk)], count)


RUNS = mini_block_codec(pb.CompressiveEncoding(rle=pb.Rle(values=flat(32), run_lengths=flat(8))))


@given(st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(1, 255)), min_size=1), st.data())
def test_runs_are_repeated(runs: list[Run], data: st.DataObject) -> None:
    values, lengths = zip(*runs, strict=True)
    cut = data.draw(st.integers(0, lengths[-1] - 1))
    buffers = [content(np.array(values, "<u4").tobytes()), content(bytes(lengths))]
    expected = np.repeat(values, lengths).tolist()
    count = len(expected) - cut
    assert fixed(RUNS.decode_chunk(buffers, count), "u4") == expected[:count]


@pytest.mark.parametrize(
    ("values", "lengths", "count", "message"),
    [
        ([7, 9], [2, 2], 5, "runs hold 4 values, the chunk has 5"),
        ([7, 9], [2, 2], 2, "runs hold 4 values, the chunk has 2"),
        ([7, 9], [2, 0], 2, "a run of length 0"),
        ([7], [2, 2], 4, "2 bytes for 1 values"),
        ([], [], 1, "0 runs in 1 values"),
        ([7, 9], [1, 1], 1, "2 runs in 1 values"),
    ],
)
def test_runs_that_do_not_make_the_count_are_refused(
    values: list[int], lengths: list[int], count: int, message: str
) -> None:
    with pytest.raises(CorruptFileError, match=message):
        RUNS.decode_chunk(
            [content(np.array(values, "<u4").tobytes()), content(bytes(lengths))], count
        )


@pytest.mark.parametrize("block", [b"1234567", (1).to_bytes(8, "little"), b"\xff" * 20])
def test_blocks_shorter_than_their_values_are_refused(block: bytes) -> None:
    codec = block_codec(pb.CompressiveEncoding(rle=pb.Rle(values=flat(16), run_lengths=flat(8))))
    with pytest.raises(CorruptFileError, match="rle"):
        codec.decode_block(content(block), 1)


Field = pb.VariablePackedStruct.FieldEncoding
PACKED = per_value_codec(
    pb.CompressiveEncoding(
        variable_packed_struct=pb.VariablePackedStruct(
            fields=[
                Field(value=flat(16), bits_per_value=16),
                Field(
                    value=pb.CompressiveEncoding(variable=pb.Variable(offsets=flat(32))),
                    bits_per_length=32,
                ),
            ]
        )
    )
)


@given(st.lists(st.tuples(st.integers(0, 65535), st.binary(max_size=20)), min_size=1))
def test_packed_rows_are_taken_apart(rows: list[tuple[int, bytes]]) -> None:
    encoded = [
        number.to_bytes(2, "little") + len(text).to_bytes(4, "little") + text
        for number, text in rows
    ]
    block = PACKED.decode_values(variable(encoded))
    assert isinstance(block, StructBlock)
    assert fixed(block.children[0], "<u2") == [number for number, _ in rows]
    assert strings(block.children[1]) == [text for _, text in rows]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (b"", "inside a value"),
        (b"a", "inside a value"),
        (b"ab\1\0\0", "inside a length"),
        (b"ab\1\0\0\0", "a value of 1 bytes"),
        (b"ab\xff\xff\xff\xff", "a value of 4294967295 bytes"),
        (b"ab\0\0\0\0x", "1 bytes are left"),
    ],
)
def test_rows_that_are_not_their_parts_are_refused(row: bytes, message: str) -> None:
    with pytest.raises(CorruptFileError, match=message):
        PACKED.decode_values(variable([b"ab\0\0\0\0", row]))

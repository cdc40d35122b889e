"""Strings joined, taken apart and picked, against plain Python."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.blocks import VariableWidth
from tests.reference.chunks import chunked, strings, variable, variable_chunk

texts = st.lists(st.binary(max_size=50), max_size=12)


def concat(chunks: list[bytes], counts: list[int], bits: int = 32) -> VariableWidth:
    kernel = _kernels.concat_strings_32 if bits == 32 else _kernels.concat_strings_64
    at = chunked([[chunk] for chunk in chunks], counts)
    return VariableWidth(*kernel(at.data, at.starts[0], at.sizes[0], at.counts))


@given(st.lists(texts, max_size=5), st.sampled_from([32, 64]), st.integers(0, 9))
def test_strings_of_chunks_are_joined(chunks: list[list[bytes]], bits: int, gap: int) -> None:
    buffers = [variable_chunk(values, bits, gap) for values in chunks]
    block = concat(buffers, [len(values) for values in chunks], bits)
    assert strings(block) == list(chain.from_iterable(chunks))
    assert block.offsets.itemsize * 8 == bits


def test_a_chunk_without_strings_may_have_no_bytes() -> None:
    assert strings(concat([b"", variable_chunk([b"a"])], [0, 1])) == [b"a"]


@pytest.mark.parametrize(
    ("offsets", "size", "count"),
    [
        ([12, 14, 13], 16, 2),  # decrease
        ([12, 11, 13], 16, 2),
        ([12, 14, 17], 16, 2),  # out of the buffer
        ([8, 9, 10], 16, 2),  # the first inside of the offsets
        ([-4, 9, 10], 16, 2),
        ([12, 14, -1], 16, 2),
        ([12, 13, 14], 15, 2),  # misaligned
        ([12, 13, 14], 8, 2),  # fewer offsets than needed
        ([12, 13, 14], 16, 2**40),
        ([12, 13, 14], 16, -1),
        ([], 0, 1),
    ],
)
def test_offsets_that_contradict_the_chunk_are_refused(
    offsets: list[int], size: int, count: int
) -> None:
    chunk = np.array(offsets, "<i4").tobytes().ljust(size, b"?")[:size]
    with pytest.raises(ValueError, match="variable"):
        concat([chunk], [count])


def test_more_bytes_than_32_bits_can_say_overflow() -> None:
    # 17 chunks are the same 128 MiB.
    size = 2**27
    data = np.zeros(size, np.uint8)
    data[:8] = np.array([8, size], "<i4").view(np.uint8)
    starts, sizes, counts = np.zeros(17, int), np.full(17, size), np.ones(17, int)
    with pytest.raises(OverflowError, match="too many"):
        _kernels.concat_strings_32(data, starts, sizes, counts)


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 40)), max_size=20))
def test_spans_are_joined_in_any_order(spans: list[tuple[int, int]]) -> None:
    data = np.arange(130, dtype=np.uint8)
    starts, sizes = np.array(spans, np.int64).reshape(-1, 2).T.copy()
    block = VariableWidth(*_kernels.concat_spans(data, starts, sizes))
    assert strings(block) == [data[a : a + n].tobytes() for a, n in spans]


def test_spans_outside_of_the_buffer_are_refused() -> None:
    with pytest.raises(ValueError, match="of a buffer of 10"):
        _kernels.concat_spans(np.zeros(10, np.uint8), np.array([5]), np.array([6]))


rows = st.lists(
    st.tuples(st.binary(min_size=2, max_size=2), st.binary(max_size=20), st.binary(max_size=20)),
    max_size=10,
)


def packed_row(row: tuple[bytes, bytes, bytes]) -> bytes:
    fixed, short, long = row
    return fixed + len(short).to_bytes(4, "little") + short + len(long).to_bytes(8, "little") + long


@given(rows, st.sampled_from(["i4", "i8"]))
def test_rows_are_split_into_their_parts(table: list[tuple[bytes, ...]], dtype: str) -> None:
    block = variable([packed_row(row) for row in table], dtype)
    parts = np.array([2, -4, -8])
    starts, sizes = _kernels.split_rows(block.offsets, block.data, parts)
    text = block.data.tobytes()
    values = [text[a : a + n] for a, n in zip(starts, sizes, strict=True)]
    assert values == [row[part] for part in range(3) for row in table]


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
    block = variable([b"ab\0\0\0\0", row])
    with pytest.raises(ValueError, match=message):
        _kernels.split_rows(block.offsets, block.data, np.array([2, -4]))


def test_lengths_beyond_all_memory_are_refused() -> None:
    block = variable([b"\xff" * 8 + b"abc"])
    with pytest.raises(ValueError, match="a value of 18446744073709551615 bytes"):
        _kernels.split_rows(block.offsets, block.data, np.array([-8]))


index_lists = st.lists(st.integers(0, 59), max_size=30)


@given(index_lists, st.sampled_from([1, 2, 3, 4, 8, 16, 20]))
def test_fixed_values_are_picked_like_numpy(indices: list[int], width: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, (60, width), dtype=np.uint8)
    out = _kernels.gather_fixed(data.ravel(), width, np.array(indices, np.int64))
    assert out.tobytes() == data[indices].tobytes() if indices else len(out) == 0


@given(index_lists)
def test_bits_are_picked_like_numpy(indices: list[int]) -> None:
    bits = np.random.default_rng(0).integers(0, 2, 64, dtype=np.uint8)
    data = np.packbits(bits, bitorder="little")
    out = _kernels.gather_bits(data, np.array(indices, np.int64))
    expected = bits[np.array(indices, np.int64)]
    np.testing.assert_array_equal(out, np.packbits(expected, bitorder="little"))


@given(texts.filter(len), st.data(), st.sampled_from(["i4", "i8"]))
def test_strings_are_picked(values: list[bytes], data: st.DataObject, dtype: str) -> None:
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=30))
    block = variable(values, dtype)
    picked = _kernels.gather_strings(block.offsets, block.data, np.array(indices, np.int64))
    assert strings(VariableWidth(*picked)) == [values[i] for i in indices]
    assert picked[0].dtype == dtype


@pytest.mark.parametrize("index", [-1, 3, 2**62, -(2**63)])
def test_indices_outside_are_refused(index: int) -> None:
    indices = np.array([0, index])
    block = variable([b"a", b"b", b"c"])
    with pytest.raises(ValueError, match="an index"):
        _kernels.gather_strings(block.offsets, block.data, indices)
    with pytest.raises(ValueError, match="an index"):
        _kernels.gather_fixed(np.zeros(7, np.uint8), 2, indices)
    with pytest.raises(ValueError, match="an index"):
        _kernels.gather_bits(np.zeros(0, np.uint8), indices)


@pytest.mark.parametrize("offsets", [[], [0, 4], [-1, 1], [2, 1]])
def test_strings_outside_of_their_bytes_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="strings"):
        _kernels.gather_strings(np.array(offsets, np.int32), np.zeros(3, np.uint8), np.array([0]))


def test_picking_more_bytes_than_32_bits_can_say_overflows() -> None:
    block = variable([bytes(2**20)])
    with pytest.raises(OverflowError):
        _kernels.gather_strings(block.offsets, block.data, np.zeros(2**11, np.int64))

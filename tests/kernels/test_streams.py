"""Fixed-width streams against numpy, and LZ4 against its oracle and pyarrow."""

from __future__ import annotations

from itertools import chain, pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from tests.reference import lz4
from tests.reference.chunks import chunked

bit_lists = st.lists(st.lists(st.integers(0, 1), max_size=200), max_size=6)


def concat_fixed(chunks: list[bytes], counts: list[int], bits: int) -> np.ndarray:
    at = chunked([[chunk] for chunk in chunks], counts)
    return _kernels.concat_fixed(at.data, at.starts[0], at.sizes[0], at.counts, bits)


def pack_bits(bits: list[int], filler: int = 0) -> bytes:
    """Bits in bytes; what is behind the last is `filler`."""
    padded = bits + [filler] * (-len(bits) % 8)
    return np.packbits(np.array(padded, np.uint8), bitorder="little").tobytes()


@given(bit_lists, st.integers(0, 1))
def test_bits_of_chunks_are_joined(chunks: list[list[int]], filler: int) -> None:
    out = concat_fixed([pack_bits(bits, filler) for bits in chunks], [len(b) for b in chunks], 1)
    assert out.tobytes() == pack_bits(list(chain.from_iterable(chunks)))


@given(st.integers(1, 130), st.lists(st.integers(0, 20), max_size=5), st.integers(0, 2**32))
def test_values_of_any_width_are_joined(bits: int, counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    chunks = [rng.integers(0, 2, count * bits).tolist() for count in counts]
    out = concat_fixed([pack_bits(chunk, 1) for chunk in chunks], counts, bits)
    valid = np.unpackbits(out, bitorder="little")[: sum(counts) * bits]
    assert valid.tolist() == list(chain.from_iterable(chunks))


@pytest.mark.parametrize(
    ("size", "count", "bits"), [(7, 2, 32), (9, 2, 32), (1, 9, 1), (3, 9, 1), (0, 1, 8), (1, 0, 8)]
)
def test_chunks_of_another_size_are_refused(size: int, count: int, bits: int) -> None:
    with pytest.raises(ValueError, match=f"flat: {size} bytes for {count} values"):
        concat_fixed([bytes(size)], [count], bits)


def test_counts_that_overflow_are_refused() -> None:
    with pytest.raises(ValueError, match="overflow"):
        concat_fixed([bytes(8)], [2**62], 64)
    with pytest.raises(ValueError, match="values"):
        concat_fixed([b"", b""], [2**62, 2**62], 8)


@pytest.mark.parametrize("bits", [32, 64])
@given(counts=st.lists(st.integers(0, 100), max_size=5), seed=st.integers(0, 2**32))
def test_split_bytes_are_joined_like_numpy(bits: int, counts: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = [rng.integers(0, 256, (count, bits // 8), dtype=np.uint8) for count in counts]
    at = chunked([[v.T.tobytes()] for v in values], counts)
    out = _kernels.unsplit_bytes(at.data, at.starts[0], at.sizes[0], at.counts, bits)
    assert out.tobytes() == b"".join(v.tobytes() for v in values)


@pytest.mark.parametrize(("bits", "size"), [(32, 7), (64, 8), (16, 4)])
def test_split_bytes_of_another_size_are_refused(bits: int, size: int) -> None:
    at = chunked([[bytes(size)]], [2])
    with pytest.raises(ValueError, match="byte stream split"):
        _kernels.unsplit_bytes(at.data, at.starts[0], at.sizes[0], at.counts, bits)


@given(
    st.integers(0, 20),
    st.sampled_from([1, 2, 3, 4, 7, 8, 16, 33]),
    st.integers(0, 5),
    st.integers(0, 5),
)
def test_columns_of_rows_are_unzipped(num_rows: int, width: int, before: int, after: int) -> None:
    rows = np.arange(num_rows * (before + width + after)).astype(np.uint8)
    table = rows.reshape(num_rows, before + width + after)
    out = _kernels.unzip_column(rows, before + width + after, before, 8 * width)
    assert out.tobytes() == table[:, before : before + width].tobytes()


@given(st.integers(1, 70), st.integers(0, 20), st.integers(0, 2**32))
def test_bits_of_rows_are_unzipped_without_gaps(bits: int, num_rows: int, seed: int) -> None:
    row_bytes = -(-bits // 8) + 2
    rows = np.random.default_rng(seed).integers(0, 256, (num_rows, row_bytes), dtype=np.uint8)
    out = _kernels.unzip_column(rows.ravel(), row_bytes, 1, bits)
    expected = np.unpackbits(rows[:, 1:], axis=1, bitorder="little")[:, :bits].ravel()
    unpacked = np.unpackbits(out, bitorder="little", count=len(expected))
    np.testing.assert_array_equal(unpacked, expected)


@pytest.mark.parametrize(
    ("row_bytes", "start", "bits"), [(0, 0, 8), (7, 0, 8), (5, 4, 16), (5, -1, 8), (5, 0, 0)]
)
def test_columns_outside_of_rows_are_refused(row_bytes: int, start: int, bits: int) -> None:
    with pytest.raises(ValueError, match="row"):
        _kernels.unzip_column(np.zeros(10, np.uint8), row_bytes, start, bits)


def lz4_units(blocks: list[bytes], sizes: list[int], limit: int = 1 << 31) -> list[bytes]:
    units = [size.to_bytes(4, "little") + block for size, block in zip(sizes, blocks, strict=True)]
    at = chunked([[unit] for unit in units], [0] * len(units))
    limits = np.full(len(units), limit, np.int64)
    offsets, content = _kernels.decode_lz4(at.data, at.starts[0], at.sizes[0], limits)
    text = content.tobytes()
    return [text[a:b] for a, b in pairwise(offsets)]


repetitive = st.lists(
    st.tuples(st.binary(min_size=1, max_size=20), st.integers(1, 40)), max_size=20
).map(lambda parts: b"".join(part * times for part, times in parts))


@given(st.lists(repetitive, max_size=5))
def test_lz4_decodes_what_pyarrow_compressed(contents: list[bytes]) -> None:
    codec = pa.Codec("lz4_raw")
    blocks = [codec.compress(content, asbytes=True) if content else b"\0" for content in contents]
    assert [lz4.decode(block) for block in blocks] == contents
    assert lz4_units(blocks, [len(content) for content in contents]) == contents


@given(repetitive.filter(len), st.data())
def test_lz4_decodes_damaged_blocks_like_the_oracle(content: bytes, data: st.DataObject) -> None:
    block = bytearray(pa.Codec("lz4_raw").compress(content, asbytes=True))
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))
    try:
        expected = lz4.decode(bytes(block))
    except ValueError:
        expected = None
    if expected is not None and len(expected) == len(content):
        assert lz4_units([bytes(block)], [len(content)]) == [expected]
    else:
        with pytest.raises(ValueError, match="lz4"):
            lz4_units([bytes(block)], [len(content)])


@pytest.mark.parametrize("size", [0, 4, 6, 600, 2**32 - 1])
def test_lz4_of_another_size_than_its_prefix_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match="lz4"):
        lz4_units([b"\x50hello"], [size])


def test_lz4_over_its_limit_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(ValueError, match="at most 4 are possible"):
        lz4_units([b"\x50hello"], [5], limit=4)


def test_an_empty_lz4_unit_is_refused() -> None:
    with pytest.raises(ValueError, match="a unit of 4 bytes"):
        lz4_units([b""], [0])


def test_lz4_of_the_greatest_ratio_is_decoded() -> None:
    content = b"a" * 2_000_000
    block = pa.Codec("lz4_raw").compress(content, asbytes=True)
    assert lz4_units([block], [len(content)]) == [content]

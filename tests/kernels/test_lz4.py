"""LZ4 against its oracle and pyarrow."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from tests.reference import lz4
from tests.reference.chunks import placed


def lz4_units(blocks: list[bytes], sizes: list[int], limit: int = 1 << 31) -> list[bytes]:
    units = [size.to_bytes(4, "little") + block for size, block in zip(sizes, blocks, strict=True)]
    data, starts, num_bytes = placed(units)
    spans = zip(starts.tolist(), num_bytes.tolist(), strict=True)
    return [_kernels.decode_lz4(data[at : at + size], limit).tobytes() for at, size in spans]


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

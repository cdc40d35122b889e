"""Values of neighbouring pages as one, and long streams of FSST codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import InvalidInputError
from alance.format.blocks import Block, FixedWidth, VariableWidth
from alance.format.encode.rows import join_blocks
from tests.reference import fsst
from tests.reference.chunks import strings, variable

SYMBOLS = [b"a", b"internat", b"longer b"]


def decode(codes: list[bytes]) -> VariableWidth:
    block = variable(codes, "i4")
    table = np.array([int.from_bytes(s.ljust(8, b"?"), "little") for s in SYMBOLS], np.uint64)
    lengths = np.array([len(s) for s in SYMBOLS], np.uint8)
    return VariableWidth(*_kernels.decode_fsst(block.offsets, block.data, table, lengths))


@given(st.lists(st.lists(st.binary(max_size=20), max_size=10), min_size=1, max_size=5))
def test_strings_of_pages_are_joined(pages: list[list[bytes]]) -> None:
    expected = [item for page in pages for item in page]
    for kinds in (["i4"], ["i8"], ["i4", "i8"]):
        blocks = [variable(page, kinds[n % len(kinds)]) for n, page in enumerate(pages)]
        values = join_blocks(blocks)
        assert isinstance(values, VariableWidth)
        assert strings(values) == expected


@given(st.lists(st.lists(st.integers(0, 1 << 30), max_size=9), min_size=1, max_size=5))
def test_numbers_of_pages_are_joined(pages: list[list[int]]) -> None:
    blocks = [FixedWidth(32, len(page), np.array(page, "<u4").view(np.uint8)) for page in pages]
    values = join_blocks(blocks)
    assert isinstance(values, FixedWidth)
    assert values.data.view("<u4").tolist() == [item for page in pages for item in page]


def test_single_bits_are_joined_without_gaps() -> None:
    values = join_blocks([FixedWidth(1, 3, np.array([0b101], np.uint8))] * 3)
    assert isinstance(values, FixedWidth)
    assert values.num_values == 9
    assert values.data.tolist() == [0b01101101, 0b1]


@pytest.mark.parametrize("other", [variable([b"x"], "i4"), FixedWidth(8, 1, np.zeros(1, np.uint8))])
def test_values_of_different_kinds_are_not_joined(other: Block) -> None:
    with pytest.raises(InvalidInputError, match="different kinds in one page"):
        join_blocks([FixedWidth(32, 1, np.zeros(4, np.uint8)), other])


@pytest.mark.parametrize("length", [1, 7, 5000])
@pytest.mark.parametrize("first", [b"\x00", b"\x01", b"\xff\x00"])
def test_a_stream_that_goes_on_otherwise_than_it_begins(first: bytes, length: int) -> None:
    codes = [first * length] * (100_000 // length + 1)
    codes += [b"\x01\x02" * length, b"", b"\xff\xff" * length] * (60_000 // length)
    decoded = decode(codes)
    whole = b"".join(codes)
    assert decoded.data.tobytes() == fsst.decode(whole, SYMBOLS)
    sizes = {code: len(fsst.decode(code, SYMBOLS)) for code in set(codes)}
    assert np.diff(decoded.offsets).tolist() == [sizes[code] for code in codes]


@pytest.mark.parametrize("at", [100, 2047, 2048, 70_001])
def test_what_makes_no_sense_is_refused_wherever_it_is(at: int) -> None:
    for wrong, message in ((b"\x09", "without a symbol"), (b"\xff", "ends with an escape")):
        with pytest.raises(ValueError, match=message):
            decode([b"\x00" * at + wrong, b"\x01" * 90_000])

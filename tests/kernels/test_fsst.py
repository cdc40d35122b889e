"""FSST against an oracle that goes code by code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.blocks import VariableWidth
from tests.reference import fsst
from tests.reference.chunks import strings, variable

SYMBOLS = [b"hello", b" ", b"wor", b"internat", b"ab", b"abc", b"\xff"]


def decode(codes: list[bytes], symbols: list[bytes], dtype: str = "i4") -> VariableWidth:
    block = variable(codes, dtype)
    table = np.array([int.from_bytes(s.ljust(8, b"?"), "little") for s in symbols], np.uint64)
    lengths = np.array([len(s) for s in symbols], np.uint8)
    return VariableWidth(*_kernels.decode_fsst(block.offsets, block.data, table, lengths))


code_strings = st.lists(
    st.one_of(
        st.integers(0, len(SYMBOLS) - 1).map(lambda code: bytes([code])),
        st.binary(min_size=1, max_size=1).map(lambda byte: b"\xff" + byte),
    ),
    max_size=40,
).map(b"".join)


@given(st.lists(code_strings, max_size=30), st.sampled_from(["i4", "i8"]))
def test_valid_codes_decode_like_the_oracle(codes: list[bytes], dtype: str) -> None:
    block = decode(codes, SYMBOLS, dtype)
    assert strings(block) == [fsst.decode(code, SYMBOLS) for code in codes]
    assert block.offsets.dtype == dtype


@given(st.lists(st.binary(max_size=30), max_size=10))
def test_any_codes_decode_like_the_oracle_or_are_refused(codes: list[bytes]) -> None:
    try:
        expected = [fsst.decode(code, SYMBOLS) for code in codes]
    except ValueError:
        with pytest.raises(ValueError, match="fsst"):
            decode(codes, SYMBOLS)
    else:
        assert strings(decode(codes, SYMBOLS)) == expected


@given(st.lists(st.binary(max_size=50), max_size=10))
def test_what_is_encoded_is_decoded(texts: list[bytes]) -> None:
    assert strings(decode([fsst.encode(text, SYMBOLS) for text in texts], SYMBOLS)) == texts


def test_many_codes_without_a_symbol_do_not_overflow_the_count() -> None:
    # 256 times an "infinite" length is 0 modulo 2^64.
    with pytest.raises(ValueError, match="without a symbol"):
        decode([b"\x09" * 256], SYMBOLS)


def test_strings_of_a_slice_of_a_longer_buffer() -> None:
    block = VariableWidth(np.array([2, 3, 5], np.int32), np.array([9, 9, 0, 1, 2, 99], np.uint8))
    table = np.array([int.from_bytes(s.ljust(8), "little") for s in SYMBOLS], np.uint64)
    lengths = np.array([len(s) for s in SYMBOLS], np.uint8)
    decoded = VariableWidth(*_kernels.decode_fsst(block.offsets, block.data, table, lengths))
    assert strings(decoded) == [b"hello", b" wor"]


@pytest.mark.parametrize("offsets", [[], [-1, 2], [0, 2, 1], [0, 7], [3, 2]])
def test_offsets_that_contradict_themselves_are_refused(offsets: list[int]) -> None:
    table, lengths = np.zeros(1, np.uint64), np.ones(1, np.uint8)
    with pytest.raises(ValueError, match="offsets"):
        _kernels.decode_fsst(np.array(offsets, np.int32), np.zeros(6, np.uint8), table, lengths)


@pytest.mark.parametrize(("num_symbols", "length"), [(1, 0), (1, 9), (256, 1)])
def test_bad_tables_are_refused(num_symbols: int, length: int) -> None:
    table, lengths = np.zeros(num_symbols, np.uint64), np.full(num_symbols, length, np.uint8)
    with pytest.raises(ValueError, match="symbol"):
        _kernels.decode_fsst(np.zeros(1, np.int32), np.zeros(0, np.uint8), table, lengths)


def test_more_bytes_than_the_offsets_can_say_overflow() -> None:
    codes = np.zeros(2**28 + 1, np.uint8)
    offsets = np.array([0, len(codes)], np.int32)
    with pytest.raises(OverflowError):
        _kernels.decode_fsst(offsets, codes, np.zeros(1, np.uint64), np.full(1, 8, np.uint8))

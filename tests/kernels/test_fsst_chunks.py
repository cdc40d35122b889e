"""FSST straight from the chunks of Variable, against an oracle that goes code by code."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.format.blocks import VariableWidth
from tests.reference import fsst
from tests.reference.chunks import chunked, strings, variable_chunk

ASCII = [b"hello", b" ", b"wor", b"internat", b"ab", b"abc", b"z"]
SYMBOLS = [*ASCII, b"\xff"]


def decode(
    chunks: list[bytes], counts: list[int], symbols: list[bytes], bits: int = 32
) -> VariableWidth:
    kernel = _kernels.decode_fsst_chunks_32 if bits == 32 else _kernels.decode_fsst_chunks_64
    at = chunked([[chunk] for chunk in chunks], counts)
    # What stands behind the length of a symbol is of no meaning.
    table = np.array([int.from_bytes(s.ljust(8, b"\xee"), "little") for s in symbols], np.uint64)
    lengths = np.array([len(s) for s in symbols], np.uint8)
    return VariableWidth(*kernel(at.data, at.starts[0], at.sizes[0], at.counts, table, lengths))


any_texts = st.lists(st.lists(st.binary(max_size=40), max_size=20), max_size=5)
texts = st.lists(
    st.lists(
        st.lists(st.one_of(st.sampled_from(SYMBOLS), st.binary(max_size=2)), max_size=30).map(
            b"".join
        ),
        max_size=20,
    ),
    max_size=5,
)


@given(texts, st.sampled_from([32, 64]), st.integers(0, 9), st.sampled_from([ASCII, SYMBOLS]))
def test_strings_of_chunks_decode_like_the_oracle(
    chunks: list[list[bytes]], bits: int, gap: int, symbols: list[bytes]
) -> None:
    coded = [[fsst.encode(text, symbols) for text in values] for values in chunks]
    buffers = [variable_chunk(values, bits, gap) for values in coded]
    block = decode(buffers, [len(values) for values in chunks], symbols, bits)
    assert strings(block) == list(chain.from_iterable(chunks))
    assert block.offsets.itemsize * 8 == bits
    if block.is_ascii:
        assert block.data.tobytes().isascii()
    assert block.is_ascii == (symbols is ASCII and block.data.tobytes().isascii())


@given(any_texts)
def test_any_codes_decode_like_the_oracle_or_are_refused(chunks: list[list[bytes]]) -> None:
    buffers, counts = [variable_chunk(values) for values in chunks], [len(one) for one in chunks]
    try:
        expected = [fsst.decode(code, SYMBOLS) for code in chain.from_iterable(chunks)]
    except ValueError:
        with pytest.raises(ValueError, match="fsst"):
            decode(buffers, counts, SYMBOLS)
    else:
        assert strings(decode(buffers, counts, SYMBOLS)) == expected


def test_an_escape_does_not_reach_into_the_next_chunk() -> None:
    chunks = [variable_chunk([b"\0\xff"]), variable_chunk([b"\0"])]
    with pytest.raises(ValueError, match="ends with an escape"):
        decode(chunks, [1, 1], ASCII)


def test_what_grows_behind_the_sample_has_room() -> None:
    short = [bytes([1]) * 5000 for _ in range(20)]
    long = [bytes([3]) * 3001 for _ in range(40)]
    chunks = [variable_chunk([one]) for one in [*short, *long]]
    block = decode(chunks, [1] * 60, ASCII)
    assert strings(block) == [b" " * 5000] * 20 + [b"internat" * 3001] * 40


def test_chunks_without_strings() -> None:
    assert strings(decode([], [], ASCII)) == []
    assert strings(decode([b"", variable_chunk([]), variable_chunk([b""])], [0, 0, 1], [])) == [b""]


@pytest.mark.parametrize(
    ("offsets", "count", "match"),
    [
        ([8, 20], 1, "values from 8 to 20"),
        ([4, 9], 1, "values from 4 to 9"),
        ([-8, 9], 1, "values from -8"),
        ([12, 10], 1, "values from 12 to 10"),
        ([12, 14, 13], 2, "decrease"),
        ([12, 11, 14], 2, "decrease"),
        ([12], 9, "9 values"),
    ],
)
def test_chunks_that_contradict_themselves_are_refused(
    offsets: list[int], count: int, match: str
) -> None:
    chunk = np.array(offsets, "<i4").tobytes().ljust(16, b"\0")
    with pytest.raises(ValueError, match=match):
        decode([chunk], [count], ASCII)


def test_chunks_outside_of_the_bytes_are_refused() -> None:
    data, none = np.zeros(8, np.uint8), np.zeros(0, np.uint64)
    for start, size, count in [(4, 8, 1), (-1, 4, 1), (0, 8, -1)]:
        spans = np.array([start]), np.array([size]), np.array([count])
        with pytest.raises(ValueError, match=r"variable|buffer"):
            _kernels.decode_fsst_chunks_32(data, *spans, none, np.zeros(0, np.uint8))

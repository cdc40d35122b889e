"""Kernels of page tables, against slower ways: chunk words and dictionaries."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import AlanceError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.fixed import Flat
from alance.format.codecs.general import GeneralBlock, Scheme
from alance.format.codecs.strings import Variable
from alance.format.layouts.dictionary import Dictionary
from alance.format.layouts.miniblock_task import decode_block

if TYPE_CHECKING:
    from collections.abc import Callable


@given(
    st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 15)), max_size=20),
    st.integers(0, 1 << 15) | st.integers(0, (1 << 64) - 1),
    st.integers(0, 1),
    st.booleans(),
)
def test_chunk_words_are_parsed_or_refused(
    chunks: list[tuple[int, int]], left: int, spoil: int, large: bool
) -> None:
    words = np.array([size << 4 | log for size, log in chunks], "<u4" if large else "<u2")
    sizes = [8 * (size + 1) for size, _ in chunks]
    before = [1 << log for _, log in chunks[:-1]]
    num_items = sum(before) + left & (1 << 64) - 1
    good = (
        not spoil
        and all(log for _, log in chunks[:-1])
        and sum(before) <= num_items <= sum(before) + (1 << 15) * bool(chunks)
        and (not chunks or chunks[-1][1] == 0 or 1 << chunks[-1][1] == num_items - sum(before))
    )
    num_rows = min(num_items, (1 << 63) - 1)
    if not good:
        with pytest.raises(ValueError, match="chunk"):
            _kernels.chunk_table(
                words.tobytes(), None, large, num_items, num_rows, sum(sizes) + spoil
            )
        return
    table = _kernels.chunk_table(words.tobytes(), None, large, num_items, num_rows, sum(sizes))
    assert table.first_bytes.tolist() == np.cumsum([0, *sizes]).tolist()
    counts = [*before, num_items - sum(before)] if chunks else []
    assert table.first_values.tolist() == np.cumsum([0, *counts], dtype=np.int64).tolist()
    assert (table.first_rows.tolist(), table.carries) == (table.first_values.tolist(), None)


def test_a_word_that_is_cut() -> None:
    with pytest.raises(ValueError, match="3 bytes of chunk words of 2 bytes"):
        _kernels.chunk_table(b"abc", None, False, 1, 1, 8)
    with pytest.raises(ValueError, match="2 values in 1 rows without lists"):
        _kernels.chunk_table(b"\0\0", None, False, 2, 1, 8)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=9))
def test_a_repetition_index_is_parsed_or_refused(pairs: list[tuple[int, int]]) -> None:
    """Rows that end in each chunk, and entries behind them of a row that goes on."""
    count = len(pairs)
    words = np.full(count, 1, "<u2").tobytes()
    index = np.array(pairs, "<u8").tobytes()
    begun, is_open, wrong, firsts, carries = 0, False, pairs[-1][1] > 0, [0], []
    for ends, rest in pairs:
        begins = ends + (rest > 0) - is_open
        wrong |= begins < 0
        carries.append(is_open)
        begun, is_open = begun + begins, rest > 0
        firsts.append(begun)
    num_rows = sum(ends for ends, _ in pairs)
    arguments = (words, index, False, 2 * count)
    if wrong:
        with pytest.raises(ValueError, match=r"goes on behind the last chunk|never ends"):
            _kernels.chunk_table(*arguments, num_rows, 8 * count)
        return
    table = _kernels.chunk_table(*arguments, num_rows, 8 * count)
    assert table.carries is not None
    assert (table.first_rows.tolist(), table.carries.tolist()) == (firsts, carries)
    with pytest.raises(ValueError, match="rows end, the page has"):
        _kernels.chunk_table(*arguments, num_rows + 1, 8 * count)
    with pytest.raises(ValueError, match="repetition index of 8 bytes"):
        _kernels.chunk_table(words, index[:8], False, 2 * count, num_rows, 8 * count)


def strings_block(texts: list[bytes], word: int) -> bytes:
    offsets = np.cumsum([0, *map(len, texts)], dtype=f"<i{word}")
    head = struct.pack("<II" if word == 4 else "<QQ", 8 * word, word * (3 + len(texts)))
    return head + offsets.tobytes() + b"".join(texts)


@st.composite
def dictionaries(draw: st.DrawFn) -> Dictionary:
    """Dictionaries of which some are damaged, or of another number of items than is said."""
    codec: Flat | Variable | GeneralBlock
    if draw(st.booleans()):
        word = draw(st.sampled_from([4, 8]))
        texts = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=9))
        codec, content, count = Variable(8 * word), strings_block(texts, word), len(texts)
    else:
        width, count = draw(st.sampled_from([1, 2, 4, 8, 16])), draw(st.integers(1, 9))
        codec, content = Flat(8 * width), draw(st.binary(min_size=width * count))[: width * count]
    if draw(st.booleans()):
        data = np.frombuffer(content, np.uint8)
        content = bytes(_kernels.encode_lz4(data, np.array([len(data)]))[0])
        codec = GeneralBlock(Scheme.LZ4, codec)
    if draw(st.booleans()):
        damaged = bytearray(content)
        damaged[draw(st.integers(0, len(content) - 1))] ^= draw(st.integers(0, 255))
        content = bytes(damaged[: draw(st.integers(len(content) - 2, len(content)))])
    return Dictionary(codec, content, count + draw(st.sampled_from([0, 0, 0, 1, -1])))


def described(block: object) -> object:
    if isinstance(block, FixedWidth):
        return block.bits_per_value, block.num_values, block.data.tobytes()
    assert isinstance(block, VariableWidth)
    return block.offsets.dtype, block.offsets.tolist(), block.data.tobytes()


def outcome(decode: Callable[[], object]) -> object:
    try:
        return described(decode())
    except (AlanceError, ValueError) as error:
        return str(error)


@given(dictionaries())
def test_items_of_dictionaries_are_those_of_the_codec(dictionary: Dictionary) -> None:
    data, count = np.frombuffer(dictionary.content, np.uint8), dictionary.num_items
    expected = outcome(lambda: decode_block(dictionary.codec, data, count))
    assert outcome(dictionary.items) == expected
    assert outcome(dictionary.items) == expected


@given(st.binary(max_size=60), st.booleans(), st.booleans(), st.sampled_from([1, 8, 12, 32, 64]))
def test_any_bytes_are_decoded_or_refused(
    content: bytes, compressed: bool, strings: bool, bits: int
) -> None:
    for count in (0, 1, 7, -1, (1 << 62) - 1):
        _kernels.decode_items(content, compressed, strings, bits, count)

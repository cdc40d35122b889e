"""Kernels of page tables, against slower ways: chunk words and repetition indices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels


@given(
    st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 15)), max_size=20),
    st.integers(0, 1 << 15) | st.integers(0, (1 << 64) - 1),
    st.integers(0, 1),
    st.booleans(),
)
def test_chunk_words_are_parsed_or_refused(
    chunks: list[tuple[int, int]], rest: int, spoil: int, large: bool
) -> None:
    words = np.array([size << 4 | log for size, log in chunks], "<u4" if large else "<u2")
    sizes = [8 * (size + 1) for size, _ in chunks]
    before = [1 << log for _, log in chunks[:-1]]
    num_items = sum(before) + rest & (1 << 64) - 1
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

"""Chunk words and repetition indices of learned pages, against slower ways."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from tests.kernels.page_columns import learned
from tests.reference.planned import plan_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAT_LEVELS = (1, 0, 1, 0)  # raw repetition levels up to 1


def table(
    words: bytes,
    index: bytes | None,
    num_items: int,
    num_rows: int,
    chunk_bytes: int,
    *,
    large: bool,
) -> _kernels.ColumnPages:
    """A column of one page of chunks, which lie from byte 1024 on."""
    lists = None if index is None else FLAT_LEVELS
    packed = (1, 8, 0, 0, 0, large)  # values that are not read without their chunks
    form = _kernels.PageForm(packed, lists, num_items, False)
    form.set_layers(1 if index is None else 0x21)
    sizes = [len(words), chunk_bytes, *([] if index is None else [len(index)])]
    return learned(form, sizes, num_rows, words + (index or b""))


def bytes_of(table: _kernels.ColumnPages, row: int) -> tuple[int, int]:
    """Where the chunks of a row begin and end, in their buffer."""
    _, _, starts, stops, num_bytes = plan_rows([[table]], np.array([row]), [1]).pieces(0, 1)
    assert num_bytes == stops[-1] - starts[0]
    return int(starts[0]) - 1024, int(stops[-1]) - 1024


def edges(sizes: Sequence[int]) -> list[int]:
    return np.cumsum([0, *sizes], dtype=np.int64).tolist()


@given(
    st.lists(st.tuples(st.integers(0, 4095), st.integers(0, 15)), max_size=20),
    st.integers(0, 1 << 15) | st.integers(0, (1 << 64) - 1),
    st.integers(0, 1),
    st.booleans(),
)
def test_chunk_words_are_parsed_or_refused(
    chunks: list[tuple[int, int]], rest: int, spoil: int, large: bool
) -> None:
    words = np.array([size << 4 | log for size, log in chunks], "<u4" if large else "<u2").tobytes()
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
            table(words, None, num_items, num_rows, sum(sizes) + spoil, large=large)
        return
    page = table(words, None, num_items, num_rows, sum(sizes), large=large)
    counts = [*before, num_items - sum(before)] if chunks else []
    begins, first_rows = edges(sizes), edges(counts)
    for number, count in enumerate(counts):
        for row in {first_rows[number], first_rows[number + 1] - 1} if count else ():
            assert bytes_of(page, row) == (begins[number], begins[number + 1])


def test_a_word_that_is_cut() -> None:
    with pytest.raises(ValueError, match="3 bytes of chunk words of 2 bytes"):
        table(b"abc", None, 1, 1, 8, large=False)
    with pytest.raises(ValueError, match="2 values in 1 rows without lists"):
        table(b"\0\0", None, 2, 1, 8, large=False)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=9))
def test_a_repetition_index_is_parsed_or_refused(pairs: list[tuple[int, int]]) -> None:
    """Rows that end in each chunk, and entries behind them of a row that goes on."""
    count = len(pairs)
    words = np.full(count, 1, "<u2").tobytes()
    index = np.array(pairs, "<u8").tobytes()
    is_open, wrong = False, pairs[-1][1] > 0
    spans: list[tuple[int, int]] = []  # the first chunk of each row, and the one behind its last
    for number, (ends, rest) in enumerate(pairs):
        begins = ends + (rest > 0) - is_open
        wrong |= begins < 0
        if is_open:
            spans[-1] = spans[-1][0], number + 1
        spans += [(number, number + 1)] * begins
        is_open = rest > 0
    num_rows = sum(ends for ends, _ in pairs)

    def page(index: bytes, num_rows: int) -> _kernels.ColumnPages:
        return table(words, index, 2 * count, num_rows, 8 * count, large=False)

    if wrong:
        with pytest.raises(ValueError, match=r"goes on behind the last chunk|never ends"):
            page(index, num_rows)
        return
    learned_page = page(index, num_rows)
    for row, (first, last) in enumerate(spans):
        assert bytes_of(learned_page, row) == (8 * first, 8 * last)
    assert len(spans) == num_rows
    with pytest.raises(ValueError, match="rows end, the page has"):
        page(index, num_rows + 1)
    with pytest.raises(ValueError, match="repetition index of 8 bytes"):
        page(index[:8], num_rows)

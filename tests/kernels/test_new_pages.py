"""Kernel of pages that are learned together: what must be read, what is made of it, guesses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from tests.kernels.page_columns import column, form, learn, unknown_of
from tests.reference.planned import plan_rows

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_new_pages_are_read_in_order_and_known_in_their_tables() -> None:
    first, second = column([4, 4], 8), column([4], 8)
    pages = _kernels.NewPages([first, second], [(0, 1), (1, 0)], [0, 1])
    assert pages.descriptions == [b"same"]
    for forms in ([], [None]):
        with pytest.raises(ValueError, match="forms of other descriptions"):
            pages.find(forms)  # type: ignore[arg-type]
    pages.find([form(4)])
    assert pages.missing == [0, 1]
    files, ends, starts, stops, num_bytes = pages.spans()
    assert (files, ends, num_bytes) == ([0, 1], [1, 2], 4)
    assert (starts.tolist(), stops.tolist()) == ([128, 0], [130, 2])
    with pytest.raises(ValueError, match="bytes of other spans"):
        pages.learn_read(memoryview(b"\0"))
    with pytest.raises(ValueError, match="chunks of together 16 bytes, their buffer has 8"):
        pages.learn_read(memoryview(b"\x10\0\0\0"))
    assert (pages.page, pages.described_by(0), pages.num_bytes(0)) == (0, 0, 2)
    with pytest.raises(ValueError, match="chunks of together 16 bytes, their buffer has 8"):
        pages.learn_read(memoryview(b"\0\0\x10\0"))
    assert (pages.page, pages.missing) == (1, [0, 1])
    before = first.num_bytes
    held = [_kernels.HeldFile([128], [memoryview(b"\0\0")]), _kernels.HeldFile([], [])]
    with pytest.raises(ValueError, match="no such file"):
        pages.learn(held[:1])
    ((file, num_bytes),) = pages.learn(held)
    assert (file, first.num_bytes) == (0, before + num_bytes)
    assert 1 not in unknown_of(first)
    assert 0 in unknown_of(first)
    assert 0 in unknown_of(second)
    assert pages.missing == [1]
    files, _, starts, _, num_bytes = pages.spans()
    assert (files, starts.tolist(), num_bytes) == ([1], [0], 2)
    assert pages.learn(held) == []  # the first page is known
    pages.find([form(4)])
    assert learn(pages, b"\0\0" * 2)[0] == (0, 0)  # it was known in its table
    assert pages.missing == []
    for ask in (pages.num_bytes, pages.described_by):
        with pytest.raises(ValueError, match="no such"):
            ask(2)


def test_a_page_with_a_dictionary_is_known_with_its_items() -> None:
    single = _kernels.ColumnPages([(((0, 2), (64, 16), (128, 3)), 4, b"same")])
    pages = _kernels.NewPages([single], [(0, 0)], [0])
    with_items = _kernels.PageForm((0, 8, 0, 0, 0, False), None, 4, True)
    with_items.set_layers(1)
    with pytest.raises(ValueError, match="a dictionary without a form"):
        pages.find([with_items])
    with_items.set_items(False, 8, 4)
    pages.find([with_items])
    with pytest.raises(ValueError, match="3 bytes for 4 items of 8 bits"):
        learn(pages, b"\x10\0abc")
    with_items.set_items(False, 8, 3)
    ((file, num_bytes),) = learn(pages, b"\x10\0abc")
    assert (file, num_bytes > 0) == (0, True)
    plan = plan_rows([[single]], np.array([1, 3], np.int64), [2])
    batch = _kernels.RowBatch([0], [0], [1], [False])
    batch.decode(plan, memoryview(b"\0\0\x04\0\0\0\0\0\0\2\0\1\0\0\0\0"))
    rows = pa.RecordBatch._import_from_c(batch.address, pa.schema([("a", pa.uint8())]))
    assert rows.to_pydict() == {"a": [*b"cb"]}


def test_new_pages_that_share_bytes_are_read_once() -> None:
    first, second = column([4, 4], 8), column([4, 4], 8)
    longer = _kernels.ColumnPages([(((128, 4), (256, 8)), 4, b"same")])
    tables, unknown = [first, second, longer], [(0, 0), (1, 1), (2, 0), (1, 0)]
    pages = _kernels.NewPages(tables, unknown, [0, 0, 0])
    pages.find([form(4)])
    files, ends, starts, stops, num_bytes = pages.spans()
    assert (files, ends, num_bytes) == ([0], [2], 6)
    assert (starts.tolist(), stops.tolist()) == ([0, 128], [2, 132])
    with pytest.raises(ValueError, match="chunks"):
        pages.learn_read(memoryview(b"\0\0\0\0\0\1"))
    assert pages.page == 2
    pages = _kernels.NewPages(tables, unknown[:2] + unknown[3:], [0, 0, 0])
    pages.find([form(4)])
    learn(pages, b"\0\0\0\0")
    assert 0 not in unknown_of(first)
    assert unknown_of(second) == []


def test_unknown_pages_without_a_table_are_refused() -> None:
    single = column([4], 8)
    for tables, page in (([single], (0, 1)), ([single], (1, 0)), ([None], (0, 0))):
        with pytest.raises(ValueError, match="no such page"):
            _kernels.NewPages(tables, [page], [0])
    with pytest.raises(ValueError, match="unequal length"):
        _kernels.NewPages([single], [(0, 0)], [0, 0])


def test_small_pages_inside_ranges_are_read_whole() -> None:
    first, second = column([4, 4, 4], 8), column([8, 4], 8)
    unknown = [(0, 0), (0, 1), (0, 2), (1, 0)]
    pages = _kernels.NewPages([first, second], unknown, [0, 1])
    pages.find([form(4)])
    assert pages.small([(0, 12)], 10) == [0, 1, 2, 3]
    assert pages.small([(0, 12)], 9) == []
    assert pages.small([(1, 7), (7, 12)], 10) == [2]
    assert pages.small([(4, 8), (9, 12)], 10) == [1]
    assert pages.small([], 10) == []
    assert pages.rest([3, 1, 0], 0, 1 << 20) == [(0, 64, 72), (0, 192, 200), (1, 64, 72)]
    assert pages.rest([1, 0], 120, 1 << 20) == [(0, 64, 200)]
    with pytest.raises(ValueError, match="no such page"):
        pages.rest([4], 0, 1)
    words = [memoryview(b"\0\0")] * 3
    pages.learn([_kernels.HeldFile([0, 128, 256], words), _kernels.HeldFile([], [])])
    assert pages.small([(0, 12)], 10) == [3]


def guesses(size: int, words: int, rows: Sequence[int], num_rows: int = 10_000) -> list[list[int]]:
    """Where rows of a page are guessed, in its chunks."""
    place = (0, words), (1 << 20, size)
    pages = _kernels.NewPages([_kernels.ColumnPages([(place, num_rows, b"same")])], [(0, 0)], [0])
    pages.find([form(num_rows)])
    spans = pages.guess(0, np.array(rows, np.int64))
    return [[edge - (1 << 20) for edge in span] for span in spans]


@given(
    rows=st.sets(st.integers(0, 9_999), min_size=1, max_size=50), num_bytes=st.integers(0, 1 << 25)
)
def test_guesses_lie_apart_and_inside_the_buffer(rows: set[int], num_bytes: int) -> None:
    spans = guesses(num_bytes, 1 << 10, sorted(rows))
    edges = [edge for span in spans for edge in span]
    assert edges == sorted({*edges})
    assert all(0 <= edge <= num_bytes for edge in edges)
    assert sum(stop - start for start, stop in spans) <= 1 << 20


def test_every_row_is_inside_its_guess_where_rows_are_equally_long() -> None:
    rows = range(0, 100_000, 5_003)
    spans = guesses(800_000, 200, rows, 100_000)
    assert len(spans) > 1
    for row in rows:
        assert any(start <= 8 * row and 8 * row + 8 <= stop for start, stop in spans)


def test_too_many_bytes_are_not_guessed() -> None:
    assert guesses(1 << 26, 2, range(0, 10_000, 10)) == []
    assert guesses(1 << 26, 2, [5], 10) == []
    assert guesses(1 << 17, 2, [5]) == [[0, 1 << 17]]  # a small page is read whole

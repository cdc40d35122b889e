"""Cold takes: one round where the guess holds, two where it misses, never a wrong row."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.format.layouts.place import MAX_GUESS_BYTES, MAX_WHOLE_PAGE_BYTES, guess_spans

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.format.layouts.conftest import Page


@given(
    rows=st.sets(st.integers(0, 9_999), min_size=1, max_size=50), num_bytes=st.integers(0, 1 << 25)
)
def test_guesses_lie_apart_and_inside_the_buffer(rows: set[int], num_bytes: int) -> None:
    spans = guess_spans(np.array(sorted(rows)), 10_000, num_bytes)
    edges = [edge for span in spans for edge in span]
    assert edges == sorted(set(edges))
    assert all(0 <= edge <= num_bytes for edge in edges)
    assert sum(stop - start for start, stop in spans) <= MAX_GUESS_BYTES


def test_every_row_is_inside_its_guess_where_rows_are_equally_long() -> None:
    rows = np.arange(0, 100_000, 5_003)
    spans = guess_spans(rows, 100_000, 800_000)
    for row in rows.tolist():
        assert any(start <= 8 * row and 8 * row + 8 <= stop for start, stop in spans)


def test_too_many_bytes_are_not_guessed() -> None:
    assert guess_spans(np.arange(0, 10_000, 10), 10_000, 1 << 26) == []
    assert guess_spans(np.array([5]), 10, 1 << 26) == []


def cold(page: Page, numbers: list[int]) -> Any:
    return page.run(page.layout.load_and_take(np.array(numbers)))[1].decode()


NUM_ROWS = 100_000


@pytest.mark.parametrize("kind", ["int64", "utf8", "list", "zipped"])
def test_a_cold_take_of_a_large_page_mostly_costs_one_round(
    kind: str, write_pages: Callable, rows: Callable
) -> None:
    rng = random.Random(kind)
    values: list[Any]
    if kind == "int64":
        values = [rng.randrange(1 << 62) for _ in range(NUM_ROWS)]
    elif kind == "list":
        values = [[rng.randrange(1 << 62)] * (i % 4) for i in range(NUM_ROWS)]
    else:
        texts = [rng.randbytes(rng.randrange(40)) for _ in range(NUM_ROWS)]
        values = [text * 9 for text in texts] if kind == "zipped" else texts
    types = {"int64": pa.int64(), "list": pa.list_(pa.int64())}
    table = pa.table({"c": pa.array(values, types.get(kind, pa.binary()))})
    ((page, *_),) = write_pages(table, "2.2", data_cache_bytes=1 << 30)
    assert page.layout.place.num_bytes > MAX_WHOLE_PAGE_BYTES
    first_rounds = 0
    for _ in range(20):
        number = rng.randrange(page.layout.num_rows)
        result = rows(cold(page, [number]))
        first_rounds += page.rounds == 1
        state = page.run(page.layout.load())
        warm = page.run(page.layout.take(state, np.array([number]))).decode()
        assert result == rows(warm)
    assert first_rounds >= 17


def test_a_guess_that_misses_costs_a_second_round(write_pages: Callable, rows: Callable) -> None:
    # All long values stand at the end: the guess looks far too late.
    rng = random.Random(0)
    values = [rng.randbytes(5) for _ in range(60_000)] + [rng.randbytes(200) for _ in range(20_000)]
    table = pa.table({"c": pa.array(values)})
    ((page, *_),) = write_pages(table, "2.1", data_cache_bytes=1 << 30)
    assert page.layout.num_rows == len(values)
    assert rows(cold(page, [50_000])) == [values[50_000]]
    assert page.rounds == 2
    assert rows(cold(page, [0, 50_000, 79_999])) == [values[0], values[50_000], values[79_999]]


def test_a_small_page_is_read_whole(write_pages: Callable, rows: Callable) -> None:
    table = pa.table({"c": pa.array([bytes([i % 256]) * (i % 50) for i in range(5_000)])})
    ((page,),) = write_pages(table, "2.1")
    assert rows(cold(page, [7, 4_999])) == [bytes([7]) * 7, bytes([135]) * 49]
    assert page.rounds == 1
    assert sum(item.num_bytes for item in page.ranges) == page.layout.place.num_bytes

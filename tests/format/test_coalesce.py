"""Ranges of one object to few requests."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.format.plans import coalesce, split

RANGES = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(1, 400)).map(lambda span: (span[0], sum(span))),
    min_size=1,
    max_size=60,
)


@given(RANGES, st.sampled_from([0, 1, 50, 1000]), st.sampled_from([200, 1000, 1 << 40]))
def test_every_range_is_covered_by_its_span(
    ranges: list[tuple[int, int]], gap: int, limit: int
) -> None:
    plan = coalesce(ranges, gap, limit)
    assert plan.spans == sorted(plan.spans)
    assert set(plan.owners) == set(range(len(plan.spans)))
    for (start, stop), owner in zip(ranges, plan.owners, strict=True):
        first, last = plan.spans[owner]
        assert first <= start < stop <= last
    for number, (first, last) in enumerate(plan.spans):
        items = [item for item, owner in zip(ranges, plan.owners, strict=True) if owner == number]
        assert first == min(start for start, _ in items)
        assert last == max(stop for _, stop in items)
        if last - first > limit:  # only what was asked for in one piece
            assert any(stop - start > limit for start, stop in items)
        reach = first
        for start, stop in sorted(items):
            assert start - reach <= gap
            reach = max(reach, stop)


def naive(
    ranges: list[tuple[int, int]], gap: int, limit: int
) -> tuple[list[tuple[int, int]], list[int]]:
    """Spans and owners, a byte and a range at a time."""
    unread = {byte for start, stop in ranges for byte in range(start, stop)}
    spans: list[tuple[int, int]] = []
    owners = [-1] * len(ranges)
    while -1 in owners:
        first = min(start for (start, _), owner in zip(ranges, owners, strict=True) if owner < 0)
        span = (first, first)
        for number in sorted(
            range(len(ranges)), key=lambda number: (ranges[number][0], -ranges[number][1])
        ):
            start, stop = ranges[number]
            if owners[number] >= 0:
                continue
            reach = max(span[1], stop)
            if span[1] > first and (start > span[1] + gap or reach > max(span[1], first + limit)):
                break
            span = (first, reach)
            owners[number] = len(spans)
        spans.append(span)
    assert unread <= {byte for start, stop in spans for byte in range(start, stop)}
    return spans, owners


@given(RANGES, st.sampled_from([0, 1, 50, 1000]), st.sampled_from([1, 200, 1000, 1 << 40]))
def test_lists_and_arrays_are_merged_as_by_a_naive_model(
    ranges: list[tuple[int, int]], gap: int, limit: int
) -> None:
    expected = naive(ranges, gap, limit)
    assert coalesce(ranges, gap, limit) == expected
    assert coalesce(np.array(ranges), gap, limit) == expected
    assert coalesce(np.array(ranges).T.copy().T, gap, limit) == expected


@given(RANGES, st.sampled_from([0, 1, 50]))
def test_without_a_limit_spans_are_the_runs_of_bytes_with_their_gaps_filled(
    ranges: list[tuple[int, int]], gap: int
) -> None:
    is_read = np.zeros(6000, np.bool_)
    for start, stop in ranges:
        is_read[start : stop + gap] = True
    edges = np.flatnonzero(np.diff(is_read.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    runs = [(start, stop - gap) for start, stop in edges.tolist()]
    assert coalesce(ranges, gap).spans == runs


def test_a_span_that_was_cut_may_reach_into_the_next() -> None:
    plan = coalesce([(0, 60), (50, 120), (55, 58), (110, 130)], 0, 100)
    assert plan.spans == [(0, 60), (50, 130)]
    assert plan.owners == [0, 1, 1, 1]


def test_of_ranges_with_one_start_the_longest_comes_first() -> None:
    assert coalesce([(0, 10), (0, 300), (290, 310)], 0, 100).spans == [(0, 300), (290, 310)]


def test_ranges_that_are_empty_or_none_at_all() -> None:
    assert coalesce([], 5) == ([], [])
    assert coalesce(np.empty((0, 2), np.int64), 5) == ([], [])
    assert coalesce([(7, 7), (9, 9), (20, 20)], 2).spans == [(7, 9), (20, 20)]


def test_no_places_are_too_far_apart() -> None:
    least, most = -(1 << 63), (1 << 63) - 1
    ends = [(least, least + 1), (most - 1, most)]
    assert coalesce(ends, most).spans == ends
    assert coalesce(ends, (1 << 64) - 1).spans == [(least, most)]
    assert coalesce(ends, (1 << 64) - 1, 1 << 63).spans == ends
    for ranges, gap in (([(0, most + 1)], 0), ([(0, 1)], -1)):
        with pytest.raises(TypeError):
            coalesce(ranges, gap)


def test_ranges_are_cut_out_of_what_their_spans_hold() -> None:
    content = memoryview(bytes(range(100)))
    ranges = [(40, 50), (3, 5), (44, 60), (10, 12), (5, 5)]
    plan = coalesce(ranges, 5)
    assert plan.spans == [(3, 12), (40, 60)]
    parts = plan.cut(ranges, [content[start:stop] for start, stop in plan.spans])
    assert parts == [content[start:stop] for start, stop in ranges]


@given(RANGES, st.sampled_from([0, 7, 100]))
def test_spans_are_as_few_as_the_gap_allows(ranges: list[tuple[int, int]], gap: int) -> None:
    plan = coalesce(ranges, gap, 1 << 40)
    for (_, stop), (start, _) in zip(plan.spans, plan.spans[1:], strict=False):
        assert start > stop + gap


@given(st.integers(0, 1000), st.integers(1, 1000), st.integers(1, 300))
def test_pieces_of_a_large_span(start: int, size: int, limit: int) -> None:
    pieces = split(start, start + size, limit)
    assert pieces[0][0] == start
    assert pieces[-1][1] == start + size
    assert all(0 < stop - first <= limit for first, stop in pieces)
    assert all(item[1] == other[0] for item, other in itertools.pairwise(pieces))
    assert len(pieces) == -(-size // limit)

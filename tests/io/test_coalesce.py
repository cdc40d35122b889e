"""Ranges of one object to few requests."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from alance.io.coalesce import coalesce, split

RANGES = st.lists(
    st.tuples(st.integers(0, 5000), st.integers(1, 400)).map(lambda one: (one[0], sum(one))),
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
        mine = [one for one, owner in zip(ranges, plan.owners, strict=True) if owner == number]
        assert first == min(start for start, _ in mine)
        assert last == max(stop for _, stop in mine)
        if last - first > limit:  # only what was asked for in one piece
            assert any(stop - start > limit for start, stop in mine)
        reach = first
        for start, stop in sorted(mine):
            assert start - reach <= gap
            reach = max(reach, stop)


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
    assert all(one[1] == other[0] for one, other in itertools.pairwise(pieces))
    assert len(pieces) == -(-size // limit)

"""Levels of lists: one layer, offsets of pages, and rows far into many entries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

EMPTY = np.empty(0, np.uint16)


def layer_of(
    rep: list[int], definition: list[int], child: int, slot: int, empty: int
) -> tuple[list[int], list[bool], list[int], list[int]]:
    """What `list_layer` gives, the slow way."""
    offsets, valid, rep_left, def_left, children = [], [], [], [], 0
    for begins, level in zip(rep, definition, strict=True):
        if begins and level <= slot:
            offsets.append(children)
            valid.append(level <= child or level == empty)
        if begins:
            rep_left.append(begins - 1)
            def_left.append(level)
        children += level <= child
    return [*offsets, children], valid, rep_left, def_left


@pytest.mark.parametrize("is_last", [False, True])
@given(
    entries=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), max_size=40),
    child=st.integers(0, 2),
    more=st.integers(0, 2),
    empty=st.integers(-1, 4),
    times=st.sampled_from([1, 1, 1, 3000]),
)
def test_a_layer_is_that_of_plain_python(
    entries: list[tuple[int, int]], child: int, more: int, empty: int, times: int, *, is_last: bool
) -> None:
    rep, definition = [one for one, _ in entries] * times, [one for _, one in entries] * times
    expected = layer_of(rep, definition, child, child + more, empty)
    levels = np.array(rep, np.uint16), np.array(definition, np.uint16)
    offsets, valid, nulls, rep_left, def_left = _kernels.list_layer(
        *levels, child, child + more, empty, is_last
    )
    assert offsets.tolist() == expected[0]
    assert nulls == expected[1].count(False)
    assert valid.tolist() == (expected[1] if nulls else [])
    assert rep_left.tolist() == ([] if is_last else expected[2])
    assert def_left.tolist() == ([] if is_last else expected[3])
    if not any(definition):
        found = _kernels.list_layer(levels[0], EMPTY, child, child + more, empty, is_last)
        assert found[0].tolist() == expected[0]
        assert found[3].tolist() == rep_left.tolist()


def test_levels_that_contradict_the_layer_are_refused() -> None:
    two, one = np.ones(2, np.uint16), np.ones(1, np.uint16)
    with pytest.raises(ValueError, match="2 repetition and 1 definition"):
        _kernels.list_layer(two, one, 0, 1, -1, True)
    with pytest.raises(ValueError, match="without levels"):
        _kernels.list_layer(two, two, -1, 1, -1, True)


@given(st.lists(st.integers(0, 0xFFFF), max_size=50), st.integers(0, 0xFFFF))
def test_levels_are_counted(levels: list[int], highest: int) -> None:
    expected = sum(one <= highest for one in levels)
    assert _kernels.count_up_to(np.array(levels, np.uint16), highest) == expected


def test_more_levels_than_16_bits_count() -> None:
    assert _kernels.count_up_to(np.zeros(200_000, np.uint16), 0) == 200_000


@given(st.lists(st.lists(st.integers(0, 1 << 40), max_size=10), max_size=5))
def test_offsets_of_pages_are_joined(pages: list[list[int]]) -> None:
    sums = [np.cumsum([0, *lengths]).astype(np.int64) for lengths in pages]
    lengths = [one for page in pages for one in page]
    assert _kernels.join_lists(sums).tolist() == [0, *np.cumsum(lengths, dtype=np.int64).tolist()]


def test_pages_without_offsets_are_refused() -> None:
    with pytest.raises(ValueError, match="without offsets"):
        _kernels.join_lists([np.empty(0, np.int64)])


def test_offsets_in_32_bits() -> None:
    found = _kernels.narrow_offsets(np.array([0, 5, (1 << 31) - 1]))
    assert found.tolist() == [0, 5, (1 << 31) - 1]
    assert found.dtype == np.int32


@pytest.mark.parametrize("seed", range(6))
def test_rows_far_into_many_entries(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 30_000
    rep = (rng.random(count) < rng.choice([0.01, 0.3, 1.0])).astype(np.uint16)
    definition = rng.integers(0, 4, count).astype(np.uint16) if seed % 2 else EMPTY
    breaks = np.array([*np.sort(rng.integers(0, count, 2)), count])
    starts, stops, begin = [], [], 0
    for stop in breaks.tolist():
        heads = np.flatnonzero(rep[begin:stop]) + begin
        starts += heads.tolist()
        stops += [*heads[1:].tolist(), stop][: len(heads)]
        begin = stop
    visible = definition <= 1 if seed % 2 else np.ones(count, np.bool_)
    values = np.concatenate([[0], np.cumsum(visible)])
    for size in (1, 2, 20):
        wanted = np.unique(rng.integers(0, len(starts), size))
        spans = np.empty((4, len(wanted)), np.int64)
        _kernels.row_spans(rep, definition, breaks, wanted, 1, 1, spans.reshape(-1))
        first, last = np.array(starts)[wanted], np.array(stops)[wanted]
        assert spans.tolist() == [a.tolist() for a in (first, last, values[first], values[last])]

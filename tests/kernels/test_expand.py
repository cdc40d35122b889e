"""Strings of a dictionary, written out."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

NOTHING = np.empty(0, np.uint8)


def dictionary(items: list[bytes], wide: bool) -> tuple[np.ndarray, np.ndarray]:
    stops = [0, *itertools.accumulate(map(len, items))]
    offsets = np.array(stops, np.int64 if wide else np.int32)
    return offsets, np.frombuffer(b"".join(items), np.uint8)


@given(
    # The longest item decides how many bytes are copied at once.
    st.sampled_from([1, 8, 9, 16, 17, 32, 33]).flatmap(
        lambda longest: st.lists(st.binary(max_size=longest), min_size=1, max_size=9)
    ),
    st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=40),
    st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]),
    st.booleans(),
)
def test_against_picking_one_by_one(
    items: list[bytes], picks: list[tuple[int, bool]], kind: type, wide: bool
) -> None:
    offsets, data = dictionary(items, wide)
    numbers = [number % len(items) for number, _ in picks]
    valid = np.array([keep for _, keep in picks], np.uint8)
    # The index of a null may be anything.
    indices = np.array([n if keep else 255 for n, keep in zip(numbers, valid, strict=True)], kind)
    stops, content = _kernels.expand_strings(indices, valid, offsets, data)
    if len(picks) == 0:
        assert stops.tolist() == [0]
        return
    assert stops.dtype == offsets.dtype
    found = [bytes(content[a:b]) for a, b in itertools.pairwise(stops)]
    assert found == [items[n] if keep else b"" for n, keep in zip(numbers, valid, strict=True)]
    every = np.array(numbers, kind)
    stops, content = _kernels.expand_strings(every, NOTHING, offsets, data)
    assert [bytes(content[a:b]) for a, b in itertools.pairwise(stops)] == [
        items[number] for number in numbers
    ]


@pytest.mark.parametrize(
    ("indices", "offsets", "message"),
    [
        ([3], [0, 1, 2, 3], "index 3"),
        ([0], [0, 2, 1], "offsets"),
        ([0], [0, 9], "offsets"),
        ([0], [-1, 2], "offsets"),
        ([0], [0], "index 0"),
    ],
)
def test_what_is_not_there_is_refused(indices: list[int], offsets: list[int], message: str) -> None:
    data = np.frombuffer(b"abc", np.uint8)
    with pytest.raises(ValueError, match=message):
        _kernels.expand_strings(
            np.array(indices, np.uint8), NOTHING, np.array(offsets, np.int32), data
        )

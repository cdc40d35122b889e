"""Sets of the items of lists beside Python's dictionaries, and sums over vectors; bounds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

KEYS = st.lists(st.integers(-3, 5) | st.integers(-(1 << 63), (1 << 63) - 1), max_size=12)
PAIRS = st.lists(st.tuples(KEYS, KEYS, st.booleans()), max_size=4)
ALL = np.empty(0, np.uint8)


def together(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    return ends, np.array([key for keys in lists for key in keys], np.int64)


def expected(kind: int, own: list[int], other: list[int]) -> list[int]:
    if kind == 0:
        return list(dict.fromkeys([*own, *other]))
    if kind == 1 and len(other) > len(own):
        own, other = other, own
    return [key for key in dict.fromkeys(own) if (key in other) == (kind == 1)]


@given(PAIRS)
def test_sets_of_items_are_those_of_dictionaries(
    pairs: list[tuple[list[int], list[int], bool]],
) -> None:
    left, right = together([pair[0] for pair in pairs]), together([pair[1] for pair in pairs])
    array = np.array([pair[2] for pair in pairs], np.uint8)
    couple = np.concatenate([left[1], right[1]])
    for kind in range(3):
        places, counts = _kernels.item_sets(kind, *left, *right, array)
        values = [expected(kind, own, other) if message else [] for own, other, message in pairs]
        assert couple[places].tolist() == [key for keys in values for key in keys]
        assert counts.tolist() == [len(keys) for keys in values]


def test_one_list_stands_for_that_of_each_row() -> None:
    lists, item = together([[1, 2], [], [3, 1]]), together([[1, 9]])
    assert _kernels.item_sets(2, *lists, *item, ALL)[1].tolist() == [1, 0, 1]
    assert _kernels.item_sets(0, *item, *lists, ALL)[1].tolist() == [3, 2, 3]
    assert _kernels.item_sets(0, *item, *together([]), ALL)[1].tolist() == []


def test_wrong_ends_are_refused() -> None:
    ends, keys = together([[1, 2], [3]])
    numbers = keys.astype(np.float32)
    for wrong in ([0, 4, 3], [0, 2, 4], [-1, 2, 3], [2, 1, 3]):
        with pytest.raises(ValueError, match="items"):
            _kernels.item_sets(0, np.array(wrong), keys, ends, keys, ALL)
        with pytest.raises(ValueError, match="items"):
            _kernels.vector_sums(ends, numbers, np.array(wrong), numbers, ALL, True)
    for few in ([0, 1, 2, 3], []):
        with pytest.raises(ValueError, match=r"one list for each|no ends"):
            _kernels.item_sets(0, np.array(few, np.int64), keys, ends, keys, ALL)
    with pytest.raises(ValueError, match="item sets: validity of 3 of 2"):
        _kernels.item_sets(0, ends, keys, ends, keys, np.ones(3, np.uint8))
    with pytest.raises(ValueError, match="kind 3"):
        _kernels.item_sets(3, ends, keys, ends, keys, ALL)
    with pytest.raises(ValueError, match="different lengths"):
        _kernels.vector_sums(ends, numbers, np.array([0, 1, 3]), numbers, ALL, False)


def test_sums_of_vectors() -> None:
    ends, remaining = np.array([0, 2, 2, 4]), np.array([1, 2, 3, 4], np.float32)
    item = np.array([0, 2]), np.array([0.5, 2.0])
    array = np.array([1, 0, 1], np.uint8)
    sums = _kernels.vector_sums(ends, remaining, *item, array, False).reshape(3, -1)
    assert sums.tolist() == [[4.5, 0, 9.5], [5, 0, 25], [4.25, 0, 4.25]]
    assert _kernels.vector_sums(*item, ends, remaining, array, True).tolist() == [0.25, 0, 10.25]

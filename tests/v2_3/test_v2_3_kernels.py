"""Kernels of sequences: what they give, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from alance import _kernels

LIMIT = (1 << 63) - 1


def array(*numbers: int) -> np.ndarray:
    return np.array(numbers, np.int64)


def test_running_sums() -> None:
    found = _kernels.running_sums(array(1, 2, 3), array(3, 2), 5, LIMIT)
    assert found.tolist() == [5, 6, 8, 5, 8]
    assert _kernels.running_sums(array(), array(1, 1), 7, 7).tolist() == [7, 7]
    assert _kernels.running_sums(array(), array(), 0, 7).tolist() == []
    assert _kernels.running_sums(array(LIMIT), array(2), 0, LIMIT).tolist() == [0, LIMIT]


@pytest.mark.parametrize(
    ("deltas", "counts", "base", "limit"),
    [
        ((1,), (3,), 0, LIMIT),
        ((1, 2), (2,), 0, LIMIT),
        ((), (0,), 0, LIMIT),
        ((), (-1,), 0, LIMIT),
        ((-1,), (2,), 5, LIMIT),
        ((LIMIT,), (2,), 1, LIMIT),
        ((3,), (2,), 5, 7),
        ((), (1,), 8, 7),
        ((), (1,), -1, 7),
        ((), (LIMIT, LIMIT), 0, LIMIT),
    ],
)
def test_running_sums_of_bad_numbers(
    deltas: tuple[int, ...], counts: tuple[int, ...], base: int, limit: int
) -> None:
    with pytest.raises(ValueError, match=r"delta|sequence"):
        _kernels.running_sums(array(*deltas), array(*counts), base, limit)


def test_joined_offsets() -> None:
    found = _kernels.join_offsets(array(0, 1, 3, 0, 0, 2, 2), array(2, 0, 2), array(3, 0, 2))
    assert found.tolist() == [0, 1, 3, 5, 5]
    assert _kernels.join_offsets(array(), array(), array()).tolist() == [0]


@pytest.mark.parametrize(
    ("offsets", "counts", "sizes"),
    [
        ((1, 3), (1,), (3,)),
        ((0, 2), (1,), (3,)),
        ((0, 4), (1,), (3,)),
        ((0, 3, 1, 3), (3,), (3,)),
        ((0, 1), (2,), (1,)),
        ((0, 1), (1,), (1, 1)),
        ((0, LIMIT, 0, LIMIT), (1, 1), (LIMIT, LIMIT)),
        ((0, -1), (1,), (-1,)),
    ],
)
def test_offsets_that_do_not_rise(
    offsets: tuple[int, ...], counts: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="variable"):
        _kernels.join_offsets(array(*offsets), array(*counts), array(*sizes))

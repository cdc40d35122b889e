"""The stable order of numbers, against numpy's."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

WIDE = (1 << 64) - 1
numbers = st.integers(0, 3) | st.integers(0, 1 << 32) | st.integers(WIDE - 9, WIDE)


def check(keys: list[int]) -> None:
    values = np.array(keys, np.uint64)
    ordered, order = _kernels.order_of(values)
    assert order.tolist() == np.argsort(values, kind="stable").tolist()
    assert ordered.tolist() == np.sort(values).tolist()


@given(st.lists(numbers, max_size=60))
def test_the_order_of_numbers_is_that_of_numpy(keys: list[int]) -> None:
    check(keys)


@given(st.lists(st.lists(numbers, max_size=9).map(sorted), max_size=12))
def test_runs_that_are_in_order(runs: list[list[int]]) -> None:
    check([key for run in runs for key in run])


def test_many_numbers_of_all_widths() -> None:
    draw = np.random.default_rng(2)
    for bits in (1, 2, 11, 12, 22, 23, 32, 33, 44, 55, 63, 64):
        keys = np.frombuffer(draw.bytes(8 * 6_000), np.uint64) >> np.uint64(64 - bits)
        check(keys.tolist())
        check((~keys).tolist())
        check(np.sort(keys.reshape(5, -1), axis=1).ravel().tolist())

"""Rows looked up in stored roaring bitmaps, against numpy."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from alance import _kernels
from alance.format.row_set import RowSet

if TYPE_CHECKING:
    from alance.base.arrays import UInt64s

# Pieces of a set: first row, number, step. Runs, bits and arrays, of several upper halves.
PIECES = st.lists(
    st.tuples(
        st.sampled_from([0, 1, 0xFFFF, 0x10000, (1 << 32) - 2, 1 << 32, (7 << 32) + 65_535]),
        st.sampled_from([1, 2, 100, 4096, 4097, 70_000]),
        st.sampled_from([1, 1, 3, 17]),
    ),
    max_size=4,
)


def set_of(pieces: list[tuple[int, int, int]], *, has_runs: bool) -> tuple[bytes, UInt64s]:
    """A stored bitmap of pieces, and its rows."""
    bitmap = BitMap64()
    for start, count, step in pieces:
        rows = np.arange(start, start + step * count, step)
        bitmap |= BitMap64.deserialize(_kernels.row_set(rows))
    if has_runs:
        bitmap.run_optimize()
    return bitmap.serialize(), np.array(bitmap.to_array(), np.uint64)


@given(PIECES, PIECES, st.booleans(), st.booleans(), st.integers(0, 5))
def test_rows_are_those_of_the_sets_and_fragments(
    pieces: list[tuple[int, int, int]],
    others: list[tuple[int, int, int]],
    has_runs: bool,
    shuffled: bool,
    seed: int,
) -> None:
    rows, listed = set_of(pieces, has_runs=has_runs)
    without, absent = set_of(others, has_runs=not has_runs)
    rng = np.random.default_rng(seed)
    near = np.concatenate([listed[::97], absent[::89], np.array([5, 1 << 33], np.uint64)])
    ids = np.unique(np.concatenate([near, near + np.uint64(1), near // np.uint64(2)]))
    if shuffled:
        rng.shuffle(ids)
    lookups = [_kernels.RowLookup(content) for content in (rows, without)]
    is_in, is_out = np.isin(ids, listed), np.isin(ids, absent)
    assert np.array_equal(_kernels.rows_mask(ids, lookups[0]), is_in)
    assert np.array_equal(_kernels.rows_mask(ids, None, lookups[1]), ~is_out)
    fragments = np.array([0, 3, 7])
    of_fragments = np.isin((ids >> np.uint64(32)).astype(np.int64), fragments)
    mask = _kernels.rows_mask(ids, *lookups, fragments)
    assert np.array_equal(mask, is_in & ~is_out & of_fragments)
    assert np.array_equal(_kernels.rows_mask(ids, None, None, fragments), of_fragments)


@given(PIECES, PIECES, st.booleans(), st.integers(0, 70_000), st.integers(1, 3))
def test_many_rows_of_a_container_are_those_of_the_sets(
    pieces: list[tuple[int, int, int]],
    others: list[tuple[int, int, int]],
    has_runs: bool,
    start: int,
    step: int,
) -> None:
    rows, listed = set_of(pieces, has_runs=has_runs)
    without, absent = set_of(others, has_runs=not has_runs)
    near = np.arange(start, start + 90_000 * step, step, dtype=np.uint64)
    ids = np.concatenate([near, near[:5000] + np.uint64(7 << 32)])
    lookups = [_kernels.RowLookup(content) for content in (rows, without)]
    expected = np.isin(ids, listed) & ~np.isin(ids, absent)
    assert np.array_equal(_kernels.rows_mask(ids, *lookups), expected)


def test_nothing_asked_leaves_all_rows() -> None:
    ids = np.arange(5, dtype=np.uint64)
    assert _kernels.rows_mask(ids, None).tolist() == [1] * 5
    assert _kernels.rows_mask(ids, RowSet().lookup).tolist() == [0] * 5
    assert _kernels.rows_mask(ids, None, None, np.empty(0, np.int64)).tolist() == [0] * 5


@pytest.mark.parametrize("has_runs", [False, True])
def test_bytes_that_are_no_set_are_refused(has_runs: bool) -> None:
    pieces = [(0, 5000, 3), (1 << 17, 40_000, 1), (3 << 32, 100, 17), ((3 << 32) + (1 << 18), 9, 1)]
    content = set_of(pieces, has_runs=has_runs)[0]
    ids = np.arange(0, 4 << 32, 100_003, dtype=np.uint64)
    for stop in [*range(0, len(content), 41), len(content) - 1]:
        with pytest.raises(ValueError, match="row set: it ends too early"):
            _kernels.RowLookup(content[:stop])
    rng = np.random.default_rng(3)
    for _ in range(500):  # another answer or an error, and no crash
        spoiled = bytearray(content)
        for place in rng.integers(0, min(200, len(content)), 2):
            spoiled[place] = rng.integers(0, 256)
        with suppress(ValueError):
            _kernels.rows_mask(ids, _kernels.RowLookup(bytes(spoiled)))

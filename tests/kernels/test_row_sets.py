"""Sets of rows as roaring bitmaps, and addresses by row id, against numpy and pyroaring."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap, BitMap64

from alance import _kernels
from alance.format.row_set import RowSet
from alance.versioning import row_index
from alance.versioning.row_index import RowIdIndex, RowIdRuns

NONE = np.empty(0, np.uint32)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([0, 1, 0xFFFF, 0x10000, (1 << 32) - 2, 1 << 32, (7 << 32) + 65_535]),
            st.sampled_from([1, 2, 100, 4096, 4097, 70_000]),
            st.sampled_from([1, 3, 17]),
        ),
        max_size=4,
    ),
    st.booleans(),
)
def test_a_set_has_the_rows_that_it_was_made_of(
    parts: list[tuple[int, int, int]], shuffled: bool
) -> None:
    ranges = [np.arange(start, start + step * count, step) for start, count, step in parts]
    rows = np.concatenate([np.empty(0, np.int64), *ranges])
    if shuffled:
        np.random.default_rng(1).shuffle(rows)
    bitmap = BitMap64.deserialize(_kernels.row_set(rows))
    expected = np.unique(rows)
    assert np.array_equal(np.array(bitmap.to_array(), np.int64), expected)
    assert bitmap == BitMap64(expected.tolist())
    assert np.array_equal(RowSet(rows).to_numpy(), expected)


def test_a_row_is_not_negative() -> None:
    with pytest.raises(ValueError, match="negative"):
        _kernels.row_set(np.array([3, -1]))


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(1, 40), st.booleans()), max_size=30),
    st.sampled_from([0, (1 << 32) - 60, 5 << 32]),
)
def test_ids_are_found_wherever_runs_begin(drawn: list[tuple[int, int, bool]], first: int) -> None:
    addresses: dict[int, int] = {}
    runs, start = [], first
    for number, (gap, length, leaps) in enumerate(drawn):
        start += gap + (leaps << 32)
        address = (number << 32) + 3 * number
        addresses.update((start + step, address + step) for step in range(length))
        arrays = np.array([start], np.uint64), np.array([address], np.uint64)
        runs.append(RowIdRuns(*arrays, np.array([length], np.uint32)))
        start += length
    index = RowIdIndex.of(runs)
    ids = sorted({near for row in [0, *addresses] for near in (row - 1, row, row + 1)} - {-1})
    array = np.array([*ids, *reversed(ids)], np.int64)
    result, missing = index.find(array)
    assert missing.tolist() == [row not in addresses for row in array.tolist()]
    assert result[~missing].tolist() == [
        addresses[row] for row in array.tolist() if row in addresses
    ]
    rows = RowSet(np.array(ids, np.int64))
    expected = RowSet(np.array(sorted(addresses.values()), np.int64))
    with pytest.MonkeyPatch.context() as patched:
        for few in (0, 1 << 40):  # by runs where these are few, else row by row
            patched.setattr(row_index, "MOVED_RUN_ROWS", few)
            assert index.addresses_in(rows) == expected


def test_runs_that_contradict_each_other_are_refused() -> None:
    ids, item = np.array([1], np.uint64), np.array([0], np.uint64)
    lows = np.array([1], np.uint32)
    for highs, bounds, addresses, lengths in (
        (item, np.array([0, 2]), item, NONE),
        (item, np.array([0]), item, NONE),
        (np.repeat(item, 2), np.array([0, 1, 1]), item, NONE),
        (item, np.array([0, 1]), np.repeat(item, 2), NONE),
        (item, np.array([0, 1]), item, np.repeat(lows, 2)),
    ):
        with pytest.raises(ValueError, match="row ids"):
            _kernels.find_row_ids(ids, highs, bounds, lows, addresses, lengths)


@given(
    st.lists(
        st.tuples(st.integers(0, 1 << 18), st.sampled_from([1, 50, 5000, 70_000])), max_size=4
    ),
    st.sets(st.integers(0, (1 << 32) - 1), max_size=20),
    st.booleans(),
    st.data(),
)
def test_bitmaps_are_parsed_as_pyroaring_parses_them(
    spans: list[tuple[int, int]], single: set[int], runs: bool, data: st.DataObject
) -> None:
    bitmap = BitMap(single)
    for start, length in spans:
        bitmap.add_range(start, start + length)
    if runs:
        bitmap.run_optimize()
    content = np.frombuffer(bitmap.serialize() + b"more", np.uint8)
    assert _kernels.bitmap_end(content) == len(content) - 4
    assert _kernels.bitmap_values(content, 1 << 32).tolist() == [*bitmap]
    if bitmap:
        with pytest.raises(ValueError, match="smaller than"):
            _kernels.bitmap_values(content, bitmap.max())
    with pytest.raises(ValueError, match="it ends in"):
        _kernels.bitmap_end(content[: data.draw(st.integers(0, len(content) - 5))])

"""Single rows to the chunks that hold them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), min_size=1, max_size=12),
    st.data(),
)
def test_against_a_search_for_each_row(chunks: list[tuple[int, int]], data: st.DataObject) -> None:
    first_rows = np.cumsum([0, *(count for count, _ in chunks)])
    first_bytes = np.cumsum([0, *(size for _, size in chunks)])
    total = int(first_rows[-1])
    rows = sorted(data.draw(st.sets(st.integers(0, total - 1), min_size=1)))
    numbers, counts, starts, sizes, first, behind, entries = _kernels.locate_rows(
        np.array(rows), first_rows, first_bytes
    )
    owners = [int(np.searchsorted(first_rows, row, "right")) - 1 for row in rows]
    expected = sorted(set(owners))
    assert numbers.tolist() == expected
    assert counts.tolist() == [chunks[number][0] for number in expected]
    assert sizes.tolist() == [chunks[number][1] for number in expected]
    assert starts.tolist() == (np.cumsum(sizes) - sizes).tolist()
    held = [row for number in expected for row in range(*first_rows[number : number + 2])]
    assert [held[entry] for entry in entries] == rows
    covered = [byte for span in zip(first, behind, strict=True) for byte in range(*span)]
    wanted = [byte for n in expected for byte in range(first_bytes[n], first_bytes[n + 1])]
    assert covered == wanted


@pytest.mark.parametrize("rows", [[3, 3], [4, 2], [-1], [10], [0, 11]])
def test_rows_that_are_not_there_are_refused(rows: list[int]) -> None:
    with pytest.raises(ValueError, match="rows"):
        _kernels.locate_rows(np.array(rows), np.array([0, 5, 10]), np.array([0, 8, 16]))


def test_tables_of_unequal_length_are_refused() -> None:
    with pytest.raises(ValueError, match="rows"):
        _kernels.locate_rows(np.array([0]), np.array([0, 5]), np.array([0, 8, 16]))

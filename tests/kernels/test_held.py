"""Bytes of files that are in memory, in any buffers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

CONTENT = bytes(n * 37 % 253 for n in range(1000))
SPANS = st.tuples(st.integers(0, 999), st.integers(0, 400)).map(
    lambda pair: (pair[0], min(1000, sum(pair)))
)


def held(spans: list[tuple[int, int]]) -> _kernels.HeldFile:
    buffers = [memoryview(CONTENT)[start:stop] for start, stop in spans]
    return _kernels.HeldFile([start for start, _ in spans], buffers)


@given(st.lists(SPANS, max_size=12), st.lists(SPANS, min_size=1, max_size=5))
def test_what_buffers_cover_is_given(
    spans: list[tuple[int, int]], pieces: list[tuple[int, int]]
) -> None:
    covered = {byte for start, stop in spans for byte in range(start, stop)}
    starts, stops = np.array(pieces).T.copy()
    if all(covered.issuperset(range(start, stop)) for start, stop in pieces):
        content = _kernels.gather([held(spans)], [len(pieces)], starts, stops)
        assert bytes(content) == b"".join(CONTENT[start:stop] for start, stop in pieces)
    else:
        with pytest.raises(ValueError, match="a piece is not held"):
            _kernels.gather([held(spans)], [len(pieces)], starts, stops)


@given(st.lists(SPANS, max_size=12), st.lists(SPANS, max_size=12), SPANS)
def test_bytes_that_are_added_later_are_held_as_well(
    first: list[tuple[int, int]], later: list[tuple[int, int]], piece: tuple[int, int]
) -> None:
    file, together = held(first), held(first + later)
    content = memoryview(b"".join(CONTENT[start:stop] for start, stop in later))
    starts, stops = np.array(later, np.int64).reshape(-1, 2).T.copy()
    file.add_pieces(starts, stops, content)
    single = held(first)
    for start, stop in later:
        single.add(start, memoryview(CONTENT)[start:stop])

    def bytes_of(file: _kernels.HeldFile) -> bytes | None:
        try:
            return bytes(_kernels.gather([file], [1], *np.array([piece]).T.copy()))
        except ValueError:
            return None

    assert bytes_of(file) == bytes_of(single) == bytes_of(together)


@pytest.mark.parametrize(
    ("starts", "stops", "size"),
    [([0], [1, 2], 1), ([0], [2], 1), ([0], [1], 2), ([3], [2], 1), ([-1], [0], 1)],
)
def test_pieces_whose_bytes_are_others(starts: list[int], stops: list[int], size: int) -> None:
    file = held([(0, 10)])
    with pytest.raises(ValueError, match="held bytes"):
        file.add_pieces(np.array(starts), np.array(stops), memoryview(bytes(size)))
    assert bytes(_kernels.gather([file], [1], np.array([0]), np.array([10]))) == CONTENT[:10]


def test_pieces_of_several_files_lie_one_behind_the_other() -> None:
    files = [held([(0, 10)]), held([]), held([(500, 700), (600, 1000)])]
    starts, stops = np.array([2, 550, 990]), np.array([5, 750, 1000])
    content = _kernels.gather(files, [1, 1, 3], starts, stops)
    assert bytes(content) == CONTENT[2:5] + CONTENT[550:750] + CONTENT[990:]


@pytest.mark.parametrize(
    ("ends", "starts", "stops"),
    [([1], [0, 1], [1, 2]), ([2], [0, 1], [1]), ([3], [0], [1]), ([1], [5], [2])],
)
def test_pieces_that_contradict_themselves(
    ends: list[int], starts: list[int], stops: list[int]
) -> None:
    with pytest.raises(ValueError, match="held bytes"):
        _kernels.gather([held([(0, 10)])], ends, np.array(starts), np.array(stops))


def test_buffers_that_begin_nowhere() -> None:
    with pytest.raises(ValueError, match="a beginning for each buffer"):
        _kernels.HeldFile([1, 2], [memoryview(b"a")])
    with pytest.raises(ValueError, match="beginning"):
        _kernels.HeldFile([-1], [memoryview(b"a")])
    with pytest.raises(ValueError, match="beginning"):
        held([]).add(-1, memoryview(b"a"))

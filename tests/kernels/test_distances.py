"""Distances of texts beside a table of all prefixes; sizes are checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels

TEXTS = st.lists(
    st.tuples(*2 * [st.text(st.sampled_from("abcä\U0001f600\x80\xff"), max_size=80)]), max_size=2
)


def distance(text: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for number, character in enumerate(text):
        last, row = row, [number + 1]
        for place, against in enumerate(other):
            row.append(min(last[place] + (character != against), last[place + 1] + 1, row[-1] + 1))
    return row[-1]


def together(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
    return ends, np.frombuffer("".join(texts).encode("utf-32-le"), np.uint32)


@given(TEXTS)
def test_distances_are_those_of_a_table_of_prefixes(pairs: list[tuple[str, str]]) -> None:
    left, right = ([pair[side] for pair in pairs] for side in (0, 1))
    distances = _kernels.edit_distances(*together(left), *together(right))
    assert distances.tolist() == [distance(*pair) for pair in pairs]


def test_lengths_about_a_word() -> None:
    """Sixty-four characters that are all different, and that fall on the same places."""
    for length in (1, 63, 64, 65, 128):
        text = "".join(chr(300 + 128 * number) for number in range(length))
        other = "x" + text[::-1][: length - 1] + "yz"
        for pair in ((text, other), (other, text)):
            ours = _kernels.edit_distances(*together([pair[0]]), *together([pair[1]]))
            assert ours.tolist() == [distance(*pair)]


def test_wrong_ends_are_refused() -> None:
    ends, codes = together(["ab", "c"])
    for wrong in ([0, 4, 3], [0, 2, 4], [-1, 2, 3], [2, 1, 3]):
        with pytest.raises(ValueError, match="characters"):
            _kernels.edit_distances(np.array(wrong), codes, ends, codes)
        with pytest.raises(ValueError, match="characters"):
            _kernels.edit_distances(ends, codes, np.array(wrong), codes)
    for few in (np.array([0, 2]), np.array([], np.int64)):
        with pytest.raises(ValueError, match="one text for each"):
            _kernels.edit_distances(few, codes, ends, codes)

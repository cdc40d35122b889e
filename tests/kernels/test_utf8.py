"""UTF-8 against Python's own decoder."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from alance import _kernels

NOTHING = np.empty(0, np.uint8)


def is_text(content: bytes) -> bool:
    try:
        content.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20),
            st.text(max_size=20).map(str.encode),
            st.sampled_from([b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80", b"\xe0\x9f\xbf"]),
        ),
        max_size=12,
    ),
    st.booleans(),
)
@example([b"\xc3", b"\xa9"], False)  # a character cut in two: each half is bad
def test_the_first_string_that_is_no_text(strings: list[bytes], wide: bool) -> None:
    stops = [0, *itertools.accumulate(map(len, strings))]
    offsets = np.array(stops, np.int64 if wide else np.int32)
    data = np.frombuffer(b"".join(strings), np.uint8)
    bad = [number for number, item in enumerate(strings) if not is_text(item)]
    assert _kernels.first_bad_utf8(offsets, data, NOTHING) == (bad[0] if bad else -1)
    if strings:
        valid = np.array([number not in bad[:1] for number in range(len(strings))], np.uint8)
        assert _kernels.first_bad_utf8(offsets, data, valid) == (bad[1] if bad[1:] else -1)


@pytest.mark.parametrize("offsets", [[0, 5], [0, 2, 1], [-1, 2]])
def test_offsets_outside_of_the_bytes_are_refused(offsets: list[int]) -> None:
    with pytest.raises(ValueError, match="strings: bytes"):
        _kernels.first_bad_utf8(np.array(offsets, np.int32), np.zeros(4, np.uint8), NOTHING)

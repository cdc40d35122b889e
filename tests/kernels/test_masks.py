"""Ranges of whole numbers as bits, and the rows whose bits are true, against numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from alance import _kernels

if TYPE_CHECKING:
    import numpy.typing as npt

EMPTY = np.empty(0, np.uint8)
INTEGERS = [np.dtype(f"{kind}{width}") for kind in "iu" for width in (1, 2, 4, 8)]


@st.composite
def numbers(draw: st.DrawFn) -> npt.NDArray[np.integer[Any]]:
    dtype = draw(st.sampled_from(INTEGERS))
    sample: npt.NDArray[np.integer[Any]] = draw(hnp.arrays(dtype, st.integers(0, 200)))
    return sample


@given(values=numbers(), data=st.data())
def test_ranges_are_those_of_numpy(
    values: npt.NDArray[np.integer[Any]], data: st.DataObject
) -> None:
    about, bits = np.iinfo(values.dtype), 8 * values.dtype.itemsize
    bound = st.integers(int(about.min), int(about.max))
    if len(values):
        bound |= st.sampled_from(values.tolist())
    low, high = sorted(data.draw(st.tuples(bound, bound)))
    first = data.draw(st.integers(0, len(values)))
    count = data.draw(st.integers(0, len(values) - first))
    marks = _kernels.within(
        values.view(np.uint8), first, count, bits, low % (1 << bits), high - low
    )
    assert len(marks) == (count + 7) // 8
    expected = (values >= low) & (values <= high)
    bits_of = np.unpackbits(marks, bitorder="little")[:count].astype(np.bool_)
    assert bits_of.tolist() == expected[first : first + count].tolist()


@given(
    st.lists(st.booleans(), max_size=300),
    st.integers(0, 70),
    st.sampled_from(["none", "all", "some"]),
)
def test_true_rows_are_those_of_numpy(rows: list[bool], first: int, kind: str) -> None:
    mask = np.array(rows, np.bool_)
    first = min(first, len(mask))
    valid = np.ones(len(mask), np.bool_)
    if kind == "some":
        valid = np.roll(mask, 3)
    content = EMPTY if kind == "none" else np.packbits(valid, bitorder="little")
    count = len(mask) - first
    true = _kernels.true_rows(np.packbits(mask, bitorder="little"), content, first, count)
    assert true.dtype == np.int64
    assert true.tolist() == np.flatnonzero((mask & valid)[first:]).tolist()
    if count > 3:  # bits behind the last row are not looked at
        fewer = _kernels.true_rows(np.packbits(mask, bitorder="little"), content, first, count - 3)
        assert fewer.tolist() == np.flatnonzero((mask & valid)[first : len(mask) - 3]).tolist()


def test_rows_beyond_the_bytes_are_refused() -> None:
    for first, count in ((0, 9), (1, 8), (-1, 2), (0, -1), (1 << 61, 1 << 61)):
        with pytest.raises(ValueError, match="within"):
            _kernels.within(np.zeros(32, np.uint8), first, count, 32, 0, 0)
    with pytest.raises(ValueError, match="24 bits"):
        _kernels.within(np.zeros(32, np.uint8), 0, 1, 24, 0, 0)
    for first, count in ((0, 17), (9, 8), (-1, 2), (0, -1), ((1 << 63) - 1, 1)):
        with pytest.raises(ValueError, match="true_rows"):
            _kernels.true_rows(np.zeros(2, np.uint8), EMPTY, first, count)
    with pytest.raises(ValueError, match="true_rows"):
        _kernels.true_rows(np.zeros(2, np.uint8), np.zeros(1, np.uint8), 0, 16)

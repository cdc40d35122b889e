"""Values picked by their places, against plain Python and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.errors import BatchTooLargeError, CorruptFileError
from alance.format.blocks import VariableWidth, gather
from tests.reference.chunks import strings, variable

texts = st.lists(st.binary(max_size=50), max_size=12)


@given(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 40)), max_size=20))
def test_spans_are_joined_in_any_order(spans: list[tuple[int, int]]) -> None:
    data = np.arange(130, dtype=np.uint8)
    starts, sizes = np.array(spans, np.int64).reshape(-1, 2).T.copy()
    block = VariableWidth(*_kernels.concat_spans(data, starts, sizes))
    assert strings(block) == [data[a : a + n].tobytes() for a, n in spans]


def test_spans_outside_of_the_buffer_are_refused() -> None:
    with pytest.raises(ValueError, match="of a buffer of 10"):
        _kernels.concat_spans(np.zeros(10, np.uint8), np.array([5]), np.array([6]))


@given(texts.filter(len), st.data(), st.sampled_from(["i4", "i8"]))
def test_strings_are_picked(values: list[bytes], data: st.DataObject, dtype: str) -> None:
    indices = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=30))
    picked = gather(variable(values, dtype), np.array(indices, np.int64))
    assert isinstance(picked, VariableWidth)
    assert strings(picked) == [values[i] for i in indices]
    assert picked.offsets.dtype == dtype


@pytest.mark.parametrize("index", [-1, 3, 2**62, -(2**63)])
def test_indices_outside_are_refused(index: int) -> None:
    with pytest.raises(CorruptFileError, match="an index"):
        gather(variable([b"a", b"b", b"c"]), np.array([0, index]))


@pytest.mark.parametrize("offsets", [[0, 4], [-1, 1], [2, 1]])
def test_strings_outside_of_their_bytes_are_refused(offsets: list[int]) -> None:
    block = VariableWidth(np.array(offsets, np.int32), np.zeros(3, np.uint8))
    with pytest.raises(CorruptFileError, match="values"):
        gather(block, np.array([0]))


def test_picking_more_bytes_than_32_bits_can_say_overflows() -> None:
    with pytest.raises(BatchTooLargeError, match="2147483648 bytes"):
        gather(variable([bytes(2**20)]), np.zeros(2**11, np.int64))

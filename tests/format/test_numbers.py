"""Arrow arrays as numpy arrays."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from alance.format.numbers import as_mask, as_numbers


@pytest.mark.parametrize("skipped", [0, 1, 7, 8, 9, 20])
def test_masks_of_slices(skipped: int) -> None:
    values = [True, False, None, True, True, False, None] * 5
    array = pa.array(values).slice(skipped)
    assert as_mask(array).tolist() == [value is True for value in values[skipped:]]
    assert as_mask(pa.array([True, False])).tolist() == [True, False]


def test_numbers_of_slices_and_chunks() -> None:
    array = pa.array(range(100), pa.uint64())
    assert as_numbers(array.slice(3, 5)).tolist() == [3, 4, 5, 6, 7]
    assert as_numbers(pa.chunked_array([array.slice(0, 2), array.slice(9, 1)])).tolist() == [
        0,
        1,
        9,
    ]


def test_pandas_stays_out() -> None:
    text = (
        "import sys, pyarrow as pa\n"
        "from alance.format.numbers import as_mask, as_numbers\n"
        "as_numbers(pa.array([1])), as_mask(pa.array([True]))\n"
        "assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", text], check=True)

"""Arrow arrays as numpy arrays, offsets and positions."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.format.numbers import (
    as_mask,
    as_numbers,
    contents_of,
    distinct,
    offsets_of,
    positions_of,
    to_arrow,
    union,
)

if TYPE_CHECKING:
    from pathlib import Path


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


@pytest.mark.parametrize(
    "arrow",
    [
        pa.string(),
        pa.large_string(),
        pa.string_view(),
        pa.binary(),
        pa.large_binary(),
        pa.binary_view(),
        pa.binary(2),
    ],
    ids=str,
)
@pytest.mark.parametrize("taken", [slice(0, 5), slice(1, 4), slice(2, 2), slice(4, 5)], ids=str)
def test_contents_of_slices_of_texts_and_bytes(arrow: pa.DataType, taken: slice) -> None:
    values: list[str | bytes | None] = ["ab", None, "é", "cd", "ef"]
    if "binary" in str(arrow):
        values = [b"ab", None, b"\xff\xfe", b"cd", b"ef"]  # what is no text
    array = pa.array(values, arrow)[taken]
    offsets, content = contents_of(array)
    assert len(offsets) == len(array) + 1
    for value, start, stop in zip(array.to_pylist(), offsets[:-1], offsets[1:], strict=True):
        plain = value.encode() if isinstance(value, str) else value
        assert value is None or content[start:stop].tobytes() == plain


def test_contents_of_large_types_are_shared() -> None:
    for arrow in (pa.large_string(), pa.large_binary()):
        array = pa.array(["ab", "cd"], arrow)
        offsets, content = contents_of(array)
        _, ends, data = array.buffers()
        assert (offsets.ctypes.data, content.ctypes.data) == (ends.address, data.address)


def test_numpy_to_arrow() -> None:
    assert to_arrow(np.array([1, 2, 3])).to_pylist() == [1, 2, 3]
    assert to_arrow(np.array([1.5, 2.5], np.float32)).type == pa.float32()
    flags = np.array([True, False] * 9)
    assert to_arrow(flags).to_pylist() == flags.tolist()
    assert to_arrow(flags[::2], flags[9:]).to_pylist() == [
        True if valid else None for valid in flags[9:]
    ]


def test_pandas_stays_out_of_reads(golden: Path) -> None:
    """Importing it would keep the loop for 0.2 s, in the middle of somebody's first read."""
    text = f"""
import asyncio, sys
import alance

async def main():
    dataset = await alance.dataset({str(golden / "lineitem.lance")!r})
    await dataset.take([7, 9000, 7])
    await dataset.to_table(["l_tax", "_rowid"], filter="l_tax > 0.05 and l_shipmode = 'AIR'")
    await dataset.to_table(["l_comment"], limit=10, offset=6000)

asyncio.run(main())
assert "pandas" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", text], check=True)


@given(st.lists(st.integers(-(1 << 62), 1 << 62) | st.integers(0, 5), max_size=30))
def test_distinct_numbers_and_their_places_are_those_of_numpy(values: list[int]) -> None:
    numbers = np.array(values, np.int64)
    result, places = distinct(numbers)
    expected, back = np.unique(numbers, return_inverse=True)
    assert result.tolist() == expected.tolist()
    assert places.tolist() == back.tolist()


@given(st.lists(st.integers(0, 9), max_size=9))
def test_offsets_are_where_pieces_of_some_sizes_begin_and_end(sizes: list[int]) -> None:
    offsets = offsets_of(sizes)
    assert offsets.dtype == np.int64
    assert offsets.tolist() == [sum(sizes[:number]) for number in range(len(sizes) + 1)]
    assert offsets_of(np.array(sizes, np.uint8)).tolist() == offsets.tolist()


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 9)), max_size=9))
def test_positions_are_the_numbers_of_all_ranges(ranges: list[tuple[int, int]]) -> None:
    starts, counts = np.array(ranges, np.int64).reshape(-1, 2).T
    expected = [n for start, count in ranges for n in range(start, start + count)]
    assert positions_of(starts, counts).tolist() == expected


@given(st.sets(st.integers(0, 50)), st.sets(st.integers(0, 50)))
def test_union_has_each_value_once(values: set[int], more: set[int]) -> None:
    arrays = [np.array(sorted(numbers), np.int64) for numbers in (values, more)]
    assert union(*arrays).tolist() == sorted(values | more)

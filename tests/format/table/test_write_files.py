"""Roaring bitmaps, deletion files and row id sequences, written and read back by both."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from alance.errors import InvalidInputError
from alance.format.table.deletions import new_deletion_file, parse_arrow, parse_bitmap
from alance.format.table.roaring import parse_roaring, roaring_bytes
from alance.format.table.row_ids import (
    extended_row_ids,
    num_row_ids,
    one_version_bytes,
    parse_row_ids,
    parse_versions,
    row_ids_bytes,
    versions_bytes,
)
from tests.reference.row_ids import VECTORS


@given(st.lists(st.integers(0, (1 << 32) - 1)) | st.sets(st.integers(0, 200_000), max_size=300))
def test_bitmaps_come_back(values: list[int] | set[int]) -> None:
    content = roaring_bytes(np.array(sorted(values), np.int64))
    assert parse_roaring(memoryview(content)).tolist() == sorted(set(values))
    assert list(BitMap.deserialize(content)) == sorted(set(values))


def test_full_containers_are_bits() -> None:
    rows = np.arange(5001)
    content = roaring_bytes(rows)
    assert len(content) == 8208
    assert len(BitMap.deserialize(content)) == 5001
    assert roaring_bytes(np.array([1, 2])).hex() == "3a30000001000000000001001000000001000200"


def test_bitmaps_have_32_bits() -> None:
    with pytest.raises(ValueError, match="32 bits"):
        roaring_bytes(np.array([1 << 32]))


def test_few_deleted_rows_are_an_arrow_file() -> None:
    rows = np.array([1, 5, 9])
    result = new_deletion_file(3, rows, 7, file_id=11)
    assert result.name == "3-7-11.arrow"
    assert (result.record.file_type, result.record.num_deleted_rows, result.record.id) == (0, 3, 11)
    assert parse_arrow(memoryview(result.content), 10).rows.tolist() == [1, 5, 9]


def test_many_deleted_rows_are_a_bitmap() -> None:
    assert new_deletion_file(0, np.arange(5000), 1).name.endswith(".arrow")
    result = new_deletion_file(0, np.arange(5001), 1, file_id=2)
    assert (result.name, result.record.file_type) == ("0-1-2.bin", 1)
    assert len(parse_bitmap(memoryview(result.content), 6000).rows) == 5001
    few = new_deletion_file(0, np.array([4]), 1, as_bitmap=True)
    assert parse_bitmap(memoryview(few.content), 5).rows.tolist() == [4]


@pytest.mark.parametrize(("expected", "values"), VECTORS)
def test_row_ids_are_the_format_s_own_bytes(expected: str, values: list[int]) -> None:
    assert row_ids_bytes(np.array(values, np.uint64)).hex() == expected


@given(st.lists(st.integers(0, (1 << 64) - 2), unique=True) | st.sets(st.integers(0, 500)))
def test_row_ids_come_back(values: list[int] | set[int]) -> None:
    expected = list(values)
    content = row_ids_bytes(np.array(expected, np.uint64))
    assert parse_row_ids(content, len(expected)).tolist() == expected
    assert num_row_ids(content) == len(expected)


@given(st.lists(st.integers(1, 3)))
def test_versions_come_back(values: list[int]) -> None:
    content = versions_bytes(np.array(values, np.uint64))
    assert parse_versions(content, len(values)).tolist() == values


def test_rows_of_one_version() -> None:
    assert parse_versions(one_version_bytes(4, 3), 3).tolist() == [4, 4, 4]
    assert one_version_bytes(4, 3) == versions_bytes(np.full(3, 4, np.uint64))


def test_row_ids_are_extended_to_the_rows_of_a_fragment() -> None:
    content, following = extended_row_ids(row_ids_bytes(np.array([5, 2], np.uint64)), 4, 90)
    assert (parse_row_ids(content, 4).tolist(), following) == ([5, 2, 90, 91], 92)
    assert extended_row_ids(content, 4, 92) == (content, 92)
    with pytest.raises(InvalidInputError, match="4 for a fragment of 3 rows"):
        extended_row_ids(content, 3, 92)

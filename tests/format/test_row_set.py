"""Row sets against Python sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

import alance
from alance.format.index.bitmap import joined_rows, parse_rows, rows_bytes
from alance.format.row_set import NO_ROWS, RowSet
from alance.format.table.roaring import check_roaring, parse_roaring, roaring_bytes

FRAGMENTS = (0, 1, 2, 7, (1 << 31) - 1)
rows_of_fragments = st.sets(
    st.builds(
        lambda fragment, offset: fragment << 32 | offset,
        st.sampled_from(FRAGMENTS),
        st.one_of(st.integers(0, 200), st.integers(65_500, 65_600), st.integers(0, 2**32 - 1)),
    ),
    max_size=60,
)


def row_set(rows: set[int]) -> RowSet:
    """The set, from rows in no order."""
    return RowSet(np.array(list(rows), np.int64))


@given(rows_of_fragments, rows_of_fragments)
def test_sets_are_as_those_of_python(rows: set[int], others: set[int]) -> None:
    ours, other = row_set(rows), row_set(others)
    assert (ours & other).to_numpy().tolist() == sorted(rows & others)
    assert (ours | other).to_numpy().tolist() == sorted(rows | others)
    assert (ours - other).to_numpy().tolist() == sorted(rows - others)
    assert ours.count_common(other) == len(rows & others)
    assert RowSet.union([ours, other, ours]) == ours | other
    assert (len(ours), bool(ours), ours == other) == (len(rows), bool(rows), rows == others)
    array = np.array([*rows, *others], np.int64)
    assert ours.mask_of(array).tolist() == [row in rows for row in array.tolist()]
    assert all((row in ours) == (row in rows) for row in others)


@given(rows_of_fragments)
def test_rows_by_fragment(rows: set[int]) -> None:
    ours = row_set(rows)
    assert ours.fragments() == sorted({row >> 32 for row in rows})
    for fragment in FRAGMENTS:
        offsets = sorted(row & 0xFFFF_FFFF for row in rows if row >> 32 == fragment)
        assert ours.offsets_of(fragment).tolist() == offsets
        assert ours.count_of(fragment) == len(offsets)
        if offsets:
            assert ours.span_of(fragment) == (offsets[0], offsets[-1] + 1)
        else:
            with pytest.raises(ValueError, match="none in fragment"):
                ours.span_of(fragment)


@given(st.dictionaries(st.sampled_from(FRAGMENTS), st.integers(0, 70_000)), rows_of_fragments)
def test_whole_fragments_are_sets_of_all_their_rows(
    num_rows: dict[int, int], deleted: set[int]
) -> None:
    whole = RowSet.of_fragments(num_rows.items())
    assert len(whole) == sum(num_rows.values())
    assert whole.fragments() == sorted(key for key, count in num_rows.items() if count)
    live = whole - row_set(deleted)
    gone = [row for row in deleted if row & 0xFFFF_FFFF < num_rows.get(row >> 32, 0)]
    assert len(live) == len(whole) - len(gone)
    assert not live & row_set(deleted)


def test_all_rows_of_a_table_take_little_time_and_memory() -> None:
    whole = RowSet.of_fragments((fragment, 1 << 30) for fragment in range(4))
    assert len(whole) == 4 << 30
    assert len(whole & RowSet(np.array([5, 9 << 32]))) == 1


def test_sets_that_come_out_leave_the_others_as_they_were() -> None:
    rows, other = row_set({1, 2}), row_set({2, 3})
    assert not NO_ROWS
    assert [len(part) for part in (rows & other, rows | other, rows - other)] == [1, 3, 1]
    assert (rows.to_numpy().tolist(), other.to_numpy().tolist()) == ([1, 2], [2, 3])
    assert repr(rows) == "RowSet of 2 rows"


bitmaps = st.one_of(
    st.sets(st.integers(0, 2**32 - 1), max_size=50).map(BitMap),
    st.tuples(st.integers(0, 200_000), st.integers(1, 150_000)).map(
        lambda span: BitMap(range(span[0], span[0] + span[1]))
    ),
    st.integers(1, 9).map(lambda step: BitMap(range(0, 140_000, step))),
)


@given(bitmaps, st.data())
def test_bitmaps_are_checked_before_pyroaring_has_them(bitmap: BitMap, data: st.DataObject) -> None:
    content = bitmap.serialize()
    check_roaring(memoryview(content))
    assert parse_roaring(memoryview(content)).tolist() == bitmap.to_array().tolist()
    rows = RowSet.of_bitmaps([(1, content), (3, memoryview(content))])
    assert rows.offsets_of(3).tolist() == bitmap.to_array().tolist()
    with pytest.raises(alance.CorruptFileError):
        check_roaring(memoryview(content + b"\0"))
    with pytest.raises(alance.CorruptFileError):
        check_roaring(memoryview(content)[: data.draw(st.integers(0, len(content) - 1))])
    spoiled = bytearray(content)
    spoiled[data.draw(st.integers(0, min(len(content), 200) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        check_roaring(memoryview(spoiled))
    except alance.CorruptFileError:
        return
    values = parse_roaring(memoryview(spoiled))
    assert RowSet.of_bitmaps([(0, bytes(spoiled))]).to_numpy().tolist() == values.tolist()


@given(bitmaps)
def test_bitmaps_are_written_as_pyroaring_writes_them(bitmap: BitMap) -> None:
    values = np.array(bitmap.to_array(), np.int64)
    assert BitMap.deserialize(roaring_bytes(values)) == bitmap


@given(st.lists(st.tuples(st.integers(0, 3), bitmaps), max_size=4), st.data())
def test_row_sets_of_indices_are_checked_before_they_are_used(
    parts: list[tuple[int, BitMap]], data: st.DataObject
) -> None:
    rows = [high << 32 | low for high, bitmap in parts for low in bitmap]
    content = rows_bytes(np.array(rows, np.int64))
    assert parse_rows(memoryview(content)).to_numpy().tolist() == sorted({*rows})
    halves = [memoryview(rows_bytes(np.array(rows[at::2], np.int64))) for at in (0, 1)]
    assert joined_rows(halves) == content
    with pytest.raises(alance.CorruptFileError):
        parse_rows(memoryview(content + b"\0"))
    with pytest.raises(alance.CorruptFileError):
        parse_rows(memoryview(content)[: data.draw(st.integers(0, len(content) - 1))])
    spoiled = bytearray(content)
    spoiled[data.draw(st.integers(0, min(len(content), 200) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        parse_rows(memoryview(spoiled)).to_numpy()
    except (alance.CorruptFileError, alance.UnsupportedError):
        return


def test_a_value_of_more_than_32_bits_is_in_no_bitmap() -> None:
    for value in (-1, 1 << 32):
        with pytest.raises(ValueError, match=r"negative|32 bits"):
            roaring_bytes(np.array([0, value], np.int64))


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(1, 300)), max_size=30))
def test_runs_are_the_rows_of_each(gaps: list[tuple[int, int]]) -> None:
    starts = np.cumsum([gap + length for gap, length in gaps], dtype=np.int64) + (5 << 32)
    lengths = np.array([length for _, length in gaps], np.int64)
    rows = RowSet.of_runs(starts, lengths)
    right = {
        row
        for start, length in zip(starts, lengths, strict=True)
        for row in range(start, start + length)
    }
    assert rows.to_numpy().tolist() == sorted(right)

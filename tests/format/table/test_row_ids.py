"""Row id and version sequences: the five forms of segments, and spoiled bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance.errors import CorruptFileError, NotFoundError
from alance.format.proto import rowids_pb2 as pb
from alance.format.table.row_ids import parse_row_ids, parse_versions
from alance.versioning.row_index import RowIdIndex, RowValues, runs_of
from tests.reference.row_ids import VECTORS

SEQUENCES = [
    *VECTORS,
    (
        "0a071a0510051a01110a060a04080510060a091a07080210081a01210a091a07080310091a0121",
        [0, 4, 5, 2, 7, 3, 8],
    ),
]
VERSIONS = [
    (
        "0a0b0a071a0510051a011110010a080a040a02100110020a080a040a02100110010a0a0a060a040801100210"
        "020a080a040a02100110010a0a0a060a04080110021005",
        [1, 1, 2, 1, 2, 1, 5],
    ),
    (
        "0a0b0a071a0510051a011110010a080a040a02100110020a080a040a02100210040a080a040a0210021005",
        [1, 1, 2, 4, 4, 5, 5],
    ),
]


@pytest.mark.parametrize(("content", "expected"), SEQUENCES)
def test_every_form_of_segment_gives_its_row_ids(content: str, expected: list[int]) -> None:
    result = parse_row_ids(bytes.fromhex(content), len(expected))
    assert result.dtype == np.uint64
    assert result.tolist() == expected


@pytest.mark.parametrize(("content", "expected"), VERSIONS)
def test_every_form_of_segment_gives_its_versions(content: str, expected: list[int]) -> None:
    assert parse_versions(bytes.fromhex(content), len(expected)).tolist() == expected


@pytest.mark.parametrize(("content", "expected"), SEQUENCES)
def test_sequences_of_another_length_are_refused(content: str, expected: list[int]) -> None:
    for length in (len(expected) - 1, len(expected) + 1):
        if length >= 0:
            with pytest.raises(CorruptFileError):
                parse_row_ids(bytes.fromhex(content), length)


@pytest.mark.parametrize(("content", "expected"), [*SEQUENCES, *VERSIONS])
def test_spoiled_sequences_are_parsed_or_refused(content: str, expected: list[int]) -> None:
    good = bytes.fromhex(content)
    spoiled = [good[:end] for end in range(len(good))]
    for position in range(len(good)):
        for bit in range(8):
            flipped = bytearray(good)
            flipped[position] ^= 1 << bit
            spoiled.append(bytes(flipped))
    for parse in (parse_row_ids, parse_versions):
        for item in spoiled:
            with contextlib.suppress(CorruptFileError):
                assert len(parse(item, len(expected))) == len(expected)


@given(st.binary(max_size=60))
def test_any_bytes_are_parsed_or_refused(content: bytes) -> None:
    for parse in (parse_row_ids, parse_versions):
        with contextlib.suppress(CorruptFileError):
            assert len(parse(content, 5)) == 5


def test_huge_claims_allocate_nothing() -> None:
    huge = (1 << 64) - 1
    segments = [
        pb.U64Segment(range=pb.U64Segment.Range(start=0, end=huge)),
        pb.U64Segment(range_with_holes=pb.U64Segment.RangeWithHoles(start=0, end=huge)),
        pb.U64Segment(range_with_bitmap=pb.U64Segment.RangeWithBitmap(start=0, end=huge)),
    ]
    for segment in segments:
        with pytest.raises(CorruptFileError):
            parse_row_ids(pb.RowIdSequence(segments=[segment]).SerializeToString(), 5)
        run = pb.RowDatasetVersionRun(span=segment, version=1)
        with pytest.raises(CorruptFileError):
            parse_versions(pb.RowDatasetVersionSequence(runs=[run]).SerializeToString(), 5)


@given(st.lists(st.integers(0, (1 << 64) - 1), min_size=1, max_size=30), st.data())
def test_values_of_rows_are_looked_up_by_position(values: list[int], data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(values) - 1), max_size=10))
    for step in (0, 1):
        result = RowValues.of(np.array(values, np.uint64), step).at(np.array(rows, np.int64))
        assert result.tolist() == [values[row] for row in rows]


@given(st.permutations(range(40)), st.sets(st.integers(0, 39)), st.data())
def test_the_index_finds_the_live_rows_alone(
    ids: list[int], dead: set[int], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, 40))
    parts = []
    expected: dict[int, int] = {}
    for fragment, ours in ((3, ids[:cut]), (7, ids[cut:])):
        live = [row for row, item in enumerate(ours) if item not in dead]
        parts.append(runs_of(fragment, np.array(ours, np.uint64), np.array(live, np.int64)))
        expected |= {ours[row]: fragment << 32 | row for row in live}
    index = RowIdIndex.of(parts)
    target = data.draw(st.lists(st.sampled_from(sorted(expected)), max_size=9)) if expected else []
    result = index.addresses_of(np.array(target, np.int64))
    assert result.tolist() == [expected[item] for item in target]
    for missing in [*dead, 40, 1 << 62]:
        with pytest.raises(NotFoundError, match=str(missing)):
            index.addresses_of(np.array([missing]))


def test_row_index_refuses_two_rows_of_one_id() -> None:
    ids = np.arange(5, dtype=np.uint64)
    with pytest.raises(CorruptFileError, match="row id 0"):
        RowIdIndex.of([runs_of(0, ids), runs_of(1, ids)])
    with pytest.raises(NotFoundError):
        RowIdIndex.of([]).addresses_of(np.array([0]))
    assert len(RowIdIndex.of([]).addresses_of(np.array([], np.int64))) == 0

"""Deletion vectors: both forms against pyarrow and pyroaring, and spoiled bytes."""

from __future__ import annotations

import contextlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from alance.errors import CorruptFileError
from alance.format.table.deletions import DeletionVector, parse_arrow, parse_bitmap
from alance.format.table.roaring import parse_roaring

ROWS = st.lists(st.integers(0, 300_000), max_size=50)
FIELD = pa.field("row_id", pa.uint32(), nullable=False)


def arrow_file(
    rows: list[int], field: pa.Field = FIELD, batches: int = 1, compression: str | None = "zstd"
) -> memoryview:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    schema = pa.schema([field])
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        for _ in range(batches):
            writer.write_batch(pa.record_batch([pa.array(rows, field.type)], schema=schema))
    return memoryview(sink.getvalue())


@given(ROWS, st.sampled_from([None, "zstd", "lz4"]))
def test_arrow_form(rows: list[int], compression: str | None) -> None:
    found = parse_arrow(arrow_file(rows, compression=compression), 300_001)
    assert found.rows.tolist() == sorted(set(rows))
    assert found.num_live_rows == 300_001 - len(set(rows))


@given(ROWS, st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 80_000)), max_size=3))
def test_bitmap_form(rows: list[int], ranges: list[tuple[int, int]]) -> None:
    bitmap = BitMap(rows)
    for start, length in ranges:
        bitmap.add_range(start, start + length)
    for optimized in (False, True):
        if optimized:
            bitmap.run_optimize()
        found = parse_bitmap(memoryview(bitmap.serialize()), 300_001)
        assert found.rows.tolist() == list(bitmap)


def test_known_bytes() -> None:
    content = bytes.fromhex("3a30000001000000000001001000000001000200")
    assert parse_roaring(memoryview(content)).tolist() == [1, 2]
    bits = np.packbits(np.arange(1 << 16) < 5001, bitorder="little").tobytes()
    full = bytes.fromhex("3a300000010000000000881310000000") + bits
    assert parse_roaring(memoryview(full)).tolist() == list(range(5001))


def test_rows_beyond_the_fragment() -> None:
    for content, parse in (
        (arrow_file([3]), parse_arrow),
        (memoryview(BitMap([3]).serialize()), parse_bitmap),
    ):
        assert parse(content, 4).rows.tolist() == [3]
        with pytest.raises(CorruptFileError, match="row 3, the fragment has 3"):
            parse(content, 3)


@pytest.mark.parametrize(
    "content",
    [
        arrow_file([1], FIELD.with_name("rows")),
        arrow_file([1], FIELD.with_nullable(True)),
        arrow_file([1], FIELD.with_type(pa.int32())),
        arrow_file([1], batches=2),
        arrow_file([1], batches=0),
        memoryview(b""),
        memoryview(b"ARROW1\0\0"),
    ],
)
def test_other_arrow_files(content: memoryview) -> None:
    with pytest.raises(CorruptFileError, match="deletion file"):
        parse_arrow(content, 10)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_spoiled_arrow_files(compression: str | None) -> None:
    content = bytes(arrow_file([1, 5, 7], compression=compression))
    for end in range(0, len(content), 7):
        with pytest.raises(CorruptFileError):
            parse_arrow(memoryview(content[:end]), 10)
    spoiled = bytearray(content)
    for position in range(len(spoiled)):
        spoiled[position] ^= 1 << (position % 8)
        with contextlib.suppress(CorruptFileError):
            parse_arrow(memoryview(bytes(spoiled)), 10)
        spoiled[position] ^= 1 << (position % 8)


def test_spoiled_bitmaps() -> None:
    bitmap = BitMap([1, 5, 70_000, *range(200_000, 211_000, 2)])
    bitmap.add_range(300_000, 300_100)
    for optimized in (False, True):
        if optimized:
            bitmap.run_optimize()
        content = bitmap.serialize()
        for end in range(0, len(content), 11):
            with pytest.raises(CorruptFileError):
                parse_roaring(memoryview(content[:end]))
        spoiled = bytearray(content)
        for position in [*range(200), *range(200, len(spoiled), 97)]:
            if position < len(spoiled):
                spoiled[position] ^= 1 << (position % 8)
                with contextlib.suppress(CorruptFileError):
                    parse_roaring(memoryview(bytes(spoiled)))
                spoiled[position] ^= 1 << (position % 8)


@given(st.binary(max_size=100))
def test_any_bytes(content: bytes) -> None:
    for parse in (parse_arrow, parse_bitmap):
        with contextlib.suppress(CorruptFileError):
            parse(memoryview(content), 1000)


@given(st.sets(st.integers(0, 59)), st.data())
def test_offsets(deleted: set[int], data: st.DataObject) -> None:
    vector = DeletionVector(np.array(sorted(deleted), np.int64), 60)
    live = [row for row in range(60) if row not in deleted]
    assert vector.num_live_rows == len(live)
    assert vector.to_physical(np.arange(len(live))).tolist() == live
    rows = np.arange(60)
    assert vector.contains(rows).tolist() == [row in deleted for row in range(60)]
    start = data.draw(st.integers(0, 60))
    stop = data.draw(st.integers(start, 60))
    mask = vector.live_mask(start, stop)
    expected = [row not in deleted for row in range(start, stop)]
    assert expected == ([True] * (stop - start) if mask is None else mask.tolist())

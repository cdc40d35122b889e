"""Deletion vectors: both forms against pyarrow and pyroaring, and spoiled bytes."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap

from alance.errors import CorruptFileError
from alance.format.proto import table_pb2
from alance.format.table.deletions import DeletionVector, parse_arrow, parse_bitmap
from alance.format.table.indices import Index
from alance.format.table.roaring import parse_roaring

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
def test_the_arrow_form_has_all_deleted_rows(rows: list[int], compression: str | None) -> None:
    result = parse_arrow(arrow_file(rows, compression=compression), 300_001)
    assert result.rows.tolist() == sorted(set(rows))


@given(ROWS, st.lists(st.tuples(st.integers(0, 200_000), st.integers(1, 80_000)), max_size=3))
def test_the_bitmap_form_has_all_deleted_rows(
    rows: list[int], ranges: list[tuple[int, int]]
) -> None:
    bitmap = BitMap(rows)
    for start, length in ranges:
        bitmap.add_range(start, start + length)
    for optimized in (False, True):
        if optimized:
            bitmap.run_optimize()
        result = parse_bitmap(memoryview(bitmap.serialize()), 300_001)
        assert result.rows.tolist() == list(bitmap)


def test_bitmaps_of_the_specification_are_parsed() -> None:
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
        with pytest.raises(CorruptFileError, match=r"3.*the fragment has 3"):
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


def test_spoiled_bitmaps_are_refused() -> None:
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
def test_any_bytes_are_parsed_or_refused(content: bytes) -> None:
    for parse in (parse_arrow, parse_bitmap):
        with contextlib.suppress(CorruptFileError):
            parse(memoryview(content), 1000)


@given(st.sets(st.integers(0, 59)), st.data())
def test_live_offsets_and_physical_rows_are_converted_both_ways(
    deleted: set[int], data: st.DataObject
) -> None:
    vector = DeletionVector(np.array(sorted(deleted), np.int64), 60)
    live = [row for row in range(60) if row not in deleted]
    assert vector.to_physical(np.arange(len(live))).tolist() == live
    rows = np.arange(60)
    assert vector.contains(rows).tolist() == [row in deleted for row in range(60)]
    start = data.draw(st.integers(0, 60))
    stop = data.draw(st.integers(start, 60))
    mask = vector.live_mask(start, stop)
    expected = [row not in deleted for row in range(start, stop)]
    assert expected == ([True] * (stop - start) if mask is None else mask.tolist())


def test_files_of_pylance_begin_with_another_padding(tmp_path: Path) -> None:
    lance.write_dataset(pa.table({"a": range(100)}), tmp_path / "t").delete("a in (3, 50)")
    (file,) = (tmp_path / "t" / "_deletions").glob("*.arrow")
    assert parse_arrow(memoryview(file.read_bytes()), 100).rows.tolist() == [3, 50]


def all_runs() -> memoryview:
    """A bitmap of all 2^32 values, in 0.9 MB: a run in each of 65536 containers."""
    bitmap = BitMap()
    bitmap.add_range(0, 1 << 32)
    bitmap.run_optimize()
    return memoryview(bitmap.serialize())


def peak_of(parse: Callable[[], object]) -> int:
    """The most bytes that Python and numpy held while something failed as it should."""
    before = pa.default_memory_pool().max_memory()
    tracemalloc.start()
    try:
        with pytest.raises(CorruptFileError):
            parse()
        of_arrow = pa.default_memory_pool().max_memory() - before
        return tracemalloc.get_traced_memory()[1] + of_arrow
    finally:
        tracemalloc.stop()


def test_a_bitmap_that_claims_all_rows_costs_nothing() -> None:
    content = all_runs()
    assert len(content) < 1_000_000
    for rows in (0, 10, 1_000_000):
        assert peak_of(lambda rows=rows: parse_bitmap(content, rows)) < 16 << 20


def test_containers_of_more_rows_than_stated_cost_a_container() -> None:
    content = bytearray(all_runs())
    flags = 4 + (1 << 16) // 8
    heads = np.frombuffer(content, "<u2", 2 << 16, flags).reshape(-1, 2)
    heads[:, 1] = 0
    assert peak_of(lambda: parse_bitmap(memoryview(content), (1 << 32) - 1)) < 16 << 20


def test_an_index_that_claims_all_fragments_costs_nothing() -> None:
    message = table_pb2.IndexMetadata(name="i", fragment_bitmap=bytes(all_runs()))
    message.uuid.uuid = bytes(16)
    assert peak_of(lambda: Index.from_protobuf(message)) < 16 << 20


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_batch_that_claims_many_rows_costs_nothing(compression: str) -> None:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    schema = pa.schema([FIELD])
    rows = pa.array(np.zeros(20_000_000, np.uint32))
    with pa.ipc.new_file(sink, schema, options=options) as writer:
        writer.write_batch(pa.record_batch([rows], schema=schema))
    del rows
    content = memoryview(sink.getvalue())
    assert len(content) < 1_000_000
    assert peak_of(lambda: parse_arrow(content, 1000)) < 16 << 20


@given(ROWS, st.data())
def test_a_batch_with_spoiled_sizes_is_refused_or_read(
    rows: list[int], data: st.DataObject
) -> None:
    content = bytearray(arrow_file(rows))
    place = data.draw(st.integers(8, len(content) - 9))
    content[place : place + 8] = data.draw(st.binary(min_size=8, max_size=8))
    with contextlib.suppress(CorruptFileError):
        result = parse_arrow(memoryview(content), 300_001)
        assert len(result.rows) <= 300_001

"""Damaged files of label, n-gram, zone map and bloom filter indices: never a row that is not asked
for, never a crash; what contradicts itself is not used, or a clear error.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal

import lance
import numpy as np
import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter
from pyroaring import BitMap

import alance
from alance.errors import CorruptFileError
from alance.format.index.bitmap import rows_bytes
from alance.format.index.ngram import parse_postings, postings_bytes
from tests.indices.copies import write_copy
from tests.indices.index_cases import entries, ids, opened_with_sizes, plan_of
from tests.spoiling import spoiled_copies

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = {"l": "LABEL_LIST", "s": "NGRAM", "i": "ZONEMAP", "b": "BLOOMFILTER"}
FILTERS = {
    "l": "array_has(l, 'v3')",
    "s": "contains(s, 'text 17')",
    "i": "i = 4005",
    "b": "b in (6, 1700)",
}


def table(path: Path) -> None:
    write_copy(path, make_table)


def make_table(path: Path) -> None:
    numbers = range(9_000)
    columns = {
        "id": numbers,
        "l": [[f"v{n % 50}", "all"] for n in numbers],
        "s": [f"some text {n}" for n in numbers],
        "i": numbers,
        "b": [2 * n for n in numbers],
    }
    dataset = lance.write_dataset(pa.table(columns), path, max_rows_per_file=4_000)
    for column, kind in COLUMNS.items():
        dataset.create_scalar_index(column, kind)  # type: ignore[arg-type]


async def test_every_spoiled_file_gives_rows_that_are_asked_for_or_an_error(
    tmp_path: Path,
) -> None:
    table(tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    expected = {
        column: await ids(dataset, text, use_scalar_index=False) for column, text in FILTERS.items()
    }
    unused = 0
    for place, _ in spoiled_copies(tmp_path / "t", 48, seed=11):
        async with alance.Session() as session:
            copied = await alance.dataset(place, session=session)
            for column, condition in FILTERS.items():
                try:
                    row_ids = await ids(copied, condition)
                except CorruptFileError:
                    continue
                assert set(row_ids) <= set(expected[column])
                lines = (await plan_of(copied, condition)).index_lines
                unused += any("not used" in line for line in lines)
    assert unused > 8


def rewrite(path: Path, name: str, changed: dict[str, pa.Array]) -> None:
    """Write an index's file again, with other columns."""
    (entry,) = (entry for entry in entries(lance.dataset(path)) if entry["name"] == name)
    (file,) = (path / "_indices" / entry["uuid"]).iterdir()
    stored = LanceFileReader(str(file)).read_all().to_table()
    for column, values in changed.items():
        place = stored.schema.get_field_index(column)
        stored = stored.set_column(place, pa.field(column, values.type), values)
    file.unlink()
    with LanceFileWriter(str(file), stored.schema) as writer:
        writer.write_batch(stored)


def longs(*values: int) -> pa.Array:
    return pa.array(values, pa.uint64())


@pytest.mark.parametrize(
    ("name", "changed", "why"),
    [
        ("i", {"zone_length": longs(4_001, 4_000, 1_000)}, "row 4000 of fragment 0"),
        ("i", {"zone_start": longs(0, 4_000, 0)}, "row 7999 of fragment 1"),
        ("i", {"fragment_id": longs(1, 1, 2)}, "overlap"),
        ("i", {"zone_length": longs(0, 4_000, 1_000)}, "overlap"),
        ("i", {"zone_start": longs(1 << 63, 0, 0)}, "overlap"),
        ("i", {"null_count": pa.array([None, 0, 0], pa.uint32())}, "or null"),
        ("i", {"min": pa.array(["a", "b", "c"])}, "bounds of types"),
        ("b", {"bloom_filter_data": pa.array([b"x" * 33] * 3)}, "bloom filter of 33 bytes"),
        ("b", {"bloom_filter_data": pa.array([b""] * 3)}, "bloom filter of 0 bytes"),
        ("b", {"has_null": pa.array([1, 2, 3])}, "has_null of type int64"),
        ("b", {"fragment_id": longs(0, 0, 2)}, "overlap"),
    ],
)
async def test_what_contradicts_itself_is_not_used(
    tmp_path: Path, name: str, changed: dict[str, pa.Array], why: str
) -> None:
    table(tmp_path / "t")
    rewrite(tmp_path / "t", f"{name}_idx", changed)
    async with alance.Session() as session:
        dataset = await opened_with_sizes(tmp_path / "t", session)
        for condition in (FILTERS[name], f"{name} is null"):
            row_ids = await ids(dataset, condition)
            assert row_ids == await ids(dataset, condition, use_scalar_index=False)
        condition = f"{name} is null" if "has_null" in changed else FILTERS[name]
        (line,) = (await plan_of(dataset, condition)).index_lines
        assert "not used" in line
        assert why in line


async def test_a_label_that_no_row_has_is_found_out(tmp_path: Path) -> None:
    table(tmp_path / "t")
    sets = pa.array([rows_bytes(np.array([5])) for _ in range(51)])
    rewrite(tmp_path / "t", "l_idx", {"bitmaps": sets})
    async with alance.Session() as session:
        dataset = await opened_with_sizes(tmp_path / "t", session)
        with pytest.raises(CorruptFileError, match=r"is not what an index says.*l_idx"):
            await ids(dataset, FILTERS["l"])


def test_posting_lists_that_are_none_are_refused() -> None:
    rows = np.array([3, 70_000, (5 << 32) + 1])
    content = postings_bytes(rows)
    assert parse_postings(memoryview(content)).to_numpy().tolist() == rows.tolist()
    for number in range(len(content)):
        with pytest.raises(CorruptFileError):
            parse_postings(memoryview(content[:number]))
    with pytest.raises(CorruptFileError, match="ends at"):
        parse_postings(memoryview(content + b"\0"))
    with pytest.raises(CorruptFileError, match="parts"):
        parse_postings(memoryview(struct.pack("<Q", 1 << 40) + content[8:]))
    posting_part = postings_bytes(rows[:2])[8:]
    with pytest.raises(CorruptFileError, match="behind part 0"):
        parse_postings(memoryview(struct.pack("<Q", 2) + posting_part + posting_part))


def all_of_a_fragment(kind: str) -> bytes:
    """Return the stored rows of a key that all rows have which fragment 0 could ever have."""
    rows = BitMap()
    rows.add_range(0, 1 << 32)
    rows.run_optimize()
    content = rows.serialize()
    if kind == "NGRAM":
        return struct.pack("<QI", 1, 0) + content
    return struct.pack("<III", 1, 0, len(content)) + content


@pytest.mark.parametrize(("kind", "column"), [("BITMAP", "bitmaps"), ("NGRAM", "posting_list")])
async def test_rows_that_a_fragment_cannot_have_are_found_out_before_they_cost(
    tmp_path: Path, kind: Literal["BITMAP", "NGRAM"], column: str
) -> None:
    rows = pa.table({"s": [f"value {n % 5}" for n in range(400)]})
    dataset = lance.write_dataset(rows, tmp_path / "t", max_rows_per_file=200)
    dataset.create_scalar_index("s", kind)
    (file,) = (tmp_path / "t" / "_indices").glob("*/*")
    sets = LanceFileReader(str(file)).read_all().to_table()[column].to_pylist()
    changed = pa.array([all_of_a_fragment(kind), *sets[1:]], pa.binary())
    rewrite(tmp_path / "t", "s_idx", {column: changed})
    async with alance.Session() as session:
        copied = await opened_with_sizes(tmp_path / "t", session)
        with pytest.raises(CorruptFileError, match="row 4294967295 of fragment 0: it has 200 rows"):
            await copied.optimize.compact_files()

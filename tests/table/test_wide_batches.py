"""Rows that Arrow cannot hold in one batch: scans, takes and changes make several of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
from alance.errors import UnsupportedError
from alance.format.layouts import fields

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 1000  # in place of 2 GiB, which take minutes and gigabytes
TEXTS = [letter * 300 for letter in "abcdefghijklm"]
VERSIONS = ["2.0"]


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "MAX_OFFSET", MOST_BYTES)


async def wide_table(path: Path, version: Any, **options: Any) -> alance.Dataset:
    """Rows of strings in a type whose arrays are made without kernels in that version."""
    count = len(TEXTS)
    columns = {
        "i": pa.array(range(count)),
        "k": pa.array([0] * count),
        "s": pa.array(ROWS[version], STRUCT),
    }
    table = pa.table(columns)
    return await alance.write_dataset(table, path, data_storage_version=version, **options)


STRUCT = pa.struct([("t", pa.string())])
ROWS: dict[str, list[Any]] = {
    "2.0": [{"t": text} for text in TEXTS],
}


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize(("version", "max_rows_per_file"), [("2.0", 3), ("2.0", 100)])
async def test_scans_shrink_their_batches(
    tmp_path: Path, version: str, max_rows_per_file: int
) -> None:
    dataset = await wide_table(tmp_path / "t", version, max_rows_per_file=max_rows_per_file)
    batches = [batch async for batch in dataset.to_batches(["s"])]
    assert len(batches) > 4
    assert [row for batch in batches for row in batch["s"].to_pylist()] == ROWS[version]
    single = [batch async for batch in dataset.to_batches(["s"], batch_size=1)]
    assert [batch.num_rows for batch in single] == [1] * len(TEXTS)
    assert await dataset.count_rows("s.t LIKE 'c%'") == 1
    late = await dataset.to_table(["s"], filter="i >= 2", with_row_id=True)
    assert late["s"].to_pylist() == ROWS[version][2:]
    assert late["_rowid"].to_pylist()[-1] & 0xFFFFFFFF == (len(TEXTS) - 1) % max_rows_per_file
    limited = await dataset.to_table(["s"], offset=2, limit=5)
    assert limited["s"].to_pylist() == ROWS[version][2:7]
    changed = await dataset.delete("i = 3")
    remaining = await changed.to_table(["s"])
    assert remaining["s"].to_pylist() == ROWS[version][:3] + ROWS[version][4:]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("version", VERSIONS)
async def test_takes_become_several_chunks(tmp_path: Path, version: str) -> None:
    dataset = await wide_table(tmp_path / "t", version)
    numbers = [5, 0, 12, 7, 7, 1, 5]
    taken = await dataset.take(numbers)
    assert taken["s"].to_pylist() == [ROWS[version][number] for number in numbers]
    assert taken["s"].num_chunks > 2
    assert (await dataset.take_rows(numbers, ["s"])) == taken.select(["s"])


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("version", VERSIONS)
async def test_changes_of_rows_too_wide_for_one_batch(tmp_path: Path, version: str) -> None:
    dataset = await wide_table(tmp_path / "t", version, max_rows_per_file=5)
    updated = await dataset.update({"k": "i + 1"}, where="i < 9")
    table = (await updated.to_table()).sort_by("i")
    assert table["s"].to_pylist() == ROWS[version]
    assert table["k"].to_pylist() == [*range(1, 10), 0, 0, 0, 0]
    await updated.optimize.compact_files()
    compacted = await updated.checkout_latest()
    assert len(compacted.fragments) == 1
    assert (await compacted.to_table()).sort_by("i")["s"].to_pylist() == ROWS[version]


async def test_a_row_too_wide_for_any_batch_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await wide_table(tmp_path / "t", "2.0")
    monkeypatch.setattr(fields, "MAX_OFFSET", 200)
    with pytest.raises(UnsupportedError, match="300 bytes"):
        await dataset.to_table(["s"])
    with pytest.raises(UnsupportedError, match="300 bytes"):
        await dataset.take([1])


async def test_a_row_that_an_index_finds_is_refused_if_it_is_too_wide_for_any_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await wide_table(tmp_path / "t", "2.0", max_rows_per_file=3)
    dataset = await dataset.create_scalar_index("i", "BTREE")
    monkeypatch.setattr(fields, "MAX_OFFSET", MOST_BYTES)
    table = await dataset.to_table(["s"], filter="i IN (1, 4, 8, 11)")
    assert table["s"].to_pylist() == [ROWS["2.0"][number] for number in (1, 4, 8, 11)]
    monkeypatch.setattr(fields, "MAX_OFFSET", 200)
    with pytest.raises(UnsupportedError, match="300 bytes"):
        await dataset.to_table(["s"], filter="i IN (1, 4, 8, 11)")

"""Contents of a version as numbers, and as a notebook shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
import alance.sync

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

ROWS = pa.table({"id": range(5000), "text": [f"text {n}" for n in range(5000)]})


async def changed(uri: str | Path) -> alance.Dataset:
    """A table with deletions, an index, and a fragment of few rows."""
    dataset = await alance.write_dataset(ROWS, uri, max_rows_per_file=2000)
    dataset = await dataset.create_scalar_index("id", "BTREE")
    dataset = await dataset.insert(ROWS.slice(0, 10))
    return await dataset.delete("id % 1000 = 7")


async def test_stats_are_those_of_pylance_and_of_the_files(tmp_path: Path) -> None:
    dataset = await changed(tmp_path / "t")
    stats = await dataset.stats()
    theirs = lance.dataset(str(tmp_path / "t"))
    assert theirs.stats.dataset_stats() == {
        "num_deleted_rows": stats.num_deleted_rows,
        "num_fragments": stats.num_fragments,
        "num_small_files": stats.num_small_fragments,
    }
    assert (stats.num_rows, stats.num_deleted_rows) == (theirs.count_rows(), 6)
    sizes = [file.stat().st_size for file in (tmp_path / "t" / "data").iterdir()]
    assert (stats.num_data_files, stats.num_bytes) == (len(sizes), sum(sizes))
    assert (stats.num_deletion_files, stats.indices) == (4, ("id_idx",))
    assert stats.num_small_fragments == 2
    assert (await dataset.stats(small_rows=2001)).num_small_fragments == 4


@pytest.mark.parametrize("version", ["legacy", "2.0", "2.1", "2.2"])
async def test_bytes_of_columns_are_those_of_pylance(tmp_path: Path, version: str) -> None:
    uri = str(tmp_path / "t")
    rows = {
        "id": range(50),
        "struct": [{"x": n, "text": f"text {n}"} for n in range(50)],
        "items": [[n] * 3 for n in range(50)],
        "vector": pa.array([[1.0, n] for n in range(50)], pa.list_(pa.float32(), 2)),
    }
    lance.write_dataset(pa.table(rows), uri, data_storage_version=version, max_rows_per_file=20)
    theirs = lance.dataset(uri)
    theirs.add_columns({"more": "id * 2"})
    theirs.drop_columns(["id"])
    dataset = await alance.dataset(uri)
    stats = await dataset.stats(with_column_bytes=True)
    assert stats.column_bytes is not None
    expected = [field.bytes_on_disk for field in theirs.stats.data_stats().fields]
    assert [*stats.column_bytes.values()] == expected
    names = ["struct", "struct.x", "struct.text", "items", "items.item", "vector", "more"]
    assert [*stats.column_bytes] == names
    assert (await dataset.stats()).column_bytes is None


@pytest.mark.parametrize("name", ["numbers", "grown", "emptied"])
async def test_old_tables_are_asked_for_what_their_manifest_lacks(golden: Path, name: str) -> None:
    uri = golden / "v0_1" / "0.10.5" / f"{name}.lance"
    dataset = await alance.dataset(uri)
    stats = await dataset.stats()
    assert stats.num_rows == lance.dataset(str(uri)).count_rows()
    files = [file.path for part in dataset.fragments for file in part.metadata.files]
    assert stats.num_bytes == sum((uri / "data" / path).stat().st_size for path in files)
    assert "<th>data bytes</th>" not in dataset._repr_html_()


async def test_stats_read_nothing(lab: Lab) -> None:
    dataset = await alance.write_dataset(
        ROWS, "s3://lab/stats.lance", storage_options=lab.lance_options()
    )
    with lab.recording() as recording:
        assert (await dataset.stats()).num_rows == 5000
        assert "5,000" in dataset._repr_html_()
    assert recording.summary()["requests"] == 0
    with pytest.raises(alance.InvalidInputError, match="small_rows=-1"):
        await dataset.stats(small_rows=-1)


async def test_a_notebook_shows_a_version(tmp_path: Path) -> None:
    dataset = await changed(tmp_path / "a<b>")
    shown = dataset._repr_html_()
    assert "a&lt;b&gt;" in shown
    assert "a<b>" not in shown
    for text in ("<td>5,004</td>", "<td>id_idx</td>", "<td>text</td><td>string</td>"):
        assert text in shown
    assert alance.sync.dataset(tmp_path / "a<b>")._repr_html_() == shown
    wide = await alance.write_dataset({f"c{n}": [n] for n in range(150)}, tmp_path / "wide")
    assert "and 50 more" in wide._repr_html_()


def test_the_length_of_a_dataset_is_its_rows(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset(ROWS, tmp_path / "t")
    assert len(dataset) == 5000
    assert dataset.stats().num_rows == 5000

"""Byte strings of every type and width, asked for in every compression, written in every way.

Which pages and codecs a column gets depends on its widest value and on what its metadata asks for;
whether others can read them, on the type as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from alance.files import FileWriter
from tests.golden.v2_1_narrow_lengths import make_narrow_lengths
from tests.reference.thinned import thinned
from tests.reference.widths import COMPRESSIONS, metadata_of, wide_table

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

VERSIONS = ["2.1", "2.2"]
# Chunks of 2.1 have 32 KB: the widest values do not fit mini-blocks.
STRUCTURES = [("2.1", None), ("2.1", "fullzip"), ("2.2", None), ("2.2", "miniblock")]
STRUCTURES += [("2.2", "fullzip")]


async def check_table(path: Path, expected: pa.Table) -> None:
    """The rows by id are these, as pylance and as alance read them, with the metadata."""
    theirs = lance.dataset(str(path))
    theirs.validate()
    ours = await alance.dataset(path)
    for table in (theirs.to_table(), await ours.to_table()):
        assert table.schema.equals(expected.schema, check_metadata=True)
        assert table.sort_by("id") == expected
    rows = list(range(0, expected.num_rows, 37))
    assert await ours.take(rows) == theirs.take(rows)


@pytest.mark.parametrize(("version", "structure", "compression"), thinned(STRUCTURES, COMPRESSIONS))
async def test_pylance_reads_files_of_all_widths(
    tmp_path: Path, version: str, compression: str | None, structure: str | None
) -> None:
    table = wide_table(metadata_of(compression, structure))
    path = tmp_path / "ours.lance"
    async with FileWriter.open(path, table.schema, version=version) as writer:
        for batch in table.to_batches(max_chunksize=70):
            await writer.write(batch)
    theirs = LanceFileReader(str(path))
    assert theirs.read_all().to_table() == table
    rows = list(range(0, table.num_rows, 37))
    assert theirs.take_rows(rows).to_table() == table.take(rows)
    ours = await alance.FileReader.open(path)
    assert await ours.to_table() == table
    assert await ours.take(rows) == table.take(rows)


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("version", VERSIONS)
async def test_alance_reads_files_of_all_widths(
    tmp_path: Path, version: str, compression: str | None
) -> None:
    table = wide_table(metadata_of(compression))
    path = str(tmp_path / "theirs.lance")
    with LanceFileWriter(path, table.schema, version=version) as writer:
        writer.write_batch(table.combine_chunks())
    ours = await alance.FileReader.open(path)
    assert await ours.to_table() == table


async def created(path: Path, table: pa.Table, version: str) -> None:
    await alance.write_dataset(table, path, data_storage_version=version, max_rows_per_file=90)


async def inserted(path: Path, table: pa.Table, version: str) -> None:
    dataset = await alance.write_dataset(table[:7], path, data_storage_version=version)
    await dataset.insert(table[7:])


async def ingested(path: Path, table: pa.Table, version: str) -> None:
    async with alance.ingest(path, table.schema, data_storage_version=version) as sink:
        for batch in table.to_batches(max_chunksize=40):
            await sink.write(batch)


async def merged(path: Path, table: pa.Table, version: str) -> None:
    dataset = await alance.write_dataset(table[:100], path, data_storage_version=version)
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    await merge.execute(table[50:])


async def compacted(path: Path, table: pa.Table, version: str) -> None:
    lance.write_dataset(table, str(path), data_storage_version=version, max_rows_per_file=90)
    await (await alance.dataset(path)).optimize.compact_files()


async def added(path: Path, table: pa.Table, version: str) -> None:
    dataset = await alance.write_dataset(
        table.select(["id"]), path, data_storage_version=version, max_rows_per_file=90
    )
    await dataset.merge(table, left_on="id")


WAYS = {way.__name__: way for way in (created, inserted, ingested, merged, compacted, added)}


@pytest.mark.parametrize(
    ("way", "version", "compression"), thinned([*WAYS], VERSIONS, [None, "zstd"])
)
async def test_tables_of_all_widths(
    tmp_path: Path, way: str, version: str, compression: str | None
) -> None:
    table = wide_table(metadata_of(compression))
    await WAYS[way](tmp_path / "t", table, version)
    await check_table(tmp_path / "t", table)


@pytest.mark.parametrize("version", make_narrow_lengths.VERSIONS)
async def test_lengths_that_are_narrower_than_the_type_are_read(version: str) -> None:
    """So the first alance wrote compressed values, and pylance does not read them."""
    path = make_narrow_lengths.FOLDER / f"{version}.lance"
    with pytest.raises((OSError, RuntimeError, ValueError), match="64-bit offsets"):
        LanceFileReader(str(path)).read_all().to_table()
    reader = await alance.FileReader.open(path)
    assert await reader.to_table() == make_narrow_lengths.rows()
    assert await reader.take([7, 100]) == make_narrow_lengths.rows().take([7, 100])

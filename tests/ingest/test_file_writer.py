"""The public writer of single files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lance.file import LanceFileReader, LanceFileWriter

import alance
from alance.file_version import FileVersion
from alance.files import FileWriter

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"a": list(range(1000)), "b": [f"text {n % 7}" for n in range(1000)]})


@pytest.mark.parametrize("version", ["stable", "2.1", FileVersion.V2_2])
async def test_pylance_reads_a_file(tmp_path: Path, version: str) -> None:
    path = tmp_path / "rows.lance"
    async with FileWriter.open(path, ROWS.schema, version=version) as writer:
        for batch in ROWS.to_batches(max_chunksize=300):
            await writer.write(batch)
        assert not path.exists()
    assert writer.num_rows == 1000
    assert writer.num_bytes == path.stat().st_size
    assert writer.columns == {0: 0, 1: 1}
    reader = LanceFileReader(str(path))
    assert reader.read_all().to_table() == ROWS
    metadata = reader.metadata()
    expected = (2, 1 if version == "2.1" else 2)
    assert (metadata.major_version, metadata.minor_version) == expected
    ours = await alance.FileReader.open(path)
    assert await ours.to_table() == ROWS


async def test_the_first_batch_tells_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "rows.lance"
    async with FileWriter.open(path) as writer:
        assert writer.schema is None
        await writer.write(ROWS)
        await writer.write(ROWS.select(["b", "a"]))
    assert writer.schema == ROWS.schema
    with LanceFileWriter(str(tmp_path / "theirs.lance")) as theirs:
        theirs.write_batch(ROWS)
        theirs.write_batch(ROWS)
    table = LanceFileReader(str(path)).read_all().to_table()
    assert table == LanceFileReader(str(tmp_path / "theirs.lance")).read_all().to_table()


async def test_an_error_in_the_block_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "rows.lance"

    async def work() -> None:
        async with FileWriter.open(path, ROWS.schema) as writer:
            await writer.write(ROWS)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        await work()
    assert os.listdir(tmp_path) == []


async def test_a_write_that_failed_midway_fails_the_block(tmp_path: Path) -> None:
    path = tmp_path / "rows.lance"
    writer = FileWriter.open(path, ROWS.schema)

    async def work() -> None:
        async with writer:
            with pytest.raises(alance.InvalidInputError, match="column 'c'"):
                await writer.write([ROWS, pa.table({"c": [1]})])

    with pytest.raises(alance.InvalidInputError, match="a write has failed"):
        await work()
    assert os.listdir(tmp_path) == []
    with pytest.raises(alance.InvalidInputError, match="inside of its"):
        await writer.write(ROWS)


async def test_a_batch_that_is_refused_is_not_in_the_file(tmp_path: Path) -> None:
    async with FileWriter.open(tmp_path / "a", ROWS.schema) as writer:
        with pytest.raises(alance.InvalidInputError, match="column 'c'"):
            await writer.write(pa.table({"c": [1]}))
        await writer.write(ROWS)
    assert LanceFileReader(str(tmp_path / "a")).read_all().to_table() == ROWS


async def test_what_is_asked_wrongly(tmp_path: Path) -> None:
    with pytest.raises(alance.InvalidInputError, match="page_bytes"):
        FileWriter.open(tmp_path / "a", page_bytes=0)
    with pytest.raises(alance.InvalidInputError, match="file version"):
        FileWriter.open(tmp_path / "a", version="9")
    with pytest.raises(alance.InvalidInputError, match="needs a schema"):
        async with FileWriter.open(tmp_path / "a"):
            pass
    async with FileWriter.open(tmp_path / "b", ROWS.schema) as writer:
        pass
    assert LanceFileReader(str(tmp_path / "b")).read_all().to_table().num_rows == 0
    with pytest.raises(alance.InvalidInputError, match="one file"):
        async with writer:
            pass


async def test_rows_that_wait_do_not_keep_their_batches(tmp_path: Path) -> None:
    """A column of a batch that came by IPC holds all of the batch."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch({"id": list(range(64)), "large": [b"x" * (32 << 10)] * 64})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    content = sink.getvalue().to_pybytes()
    async with FileWriter.open(tmp_path / "a", batch.schema) as writer:
        before = pa.total_allocated_bytes()
        for _ in range(60):
            copied = pa.BufferReader(pa.py_buffer(bytes(content)))
            stream = pa.ipc.open_stream(pa.BufferedInputStream(copied, 4096))
            await writer.write(stream.read_next_batch())
        del stream
        assert pa.total_allocated_bytes() - before < 48 << 20  # of 120 MiB

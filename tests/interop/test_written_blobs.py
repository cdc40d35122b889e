"""Blob columns that alance writes, in datasets, read by pylance and by alance."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
from lance.fragment import DataFile, FragmentMetadata

import alance
from alance.file_version import FileVersion
from alance.format.blocks import VariableWidth
from alance.format.encode.arrays import leaf_values
from alance.format.encode.blobs import describe_blobs
from alance.format.encode.container import FileBuilder
from alance.format.encode.pages import encode_pages, hints_of
from alance.format.layouts.fields import leaf_columns
from alance.format.schema import Schema
from tests.reference.written import file_bytes

if TYPE_CHECKING:
    from pathlib import Path

BLOBS = [b"hello", None, b"", b"x" * 100, b"y" * 70_000, b"z" * 300_000, None, b"end"]


def commit(path: Path, schema: pa.Schema, content: bytes, num_rows: int, version: str) -> None:
    """A dataset of one file."""
    (path / "data").mkdir(parents=True, exist_ok=True)
    (path / "data" / "one.lance").write_bytes(content)
    fields = [
        leaf.field.id for field in Schema.from_arrow(schema).fields for leaf in leaf_columns(field)
    ]
    major, minor = map(int, version.split("."))
    places = list(range(len(fields)))
    file = DataFile("one.lance", fields, places, major, minor, len(content))
    fragment = FragmentMetadata(0, [file], num_rows)
    lance.LanceDataset.commit(str(path), lance.LanceOperation.Overwrite(schema, [fragment]))


async def check(path: Path) -> None:
    rows = list(range(len(BLOBS)))
    sample = [row for row in rows if BLOBS[row] is not None]
    theirs = lance.dataset(str(path))
    ours = await alance.dataset(str(path))
    blobs = theirs.take_blobs("b", indices=sample)
    assert [blob.readall() for blob in blobs] == [BLOBS[row] for row in sample]
    blobs = await ours.take_blobs("b", indices=sample)
    assert [await blob.readall() for blob in blobs] == [BLOBS[row] for row in sample]
    everything = await ours.to_table(blob_handling="all_binary")
    assert everything.column("b").to_pylist() == BLOBS
    assert everything.column("n").to_pylist() == rows
    assert theirs.to_table(["n"]).column("n").to_pylist() == rows


async def test_blobs_of_version_1_are_read_by_both(tmp_path: Path) -> None:
    field = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    table = pa.table(
        [pa.array(BLOBS, pa.large_binary()), pa.array(range(len(BLOBS)))],
        schema=pa.schema([field, pa.field("n", pa.int64())]),
    )
    content = file_bytes(table, "2.1", page_bytes=80_000)
    commit(tmp_path, table.schema, content, len(BLOBS), "2.1")
    await check(tmp_path)


async def test_blobs_of_version_2_are_read_by_both(tmp_path: Path) -> None:
    """Some in the file, some in a file of their own beside it."""
    schema = pa.schema([("b", lance.blob_array(BLOBS).type), ("n", pa.int64())])
    fields = Schema.from_arrow(schema).fields
    version = FileVersion.V2_2
    builder = FileBuilder(Schema.from_arrow(schema), version)
    sizes = np.array([0 if blob is None else len(blob) for blob in BLOBS])
    inline = sizes < 65536
    inside = [item or b"" for item, here in zip(BLOBS, inline, strict=True) if here]
    ends = np.cumsum([0, *map(len, inside)])
    payloads = VariableWidth(ends, np.frombuffer(b"".join(inside), np.uint8))
    placed, chunks = builder.add_blobs(payloads)
    positions = np.zeros(len(BLOBS), np.int64)
    positions[inline] = placed
    kinds = np.where(inline, 0, 2)
    ids = np.where(inline, 0, np.cumsum(~inline))
    described = describe_blobs(
        kinds, positions, sizes, ids, valid=np.array([blob is not None for blob in BLOBS])
    )
    for column, array in enumerate((described, pa.array(range(len(BLOBS))))):
        field = fields[column]
        values = leaf_values(field, array)[field.id]
        for page in encode_pages([(field, values, hints_of(field, field, version))])[0]:
            chunks += builder.add_page(column, page)
    chunks += builder.finish()
    sidecars = tmp_path / "data" / "one"
    sidecars.mkdir(parents=True)
    for number, row in enumerate(np.flatnonzero(~inline).tolist()):
        (sidecars / (f"{number + 1:032b}"[::-1] + ".blob")).write_bytes(BLOBS[row] or b"")
    content = b"".join(chunk.tobytes() for chunk in chunks)
    commit(tmp_path, schema, content, len(BLOBS), "2.2")
    await check(tmp_path)

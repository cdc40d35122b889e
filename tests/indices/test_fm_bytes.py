"""Partitions of FM indices, byte for byte as pylance builds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from lance.file import LanceFileReader
from lance.indices import IndexConfig

from alance.format.index.fm import FM_SCHEMA, FmPartition, PartitionBuilder, file_of, metadata_of

if TYPE_CHECKING:
    from pathlib import Path

CASES = {
    "short": ["hello world", "foo", None, "", "Hällo", "HELLO", "banana bandana", "x" * 10],
    "blocks": [f"{number * number % 7919} {number:05}" * 9 for number in range(4000)],
    "partitions": [f"text {number}" for number in range(10_001)],
}


@pytest.mark.parametrize("name", CASES)
def test_partitions_are_those_of_pylance(tmp_path: Path, name: str) -> None:
    texts = pa.array(CASES[name], pa.string())
    theirs = lance.write_dataset(pa.table({"s": texts}), tmp_path / "t")
    # Text is no index type that pylance takes here; what it accepts is a configuration.
    theirs.create_scalar_index("s", IndexConfig(index_type="fm", parameters={}))
    builder = PartitionBuilder(256 << 20)
    built = builder.add(texts, pa.array(range(len(texts)), pa.uint64())) + builder.finish()
    (folder,) = (tmp_path / "t" / "_indices").iterdir()
    assert len(list(folder.iterdir())) == len(built)
    for number, batch in enumerate(built):
        reader = LanceFileReader(str(folder / file_of(number)))
        stored = reader.read_all().to_table().combine_chunks().to_batches()[0]
        written = {
            key.decode(): value.decode() for key, value in reader.metadata().schema.metadata.items()
        }
        assert batch.select(FM_SCHEMA.names).equals(stored)
        assert metadata_of(batch.column(5)[0].as_py()) == written
        assert len(FmPartition.parse(stored, written).rows) == len(
            FmPartition.parse(batch.select(FM_SCHEMA.names), written).rows
        )

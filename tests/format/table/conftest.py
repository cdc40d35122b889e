"""Tables that pylance writes, and their metadata files as bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from pathlib import Path


def newest(folder: Path) -> bytes:
    """The bytes of the latest manifest (V2 names) of a dataset."""
    return min((folder / "_versions").glob("*.manifest")).read_bytes()


@pytest.fixture(scope="session")
def rich_manifest(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A manifest with fragments, deletions, row ids, an index, config, metadata, nested fields."""
    folder = tmp_path_factory.mktemp("rich") / "t.lance"
    struct = pa.array([{"x": n, "y": [str(n)]} for n in range(20)])
    vector = pa.array([[float(n)] * 4 for n in range(20)], pa.list_(pa.float32(), 4))
    table = pa.table({"a": range(20), "s": struct, "v": vector}).replace_schema_metadata({"k": "v"})
    dataset = lance.write_dataset(
        table, folder, enable_stable_row_ids=True, max_rows_per_file=10, commit_message="made"
    )
    dataset.delete("a in (3, 15)")
    dataset = lance.dataset(folder)
    dataset.update_config({"key": "value"})
    dataset.update_metadata({"owner": "me"})
    dataset.update({"a": "100"}, where="a = 7")
    dataset.create_scalar_index("a", "BTREE")
    return newest(folder)

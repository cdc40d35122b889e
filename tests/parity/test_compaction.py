"""Rows before and after a compaction: the same, in the places where pylance's puts them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pytest

from tests.parity.combinations import ALL, Case, covering, traced
from tests.reference.compare import assert_equal_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from lance import LanceDataset

    from tests.parity.conftest import Tables

pytestmark = pytest.mark.filterwarnings("ignore:file version 2.3 is unstable")

CASES = [case for case in ALL if case.place != "memory"]
CHOSEN = (
    covering([case for case in CASES if case.size == "small"])
    + [case for case in covering(CASES, seed=2) if case.size == "large"][:3]
)


async def check(tables: Tables, case: Case, folder: Path) -> None:
    source = tables.path(case.version, case.size, case.history)
    name = f"{folder.parent.name} {folder.name}"
    path, other = Path(tables.lab.root) / "lab" / name, folder / "t"
    shutil.copytree(source, path)
    shutil.copytree(source, other)
    tables.lab.rescan()
    options = {
        "target_rows_per_fragment": 100 if case.size == "small" else 20_000,
        "materialize_deletions_threshold": 0.0,
    }
    async with tables.ours(path, case.place) as dataset:
        if case.traced == "every other call":  # after a scan, by what that has learned
            await dataset.to_table(["key"])
        with traced(case.traced, 1):
            await dataset.optimize.compact_files(**options)
    lance.dataset(other).optimize.compact_files(**options)
    ours, theirs = content(tables.theirs(path), case), content(tables.theirs(other), case)
    assert_equal_rows(ours, theirs)
    before = content(tables.theirs(source), case)
    assert_equal_rows(ours.sort_by("key"), before.sort_by("key"))


def content(table: LanceDataset, case: Case) -> pa.Table:
    """All rows, the bytes of blobs among them, and stable row ids."""
    row_ids = case.history == "stable row ids"
    return table.to_table(with_row_id=row_ids, blob_handling="all_binary")


@pytest.mark.parametrize("case", CHOSEN, ids=str)
async def test_compaction_keeps_all_rows(tables: Tables, case: Case, tmp_path: Path) -> None:
    await check(tables, case, tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("case", CASES, ids=str)
async def test_any_compaction_keeps_all_rows(tables: Tables, case: Case, tmp_path: Path) -> None:
    await check(tables, case, tmp_path)

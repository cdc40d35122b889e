"""Listings of folders with many tables: what they list, and how many requests they send."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING

import lance
import lancedb
import pyarrow as pa
from lance.namespace import DirectoryNamespace
from lance_namespace_urllib3_client.models import (
    DeclareTableRequest,
    DeregisterTableRequest,
    ListTablesRequest,
)

import alance
from alance.distributed import list_tables
from alance.distributed.folder_walk import PAGE_OBJECTS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from alance.testing.lab import Lab

ROWS = pa.table({"id": [1, 2, 3]})


async def _fill(folder: Path, count: int) -> DirectoryNamespace:
    """Fill a folder with tables of pylance, LanceDB and alance, of which some are hidden."""
    lance.write_dataset(ROWS, f"{folder}/p.lance")
    lancedb.connect(folder).create_table("l", ROWS)
    await alance.write_dataset(ROWS, f"{folder}/a.lance")
    for name in ("p", "l", "a"):
        for number in range(count):
            shutil.copytree(folder / f"{name}.lance", folder / f"{name}{number}.lance")
        # A table of a namespace: between these by name, but not of the root.
        shutil.copytree(folder / f"{name}.lance", folder / f"{name}1_ns$t")
    theirs = DirectoryNamespace(root=str(folder), manifest_enabled="false")
    for name in ("p1", "l2", "a0"):
        theirs.deregister_table(DeregisterTableRequest(id=[name]))
    theirs.declare_table(DeclareTableRequest(id=["declared"]))
    return theirs


def _operations(records: list[dict[str, object]], prefix: str) -> Counter[object]:
    texts = {str(record): record["op"] for record in records}
    return Counter(op for text, op in texts.items() if prefix in text and "__manifest" not in text)


async def test_many_tables_are_listed_by_pages(lab: Lab) -> None:
    folder = lab.root / "lab" / "many"
    theirs = await _fill(folder, 60)
    big = folder / "b.lance"  # more objects than a page, before the object that hides it and behind
    shutil.copytree(folder / "a.lance", big)
    for number in range(PAGE_OBJECTS + 10):
        (big / "_transactions" / f"{number}.txn").touch()
    lab.rescan()
    catalog = await alance.connect("s3://lab/many", storage_options=lab.lance_options())
    with lab.recording() as recording:
        names = await catalog.list_tables()
    assert names == sorted(theirs.list_tables(ListTablesRequest(id=[])).tables)
    assert len(names) == 3 * 61 - 3 + 2
    num_objects = sum(path.is_file() for path in folder.rglob("*"))
    pages = num_objects // PAGE_OBJECTS + 1
    operations = _operations(recording.records, "many/")
    assert set(operations) == {"LIST"}
    assert operations["LIST"] <= 1 + pages  # with the listing of the folders
    with lab.recording() as recording:
        written = await catalog.list_tables(include_declared=False)
    assert set(names) - set(written) == {"declared"}
    # The page that ends in the large table does not show whether it has a version.
    assert _operations(recording.records, "many/")["LIST"] <= 2 + pages
    with lab.recording() as recording:
        options = lab.lance_options()
        listed = await list_tables("s3://lab/many", ".lance", storage_options=options)
    assert listed == sorted({*written, "p1", "l2", "a0"})
    assert _operations(recording.records, "many/")["LIST"] <= 2 + pages


async def test_large_tables_are_passed_over(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of 10 objects, so that each table has more than a page."""
    from alance.distributed import folder_walk

    monkeypatch.setattr(folder_walk, "PAGE_OBJECTS", 10)
    folder = lab.root / "lab" / "large"
    theirs = await _fill(folder, 5)
    for table in folder.glob("*.lance"):
        for number in range(12):
            (table / f"extra{number}").touch()
    lab.rescan()
    catalog = await alance.connect("s3://lab/large", storage_options=lab.lance_options())
    expected = sorted(theirs.list_tables(ListTablesRequest(id=[])).tables)
    for least in (0, 16):  # to the end by pages; and by a request per table after the first page
        monkeypatch.setattr(folder_walk, "MIN_TABLES_PER_PAGE", least)
        with lab.recording() as recording:
            assert await catalog.list_tables() == expected
        operations = _operations(recording.records, "large/")
        assert (operations["HEAD"] > 10) == (least == 16)
        assert await catalog.list_tables(include_declared=False) == sorted(
            {*expected} - {"declared"}
        )

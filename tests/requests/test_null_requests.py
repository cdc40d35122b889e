"""Requests that look for nulls in columns, before a schema forbids nulls."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from alance.testing.lab import Lab

FRAGMENTS, ROWS = 40, 3000
WITH_NULL = 33


def table(number: int) -> pa.Table:
    ids = [number * ROWS + row for row in range(ROWS)]
    values = [None if number == WITH_NULL and row == 1234 else row for row in range(ROWS)]
    # Enough bytes that no file is kept as a whole when it is opened.
    texts = [f"{row} of {number}, " + os.urandom(20).hex() for row in range(ROWS)]
    return pa.table({"id": ids, "some": values, "text": texts, "other": texts})


@pytest.fixture(scope="module", params=["statistics", "none"])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty fragments, with and without statistics."""
    path = tmp_path_factory.mktemp(request.param) / f"{request.param}.lance"

    async def write() -> None:
        for number in range(FRAGMENTS):
            mode = "append" if number else "create"
            retained = request.param == "statistics"
            await alance.write_dataset(table(number), str(path), mode=mode, statistics=retained)

    asyncio.run(write())
    return path


@pytest.fixture
async def dataset(lab: Lab, written: Path) -> alance.Dataset:
    target = Path(lab.root) / "lab" / written.name
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(written, target)
    lab.rescan()
    lab.config(latency_ms=40, waits_for=os.getpid())
    uri = f"s3://lab/{written.name}"
    return await alance.dataset(uri, storage_options=lab.lance_options())


async def test_all_fragments_are_asked_together(dataset: alance.Dataset, lab: Lab) -> None:
    with lab.recording() as seen:
        changed = await dataset.alter_columns({"path": "id", "nullable": False})
    lab.calm()
    # Footers, values, and what a commit takes with the first probe of its store.
    assert seen.rounds <= 7
    assert not changed.schema.field("id").nullable


async def test_counts_of_nulls_are_enough(dataset: alance.Dataset, lab: Lab, written: Path) -> None:
    with lab.recording() as seen:
        await dataset.alter_columns({"path": "text", "nullable": False})
    lab.calm()
    # They lie in the end of a file, which is read in any case.
    reads = [
        record for record in seen.records if record["op"] == "GET" and "/data/" in record["key"]
    ]
    assert (len(reads) == FRAGMENTS) == (written.stem == "statistics")


async def test_the_fragment_with_a_null_is_named(dataset: alance.Dataset, lab: Lab) -> None:
    lab.calm()
    with pytest.raises(InvalidInputError, match=f"'some': it has nulls, in fragment {WITH_NULL} "):
        await dataset.alter_columns({"path": "some", "nullable": False})


async def test_a_null_in_a_deleted_row_is_none(written: Path, tmp_path: Path) -> None:
    path = str(shutil.copytree(written, tmp_path / "t.lance"))
    lance.dataset(path).delete("some IS NULL")
    dataset = await alance.dataset(path)
    changed = await dataset.alter_columns({"path": "some", "nullable": False})
    assert not changed.schema.field("some").nullable

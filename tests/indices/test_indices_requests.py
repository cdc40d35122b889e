"""Requests and rounds of filters by indices on an object store."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from tests.indices.index_cases import ids
from tests.reference.served import opened_on

if TYPE_CHECKING:
    from alance.testing.lab import Lab

NUM_ROWS = 300_000
pytestmark = pytest.mark.usefixtures("far")


@pytest.fixture(scope="module", autouse=True)
def _indexed(lab_server: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("indexed") / "t"
    k = np.arange(NUM_ROWS)
    columns = {
        "id": k,
        "i": k * 7919 % NUM_ROWS,
        "s": [f"v{n % 100}" for n in range(NUM_ROWS)],
        "x": np.random.default_rng(1).random(NUM_ROWS),
    }
    theirs = lance.write_dataset(pa.table(columns), path, max_rows_per_file=100_000)
    theirs.create_scalar_index("i", "BTREE")
    theirs.create_scalar_index("s", "BITMAP")
    shutil.copytree(path, Path(lab_server.root) / "lab" / "indexed")
    lab_server.rescan()


async def test_a_point_lookup(lab: Lab) -> None:
    async with opened_on(lab, "s3://lab/indexed") as dataset:
        with lab.recording() as seen:
            assert await ids(dataset, "i = 7919") == [1]
        # Heads of the index, its page; the data file's head, its row.
        assert len(seen.records) <= 6
        with lab.recording() as seen:
            assert await ids(dataset, "i = 7919") == [1]
        assert len(seen.records) <= 2  # the row, in its two columns
        with lab.recording() as seen:
            assert await ids(dataset, "i = 150001 and x >= 0") != []
        assert len(seen.records) <= 7
        with lab.recording() as seen:
            assert await ids(dataset, "i = -4") == []
        assert seen.records == []


async def test_sizes_that_the_manifest_does_not_tell_are_asked_for_once(lab: Lab) -> None:
    async with alance.Session() as session:
        options = lab.lance_options()
        for heads in (2, 0):
            dataset = await alance.dataset(
                "s3://lab/indexed", storage_options=options, session=session
            )
            for index in dataset._snapshot.manifest.indices:
                del index.files[:]
            with lab.recording() as seen:
                assert await ids(dataset, "i = 7919") == [1]
            assert [record["op"] for record in seen.records].count("HEAD") == heads


async def test_it_reads_less_than_a_scan(lab: Lab) -> None:
    sizes = {}
    for use in (True, False):
        async with opened_on(lab, "s3://lab/indexed") as dataset:
            for condition in ("i between 500 and 502", "i between 510 and 512"):
                with lab.recording() as seen:
                    table = await dataset.to_table(filter=condition, use_scalar_index=use)
                assert table.num_rows == 3
            sizes[use] = sum(record.get("out", 0) for record in seen.records)
    assert sizes[True] * 5 < sizes[False]


async def test_two_indices_of_a_filter(lab: Lab) -> None:
    async with opened_on(lab, "s3://lab/indexed") as dataset:
        assert await dataset.count_rows("s = 'v3'") == NUM_ROWS // 100
        condition = "s = 'v3' and i < 3000"
        plain = await ids(dataset, condition, use_scalar_index=False)
        assert await ids(dataset, condition) == plain != []

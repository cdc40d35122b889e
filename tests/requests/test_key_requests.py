"""Requests of reads by key: callers that wait together share them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from alance.testing.lab import Lab

NUM_ROWS = 200_000
CALLERS = 64
pytestmark = pytest.mark.usefixtures("far")


@pytest.fixture(scope="module", autouse=True)
def _keyed(lab_server: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("keyed") / "t"
    k = np.arange(NUM_ROWS)
    table = pa.table({"id": k * 7919 % NUM_ROWS, "row": k, "x": np.sqrt(k)})
    theirs = lance.write_dataset(table, path, max_rows_per_file=50_000)
    theirs.create_scalar_index("id", "BTREE")
    shutil.copytree(path, Path(lab_server.root) / "lab" / "keyed")
    lab_server.rescan()


async def opened(lab: Lab, session: alance.Session) -> alance.Dataset:
    options = lab.lance_options()
    return await alance.dataset("s3://lab/keyed", storage_options=options, session=session)


async def test_one_key_costs_one_round_when_warm(lab: Lab) -> None:
    async with alance.Session() as session:
        dataset = await opened(lab, session)
        assert await dataset.get(7919, "id", ["row"]) == {"row": 1}
        with lab.recording() as seen:
            assert await dataset.get(7919, "id", ["row"]) == {"row": 1}
        assert len(seen.records) <= 2  # the row, in its two columns
        with lab.recording() as seen:
            assert await dataset.get(NUM_ROWS, "id", ["row"]) is None
        assert not seen.records


async def test_callers_that_wait_together_are_one_lookup(lab: Lab) -> None:
    rows = list(range(0, NUM_ROWS, NUM_ROWS // CALLERS))[:CALLERS]
    keys = [row * 7919 % NUM_ROWS for row in rows]
    requests: dict[str, list[int]] = {"alone": [], "together": []}
    for kind, counts in requests.items():
        async with alance.Session() as session:
            dataset = await opened(lab, session)
            for _ in range(2):  # cold, and warm
                with lab.recording() as seen:
                    if kind == "alone":
                        await dataset.get_many(keys, "id", ["row"])
                    else:
                        values = (dataset.get(key, "id", ["row"]) for key in keys)
                        assert await asyncio.gather(*values) == [{"row": row} for row in rows]
                counts.append(len(seen.records))
    assert requests["together"] == requests["alone"]

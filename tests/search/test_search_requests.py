"""Requests and rounds of searches on an object store."""

from __future__ import annotations

import asyncio
import os
import shutil
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from tests.reference.served import opened_on

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.testing.lab import Lab

NUM_ROWS, DIM, PARTITIONS = 40_000, 64, 128
URI = "s3://lab/searched"
pytestmark = pytest.mark.usefixtures("far")


def vectors() -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(4)
    centres = rng.normal(size=(200, DIM))
    noise = rng.normal(size=(NUM_ROWS, DIM)) * 0.5
    return (centres[rng.integers(0, 200, NUM_ROWS)] + noise).astype(np.float32)


@pytest.fixture(scope="module", autouse=True)
def _searched(lab_server: Lab, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("searched") / "t"
    items = pa.array(vectors().reshape(-1))
    columns = {"id": np.arange(NUM_ROWS), "vec": pa.FixedSizeListArray.from_arrays(items, DIM)}
    dataset = lance.write_dataset(pa.table(columns), path, max_rows_per_file=20_000)
    # Drawn from the rows: pylance's training takes many seconds, and no request depends on it.
    centroids = vectors()[200 : 200 + PARTITIONS]
    sample = vectors()[1000:1256]
    distances = np.linalg.norm(sample[:, None] - centroids, axis=2)
    residuals = sample - centroids[distances.argmin(1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dataset.create_index(
            "vec",
            "IVF_PQ",
            num_partitions=PARTITIONS,
            num_sub_vectors=16,
            ivf_centroids=centroids,
            pq_codebook=np.ascontiguousarray(residuals.reshape(256, 16, -1).swapaxes(0, 1)),
        )
    shutil.copytree(path, Path(lab_server.root) / "lab" / "searched")
    dataset = lance.write_dataset(pa.table(columns).slice(0, 6000), path.with_name("linked"))
    dataset.create_index("vec", "IVF_HNSW_SQ", num_partitions=2, m=6)
    shutil.copytree(path.with_name("linked"), Path(lab_server.root) / "lab" / "linked")
    lab_server.rescan()


async def test_a_cold_search_takes_four_rounds_behind_the_opening(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            neighbours = await dataset.nearest("vec", vectors()[7], 10, columns=["id"], nprobes=20)
        # Heads of the index and of the data files; codebook and page states; partitions; rows.
        assert seen.rounds == 4
        assert len(seen.records) <= 12
        assert neighbours["id"][0].as_py() == 7


@pytest.mark.parametrize("kind", ["IVF_PQ", "IVF_SQ", "IVF_HNSW_PQ"])
async def test_of_own_indices_a_cold_search_takes_three(
    lab: Lab, tmp_path: Path, kind: str
) -> None:
    items = pa.array(vectors()[:12_000].reshape(-1))
    columns = {"id": np.arange(12_000), "vec": pa.FixedSizeListArray.from_arrays(items, DIM)}
    dataset = await alance.write_dataset(pa.table(columns), tmp_path / "t")
    more = {"num_sub_vectors": 16} if kind.endswith("PQ") else {}
    await dataset.create_index("vec", kind, num_partitions=16, max_iters=4, m=6, **more)
    # A codebook of 64 KiB is behind what other files are asked for; pylance keeps the hint.
    lance.dataset(tmp_path / "t").delete("id = 5")
    uri = f"s3://lab/own-{kind}"
    shutil.copytree(tmp_path / "t", Path(lab.root) / "lab" / f"own-{kind}")
    lab.rescan()
    async with opened_on(lab, uri) as dataset:
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            neighbours = await dataset.nearest("vec", vectors()[7], 10, columns=["id"], nprobes=4)
        assert seen.rounds == 3
        assert neighbours["id"][0].as_py() == 7
    theirs = lance.dataset(tmp_path / "t").to_table(
        columns=["id", "_distance"], nearest={"column": "vec", "q": vectors()[7], "k": 1}
    )
    assert theirs["id"].to_pylist() == [7]


async def test_a_warm_search_reads_partitions_and_rows_alone(lab: Lab) -> None:
    async with opened_on(lab, URI, block_cache_bytes=0) as dataset:
        await dataset.nearest("vec", vectors()[7], 10, columns=["id"], nprobes=5)
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            await dataset.nearest("vec", vectors()[500], 10, columns=["id"], nprobes=20)
        assert seen.rounds == 2
        with lab.recording() as seen:
            await dataset.nearest("vec", vectors()[500], 10, columns=["id"], nprobes=20)
        assert seen.rounds == 1  # the rows: partitions are in memory
        with lab.recording() as seen:
            await dataset.nearest("vec", vectors()[500], 10, columns=["_rowid"], nprobes=20)
        assert seen.records == []


async def test_a_search_that_is_asked_again_reads_nothing(lab: Lab) -> None:
    entries: dict[str, Any] = {"columns": ["id"], "nprobes": 20, "refine_factor": 4}
    async with opened_on(lab, URI) as dataset:
        neighbours = await dataset.nearest("vec", vectors()[500], 10, **entries)
        with lab.recording() as seen:
            again = await dataset.nearest("vec", vectors()[500], 10, **entries)
        assert seen.records == []
        assert again == neighbours


async def test_refined_rows_near_those_of_other_searches_share_requests(lab: Lab) -> None:
    entries: dict[str, Any] = {"columns": ["_rowid"], "nprobes": 20, "refine_factor": 4}
    requests = {}
    for block_cache_bytes in (0, 16 << 20):
        async with opened_on(lab, URI, block_cache_bytes=block_cache_bytes) as dataset:
            with lab.recording() as seen:
                for number in range(0, 300, 10):
                    await dataset.nearest("vec", vectors()[number], 10, **entries)
            requests[block_cache_bytes] = len(seen.records)
    assert requests[16 << 20] < requests[0] / 2


async def test_graphs_come_with_their_partitions(lab: Lab) -> None:
    async with opened_on(lab, "s3://lab/linked") as dataset:
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            neighbours = await dataset.nearest("vec", vectors()[7], 10, columns=["id"], nprobes=2)
        assert seen.rounds == 4  # as without graphs
        assert neighbours["id"][0].as_py() == 7
        with lab.recording() as seen:
            await dataset.nearest("vec", vectors()[500], 10, columns=["_rowid"], nprobes=2)
        assert seen.records == []


async def test_queries_at_once_share_rounds(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        await dataset.nearest("vec", vectors()[7], 10, columns=["id"], nprobes=5)
        lab.config(waits_for=os.getpid())
        with lab.recording() as seen:
            many = await dataset.nearest_many(
                "vec", vectors()[100:116], 10, columns=["id"], nprobes=20
            )
        assert seen.rounds == 2
        assert many["id"].to_pylist()[::10] == list(range(100, 116))


async def test_64_searches_at_once_ask_for_as_much_as_one_of_64_queries(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        await dataset.nearest("vec", vectors()[7], 10, columns=["id"], nprobes=5)
        lab.config(waits_for=os.getpid())
        request = vectors()[100:164]
        with lab.recording() as seen:
            answers = await asyncio.gather(
                *(dataset.nearest("vec", q, 10, columns=["id"], nprobes=20) for q in request)
            )
        assert seen.rounds == 2
        assert [rows["id"][0].as_py() for rows in answers] == list(range(100, 164))
        assert len(seen.records) <= 64


async def test_a_search_that_compares_every_vector_reads_the_column_alone(lab: Lab) -> None:
    async with opened_on(lab, URI) as dataset:
        with lab.recording() as seen:
            neighbours = await dataset.nearest(
                "vec", vectors()[7], 3, columns=["id"], use_index=False
            )
        assert neighbours["id"][0].as_py() == 7
        sent = seen.summary()["get_bytes"]
        assert sent < 1.1 * NUM_ROWS * DIM * 4


async def test_a_cancelled_search_withdraws_its_requests(lab: Lab) -> None:
    lab.config(latency_ms=1)
    async with opened_on(lab, URI) as dataset:
        before = len(asyncio.all_tasks())
        for wait in (0, 0.001, 0.005, 0.02, 0.05):
            q = vectors()[1]
            search = asyncio.ensure_future(dataset.nearest("vec", q, 10, nprobes=20))
            await asyncio.sleep(wait)
            search.cancel()
            await asyncio.gather(search, return_exceptions=True)
            assert len(asyncio.all_tasks()) == before
        assert len(await dataset.nearest("vec", vectors()[1], 10, nprobes=20)) == 10

"""Segments of vector indices that are merged: codes are carried over, vectors are not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pytest

import alance
from alance.format.table.indices import Index
from alance.ops.index.vectors import train
from alance.ops.index.vectors.train import Training, training_of
from tests.indices.test_indices_moved import index_files, unindexed
from tests.indices.test_vectors_built import KINDS, clustered, search, table
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

    from alance import Dataset


def num_segments(path: Path) -> int:
    return int(lance.dataset(path).stats.index_stats("v_idx")["num_indices"])


async def row_ids(path: Path) -> list[int]:
    """The row ids in the files of the latest version's segments."""
    ids: list[int] = []
    for segment in (await alance.dataset(path)).list_indices():
        file = path / "_indices" / segment["uuid"] / "auxiliary.idx"
        stored = await (await alance.FileReader.open(file)).to_table(columns=["_rowid"])
        ids += stored["_rowid"].to_pylist()
    return sorted(ids)


async def several(
    path: Path, kind: str, options: dict[str, Any], *, stable: bool = False
) -> Dataset:
    """A table of 2600 rows, of which an index has 2000, 300 and 200 in three segments."""
    lance.write_dataset(table(clustered(2000, 1)), path, enable_stable_row_ids=stable)
    dataset = await alance.dataset(path)
    dataset = await dataset.create_index("v", kind, num_partitions=4, **options)
    for first, count in ((2000, 300), (2300, 200)):
        dataset = await dataset.insert(table(clustered(count, first), first))
        dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    return await dataset.insert(table(clustered(100, 2500), 2500))


@pytest.mark.parametrize(("kind", "options", "stable"), thinned(KINDS, (False, True)))
async def test_merged_segments_answer_as_they_did(
    tmp_path: Path, kind: str, options: dict[str, Any], stable: bool
) -> None:
    path = tmp_path / "t"
    dataset = await several(path, kind, options, stable=stable)
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert num_segments(path) == 4
    queries = clustered(10, 5)
    before = await dataset.nearest_many("v", queries, 10, columns=["id"], nprobes=4)
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=4)
    assert num_segments(path) == 1
    await dataset.validate()
    assert (await dataset.nearest_many("v", queries, 10, columns=["id"], nprobes=4)) == before
    # pylance finds the same; of equal estimates it may give others.
    answers = [search(path, query, nprobes=4) for query in queries]
    lengths = [
        len(set(ids) & set(before["id"].to_pylist()[10 * number : 10 * number + 10]))
        for number, ids in enumerate(answers)
    ]
    assert sum(lengths) >= (90 if kind != "IVF_RQ" else 60)
    assert unindexed(path) == {"v_idx": 0}
    assert len(await row_ids(path)) == 2600
    # pylance goes on with what we merged.
    lance.write_dataset(table(clustered(100, 7), 2600), path, mode="append")
    lance.dataset(path).optimize.optimize_indices()
    assert unindexed(path) == {"v_idx": 0}


@pytest.mark.parametrize("stable", [False, True])
async def test_rows_that_went_or_moved_are_left_out(tmp_path: Path, stable: bool) -> None:
    path = tmp_path / "t"
    dataset = await several(path, "IVF_PQ", {"num_sub_vectors": 8}, stable=stable)
    dataset = await dataset.delete("id % 10 = 3")
    dataset = await dataset.update({"id": "id + 10000"}, where="id >= 2100 AND id < 2200")
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=3)
    assert num_segments(path) == 1
    live = (await dataset.to_table(["_rowid"]))["_rowid"].to_pylist()
    assert await row_ids(path) == sorted(live)
    query = clustered(300, 2000)[101]
    assert search(path, query, nprobes=4, refine_factor=5)[0] == 12101


async def test_only_rows_without_an_index_are_read(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await several(path, "IVF_SQ", {})
    with alance.trace() as recorder:
        await dataset.optimize.optimize_indices(num_indices_to_merge=3)
    read = {event.location.split("/")[-1] for event in recorder.events}
    (new,) = lance.dataset(path).get_fragments()[-1].data_files()
    assert {name for name in read if name.endswith(".lance")} <= {new.path}


async def test_segments_stay_few_and_a_row_is_seldom_written_again(tmp_path: Path) -> None:
    path = tmp_path / "t"
    lance.write_dataset(table(clustered(1000, 1)), path)
    dataset = await alance.dataset(path)
    dataset = await dataset.create_index("v", "IVF_SQ", num_partitions=2)
    sizes, written = [], 0
    for number in range(16):
        files = index_files(path)
        dataset = await dataset.insert(table(clustered(50, number), 1000 + 50 * number))
        dataset = await dataset.optimize.optimize_indices()
        sizes.append(num_segments(path))
        new = [path / "_indices" / name for name in index_files(path) - files]
        for file in new:
            if file.name == "auxiliary.idx":
                written += (await alance.FileReader.open(file)).num_rows
    assert max(sizes) <= 6
    assert written <= 800 * 5 + 1000
    assert await row_ids(path) == sorted((await dataset.to_table(["_rowid"]))["_rowid"].to_pylist())


async def test_segments_of_other_centroids_are_read_from_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    dataset = await several(path, "IVF_PQ", {"num_sub_vectors": 8})
    dataset = await dataset.delete("id < 500")
    monkeypatch.setattr(Training, "is_like", lambda self, other: False)
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert num_segments(path) == 2
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert num_segments(path) == 1
    assert await row_ids(path) == sorted((await dataset.to_table(["_rowid"]))["_rowid"].to_pylist())
    values = [
        search(path, query, nprobes=4, refine_factor=5)[0] for query in clustered(100, 2500)[:9]
    ]
    assert values == list(range(2500, 2509))


async def test_partitions_that_have_grown_are_parted_anew(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(table(clustered(1000, 1)), path)
    dataset = await dataset.create_index("v", "IVF_SQ", num_partitions=4)  # of 250 rows each
    dataset = await dataset.insert(table(clustered(2000, 2), 1000))
    dataset = await dataset.optimize.optimize_indices()
    assert await num_partitions(dataset) == 4
    dataset = await dataset.insert(table(clustered(3000, 3), 3000))
    dataset = await dataset.optimize.optimize_indices()
    assert await num_partitions(dataset) == 24
    assert num_segments(path) == 1
    assert len(await row_ids(path)) == 6000
    assert unindexed(path) == {"v_idx": 0}
    queries = clustered(3000, 3)[:20]
    rows = await dataset.nearest_many("v", queries, 1, columns=["id"], nprobes=3, refine_factor=5)
    assert rows["id"].to_pylist() == list(range(3000, 3020))
    assert [search(path, query, nprobes=3, refine_factor=5)[0] for query in queries] == list(
        range(3000, 3020)
    )


GRAPHS: list[tuple[str, dict[str, Any]]] = [
    ("IVF_HNSW_FLAT", {"m": 6, "ef_construction": 40}),
    ("IVF_HNSW_SQ", {"m": 6, "ef_construction": 40}),
    ("IVF_HNSW_PQ", {"num_sub_vectors": 8, "m": 6, "ef_construction": 40}),
]
PARTED = [(kind, options, "alance") for kind, options in [*KINDS, *GRAPHS]]
PARTED += [(kind, options, "pylance") for kind, options in KINDS]


@pytest.mark.parametrize(("kind", "options", "builder", "stable"), thinned(PARTED, (False, True)))
async def test_a_partition_that_has_grown_by_itself_is_parted(
    tmp_path: Path,
    kind: str,
    options: dict[str, Any],
    builder: str,
    stable: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "t"
    other = lance.write_dataset(table(clustered(2000, 1)), path, enable_stable_row_ids=stable)
    if builder == "pylance":  # it does not tell of how many rows
        monkeypatch.setattr(train, "VECTOR_PARTITION_ROWS", 250)
        centroids = clustered(8, 1)  # its training is by chance: what is near may be parted already
        other.create_index("v", kind, num_partitions=8, ivf_centroids=centroids, **options)
    dataset = await alance.dataset(path)
    if builder == "alance":  # of 250 rows each
        dataset = await dataset.create_index("v", kind, num_partitions=8, **options)
    before = await num_partitions(dataset)
    rng = np.random.default_rng(0)
    near = clustered(1, 1) + 0.3 * rng.standard_normal((1500, clustered(1, 1).shape[1]))
    dataset = await dataset.insert(table(near.astype(np.float32), 2000))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert await num_partitions(dataset) == before
    dataset = await dataset.delete("id % 50 = 0")
    dataset = await dataset.insert(table(clustered(100, 9), 3500))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert num_segments(path) == 1
    count = await num_partitions(dataset)
    assert before + 5 <= count <= before + 10
    assert await row_ids(path) == sorted((await dataset.to_table(["_rowid"]))["_rowid"].to_pylist())
    queries = near.astype(np.float32)[1:40:2]
    exact = await dataset.nearest_many("v", queries, 10, columns=["id"], use_index=False)
    entries: dict[str, Any] = {"nprobes": count // 2, "refine_factor": 150}
    rows = await dataset.nearest_many("v", queries, 10, columns=["id"], **entries)
    right = np.array(exact["id"]).reshape(-1, 10)
    own = np.array(rows["id"]).reshape(-1, 10)
    theirs = [search(path, query, **entries) for query in queries]
    for answers in (own, theirs):
        shared = [len({*a} & {*b}) for a, b in zip(right.tolist(), map(list, answers), strict=True)]
        assert sum(shared) >= 0.85 * right.size
    lance.dataset(path).insert(table(clustered(50, 10), 3600))
    lance.dataset(path).optimize.optimize_indices()
    assert unindexed(path) == {"v_idx": 0}
    dataset = await alance.dataset(path)
    dataset = await dataset.insert(table(clustered(50, 11), 3650))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert len(await row_ids(path)) == 3700 - 70


async def test_vectors_that_are_all_alike_are_not_parted(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await alance.write_dataset(table(clustered(1000, 1)), path)
    dataset = await dataset.create_index("v", "IVF_FLAT", num_partitions=8)
    alike = np.repeat(clustered(1, 1), 900, axis=0)
    dataset = await dataset.insert(table(alike, 1000))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    dataset = await dataset.insert(table(clustered(10, 2), 1900))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=2)
    assert await num_partitions(dataset) <= 8 + 10
    assert len(await row_ids(path)) == 1910
    rows = await dataset.nearest("v", alike[0], 901, columns=["id"], nprobes=1)
    assert set(rows["id"].to_pylist()) >= {*range(1000, 1900)}


async def test_retraining_suits_the_number_of_partitions_to_the_rows(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(table(clustered(1000, 1)), tmp_path / "t")
    dataset = await dataset.create_index("v", "IVF_PQ", num_partitions=4, num_sub_vectors=4)
    dataset = await dataset.insert(table(clustered(5000, 2), 1000))
    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
    assert await num_partitions(dataset) == 4
    dataset = await dataset.optimize.optimize_indices(retrain=True)
    assert await num_partitions(dataset) == 24


async def num_partitions(dataset: alance.Dataset) -> int:
    """Return the number of partitions of the latest segment."""
    snapshot = dataset._snapshot
    index = Index.from_protobuf(snapshot.manifest.indices[-1])
    training = await training_of(snapshot, index, snapshot.schema.field("v"))
    assert training is not None
    return len(training.centroids)


@pytest.mark.parametrize(("kind", "options"), [KINDS[2], GRAPHS[2]])
async def test_an_index_that_pylance_has_not_trained_yet_is_made_when_there_are_rows(
    tmp_path: Path, kind: str, options: dict[str, Any]
) -> None:
    path = tmp_path / "t"
    other = lance.write_dataset(table(clustered(100, 1)), path)
    other.create_index("v", kind, metric="cosine", num_partitions=1, **options)
    before = await alance.dataset(path)
    assert not any((path / "_indices").glob("*/index.idx"))
    after = await before.optimize.optimize_indices()
    assert after.version == before.version
    dataset = await after.insert(table(clustered(900, 2), 100))
    dataset = await dataset.optimize.compact_files()
    assert len(dataset.fragments) == 1
    dataset = await dataset.optimize.optimize_indices()
    assert unindexed(path) == {"v_idx": 0}
    assert num_segments(path) == 1
    queries = clustered(900, 2)[:20]
    rows = await dataset.nearest_many("v", queries, 1, columns=["id"], refine_factor=20)
    assert rows["id"].to_pylist() == list(range(100, 120))
    assert [search(path, query, refine_factor=20)[0] for query in queries] == list(range(100, 120))

"""Graphs of HNSW indices are followed where that costs less, and lead where they lead pylance."""

from __future__ import annotations

import json
import shutil
import warnings
from typing import TYPE_CHECKING, Any, Final

import lance
import numpy as np
import pytest

import alance
from alance.format.index.hnsw import Graphs, GraphShape, Links, walked_rows
from alance.format.proto import vector_index_pb2
from tests.reference.thinned import thinned
from tests.search.search_cases import METRICS, agree, ids, ours, queries, table, theirs, written

if TYPE_CHECKING:
    from pathlib import Path

M: Final = 6  # of a row on the upper levels: graphs of some hundred rows are followed
KINDS: Final[dict[str, dict[str, Any]]] = {
    "IVF_HNSW_FLAT": {},
    "IVF_HNSW_PQ": {"num_sub_vectors": 8},
    "IVF_HNSW_SQ": {},
}


def index(path: Path, kind: str, metric: str, partitions: int = 2, m: int = M) -> None:
    """Make an index as pylance does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lance.dataset(path).create_index(
            "vec",
            kind,
            metric=metric,
            num_partitions=partitions,
            replace=True,
            m=m,
            ef_construction=40,
            **KINDS[kind],
        )


def scale_of(kind: str, metric: str) -> float:
    """By which pylance's distances are to be multiplied."""
    return 0.5 if metric == "cosine" and kind != "IVF_HNSW_FLAT" else 1.0


@pytest.mark.parametrize(("metric", "kind"), thinned([*METRICS], [*KINDS]))
async def test_a_graph_leads_to_the_rows_that_it_leads_pylance_to(
    tmp_path: Path, kind: str, metric: str
) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, kind, metric, partitions=1)
    dataset = await alance.dataset(path)
    scale, missed = scale_of(kind, metric), 0
    for q in queries("float32", 12):
        every = await ours(dataset, q, k=10, nprobes=1, ef=3000)
        for ef in (None, 12, 40):
            own = await ours(dataset, q, k=10, nprobes=1, ef=ef)
            agree(own, theirs(path, q, k=10, nprobes=1, ef=ef), scale=scale)
            missed += 10 - len(set(ids(own)) & set(ids(every)))
        many = await dataset.nearest_many("vec", np.stack([q, -q]), 10, columns=["id"], nprobes=1)
        assert many.slice(0, 10).drop_columns("query_index") == await ours(
            dataset, q, k=10, nprobes=1
        )
    assert missed  # the graph was followed: it does not lead to all near rows


@pytest.mark.parametrize("kind", KINDS)
async def test_rows_that_do_not_count_are_walked_over(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, kind, "l2", partitions=1)
    lance.dataset(path).delete("id % 13 = 5")
    dataset = await alance.dataset(path)
    for q in queries("float32"):
        agree(await ours(dataset, q, nprobes=1), theirs(path, q, k=10, nprobes=1))
        retained = {"filter": "kind < 4"}
        own = await ours(dataset, q, nprobes=1, **retained)
        agree(own, theirs(path, q, k=10, nprobes=1, prefilter=True, **retained))
        refined = {"refine_factor": 3, "nprobes": 1}
        agree(await ours(dataset, q, **refined), theirs(path, q, k=10, **refined))
        far = own["_distance"][5].as_py()
        ranged = await ours(dataset, q, nprobes=1, distance_range=(far, None), **retained)
        distances = ranged["_distance"].to_numpy()
        assert (distances >= far).all()
        assert (distances[:5] <= own["_distance"].to_numpy()[5:]).all()


async def test_few_rows_that_count_are_compared_one_by_one(tmp_path: Path) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, "IVF_HNSW_FLAT", "l2")
    dataset = await alance.dataset(path)
    for q in queries("float32"):
        own = await ours(dataset, q, nprobes=2, filter="kind = 3", ef=10)
        exact = await ours(dataset, q, filter="kind = 3", use_index=False)
        assert own == exact


async def test_what_is_followed_is_told(tmp_path: Path) -> None:
    path = written(tmp_path / "t", deletes=False)
    index(path, "IVF_HNSW_SQ", "l2")
    dataset = await alance.dataset(path)
    nearest = {"column": "vec", "q": queries("float32", 1)[0], "k": 10}
    message = str(await dataset.scanner(nearest=nearest).explain())
    assert f"(ef 15) in partitions with more than {walked_rows(M, 15)} rows" in message
    message = str(await dataset.scanner(nearest={**nearest, "refine_factor": 4}).explain())
    assert "(ef 60)" in message
    message = str(await dataset.scanner(nearest={**nearest, "ef": 7}).explain())
    assert "(ef 10)" in message


@pytest.mark.parametrize("version", ["2.0", "2.1", "2.2"])
async def test_graphs_are_read_of_files_of_all_versions(tmp_path: Path, version: str) -> None:
    path = tmp_path / "t"
    lance.write_dataset(table("float32", 9000), path, data_storage_version=version)
    index(path, "IVF_HNSW_SQ", "l2", partitions=1)
    dataset = await alance.dataset(path)
    for q in queries("float32"):
        agree(await ours(dataset, q), theirs(path, q, k=10))


async def test_partitions_without_rows_have_no_graph(tmp_path: Path) -> None:
    path = written(tmp_path / "t", deletes=False)
    centroids = np.zeros((3, 16), np.float32)
    centroids[1] += 1e4
    centroids[2] += 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lance.dataset(path).create_index(
            "vec", "IVF_HNSW_FLAT", num_partitions=3, ivf_centroids=centroids, m=M
        )
    dataset = await alance.dataset(path)
    for q in queries("float32"):  # a wide walk: rounding may lead narrow ones to other rows
        options = {"nprobes": 3, "ef": 200}
        agree(await ours(dataset, q, **options), theirs(path, q, k=10, **options))


SHAPE: Final = (
    '{"entry_point":0,"params":{"max_level":7,"m":2,"ef_construction":9},"level_offsets":[0,3]}'
)


@pytest.mark.parametrize(
    "listed",
    [
        None,
        "7",
        "{}",
        json.dumps([SHAPE]),
        json.dumps([SHAPE, "{"]),
        json.dumps([SHAPE, 7]),
        json.dumps([SHAPE, SHAPE.replace("9", "-9")]),
        json.dumps([SHAPE, SHAPE.replace("9", "9.5")]),
        json.dumps([SHAPE, SHAPE.replace("[0,3]", "3")]),
        json.dumps([SHAPE, SHAPE.replace("[0,3]", '["0"]')]),
        json.dumps([SHAPE, SHAPE.replace("entry_point", "entry")]),
    ],
    ids=str,
)
def test_graphs_that_are_not_told_of_are_refused(listed: str | None) -> None:
    message = vector_index_pb2.IVF(offsets=[0, 3], lengths=[3, 3]).SerializeToString()
    metadata = {} if listed is None else {"lance:hnsw": listed}
    with pytest.raises(alance.CorruptFileError):
        Graphs.parse(metadata, memoryview(message), np.array([3, 3]), 6)
    right = Graphs.parse(
        {"lance:hnsw": json.dumps([SHAPE] * 2)}, memoryview(message), np.array([3, 3]), 6
    )
    assert right.shapes[1] == GraphShape(0, (0, 3), Links(2, 9, 7))
    assert GraphShape.parse(right.shapes[1].text()) == right.shapes[1]


async def test_spoiled_graphs_give_errors_and_no_crash(tmp_path: Path) -> None:
    written(tmp_path / "t", deletes=False)
    index(tmp_path / "t", "IVF_HNSW_SQ", "l2")
    rng, errors = np.random.default_rng(3), 0
    (file,) = (tmp_path / "t" / "_indices").glob("*/index.idx")
    for number in range(40):
        content = bytearray(file.read_bytes())
        for _ in range((1, 4, 30)[number % 3]):
            content[rng.integers(len(content))] = rng.integers(256)
        place = tmp_path / "c"
        shutil.copytree(tmp_path / "t", place)
        (place / file.relative_to(tmp_path / "t")).write_bytes(content)
        async with alance.Session() as session:
            dataset = await alance.dataset(place, session=session)
            try:
                rows = await ours(dataset, queries("float32", 1)[0], k=10, nprobes=2)
                assert set(ids(rows)) <= {*range(3000)}
            except alance.CorruptFileError:
                errors += 1
        shutil.rmtree(place)
    assert errors > 5

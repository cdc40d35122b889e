"""Vector indices made in parts: what is trained once, and coded by many."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pytest

import alance
from alance.errors import AlreadyExistsError, CorruptFileError, InvalidInputError, NotFoundError
from alance.files import FileReader
from alance.indexing import IndexBuild
from alance.ops.index.values import runs
from tests.indices.index_cases import pickled_copy
from tests.indices.test_indices_moved import unindexed
from tests.indices.test_vectors_built import KINDS, clustered, table
from tests.indices.test_vectors_merged import row_ids
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


async def written(path: Path, *, stable: bool = False) -> alance.Dataset:
    rows = table(clustered(3000, 1))
    lance.write_dataset(rows, path, max_rows_per_file=500, enable_stable_row_ids=stable)
    lance.dataset(path).delete("id % 11 = 4")
    return await alance.dataset(path)


WITH_GRAPHS: list[tuple[str, dict[str, Any]]] = [
    ("IVF_HNSW_FLAT", {"m": 8, "ef_construction": 30}),
    ("IVF_HNSW_SQ", {}),
    ("IVF_HNSW_PQ", {"num_sub_vectors": 8}),
]


def folders(path: Path) -> set[str]:
    return {folder.name for folder in (path / "_indices").iterdir() if any(folder.iterdir())}


@pytest.mark.parametrize(
    ("stable", "kind", "options"), thinned([False, True], [*KINDS, *WITH_GRAPHS])
)
async def test_they_are_those_made_at_once(
    tmp_path: Path, kind: str, options: dict[str, Any], stable: bool
) -> None:
    more = {"num_partitions": 4, **options}
    once = await written(tmp_path / "once", stable=stable)
    once = await once.create_index("v", kind, **more)
    dataset = await written(tmp_path / "parts", stable=stable)
    plan = pickled_copy(await IndexBuild.plan(dataset, "v", kind, task_bytes=20_000, vectors=more))
    assert plan.num_tasks() == 6
    parts = [
        pickled_copy(await pickled_copy(task).execute(dataset)) for task in reversed(plan.tasks)
    ]
    assert sum(part.num_rows for part in parts) == await dataset.count_rows()
    segment = pickled_copy(await IndexBuild.merge(dataset, plan, parts, memory_bytes=1 << 16))
    dataset = await IndexBuild.commit(dataset, plan, segment)
    assert unindexed(tmp_path / "parts") == {"v_idx": 0}
    queries = clustered(10, 5)
    answers = [
        await each.nearest_many("v", queries, 10, columns=["id"], nprobes=2)
        for each in (once, dataset)
    ]
    assert answers[0] == answers[1]
    # What the build left beside the index is gone.
    assert folders(tmp_path / "parts") == {segment["uuid"] for segment in dataset.list_indices()}
    rows = lance.dataset(tmp_path / "parts").to_table(
        ["id", "_distance"], nearest={"column": "v", "q": queries[0], "k": 10, "nprobes": 4}
    )
    assert rows.num_rows == 10


@pytest.mark.parametrize(("kind", "options"), WITH_GRAPHS)
async def test_graphs_are_linked_by_ranges_of_partitions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: dict[str, Any]
) -> None:
    monkeypatch.setattr(runs, "RUN_BLOCK_BYTES", 500)
    more = {"num_partitions": 7, **options}
    once = await written(tmp_path / "once")
    once = await once.create_index("v", kind, **more)
    dataset = await written(tmp_path / "parts")
    plan = pickled_copy(await IndexBuild.plan(dataset, "v", kind, task_bytes=20_000, vectors=more))
    parts = [pickled_copy(await pickled_copy(task).execute(dataset)) for task in plan.tasks]
    num_bytes = sum(part.num_bytes for part in parts)
    ranges = await IndexBuild.ranges(dataset, plan, parts, range_bytes=16 * num_bytes // 3)
    assert len(ranges) > 1
    pages = [pickled_copy(await pickled_copy(part).execute(dataset)) for part in reversed(ranges)]
    assert sorted(number for part in pages for number, *_ in part.shapes) == [*range(7)]
    with pytest.raises(InvalidInputError, match="expected each range of one list once"):
        await IndexBuild.merge(dataset, plan, parts, pages[1:])
    segment = pickled_copy(
        await IndexBuild.merge(dataset, plan, parts, pages, memory_bytes=1 << 16)
    )
    dataset = await IndexBuild.commit(dataset, plan, segment)
    assert unindexed(tmp_path / "parts") == {"v_idx": 0}
    assert folders(tmp_path / "parts") == {segment["uuid"] for segment in dataset.list_indices()}
    # Graphs and codes are, byte by byte, those of one process.
    files = [sorted((tmp_path / name / "_indices").rglob("*.idx")) for name in ("once", "parts")]
    for own, other in zip(*files, strict=True):
        assert own.name == other.name
        assert await rows_of(own) == await rows_of(other)
    query = clustered(1, 5)[0]
    nearest = {"column": "v", "q": query, "k": 10, "nprobes": 7}
    rows = lance.dataset(tmp_path / "parts").to_table(["id", "_distance"], nearest=nearest)
    assert rows == lance.dataset(tmp_path / "once").to_table(["id", "_distance"], nearest=nearest)


async def rows_of(file: Path) -> pa.Table:
    """The rows of a file of an index, with what its schema tells."""
    reader = await FileReader.open(file)
    return await reader.to_table()


@pytest.mark.parametrize("others", [False, True])
async def test_graphs_of_other_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    monkeypatch.setattr(runs, "RUN_BLOCK_BYTES", 500)
    dataset = await written(tmp_path / "t")
    more = {"num_partitions": 7}
    plan = await IndexBuild.plan(dataset, "v", "IVF_HNSW_SQ", vectors=more)
    parts = [await task.execute(dataset) for task in plan.tasks]
    pages = [
        await part.execute(dataset)
        for part in await IndexBuild.ranges(dataset, plan, parts, range_bytes=16 << 10)
    ]
    first, *rest = pages
    (number, *shape), *shapes = first.shapes
    if others:  # the right graph, of a number that is another one's
        wrong, match = ((number + 1, *shape), *shapes), "not the graph of"
    else:
        wrong, match = tuple(shapes), "not the graph of|expected the graph of"
    with pytest.raises(CorruptFileError, match=match):
        await IndexBuild.merge(dataset, plan, parts, [replace(first, shapes=wrong), *rest])


async def test_parts_of_an_earlier_plan_are_used_with_their_training(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await written(path)
    more: Any = {"num_partitions": 4}
    plan = await IndexBuild.plan(dataset, "v", "IVF_SQ", task_bytes=20_000, vectors=more)
    parts = [await task.execute(dataset) for task in plan.tasks[:4]]
    dataset = await dataset.insert(table(clustered(100, 2), 3000))
    later = await IndexBuild.plan(
        dataset, "v", "IVF_SQ", task_bytes=20_000, vectors=more, done=parts
    )
    assert (later.build, later.num_tasks()) == (plan.build, 3)
    rest = [await task.execute(dataset) for task in later.tasks]
    segment = await IndexBuild.merge(dataset, later, rest)
    dataset = await IndexBuild.commit(dataset, later, segment)
    live = (await dataset.to_table(["_rowid"]))["_rowid"].to_pylist()
    assert await row_ids(path) == sorted(live)


async def test_parts_of_another_training_are_refused(tmp_path: Path) -> None:
    dataset = await written(tmp_path / "t")
    more: Any = {"num_partitions": 2}
    plans = [await IndexBuild.plan(dataset, "v", "IVF_FLAT", vectors=more) for _ in range(2)]
    parts = [await task.execute(dataset) for task in plans[0].tasks]
    with pytest.raises(InvalidInputError, match="not all are coded"):
        await IndexBuild.merge(dataset, plans[1], parts)


async def test_without_its_training_a_task_cannot_be_done(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await written(path)
    more: Any = {"num_partitions": 2}
    plan = await IndexBuild.plan(dataset, "v", "IVF_FLAT", vectors=more)
    for file in (path / "_indices" / plan.build).iterdir():
        file.unlink()
    with pytest.raises(NotFoundError):
        await plan.tasks[0].execute(await alance.dataset(path, session=alance.Session()))
    bad: Any = {"num_partitions": 0}
    with pytest.raises(InvalidInputError, match="num_partitions"):
        await IndexBuild.plan(dataset, "v", "IVF_FLAT", vectors=bad)
    assert np.array_equal(list(dataset.list_indices()), [])


@pytest.mark.parametrize("replace", [False, True])
async def test_two_builds_at_once_leave_one_index(tmp_path: Path, replace: bool) -> None:
    path = tmp_path / "t"
    handles = [await written(path), await alance.dataset(path)]
    builds = [
        handle.create_index("v", "IVF_FLAT", num_partitions=4, replace=replace)
        for handle in handles
    ]
    results = await asyncio.gather(*builds, return_exceptions=True)
    refused = [result for result in results if isinstance(result, BaseException)]
    assert [type(error) for error in refused] == ([] if replace else [AlreadyExistsError])
    assert unindexed(path) == {"v_idx": 0}
    query = clustered(1, 5)[0]
    request = {"column": "v", "q": query, "k": 10}
    by_index = lance.dataset(path).to_table(["id"], nearest={**request, "nprobes": 4})
    by_all = lance.dataset(path).to_table(["id"], nearest={**request, "use_index": False})
    assert by_index["id"] == by_all["id"]

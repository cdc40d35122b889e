"""Indices made in parts: plan, execute, merge, commit; the same as those that are made at once."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from alance import sync
from alance.errors import (
    AlreadyExistsError,
    CorruptFileError,
    InvalidInputError,
    RetryableConflictError,
)
from alance.format.index import bitmap
from alance.format.index.bitmap import joined_rows, parse_rows, rows_bytes
from alance.indexing import IndexBuild
from alance.ops.index.values import runs as index_runs
from alance.ops.index.values.merge import RunMerger
from alance.ops.index.values.ranges import cut_ranges, pack_firsts
from alance.ops.index.values.runs import IndexPart, write_run
from alance.ops.index.values.sort import sort_parts
from alance.ops.lookup.kinds.keys import row_schema
from tests.indices.index_cases import (
    COLUMNS,
    TYPED_FILTERS,
    agree,
    content,
    ids,
    pickled_copy,
    plan_of,
    rows,
    typed,
)
from tests.reference.thinned import thinned

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from alance.testing.lab import Lab


async def in_parts(dataset: alance.Dataset, column: str, kind: str, **options: Any) -> Any:
    """The dataset with an index, by four steps with pickles in between."""
    plan = pickled_copy(await IndexBuild.plan(dataset, column, kind, task_bytes=20_000, **options))
    assert plan.num_tasks() > 1
    parts = [
        pickled_copy(await pickled_copy(task).execute(dataset)) for task in reversed(plan.tasks)
    ]
    segment = pickled_copy(await IndexBuild.merge(dataset, plan, parts, memory_bytes=1 << 16))
    return await IndexBuild.commit(dataset, plan, segment)


@pytest.mark.parametrize(("stable", "version"), thinned([False, True], ["2.0", "2.1"]))
async def test_they_are_those_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool, version: str
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    for name in ("parts", "once"):
        lance.write_dataset(
            rows(9_000),
            tmp_path / name,
            max_rows_per_file=1_500,
            enable_stable_row_ids=stable,
            data_storage_version=version,
        )
        lance.dataset(tmp_path / name).delete("id % 17 = 3")
    parts, once = [await alance.dataset(tmp_path / name) for name in ("parts", "once")]
    for column, kind in COLUMNS.items():
        parts = await in_parts(parts, column, kind)
        once = await once.create_scalar_index(column, kind)
    assert content(tmp_path / "parts") == content(tmp_path / "once")
    await parts.validate()
    theirs = lance.dataset(tmp_path / "parts")
    theirs.validate()
    await agree(tmp_path / "parts")
    for condition, name in (("i = 37", "i_idx"), ("s = 'v3'", "s_idx"), ("i is null", "i_idx")):
        assert name in theirs.scanner(filter=condition).explain_plan()
        result = [
            theirs.scanner(["id"], filter=condition, use_scalar_index=used).to_table()["id"]
            for used in (True, False)
        ]
        assert sorted(result[0].to_pylist()) == sorted(result[1].to_pylist()) != []
    assert not list((tmp_path / "parts" / "_indices").glob("*/*.run"))
    lance.write_dataset(rows(500, 90_000), tmp_path / "parts", mode="append")
    lance.dataset(tmp_path / "parts").optimize.optimize_indices()
    await agree(tmp_path / "parts", ("i = 5", "s = 'v3' or i in (9, 10)", "f is null"))


async def test_parts_of_all_types_merge_to_the_same_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 300)
    table = pa.table({"id": pa.array(range(300)), **typed()})
    for kind in ("BTREE", "BITMAP"):
        dataset = None
        for name in ("once", "parts"):
            path = tmp_path / kind / name
            lance.write_dataset(table, path, max_rows_per_file=70)
            dataset = await alance.dataset(path)
            for column in TYPED_FILTERS:
                if name == "once":
                    dataset = await dataset.create_scalar_index(column, kind)
                    continue
                plan = await IndexBuild.plan(dataset, column, kind, task_bytes=1)
                parts = [await task.execute(dataset) for task in plan.tasks]
                segment = await IndexBuild.merge(dataset, plan, parts, memory_bytes=1)
                dataset = await IndexBuild.commit(dataset, plan, segment)
        assert content(tmp_path / kind / "parts") == content(tmp_path / kind / "once")
        assert dataset is not None
        for condition in TYPED_FILTERS.values():
            expected = await ids(dataset, condition, use_scalar_index=False)
            assert await ids(dataset, condition) == expected


values = st.one_of(st.none(), st.integers(-3, 3), st.integers(-(2**62), 2**62))
floats = st.one_of(st.none(), st.sampled_from([0.0, -0.0, math.nan, -math.nan, 1.5, -math.inf]))
texts = st.one_of(
    st.none(), st.text(max_size=3), st.sampled_from(["a", "é", "\U0001f600", "\uffff"])
)


@settings(max_examples=60)
@given(data=st.data(), memory=st.sampled_from([1, 3_000, 1 << 20]))
async def test_any_runs_are_merged_in_order(data: st.DataObject, memory: int) -> None:
    kind, values_of = data.draw(
        st.sampled_from([(pa.int64(), values), (pa.float64(), floats), (pa.string(), texts)])
    )
    drawn_runs = data.draw(st.lists(st.lists(values_of, max_size=40), max_size=5))
    number, schema, step = 0, row_schema(kind), data.draw(st.integers(1, 9))
    dataset = await alance.write_dataset(pa.table({"a": [1]}), f"memory://{uuid4()}/t")
    runs, parts = [], []
    for run in drawn_runs:
        ids_ = pa.array(range(number, number + len(run)), pa.uint64())
        number += len(run)
        batch = pa.record_batch([pa.array(run, kind), ids_], schema=schema)
        runs.append(sort_parts([batch]) if run else batch)

        async def batches(run: pa.RecordBatch = runs[-1]) -> AsyncGenerator[pa.RecordBatch, None]:
            for at in range(0, run.num_rows, step):
                yield run.slice(at, step)

        path, blocks, values_ = await write_run(dataset._snapshot, "build", batches())
        firsts, stride = pack_firsts(values_, data.draw(st.sampled_from([1, 20, 1 << 16])))
        part = IndexPart("a", "BTree", 1, (), path, len(run), blocks)
        parts.append(replace(part, firsts=firsts, stride=stride))
    merger = RunMerger(dataset._snapshot, schema, memory)
    result = [batch async for batch in merger.merged(parts)]
    size = data.draw(st.integers(1, 4_000))
    ranges = cut_ranges("a", "BTree", 1, kind, parts, range_bytes=size, memory_bytes=memory)
    cut = [
        batch for part in ranges async for batch in merger.merged(part.parts, part.low, part.high)
    ]
    await alance.drop(dataset.uri)
    if not number:
        assert result == []
        return
    expected = sort_parts([run for run in runs if run.num_rows])
    assert pa.concat_batches(result).column(1) == expected.column(1)
    if ranges:
        assert pa.concat_batches(cut).column(1) == expected.column(1)


async def test_memory_of_a_merge(tmp_path: Path) -> None:
    """Blocks that are held stay below their share, whatever the length of the runs."""
    count = 400_000
    table = pa.table({"v": np.random.default_rng(1).permutation(count)})
    dataset = await alance.write_dataset(table, tmp_path / "t", max_rows_per_file=count // 8)
    plan = await IndexBuild.plan(dataset, "v", "BTREE", task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    assert sum(part.num_bytes for part in parts) > 6 << 20
    schema = row_schema(pa.int64())
    for memory, bound in ((1, 8 * index_runs.RUN_BLOCK_BYTES), (12 << 20, 3 << 20)):
        merger = RunMerger(dataset._snapshot, schema, memory)
        seen = [batch.column(0) async for batch in merger.merged(parts)]
        assert pa.concat_arrays(seen).equals(pa.array(range(count)))
        assert 0 < merger.peak_bytes <= bound


async def test_one_value_of_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 1_000)
    table = pa.table({"v": pa.array([None, 7, 7, 7] * 5_000, pa.int32())})
    for kind in ("BTREE", "BITMAP"):
        dataset = await alance.write_dataset(table, tmp_path / kind, max_rows_per_file=4_000)
        dataset = await in_parts(dataset, "v", kind)
        assert await dataset.count_rows("v = 7") == 15_000
        assert await dataset.count_rows("v is null") == 5_000
        assert lance.dataset(tmp_path / kind).count_rows("v is null") == 5_000


async def test_a_task_that_is_run_twice_and_what_is_left(tmp_path: Path) -> None:
    """The part of an attempt that did not win is in no version; cleanup takes it."""
    lance.write_dataset(rows(3_000), tmp_path / "t", max_rows_per_file=1_000)
    dataset = await alance.dataset(tmp_path / "t")
    plan = await IndexBuild.plan(dataset, "i", "BTREE", task_bytes=1)
    await plan.tasks[0].execute(dataset)
    parts = [await task.execute(dataset) for task in plan.tasks]
    with pytest.raises(InvalidInputError, match="expected each of the 3 fragments"):
        await IndexBuild.merge(dataset, plan, parts[1:])
    with pytest.raises(InvalidInputError, match="expected each of the 3 fragments"):
        await IndexBuild.merge(dataset, plan, [*parts, parts[0]])
    abandoned = await IndexBuild.merge(dataset, plan, parts)
    assert abandoned.record.files
    await dataset.validate()
    assert lance.dataset(tmp_path / "t").version == 1
    segment = await IndexBuild.merge(dataset, plan, parts)
    dataset = await IndexBuild.commit(dataset, plan, segment)
    paths = [path for path in (tmp_path / "t/_indices").rglob("*") if path.is_file()]
    assert len(paths) == 1 + 2 + 2
    await dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    paths = [path for path in (tmp_path / "t/_indices").rglob("*") if path.is_file()]
    assert sorted(path.name for path in paths) == ["page_data.lance", "page_lookup.lance"]
    await agree(tmp_path / "t", ("i = 37", "i is null"))


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
@pytest.mark.parametrize("stable", [False, True])
async def test_others_rewrite_fragments_meanwhile(tmp_path: Path, kind: str, stable: bool) -> None:
    path = tmp_path / "t"
    lance.write_dataset(rows(4_000), path, max_rows_per_file=1_000, enable_stable_row_ids=stable)
    dataset = await alance.dataset(path)
    plan = await IndexBuild.plan(dataset, "i", kind, task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    segment = await IndexBuild.merge(dataset, plan, parts)
    lance.dataset(path).delete("id >= 1000 and id < 1900")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=1_000)
    lance.dataset(path).update({"i": "37"}, where="id = 3500")
    lance.write_dataset(rows(100, 50_000), path, mode="append")
    with pytest.raises(RetryableConflictError):
        await IndexBuild.commit(dataset, plan, segment)
    assert not list((path / "_indices").rglob("*.lance"))
    dataset = await dataset.checkout_latest()
    plan = await IndexBuild.plan(dataset, "i", kind, task_bytes=1, done=parts)
    assert 0 < len(plan.parts) < 4
    old = {fragment.id for part in plan.parts for fragment in part.fragments}
    assert not old & {fragment.id for task in plan.tasks for fragment in task.fragments}
    mergeds = [await task.execute(dataset) for task in plan.tasks]
    segment = await IndexBuild.merge(dataset, plan, mergeds)
    await IndexBuild.commit(dataset, plan, segment)
    dataset = await agree(path, ("i = 37", f"i = {3500 * 37 % 5000}", "i is null", "i < 20"))
    assert (await plan_of(dataset, "i = 37")).picked


async def test_rows_that_come_meanwhile_are_scanned(tmp_path: Path) -> None:
    lance.write_dataset(rows(3_000), tmp_path / "t", max_rows_per_file=1_000)
    dataset = await alance.dataset(tmp_path / "t")
    plan = await IndexBuild.plan(dataset, "i", "BTREE", task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    lance.write_dataset(rows(1_000, 50_000), tmp_path / "t", mode="append")
    segment = await IndexBuild.merge(dataset, plan, parts)
    dataset = await IndexBuild.commit(dataset, plan, segment)
    (index,) = dataset.list_indices()
    assert index["fragment_ids"] == {0, 1, 2}
    assert dataset.version == 3
    dataset = await agree(tmp_path / "t", ("i = 37", "i in (1, 2)"))
    assert any(item >= 50_000 for item in await ids(dataset, "i < 500"))


async def test_a_damaged_part(tmp_path: Path) -> None:
    lance.write_dataset(rows(2_000), tmp_path / "t", max_rows_per_file=1_000)
    dataset = await alance.dataset(tmp_path / "t")
    plan = await IndexBuild.plan(dataset, "s", "BTREE", task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    place = tmp_path / "t" / parts[0].path
    whole = place.read_bytes()
    for damaged in (whole[: len(whole) // 2], bytes(len(whole)), whole[8:] + whole[:8]):
        place.write_bytes(damaged)
        with pytest.raises(CorruptFileError):
            await IndexBuild.merge(dataset, plan, parts)
    assert not list((tmp_path / "t/_indices").rglob("*.lance"))
    await IndexBuild.discard(dataset, parts)
    assert not list((tmp_path / "t/_indices").rglob("*.run"))


async def test_what_is_refused(tmp_path: Path) -> None:
    lance.write_dataset(rows(1_000), tmp_path / "t", max_rows_per_file=500)
    dataset = await alance.dataset(tmp_path / "t")
    for options in ({"task_bytes": 0}, {"max_tasks": -1}):
        with pytest.raises(InvalidInputError, match="expected a positive integer"):
            await IndexBuild.plan(dataset, "i", "BTREE", **options)  # type: ignore[arg-type]
    plan = await IndexBuild.plan(dataset, "i", "BTREE", max_tasks=1)
    assert plan.num_tasks() == 1
    part = await plan.tasks[0].execute(dataset)
    other = await IndexBuild.plan(dataset, "s", "BTREE")
    with pytest.raises(InvalidInputError, match="not all are of BTree on 's'"):
        await IndexBuild.merge(dataset, other, [part])
    lance.write_dataset(rows(1_000), tmp_path / "u")
    with pytest.raises(InvalidInputError, match="the task is of another dataset"):
        await plan.tasks[0].execute(await alance.dataset(tmp_path / "u"))
    dataset = await dataset.create_scalar_index("i", "BTREE")
    with pytest.raises(AlreadyExistsError):
        await IndexBuild.plan(dataset, "i", "BTREE", replace=False)


async def test_an_empty_table(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(pa.table({"v": pa.array([], pa.int32())}), tmp_path / "t")
    for kind in ("BTREE", "BITMAP"):
        plan = await IndexBuild.plan(dataset, "v", kind, name=kind)
        assert plan.num_tasks() == 0
        segment = await IndexBuild.merge(dataset, plan, [])
        dataset = await IndexBuild.commit(dataset, plan, segment)
    assert lance.dataset(tmp_path / "t").count_rows("v = 3") == 0
    assert bitmap.BITMAP_FILE in {path.name for path in (tmp_path / "t").rglob("*.lance")}


async def test_on_a_store_far_away(lab: Lab) -> None:
    """Each run is read once, in GETs of its share of the memory; all of them at once."""
    table = pa.table({"v": np.random.default_rng(3).permutation(400_000)})
    async with alance.Session() as session:
        where = {"storage_options": lab.lance_options(), "session": session}
        uri = "s3://lab/index-parts"
        dataset = await alance.write_dataset(table, uri, max_rows_per_file=100_000, **where)
        plan = await IndexBuild.plan(dataset, "v", "BTREE", task_bytes=1)
        parts = [await task.execute(dataset) for task in plan.tasks]
        with lab.recording() as seen:
            segment = await IndexBuild.merge(dataset, plan, parts, memory_bytes=32 << 20)
        runs = [record for record in seen.records if ".run" in record["key"]]
        assert len(runs) == len(parts) == 4
        dataset = await IndexBuild.commit(dataset, plan, segment)
        assert await dataset.count_rows("v = 77") == 1
        assert await dataset.count_rows("v >= 399990") == 10
    theirs = lance.dataset(uri, storage_options=lab.lance_options())
    assert theirs.count_rows("v < 12") == 12
    assert "v_idx" in theirs.scanner(filter="v = 77").explain_plan()


def test_an_index_is_built_in_parts_without_await(tmp_path: Path) -> None:
    lance.write_dataset(rows(1_000), tmp_path / "t", max_rows_per_file=400)
    dataset = sync.dataset(tmp_path / "t")
    plan = pickled_copy(sync.IndexBuild.plan(dataset, "i", "BTREE", task_bytes=1))
    parts = [pickled_copy(task).execute(dataset) for task in plan.tasks]
    merged: list[int] = []
    segment = sync.IndexBuild.merge(dataset, plan, parts, on_rows=merged.append)
    dataset = sync.IndexBuild.commit(dataset, plan, segment)
    assert (len(parts), sum(merged)) == (3, 1_000)
    assert [index["name"] for index in dataset.list_indices()] == ["i_idx"]


@given(st.lists(st.lists(st.integers(0, 2**34), max_size=30), min_size=1, max_size=4))
def test_sets_are_joined(sets: list[list[int]]) -> None:
    contents = [memoryview(rows_bytes(np.array(rows, np.int64))) for rows in sets]
    joined = parse_rows(memoryview(joined_rows(contents)))
    assert joined.to_numpy().tolist() == sorted(set().union(*sets))

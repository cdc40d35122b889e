"""B-trees and bitmap indices merged by ranges of values, beside pylance."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.errors import CorruptFileError, InvalidInputError, RetryableConflictError
from alance.format.index.btree import FILE_PAGES, RANGE_PARTITIONED, parse_page_table
from alance.indexing import IndexBuild
from alance.ops.index.values import runs as index_runs
from tests.indices.index_cases import TYPED_FILTERS, agree, ids, pickled_copy, rows, typed

if TYPE_CHECKING:
    from pathlib import Path

CONDITIONS = ("i = 37", "i < 3 or i > 480", "i is null", "i in (1, 60, 61, 400)", "i is not null")


async def built(
    dataset: alance.Dataset, column: str, range_bytes: int, kind: str = "BTREE", **options: Any
) -> tuple[alance.Dataset, int]:
    """The dataset with an index, by tasks that merge a range each; and how many there were."""
    plan = pickled_copy(await IndexBuild.plan(dataset, column, kind, task_bytes=20_000, **options))
    parts = [pickled_copy(await task.execute(dataset)) for task in plan.tasks]
    ranges = await IndexBuild.ranges(dataset, plan, parts, range_bytes=range_bytes, memory_bytes=1)
    pages = [pickled_copy(await pickled_copy(part).execute(dataset)) for part in reversed(ranges)]
    segment = pickled_copy(await IndexBuild.merge(dataset, plan, parts, pages))
    return await IndexBuild.commit(dataset, plan, segment), len(ranges)


@pytest.mark.parametrize("stable", [False, True])
async def test_pylance_and_alance_find_the_same_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    lance.write_dataset(
        rows(90_000), tmp_path, max_rows_per_file=15_000, enable_stable_row_ids=stable
    )
    lance.dataset(tmp_path).delete("id % 17 = 3")
    dataset, num_ranges = await built(await alance.dataset(tmp_path), "i", 200_000)
    assert num_ranges > 3
    files = [path.name for path in (tmp_path / "_indices").glob("*/*")]
    assert len([name for name in files if name.startswith("part_")]) == num_ranges
    await dataset.validate()
    await agree(tmp_path, CONDITIONS)
    theirs = lance.dataset(tmp_path)
    for condition in CONDITIONS:
        assert "i_idx" in theirs.scanner(filter=condition).explain_plan()
        assert "index i_idx" in str(await dataset.scanner(filter=condition).explain())
        result = [
            theirs.scanner(["id"], filter=condition, use_scalar_index=used).to_table()["id"]
            for used in (True, False)
        ]
        assert sorted(result[0].to_pylist()) == sorted(result[1].to_pylist()) != []
    assert theirs.stats.index_stats("i_idx")["num_indices"] == 1


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
async def test_values_of_all_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 300)
    table = pa.table({"id": pa.array(range(300)), **typed()})
    lance.write_dataset(table, tmp_path, max_rows_per_file=70)
    dataset = await alance.dataset(tmp_path)
    counts = {}
    for column in TYPED_FILTERS:
        dataset, counts[column] = await built(dataset, column, 700, kind)
    assert [name for name, count in counts.items() if not count] == ["nothing"], counts
    for condition in TYPED_FILTERS.values():
        expected = await ids(dataset, condition, use_scalar_index=False)
        assert await ids(dataset, condition) == expected


async def test_they_follow_a_compaction_and_new_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """alance and pylance write the tree again as one file."""
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    for name in ("ours", "theirs"):
        lance.write_dataset(rows(40_000), tmp_path / name, max_rows_per_file=5_000)
        dataset, num_ranges = await built(await alance.dataset(tmp_path / name), "i", 100_000)
        assert num_ranges > 3
        lance.dataset(tmp_path / name).delete("id % 3 = 1")
    dataset = await (await alance.dataset(tmp_path / "ours")).checkout_latest()
    await dataset.optimize.compact_files()
    lance.dataset(tmp_path / "theirs").optimize.compact_files()
    for name in ("ours", "theirs"):
        await agree(tmp_path / name, CONDITIONS)
        lance.write_dataset(rows(500, 90_000), tmp_path / name, mode="append")
    dataset = await alance.dataset(tmp_path / "ours")
    await dataset.optimize.optimize_indices()
    lance.dataset(tmp_path / "theirs").optimize.optimize_indices()
    for name in ("ours", "theirs"):
        dataset = await alance.dataset(tmp_path / name)
        assert "i_idx" in str(await dataset.scanner(filter="i = 37").explain())
        await agree(tmp_path / name, CONDITIONS)


@pytest.mark.parametrize("stable", [False, True])
async def test_a_bitmap_by_ranges_is_the_one_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stable: bool
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    for name in ("once", "ranges"):
        lance.write_dataset(
            rows(20_000), tmp_path / name, max_rows_per_file=4_500, enable_stable_row_ids=stable
        )
        lance.dataset(tmp_path / name).delete("id % 17 = 3")
    once = await alance.dataset(tmp_path / "once")
    await once.create_scalar_index("i", "BITMAP")
    dataset, num_ranges = await built(
        await alance.dataset(tmp_path / "ranges"), "i", 50_000, "BITMAP"
    )
    assert num_ranges > 3
    await dataset.validate()
    contents = [
        {path.name: path.read_bytes() for path in (tmp_path / name / "_indices").glob("*/*")}
        for name in ("once", "ranges")
    ]
    assert contents[0] == contents[1]
    await agree(tmp_path / "ranges", CONDITIONS)


async def test_a_bitmap_whose_commit_is_ruled_out_leaves_the_runs_of_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    lance.write_dataset(rows(20_000), tmp_path, max_rows_per_file=5_000)
    dataset = await alance.dataset(tmp_path)
    plan = await IndexBuild.plan(dataset, "i", "BITMAP", task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    ranges = await IndexBuild.ranges(dataset, plan, parts, range_bytes=50_000)
    pages = [await each.execute(dataset) for each in ranges]
    segment = await IndexBuild.merge(dataset, plan, parts, pages)
    lance.dataset(tmp_path).optimize.compact_files()
    with pytest.raises(RetryableConflictError):
        await IndexBuild.commit(dataset, plan, segment)
    names = {path.name for path in (tmp_path / "_indices").rglob("*") if path.is_file()}
    assert names == {part.path.rpartition("/")[2] for part in parts}
    with pytest.raises(InvalidInputError, match="each range of one list once"):
        await IndexBuild.merge(dataset, plan, parts, pages[1:])


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP", "INVERTED"])
async def test_what_killed_attempts_have_left_goes_with_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(index_runs, "RUN_BLOCK_BYTES", 2_000)
    lance.write_dataset(rows(20_000), tmp_path, max_rows_per_file=5_000)
    dataset = await alance.dataset(tmp_path)
    column = "s" if kind == "INVERTED" else "i"
    plan = await IndexBuild.plan(dataset, column, kind, task_bytes=1)
    if kind == "INVERTED":
        await plan.tasks[0].execute(dataset)
    parts = [await task.execute(dataset) for task in plan.tasks]
    ranges = await IndexBuild.ranges(dataset, plan, parts, range_bytes=50_000)
    if ranges:
        await ranges[0].execute(dataset)
    pages = [await each.execute(dataset) for each in ranges]
    segment = await IndexBuild.merge(dataset, plan, parts, pages)
    names = {path.name for path in (tmp_path / "_indices").rglob("*") if path.is_file()}
    files = {file.path for file in segment.record.files}
    assert len(names) > len(files)
    dataset = await IndexBuild.commit(dataset, plan, segment)
    names = {path.name for path in (tmp_path / "_indices").rglob("*") if path.is_file()}
    assert files <= names
    assert len(names - files) == (1 if kind == "BITMAP" else 0)  # a run is in no index's folder
    await dataset.validate()


async def test_pages_of_other_ranges_are_refused(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(
        pa.table({"v": np.random.default_rng(1).permutation(50_000)}), tmp_path
    )
    plan = await IndexBuild.plan(dataset, "v", "BTREE")
    parts = [await task.execute(dataset) for task in plan.tasks]
    assert await IndexBuild.ranges(dataset, plan, parts) == []
    ranges = await IndexBuild.ranges(dataset, plan, parts, range_bytes=200_000)
    pages = [await part.execute(dataset) for part in ranges]
    other = await IndexBuild.ranges(dataset, plan, parts, range_bytes=200_000)
    strange = await other[0].execute(dataset)
    for wrong in (pages[1:], pages[:-1], [*pages, pages[0]], [strange, *pages[1:]]):
        with pytest.raises(InvalidInputError, match="each range of one list once"):
            await IndexBuild.merge(dataset, plan, parts, wrong)
    with pytest.raises(InvalidInputError, match="range_bytes=0"):
        await IndexBuild.ranges(dataset, plan, parts, range_bytes=0)
    dataset = await IndexBuild.commit(
        dataset, plan, await IndexBuild.merge(dataset, plan, parts, pages)
    )
    assert await dataset.count_rows("v < 1000") == 1000


def test_ranges_have_a_blocking_face(tmp_path: Path) -> None:
    values = np.random.default_rng(1).permutation(50_000)
    dataset = sync.write_dataset(pa.table({"v": values}), str(tmp_path))
    plan = sync.IndexBuild.plan(dataset, "v", "BTREE")
    parts = [task.execute(dataset) for task in plan.tasks]
    ranges = sync.IndexBuild.ranges(dataset, plan, parts, range_bytes=200_000)
    pages = [part.execute(dataset) for part in ranges]
    segment = sync.IndexBuild.merge(dataset, plan, parts, pages)
    assert sync.IndexBuild.commit(dataset, plan, segment).count_rows("v < 1000") == 1000


def test_page_tables_that_contradict_their_files() -> None:
    columns = {
        "min": pa.array([1, 4, 9]),
        "max": pa.array([4, 8, 9]),
        "null_count": pa.array([0, 0, 0], pa.uint32()),
        "page_idx": pa.array([0, 1, 2], pa.uint32()),
    }
    batch = pa.RecordBatch.from_pydict(columns)

    def parse(listed: object, num_rows: dict[str, int]) -> Any:
        message = {"batch_size": "4", RANGE_PARTITIONED: "true", FILE_PAGES: json.dumps(listed)}
        return parse_page_table(batch, message, num_rows)

    files = {"part_7_page_data.lance": 5, "part_2_page_data.lance": 3}
    table = parse([[7, 2], [2, 1]], files)
    assert [table.place_of(page) for page in range(3)] == [
        ("part_7_page_data.lance", 0, 4),
        ("part_7_page_data.lance", 4, 5),
        ("part_2_page_data.lance", 0, 3),
    ]
    assert table.counts().tolist() == [4, 1, 3]
    wrong: list[object] = [[[7, 1], [2, 2]], [[7, 2]], [[7, 2], [7, 2]], [[7, 2], [3, 1]], 5]
    for listed in [*wrong, [[7, 2, 1]], [["../7", 2]], None, [[7, -2], [2, 1]]]:
        with pytest.raises(CorruptFileError, match="B-tree index"):
            parse(listed, files)

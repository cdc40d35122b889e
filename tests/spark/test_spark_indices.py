"""Job `build_index`: indices that executors sort and merge, with faults in between."""

from __future__ import annotations

import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance import sync
from alance.errors import AlreadyExistsError
from alance.spark import jobs
from alance.spark.__main__ import main
from alance.spark.jobs import indexing

if TYPE_CHECKING:
    from pathlib import Path

FILTERS = ("k = 37", "k >= 40 and k < 43", "k in (1, 2, 999)", "k is null", "s = 'v3'", "s is null")


@pytest.fixture
def uri(tmp_path) -> str:
    """Five fragments of 1000 rows, some of them deleted."""
    rows = pa.table(
        {
            "id": pa.array(range(5000), pa.int64()),
            "k": pa.array([None if index % 13 == 0 else index * 37 % 500 for index in range(5000)]),
            "s": pa.array([None if index % 11 == 0 else f"v{index % 20}" for index in range(5000)]),
        }
    )
    uri = str(tmp_path / "table")
    lance.write_dataset(rows, uri, max_rows_per_file=1000)
    lance.dataset(uri).delete("id % 29 = 4")
    return uri


def agree(uri: str) -> None:
    """Each filter gives the same with the index and without, to pylance and to alance."""
    theirs, ours = lance.dataset(uri), sync.dataset(uri)
    theirs.validate()
    for condition in FILTERS:
        ordereds = [
            sorted(
                theirs.scanner(["id"], filter=condition, use_scalar_index=used)
                .to_table()["id"]
                .to_pylist()
            )
            for used in (True, False)
        ]
        ordereds.append(sorted(ours.to_table(["id"], filter=condition)["id"].to_pylist()))
        assert ordereds[0] == ordereds[1] == ordereds[2], condition


def runs_of(folder: Path) -> list[str]:
    return [path.name for path in (folder / "table" / "_indices").rglob("*.run")]


def test_both_kinds_and_the_command(spark, uri, tmp_path, capsys):
    steps: list[str] = []
    done = jobs.build_index(
        spark, uri, "k", task_bytes=1, on_progress=lambda now: steps.append(now.stage)
    )
    assert (done.version, done.counts["tasks"], done.counts["rounds"]) == (3, 5 + 1, 1)
    assert done.counts["rows"] == lance.dataset(uri).count_rows()
    assert done.counts["index_bytes"] > 0
    assert main(["build-index", uri, "s", "--index-type", "bitmap", "--name", "words"]) == 0
    assert "build_index" in capsys.readouterr().out
    agree(uri)
    theirs = lance.dataset(uri)
    for condition, name in (("k = 37", "k_idx"), ("k is null", "k_idx"), ("s = 'v3'", "words")):
        assert name in theirs.scanner(filter=condition).explain_plan()
        assert f"index {name}" in str(sync.dataset(uri).scanner(filter=condition).explain())
    assert runs_of(tmp_path) == []
    with pytest.raises(AlreadyExistsError):
        jobs.build_index(spark, uri, "k", replace=False)
    assert main(["build-index", uri, "nothing"]) == 1
    assert "nothing" in capsys.readouterr().err
    assert steps


def test_tasks_that_fail_and_die_are_run_again(spark, uri, tmp_path, monkeypatch):
    """One fails behind its file, another one's process is killed there; their files stay behind."""
    execute, marks = indexing.executed, str(tmp_path)

    def failing(version, task):
        merged = execute(version, task)
        first = task.fragments[0].id
        mark = f"{marks}/{'killed' if first else 'failed'}"
        if first in (0, 3) and not os.path.exists(mark):
            open(mark, "w").close()
            if first == 3:
                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("failed once")
        return merged

    monkeypatch.setattr(indexing, "executed", failing)
    done = jobs.build_index(spark, uri, "k", task_bytes=1)
    assert {"failed", "killed"} <= set(os.listdir(tmp_path))
    assert done.counts["rows"] == lance.dataset(uri).count_rows()
    agree(uri)
    assert len(runs_of(tmp_path)) == 2
    sync.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert runs_of(tmp_path) == []
    agree(uri)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_ranges_of_values_are_merged_by_tasks_of_which_one_dies(spark, tmp_path, monkeypatch, kind):
    merge_range, mark, uri = indexing._merged, str(tmp_path / "mark"), str(tmp_path / "table")
    values = np.random.default_rng(1).permutation(60_000)
    lance.write_dataset(pa.table({"k": values // 3}), uri, max_rows_per_file=20_000)

    def failing(version, part):
        result = merge_range(version, part)
        if part.number == 1 and not os.path.exists(mark):
            open(mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    monkeypatch.setattr(indexing, "_merged", failing)
    done = jobs.build_index(spark, uri, "k", kind, task_bytes=1, range_bytes=120_000)
    assert os.path.exists(mark)
    assert done.counts["tasks"] >= 3 + 4
    theirs, ours = lance.dataset(uri), sync.dataset(uri)
    theirs.validate()
    for condition, count in (("k = 77", 3), ("k < 8000", 24_000), ("k in (5, 19999)", 6)):
        assert "k_idx" in theirs.scanner(filter=condition).explain_plan()
        assert theirs.count_rows(filter=condition) == ours.count_rows(condition) == count
    assert "index k_idx" in str(ours.scanner(filter="k = 77").explain())


def test_labels_and_zones(spark, tmp_path):
    uri = str(tmp_path / "table")
    tags = [None if n % 5 == 0 else [f"t{n % 7}", f"u{n % 3}"] for n in range(9_000)]
    table = pa.table({"k": range(9_000), "tags": tags})
    lance.write_dataset(table, uri, max_rows_per_file=3_000)
    done = jobs.build_index(spark, uri, "tags", "LABEL_LIST", task_bytes=1)
    assert done.counts["rows"] == 9_000
    assert done.counts["tasks"] == 3 + 1
    jobs.build_index(spark, uri, "k", "ZONEMAP", task_bytes=1, values={"rows_per_zone": 500})
    theirs, ours = lance.dataset(uri), sync.dataset(uri)
    for condition, name in (("array_has(tags, 't3')", "tags_idx"), ("k between 9 and 20", "k_idx")):
        rows = theirs.to_table(filter=condition)
        assert rows == theirs.scanner(filter=condition, use_scalar_index=False).to_table()
        assert ours.count_rows(condition) == len(rows) > 0
        assert name in theirs.scanner(filter=condition).explain_plan()
        assert f"index {name}" in str(ours.scanner(filter=condition).explain())


def test_values_in_documents(spark, tmp_path):
    uri = str(tmp_path / "table")
    texts = [f'{{"a": {n if n < 4_000 else n / 2}}}' if n % 5 else "{}" for n in range(9_000)]
    table = pa.table({"k": range(9_000), "j": pa.array(texts, pa.json_())})
    sync.write_dataset(table, uri, max_rows_per_file=3_000)
    options = {"path": "a", "target_index_type": "BTREE"}
    done = jobs.build_index(spark, uri, "j", "JSON", task_bytes=1, values=options)
    assert (done.counts["rows"], done.counts["fragments"]) == (9_000, 3)
    assert done.counts["tasks"] == 3 + 1
    theirs, ours = lance.dataset(uri), sync.dataset(uri)
    for condition, rows in (("= 3999", [3_999, 7_998]), ("between 2.5 and 4.5", [3, 4])):
        condition = f"json_get_float(j, 'a') {condition}"
        assert theirs.to_table(filter=condition)["k"].to_pylist() == rows
        assert ours.to_table(filter=condition)["k"].to_pylist() == rows
        assert "ScalarIndexQuery" in theirs.scanner(filter=condition).explain_plan()
        assert "index j_idx" in str(ours.scanner(filter=condition).explain())


def test_a_driver_that_dies_before_the_commit(spark, uri, tmp_path, monkeypatch):
    async def dies(*_):
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(indexing.IndexBuild, "commit", dies)
        with pytest.raises(RuntimeError, match="killed"):
            jobs.build_index(spark, uri, "k", task_bytes=1)
    assert len(runs_of(tmp_path)) == 5
    assert lance.dataset(uri).version == 2
    assert sync.dataset(uri).list_indices() == []
    sync.dataset(uri).validate()
    agree(uri)
    done = jobs.build_index(spark, uri, "k", task_bytes=1)
    assert done.version == 3
    agree(uri)
    sync.dataset(uri).cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    paths = [path for path in (tmp_path / "table" / "_indices").rglob("*") if path.is_file()]
    assert sorted(path.name for path in paths) == ["page_data.lance", "page_lookup.lance"]
    agree(uri)


def test_others_compact_meanwhile(spark, uri, tmp_path, monkeypatch):
    """Only fragments that others rewrote are read again."""
    ranges, others = indexing.IndexBuild.ranges, list[int]()

    async def later(dataset_of_plan, *arguments, **options):
        if not others:
            dataset = await alance.dataset(uri)
            compacted = await dataset.optimize.compact_files(
                target_rows_per_fragment=1800, excluded_fragment_ids=[2, 3, 4]
            )
            others.append(compacted.version)
        return await ranges(dataset_of_plan, *arguments, **options)

    monkeypatch.setattr(indexing.IndexBuild, "ranges", later)
    done = jobs.build_index(spark, uri, "k", task_bytes=1)
    assert (done.counts["rounds"], done.counts["tasks"]) == (2, 5 + 1 + 1 + 1)  # merged twice
    assert done.version == others[0] + 1
    assert runs_of(tmp_path) == []
    agree(uri)
    (index,) = sync.dataset(uri).list_indices()
    assert index["fragment_ids"] == {
        fragment.fragment_id for fragment in lance.dataset(uri).get_fragments()
    }


def test_an_index_of_vectors(spark, tmp_path):
    values = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 16)
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": range(3000), "v": vectors}), uri, max_rows_per_file=1000)
    options = {"num_partitions": 4, "num_sub_vectors": 8}
    done = jobs.build_index(spark, uri, "v", "IVF_PQ", task_bytes=1, vectors=options)
    assert (done.counts["tasks"], done.counts["rows"]) == (3 + 1, 3000)
    assert lance.dataset(uri).stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    request = {"column": "v", "q": values[7], "k": 1, "nprobes": 4, "refine_factor": 20}
    assert lance.dataset(uri).to_table(["id", "_distance"], nearest=request)["id"].to_pylist() == [
        7
    ]
    assert runs_of(tmp_path) == []


def test_graphs_are_linked_by_tasks(spark, tmp_path):
    values = np.random.default_rng(0).standard_normal((24_000, 16)).astype(np.float32)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), 16)
    uri = str(tmp_path / "table")
    rows = pa.table({"id": range(len(values)), "v": vectors})
    lance.write_dataset(rows, uri, max_rows_per_file=12_000)
    options = {"num_partitions": 24, "m": 8, "ef_construction": 20, "max_iters": 5}
    more = {"task_bytes": 1, "range_bytes": 16 * 600_000, "vectors": options}
    done = jobs.build_index(spark, uri, "v", "IVF_HNSW_FLAT", **more)
    assert (done.counts["tasks"], done.counts["rows"]) == (2 + 3 + 1, len(values))
    assert lance.dataset(uri).stats.index_stats("v_idx")["num_unindexed_rows"] == 0
    request = {"column": "v", "q": values[7], "k": 1, "nprobes": 24, "ef": 50}
    assert lance.dataset(uri).to_table(["id", "_distance"], nearest=request)["id"].to_pylist() == [
        7
    ]
    assert runs_of(tmp_path) == []


def test_an_index_of_texts(spark, uri, tmp_path, capsys):
    """Tasks write its partitions; nothing is merged."""
    expected = lance.dataset(uri).to_table(["id"], filter="s = 'v3'")["id"].to_pylist()
    done = jobs.build_index(spark, uri, "s", "INVERTED", task_bytes=1, texts={"stem": False})
    assert (done.counts["tasks"], done.counts["rows"]) == (5 + 1, lance.dataset(uri).count_rows())
    ids = sync.dataset(uri).search_text("v3", 1000, columns=["id"])["id"].to_pylist()
    theirs = lance.dataset(uri).to_table(["id", "_score"], full_text_query="v3")
    assert sorted(ids) == sorted(theirs["id"].to_pylist()) == sorted(expected)
    assert lance.dataset(uri).stats.index_stats("s_idx")["num_unindexed_rows"] == 0
    folders = list((tmp_path / "table" / "_indices").iterdir())
    assert [len(list(folder.iterdir())) for folder in folders] == [5 * 3 + 1]
    assert main(["build-index", uri, "k", "--index-type", "inverted", "--quiet"]) == 1
    assert "expected texts" in capsys.readouterr().err

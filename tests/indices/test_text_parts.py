"""Inverted indices made in parts: tasks write partitions, which the index names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance
from alance.errors import InvalidInputError, RetryableConflictError
from alance.indexing import IndexBuild
from tests.indices.index_cases import pickled_copy

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ("red", "green", "blue", "fox", "dog", "owl", "runs", "sleeps")
QUERIES = ("red fox", "owl", "green sleeps dog")


async def written(path: Path, *, stable: bool = False) -> alance.Dataset:
    random = np.random.default_rng(0)
    texts = [" ".join(random.choice(WORDS, n % 6)) or None for n in range(1200)]
    rows = pa.table({"id": range(1200), "text": texts})
    lance.write_dataset(rows, path, max_rows_per_file=300, enable_stable_row_ids=stable)
    lance.dataset(path).delete("id % 7 = 3")
    return await alance.dataset(path)


async def hits_of(dataset: alance.Dataset) -> list[list[dict[str, Any]]]:
    tables = [await dataset.search_text(query, 30, columns=["id"]) for query in QUERIES]
    return [table.to_pylist() for table in tables]


def hits_of_lance(path: Path) -> list[set[int]]:
    columns = ["id", "_score"]
    return [
        set(lance.dataset(path).to_table(columns, full_text_query=query)["id"].to_pylist())
        for query in QUERIES
    ]


def files_of(path: Path) -> set[str]:
    return {file.name for file in (path / "_indices").rglob("*") if file.is_file()}


@pytest.mark.parametrize("stable", [False, True])
async def test_they_are_those_made_at_once(tmp_path: Path, stable: bool) -> None:
    texts: Any = {"with_position": True, "stem": False}
    once = await written(tmp_path / "once", stable=stable)
    once = await once.create_scalar_index("text", "INVERTED", **texts)
    dataset = await written(tmp_path / "parts", stable=stable)
    plan = pickled_copy(
        await IndexBuild.plan(dataset, "text", "inverted", task_bytes=1, texts=texts)
    )
    assert plan.num_tasks() == 4
    parts = [
        pickled_copy(await pickled_copy(task).execute(dataset)) for task in reversed(plan.tasks)
    ]
    assert sum(part.num_rows for part in parts) == await dataset.count_rows()
    segment = pickled_copy(await IndexBuild.merge(dataset, plan, parts))
    dataset = await IndexBuild.commit(dataset, plan, segment)
    await dataset.validate()
    assert await hits_of(dataset) == await hits_of(once)
    assert hits_of_lance(tmp_path / "parts") == hits_of_lance(tmp_path / "once")
    phrase = alance.PhraseQuery("red fox", "text")
    answers = [await each.search_text(phrase, 9, columns=["id"]) for each in (once, dataset)]
    assert answers[0] == answers[1]
    statistics = lance.dataset(tmp_path / "parts").stats.index_stats("text_idx")
    assert (statistics["num_unindexed_rows"], statistics["num_segments"]) == (0, 1)


async def test_parts_are_kept_where_others_rewrite_fragments(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await written(path)
    plan = await IndexBuild.plan(dataset, "text", "INVERTED", task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    segment = await IndexBuild.merge(dataset, plan, parts)
    await dataset.optimize.compact_files(target_rows_per_fragment=600, excluded_fragment_ids=[2, 3])
    with pytest.raises(RetryableConflictError):
        await IndexBuild.commit(dataset, plan, segment)
    dataset = await alance.dataset(path)
    later = await IndexBuild.plan(dataset, "text", "INVERTED", task_bytes=1, done=parts)
    assert (later.build, later.num_tasks(), len(later.parts)) == (plan.build, 1, 2)
    rest = [await task.execute(dataset) for task in later.tasks]
    stale = [part for part in parts if part not in later.parts]
    await IndexBuild.discard(dataset, stale)
    segment = await IndexBuild.merge(dataset, later, rest)
    dataset = await IndexBuild.commit(dataset, later, segment)
    assert len(files_of(path)) == 3 * 3 + 1
    once = await (await written(tmp_path / "once")).create_scalar_index("text", "INVERTED")
    assert hits_of_lance(path) == hits_of_lance(tmp_path / "once")
    scores = [[row["_score"] for row in rows] for rows in await hits_of(once)]
    assert [[row["_score"] for row in rows] for rows in await hits_of(dataset)] == scores


async def test_other_options_read_all_texts_again(tmp_path: Path) -> None:
    dataset = await written(tmp_path / "t")
    plan = await IndexBuild.plan(dataset, "text", "INVERTED", task_bytes=1)
    parts = [await task.execute(dataset) for task in plan.tasks]
    texts: Any = {"stem": False}
    later = await IndexBuild.plan(
        dataset, "text", "INVERTED", task_bytes=1, done=parts, texts=texts
    )
    assert (later.num_tasks(), later.parts) == (4, ())
    with pytest.raises(InvalidInputError, match="not all are coded"):
        await IndexBuild.merge(dataset, later, parts)
    await IndexBuild.discard(dataset, parts)
    assert files_of(tmp_path / "t") == set()


async def test_what_is_never_committed_is_cleaned_up(tmp_path: Path) -> None:
    path = tmp_path / "t"
    dataset = await written(path)
    plan = await IndexBuild.plan(dataset, "text", "INVERTED")
    parts = [await task.execute(dataset) for task in plan.tasks]
    await IndexBuild.merge(dataset, plan, parts)
    assert len(files_of(path)) == 4
    await dataset.cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    assert files_of(path) == set()
    with pytest.raises(InvalidInputError, match="expected texts"):
        await IndexBuild.plan(dataset, "id", "INVERTED")

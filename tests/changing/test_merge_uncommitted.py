"""Merges whose version somebody else makes: `execute_uncommitted`, then `alance.commit`."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
from alance import RetryableConflictError

if TYPE_CHECKING:
    from pathlib import Path

    from alance import MergeInsert

ROWS = pa.table({"id": range(100), "text": [f"old {n}" for n in range(100)], "n": range(100)})
NEW = pa.table({"id": range(90, 110), "text": [f"new {n}" for n in range(90, 110)], "n": [0] * 20})


def updating(merge: MergeInsert) -> MergeInsert:
    return merge.when_matched_update_all().when_not_matched_insert_all()


def deleting(merge: MergeInsert) -> MergeInsert:
    return merge.when_matched_delete()


def of_columns(merge: MergeInsert) -> MergeInsert:
    return merge.when_matched_update_all().write_mode("rewrite_columns")


def replacing(merge: MergeInsert) -> MergeInsert:
    return updating(merge).when_not_matched_by_source_delete("id < 50")


@pytest.mark.parametrize("clauses", [updating, deleting, of_columns, replacing])
@pytest.mark.parametrize("stable_row_ids", [False, True])
async def test_the_version_is_that_of_a_merge_that_commits(
    tmp_path: Path, clauses: Any, stable_row_ids: bool
) -> None:
    tables = []
    for name in ("own", "given"):
        uri = str(tmp_path / name)
        options: dict[str, Any] = {"max_rows_per_file": 30, "stable_row_ids": stable_row_ids}
        dataset = await alance.write_dataset(ROWS, uri, **options)
        merge = clauses(dataset.merge_insert("id"))
        data = NEW.select(["id", "n"]) if clauses is of_columns else NEW
        if name == "own":
            after = await merge.execute(data)
            counts = dict(after.summary)
        else:
            operation, arguments = await merge.execute_uncommitted(data)
            assert await dataset.latest_version() == dataset.version
            assert dict(arguments) == counts
            after = await alance.commit(dataset, pickle.loads(pickle.dumps(operation)))
        assert (await after.validate()) is None
        tables.append(lance.dataset(uri).to_table().sort_by("id"))
        assert after.version == 2
    assert tables[0] == tables[1]


async def test_a_commit_after_others_changed_the_same_rows_is_refused(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "table")
    operation, _ = await updating(dataset.merge_insert("id")).execute_uncommitted(NEW)
    changed = await dataset.update({"text": "'other'"}, "id = 95")
    with pytest.raises(RetryableConflictError):
        await alance.commit(dataset, operation)
    assert await changed.latest_version() == changed.version


async def test_a_merge_that_fails_leaves_no_file(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(ROWS, tmp_path / "table")
    before = sorted(path for path in (tmp_path / "table").rglob("*"))
    twice = pa.concat_tables([NEW, NEW])
    with pytest.raises(alance.InvalidInputError, match="expected one row at most"):
        await updating(dataset.merge_insert("id")).execute_uncommitted(twice)
    assert sorted(path for path in (tmp_path / "table").rglob("*")) == before

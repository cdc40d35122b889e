"""Merges as they are called: wrong use, bad data, options, data of many kinds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.errors import (
    AlanceError,
    InvalidInputError,
    UnsupportedError,
)
from tests.changing.both_ways import files_of, rows
from tests.changing.merges import new_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

WRONG: dict[str, tuple[Any, Any, type[AlanceError], str]] = {
    "no such key": (
        "q",
        lambda m: m.when_matched_update_all(),
        InvalidInputError,
        "key column 'q'",
    ),
    "no key": (None, lambda m: m.when_matched_update_all(), InvalidInputError, "no primary key"),
    "no keys": ([], lambda m: m.when_matched_update_all(), InvalidInputError, "no key columns"),
    "nothing to do": ("id", lambda m: m, InvalidInputError, "nothing to do"),
    "list as key": ("l", lambda m: m.when_matched_update_all(), UnsupportedError, "list"),
    "bad condition": (
        "id",
        lambda m: m.when_matched_update_all("source.zz > 1"),
        InvalidInputError,
        "zz",
    ),
    "condition of one side or the other": (
        "id",
        lambda m: m.when_matched_update_all("v > 1"),
        InvalidInputError,
        "'v'",
    ),
    "no condition": (
        "id",
        lambda m: m.when_matched_update_all("source.v + 1"),
        InvalidInputError,
        "expected a condition",
    ),
    "no SQL": (
        "id",
        lambda m: m.when_matched_update_all("source.v >"),
        InvalidInputError,
        "syntax error",
    ),
    "a division by zero": (
        "id",
        lambda m: m.when_matched_update_all("source.id / 0 > target.id"),
        InvalidInputError,
        "zero",
    ),
    "bad others": (
        "id",
        lambda m: m.when_not_matched_by_source_delete("target.v > 1"),
        InvalidInputError,
        "target",
    ),
    "columns of inserted rows": (
        "id",
        lambda m: (
            m.when_matched_update_all().when_not_matched_insert_all().write_mode("rewrite_columns")
        ),
        InvalidInputError,
        "rows are inserted",
    ),
    "all columns": (
        "id",
        lambda m: m.when_matched_update_all().write_mode("rewrite_columns"),
        InvalidInputError,
        "all columns",
    ),
}


@pytest.mark.parametrize("what", WRONG)
async def test_wrong_use_leaves_the_table_as_it_was(tmp_path: Path, what: str) -> None:
    on, clauses, error, text = WRONG[what]
    dataset = await new_table(tmp_path)
    before = files_of(tmp_path / "t.lance")
    with pytest.raises(error, match=text):
        await clauses(dataset.merge_insert(on)).execute(rows(3, 6))
    assert files_of(tmp_path / "t.lance") == before


BAD_DATA: dict[str, tuple[Any, str]] = {
    "column too many": (rows(0, 2).append_column("zz", [[1, 2]]), "'zz'"),
    "no key column": (rows(0, 2).drop_columns(["id"]), "key column 'id'"),
    "another type": (
        rows(0, 2).set_column(1, "v", pa.array(["a", "b"])),
        "column 'v': the data has string",
    ),
    "a key that does not fit": (
        rows(0, 2).set_column(0, "id", pa.array([1.5, 2.0])),
        "column 'id'",
    ),
    "a column twice": (rows(0, 2).append_column("v", rows(0, 2).column("v")), "'v'"),
    "one key twice": (pa.concat_tables([rows(2, 4), rows(3, 5)]), "rows 1 and 2 .* id = 3"),
    "no data": (7, "data of type int"),
    "an empty iterable": ([], "needs `schema`"),
}


@pytest.mark.parametrize("what", BAD_DATA)
async def test_bad_data_leaves_the_table_as_it_was(tmp_path: Path, what: str) -> None:
    data, text = BAD_DATA[what]
    dataset = await new_table(tmp_path)
    before = files_of(tmp_path / "t.lance")
    merge = dataset.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    with pytest.raises(InvalidInputError, match=text):
        await merge.memory_budget(1).execute(data)
    assert files_of(tmp_path / "t.lance") == before


async def test_data_that_fails_half_way(tmp_path: Path) -> None:
    dataset = await new_table(tmp_path)
    before = files_of(tmp_path / "t.lance")

    def batches() -> Iterator[pa.Table]:
        yield rows(0, 5)
        raise OSError("the network")

    with pytest.raises(OSError, match="the network"):
        await dataset.upsert(batches(), "id", memory_bytes=1)
    assert files_of(tmp_path / "t.lance") == before


async def test_nulls_where_there_are_none(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), False), pa.field("v", pa.int64(), False)])
    path = tmp_path / "t.lance"
    dataset = await alance.write_dataset(pa.table([[1, 2], [3, 4]], schema=schema), str(path))
    before = files_of(path)
    with pytest.raises(InvalidInputError, match=r"'v'.*null"):
        await dataset.upsert(pa.table({"id": [2, 3], "v": [None, 5]}), "id")
    with pytest.raises(InvalidInputError, match="'v': missing"):
        await dataset.upsert(pa.table({"id": [2, 3]}), "id")
    assert files_of(path) == before
    merged = (
        await dataset.merge_insert("id").when_matched_update_all().execute(pa.table({"id": [2]}))
    )
    assert merged.summary["num_updated_rows"] == 1


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("conflict_retries", -1),
        ("retry_timeout", -1),
        ("retry_timeout", "1 s"),
        ("memory_budget", 0),
        ("write_mode", "fast"),
        ("data_storage_version", "9.9"),
    ],
)
async def test_a_bad_option_of_a_merge_is_refused(tmp_path: Path, method: str, value: Any) -> None:
    merge = (await new_table(tmp_path)).merge_insert("id")
    with pytest.raises(InvalidInputError):
        getattr(merge, method)(value)


async def test_builders_are_values(tmp_path: Path) -> None:
    """A builder can be used again, and does not change."""
    dataset = await new_table(tmp_path)
    merge = dataset.merge_insert("id").when_matched_update_all()
    merge.when_not_matched_insert_all()
    first = await merge.execute(rows(19, 22))
    assert dict(first.summary) == {
        "num_inserted_rows": 0,
        "num_updated_rows": 1,
        "num_deleted_rows": 0,
    }
    assert "when_matched='update'" in repr(merge)


async def test_what_the_version_is_noted_with(tmp_path: Path) -> None:
    dataset = await new_table(tmp_path)
    merge = dataset.merge_insert("id").when_not_matched_insert_all()
    merge = merge.commit_options(properties={"who": "me"}, message="more")
    transaction = await (await merge.execute(rows(30, 31))).read_transaction()
    assert transaction is not None
    assert transaction.properties["who"] == "me"
    assert transaction.message == "more" or "more" in transaction.properties.values()


async def test_more_data_of_many_kinds(tmp_path: Path) -> None:
    dataset = await new_table(tmp_path)
    merged = await dataset.upsert(rows(19, 21).to_batches(), "id")
    two = await merged.upsert(merged.to_batches(["id", "v"], filter="id > 15"), "id")
    three = await two.upsert(rows(30, 31).to_batches()[0], "id")
    four = await three.upsert([], "id", schema=rows(0, 0).schema)
    assert [each.summary["num_updated_rows"] for each in (merged, two, three, four)] == [1, 5, 0, 0]
    assert await four.count_rows() == 22


def test_a_merge_works_without_await(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset(rows(0, 20), str(tmp_path / "t.lance"))
    merge = dataset.merge_insert("id").when_matched_delete().when_not_matched_insert_all()
    merged = merge.execute(rows(15, 25))
    assert type(merged) is alance.sync.Dataset
    assert merged.summary["num_deleted_rows"] == merged.summary["num_inserted_rows"] == 5
    assert merged.upsert(rows(0, 40), on=["id"]).count_rows() == 40

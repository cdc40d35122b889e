"""Two concurrent merges that insert the same key insert it once, however they are run."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance import sync
from alance.spark import jobs
from alance.spark.jobs import When, merging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

ROWS = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["old", "old"]})
STATEMENTS = {
    "an insert alone": "WHEN NOT MATCHED THEN INSERT *",
    "two inserts": (
        "WHEN NOT MATCHED AND s.v = 'x' THEN INSERT (id) VALUES (s.id) "
        "WHEN NOT MATCHED THEN INSERT *"
    ),
    "an upsert": "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    "rows of the table as well": (
        "WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.id = 99 THEN DELETE"
    ),
}
CONDITIONS = {
    "a key": "t.id = s.id",
    "a key and a condition": "s.id = t.id AND t.v <> 'never'",
    "no key": "t.id <= s.id AND t.id >= s.id",
}


@pytest.fixture
def name(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    name = "lance.at_once"
    spark.createDataFrame(ROWS.to_pandas()).createOrReplaceTempView("begins")
    spark.sql(f"CREATE TABLE {name} AS SELECT cast(id AS int) id, v FROM begins")
    yield name
    spark.sql(f"DROP TABLE {name}")


def path_of(spark: SparkSession, name: str) -> str:
    rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return next(row.data_type for row in rows if row.col_name == "Location")


def source(spark: SparkSession, ids: list[int], text: str, folder: Path | None = None) -> str:
    """Create a view of rows. With a folder, its task signals there that it runs, and then waits."""

    def gated(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if folder is not None:
            (folder / "runs").touch()
            while not (folder / "may_go_on").exists():
                time.sleep(0.01)
        yield from batches

    name = f"source_{text}"
    frame = spark.createDataFrame([(number, text) for number in ids], "id int, v string")
    frame.coalesce(1).mapInArrow(gated, frame.schema).createOrReplaceTempView(name)
    return name


def run_beside(folder: Path, slow: Callable[[], Any], quick: Callable[[], Any]) -> Any:
    """Start the slow statement, run the quick one to its end, then let the slow one finish."""
    with ThreadPoolExecutor(1) as threads:
        pending = threads.submit(slow)
        try:
            while not (folder / "runs").exists() and not pending.done():
                time.sleep(0.01)
            assert not pending.done()
            quick()
        finally:
            (folder / "may_go_on").touch()
        return pending.result()


@pytest.mark.parametrize(
    ("statement", "condition"),
    [
        *((statement, "a key") for statement in STATEMENTS),
        ("an insert alone", "no key"),
        ("an upsert", "a key and a condition"),
        ("an upsert", "no key"),
    ],
)
def test_the_second_statement_conflicts_and_adds_nothing(
    spark: SparkSession, name: str, tmp_path: Path, statement: str, condition: str
) -> None:
    first, second = source(spark, [2, 7], "first"), source(spark, [7, 8], "second", tmp_path)

    def merge(view: str) -> None:
        spark.sql(
            f"MERGE INTO {name} t USING {view} s ON {CONDITIONS[condition]} "
            + STATEMENTS[statement]
        )

    with pytest.raises(Exception, match="RetryableConflictError"):
        run_beside(tmp_path, lambda: merge(second), lambda: merge(first))
    ids = lambda: sorted(row.id for row in spark.table(name).collect())  # noqa: E731
    assert ids() == [1, 2, 7]
    merge(second)
    assert ids() == [1, 2, 7, 8]
    lance.dataset(path_of(spark, name)).validate()


def test_merges_with_different_keys_and_plain_appends_do_not_conflict(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    view = source(spark, [8, 9], "second", tmp_path)
    sql = f"MERGE INTO {name} t USING {view} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"

    def others() -> None:
        spark.sql(sql.replace(view, source(spark, [2, 7], "first")))
        spark.sql(f"INSERT INTO {name} VALUES (8, 'appended')")
        sync.dataset(path_of(spark, name)).upsert(ROWS, "id")

    run_beside(tmp_path, lambda: spark.sql(sql), others)
    ids = sorted(row.id for row in spark.table(name).collect())
    assert ids == [1, 2, 7, 8, 8, 9]


def test_a_statement_and_a_merge_of_alance_conflict_on_the_same_key(
    spark: SparkSession, name: str, tmp_path: Path
) -> None:
    view = source(spark, [7], "second", tmp_path)
    sql = f"MERGE INTO {name} t USING {view} s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
    rows = pa.table({"id": pa.array([7], pa.int32()), "v": ["alance"]})
    with pytest.raises(Exception, match="RetryableConflictError"):
        run_beside(
            tmp_path,
            lambda: spark.sql(sql),
            lambda: sync.dataset(path_of(spark, name)).upsert(rows, "id"),
        )
    assert [row.v for row in spark.table(name).where("id = 7").collect()] == ["alance"]


@pytest.mark.parametrize("is_primary", [False, True])
def test_the_second_job_updates_what_the_first_one_has_inserted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_primary: bool
) -> None:
    uri = str(tmp_path / "t")
    key = {b"lance-schema:unenforced-primary-key": b"true"} if is_primary else None
    field = pa.field("id", pa.int32(), nullable=False).with_metadata(key)
    lance.write_dataset(ROWS.cast(pa.schema([field, ROWS.schema.field("v")])), uri)
    commit, merges = merging.commit_changes, 0

    async def after_another(*arguments: Any, **named: Any) -> Any:
        nonlocal merges
        merges += 1
        if merges == 1:
            other = pa.table({"id": pa.array([7], pa.int32()), "v": ["other"]})
            base = await arguments[0].checkout_latest()
            await base.upsert(other, "id")
        return await commit(*arguments, **named)

    monkeypatch.setattr(merging, "commit_changes", after_another)
    rows = spark.createDataFrame([(2, "ours"), (7, "ours"), (8, "ours")], "id int, v string")
    done = jobs.merge(
        spark,
        uri,
        rows,
        ["id"],
        when_not_matched=[When("insert", "source.id < 8"), "insert"],
    )
    assert (done.counts["rows_updated"], done.counts["rows_inserted"]) == (2, 1)
    assert merges == 2
    table = lance.dataset(uri).to_table().sort_by("id")
    assert table.to_pydict() == {"id": [1, 2, 7, 8], "v": ["old", "ours", "ours", "ours"]}

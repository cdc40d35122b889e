"""Writes through Spark: modes, faults of tasks and of the driver, other writers beside."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import alance.spark
from alance.distributed import MAX_RETRIES
from alance.spark.writer import AlanceWriter
from tests.spark.spark_cases import dying, ids_of, source_of

if TYPE_CHECKING:
    from pathlib import Path

    from alance.spark.source import AlanceSource


def test_each_mode_writes_what_it_says(spark, tmp_path):
    uri, frame = str(tmp_path / "table"), spark.range(0, 100, 1, 3)
    alance.spark.write(frame, uri, stable_row_ids=True, data_storage_version="2.1", message="one")
    dataset = lance.dataset(uri)
    assert (dataset.version, dataset.has_stable_row_ids, dataset.data_storage_version) == (
        1,
        True,
        "2.1",
    )
    assert len(dataset.get_fragments()) == 3
    alance.spark.write(frame, uri, mode="append")
    assert ids_of(uri) == sorted([*range(100)] * 2)
    alance.spark.write(frame, uri, mode="ignore")
    with pytest.raises(AnalysisException, match="exists already, its latest version is 2"):
        alance.spark.write(frame, uri)
    assert lance.dataset(uri).version == 2
    alance.spark.write(spark.sql("select 'x' as other"), uri, mode="overwrite")
    assert lance.dataset(uri).to_table().to_pylist() == [{"other": "x"}]
    assert lance.dataset(uri, version=2).count_rows() == 200


def test_an_empty_frame_makes_an_empty_table(spark, tmp_path):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(0).selectExpr("id", "'a' as text"), uri)
    assert lance.dataset(uri).schema.names == ["id", "text"]
    alance.spark.write(spark.range(0).selectExpr("id", "'a' as text"), uri, mode="append")
    assert (lance.dataset(uri).version, lance.dataset(uri).count_rows()) == (1, 0)


def test_tables_of_the_catalog_are_errors_that_say_what_to_do(spark, tmp_path):
    uri, says = str(tmp_path / "table"), r"CREATE OR REPLACE TEMPORARY VIEW name"
    frame = spark.range(0, 3, 1, 1)
    with pytest.raises(AnalysisException, match=says):
        frame.write.format("alance").saveAsTable("alance_saved")
    with pytest.raises(AnalysisException, match=says):
        spark.sql(f"create table alance_found using alance options (path '{uri}')")
    # Spark asks nobody here: it is the use that fails.
    spark.sql("create table alance_made (id long) using alance")
    try:
        with pytest.raises(AnalysisException, match=says):
            spark.table("alance_made").collect()
        with pytest.raises(AnalysisException, match=says):
            spark.sql("insert into alance_made values (1)")
        tables = [table for table in spark.catalog.listTables() if not table.isTemporary]
        assert [table.name for table in tables] == ["alance_made"]
    finally:
        spark.sql("drop table alance_made")
    alance.spark.write(frame, uri)
    view = f"create or replace temporary view alance_view using alance options (path '{uri}')"
    spark.sql(view)
    spark.sql("insert into alance_view values (7)")
    assert spark.sql("select sum(id) from alance_view").collect()[0][0] == 10
    spark.sql("drop view alance_view")


def test_vectors_and_files_of_some_rows(spark, tmp_path):
    uri = str(tmp_path / "table")
    frame = spark.range(0, 1000, 1, 1).selectExpr("id", "array(float(id), 1f) as v")
    alance.spark.write(frame, uri, vectors=["v:2"], max_rows_per_file=300)
    dataset = lance.dataset(uri)
    assert dataset.schema.field("v").type == pa.list_(pa.float32(), 2)
    assert [fragment.count_rows() for fragment in dataset.get_fragments()] == [300, 300, 300, 100]


def failing_once(folder: Path, at: int):
    """Rows of a frame, of which the partition with row `at` fails at its first attempt."""
    mark = str(folder / "failed")

    def rows(batches):
        for batch in batches:
            yield batch
            if at in batch.column(0).to_pylist() and not os.path.exists(mark):
                open(mark, "w").close()
                raise ValueError("failed once")

    return rows


def test_a_task_that_fails_and_is_retried(spark, tmp_path):
    uri = str(tmp_path / "table")
    frame = spark.range(0, 1000, 1, 2).mapInArrow(failing_once(tmp_path, 700), "id long")
    alance.spark.write(frame, uri)
    assert (tmp_path / "failed").exists()
    assert ids_of(uri) == list(range(1000))


def test_a_write_that_fails_leaves_no_rows(spark, tmp_path):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(10), uri)
    frame = spark.range(0, 100, 1, 2).selectExpr("if(id = 99, raise_error('no'), id) as id")
    with pytest.raises(Exception, match="no"):
        alance.spark.write(frame, uri, mode="append")
    assert lance.dataset(uri).version == 1
    assert ids_of(uri) == list(range(10))


def killing(where: str, folder: Path) -> type[AlanceSource]:
    """The source, whose processes kill themselves at one place, once."""
    die = dying(where, folder)

    class Writer(AlanceWriter):
        def write(self, iterator):
            def rows():
                for number, batch in enumerate(iterator):
                    if number == 1:
                        die("in a file")
                    yield batch

            done = super().write(rows())
            die("after a file")
            return done

        def commit(self, messages):
            die("before the commit")
            super().commit(messages)
            die("after the commit")

    return source_of("writer", Writer)


@pytest.mark.parametrize("where", ["in a file", "after a file"])
def test_workers_that_are_killed(spark, tmp_path, where):
    uri = str(tmp_path / "table")
    spark.dataSource.register(killing(where, tmp_path))
    frame = spark.range(0, 30_000, 1, 1)
    frame.write.format("alance_killed").mode("append").save(uri)
    assert (tmp_path / f"killed {where}").exists()
    assert ids_of(uri) == list(range(30_000))


@pytest.mark.parametrize(("where", "rows"), [("before the commit", 0), ("after the commit", 100)])
def test_a_driver_that_is_killed_at_the_commit(spark, tmp_path, where, rows):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(1000, 1010), uri)
    spark.dataSource.register(killing(where, tmp_path))
    writer = spark.range(100).write.format("alance_killed").mode("append")
    with pytest.raises(Exception, match=r"worker|connection|exited|EOF|crash"):
        writer.option("txn_app", "load").option("txn_version", 1).save(uri)
    assert ids_of(uri) == [*range(rows), *range(1000, 1010)]
    writer.option("txn_app", "load").option("txn_version", 1).save(uri)
    assert ids_of(uri) == [*range(100), *range(1000, 1010)]


OTHERS = MAX_RETRIES // 2  # versions: a commit that loses to each of them is made all the same
PAUSE_S = 0.02  # so that they are spread over the writes of Spark


def test_pylance_writes_at_the_same_time(spark, tmp_path):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(0, 10), uri)
    ended = threading.Event()
    written = [10_000]

    def other() -> None:
        while not ended.wait(PAUSE_S) and written[0] < 10_000 + 5 * OTHERS:
            start = written[0]
            lance.write_dataset(pa.table({"id": range(start, start + 5)}), uri, mode="append")
            written[0] += 5

    thread = threading.Thread(target=other)
    thread.start()
    try:
        for number in range(1, 4):
            alance.spark.write(spark.range(number * 10, number * 10 + 10, 1, 2), uri, mode="append")
    finally:
        ended.set()
        thread.join()
    assert ids_of(uri) == [*range(40), *range(10_000, written[0])]
    assert written[0] > 10_000

"""Streams into tables and out of them: each row once, whatever is killed or run again."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

import alance.spark
from alance.spark import jobs
from alance.spark.source import AlanceSource
from alance.spark.writer import AlanceStreamWriter
from tests.spark.cluster import LATE
from tests.spark.spark_cases import dying, ids_of, killing_python, source_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def registered(spark):
    alance.spark.register_once(spark)


def feed(spark, folder: Path, start: int, stop: int) -> None:
    spark.range(start, stop, 1, 1).write.mode("append").parquet(str(folder / "in"))


def into_table(spark, folder: Path, name: str = "alance"):
    """A query from Parquet files to a table, up to what there is now, a file a batch."""
    reader = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
    writer = reader.parquet(str(folder / "in")).writeStream.format(name)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(folder / "table"))
    query.awaitTermination()
    return query


def out_of_table(spark, folder: Path, name: str = "alance", **options):
    """A query from a table to another one."""
    writer = spark.readStream.format(name).options(**options).load(str(folder / "table"))
    writer = writer.writeStream.format("alance").option("checkpointLocation", f"{folder}/following")
    return ended(writer, str(folder / "copy"))


def ended(writer, path: str):
    """A query that came to its end.

    Spark gives the process of a source in Python ten seconds to start, which a busy machine does
    not keep: then the query goes on where it was, as after any failure.
    """
    while True:
        query = writer.trigger(availableNow=True).start(path)
        try:
            query.awaitTermination()
        except Exception as error:
            if LATE not in str(error):
                raise
        else:
            return query


def forget(checkpoint: Path, batch: int) -> None:
    """Make the query believe that it was killed before it noted the end of a batch."""
    for path in (checkpoint / "commits").glob(f"*{batch}*"):
        path.unlink()


def test_a_batch_that_is_run_again_is_committed_once(spark, tmp_path):
    uri = str(tmp_path / "table")
    for number in range(3):
        feed(spark, tmp_path, number * 10, number * 10 + 10)
    into_table(spark, tmp_path)
    assert ids_of(uri) == list(range(30))
    lance.write_dataset(pa.table({"id": range(100, 105)}), uri, mode="append")
    version = lance.dataset(uri).version
    forget(tmp_path / "checkpoint", 2)
    into_table(spark, tmp_path)
    assert lance.dataset(uri).version == version
    feed(spark, tmp_path, 30, 40)
    into_table(spark, tmp_path)
    assert ids_of(uri) == [*range(40), *range(100, 105)]


def test_a_batch_that_is_run_again_after_compaction_and_cleanup_is_committed_once(spark, tmp_path):
    uri = str(tmp_path / "table")
    for number in range(3):
        feed(spark, tmp_path, number * 10, number * 10 + 10)
    into_table(spark, tmp_path)
    lance.write_dataset(pa.table({"id": range(100, 105)}), uri, mode="append")
    lance.dataset(uri).optimize.compact_files()
    lance.dataset(uri).cleanup_old_versions(timedelta(0), delete_unverified=True)
    (version,) = (item["version"] for item in lance.dataset(uri).versions())
    forget(tmp_path / "checkpoint", 2)
    into_table(spark, tmp_path)
    assert lance.dataset(uri).version == version
    assert ids_of(uri) == [*range(30), *range(100, 105)]


def killing(where: str, folder: Path) -> type[AlanceSource]:
    """The sink, whose processes kill themselves at one place, once."""
    die = dying(where, folder)

    class Writer(AlanceStreamWriter):
        def write(self, iterator):
            done = super().write(iterator)
            die("after a file")
            return done

        def commit(self, messages, batch_id):
            if batch_id == 1:
                die("before the commit")
            super().commit(messages, batch_id)
            if batch_id == 1:
                die("after the commit")

    return source_of("streamWriter", Writer)


@pytest.mark.parametrize("where", ["after a file", "before the commit", "after the commit"])
def test_a_query_whose_processes_are_killed(spark, tmp_path, where):
    spark.dataSource.register(killing(where, tmp_path))
    for number in range(3):
        feed(spark, tmp_path, number * 10, number * 10 + 10)
    for _ in range(2):
        try:
            into_table(spark, tmp_path, "alance_killed")
            break
        except Exception:
            assert (tmp_path / f"killed {where}").exists()
    assert (tmp_path / f"killed {where}").exists()
    assert ids_of(str(tmp_path / "table")) == list(range(30))
    assert lance.dataset(str(tmp_path / "table")).version == 3


def test_a_query_whose_python_is_killed_while_tasks_write(spark, tmp_path):
    for number in range(2):
        feed(spark, tmp_path, number * 10, number * 10 + 10)
    reader = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
    rows = reader.parquet(str(tmp_path / "in"))
    rows = rows.mapInArrow(killing_python(tmp_path / "killed"), "id long")
    writer = rows.writeStream.format("alance").option("checkpointLocation", f"{tmp_path}/checks")
    writer.trigger(availableNow=True).start(str(tmp_path / "table")).awaitTermination()
    assert (tmp_path / "killed").exists()
    assert ids_of(str(tmp_path / "table")) == list(range(20))
    assert lance.dataset(str(tmp_path / "table")).version == 2


def counted(spark, folder: Path, mode: str, start) -> None:
    """Rows by the remainder of their id, as far as a query has seen them."""
    reader = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1)
    counts = reader.parquet(str(folder / "in")).selectExpr("id % 2 as k").groupBy("k").count()
    writer = counts.writeStream.outputMode(mode)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    start(writer.trigger(availableNow=True)).awaitTermination()


def rows_of(uri: str) -> list[tuple[object, ...]]:
    """The rows of a table, as pylance reads them."""
    return sorted(tuple(row.values()) for row in lance.dataset(uri).to_table().to_pylist())


def test_complete_mode_replaces_the_rows(spark, tmp_path):
    uri = str(tmp_path / "table")
    for count in (10, 20):
        feed(spark, tmp_path, 0, 10)
        counted(spark, tmp_path, "complete", lambda writer: writer.format("alance").start(uri))
        assert rows_of(uri) == [(0, count // 2), (1, count // 2)]


def test_complete_mode_to_a_table_by_name_keeps_its_columns(spark, tmp_path):
    uri = spark.conf.get("spark.sql.catalog.lance.warehouse") + "/counts.lance"
    spark.sql("CREATE TABLE lance.counts (k INT, count INT, note STRING)")
    before = lance.dataset(uri).schema

    def into_counts():
        counted(spark, tmp_path, "complete", lambda writer: writer.toTable("lance.counts"))

    try:
        for number in range(2):
            feed(spark, tmp_path, number * 10, number * 10 + 10)
        into_counts()
        feed(spark, tmp_path, 20, 30)
        into_counts()
        version = lance.dataset(uri).version
        assert (rows_of(uri), version) == ([(0, 15, None), (1, 15, None)], 4)
        forget(tmp_path / "checkpoint", 2)
        into_counts()
        assert lance.dataset(uri).version == version
        feed(spark, tmp_path, 30, 40)
        into_counts()
        assert rows_of(uri) == [(0, 20, None), (1, 20, None)]
        assert lance.dataset(uri).schema == before
    finally:
        spark.sql("DROP TABLE lance.counts")


@pytest.mark.parametrize("place", ["table", "lance.updated"])
def test_update_mode_is_refused_as_rows_would_be_there_twice(spark, tmp_path, place):
    feed(spark, tmp_path, 0, 10)

    def start(writer):
        if place == "lance.updated":
            return writer.toTable(place)
        return writer.format("alance").start(str(tmp_path / place))

    spark.sql("CREATE TABLE lance.updated (k BIGINT, count BIGINT)")
    try:
        with pytest.raises(Exception, match="does not support Update mode"):
            counted(spark, tmp_path, "update", start)
    finally:
        spark.sql("DROP TABLE lance.updated")


class PythonSource(AlanceSource):
    """The data source that Spark has where there is no connector."""

    @classmethod
    def name(cls):
        return "alance_python"


@pytest.mark.parametrize("names", ["alance", "alance_python", "alance_python alance"])
def test_following_a_table(spark, tmp_path, names):
    """The rows that were there, then those that versions add; not those that are moved.

    A query that the data source in Python has begun goes on with the connector.
    """
    spark.dataSource.register(PythonSource)
    name, *_, later = names.split() * 2
    uri, copy = str(tmp_path / "table"), str(tmp_path / "copy")

    def rows(start: int, stop: int) -> pa.Table:
        return pa.table({"id": pa.array(range(start, stop), pa.int64()), "x": [0] * (stop - start)})

    lance.write_dataset(rows(0, 100), uri, max_rows_per_file=30, enable_stable_row_ids=True)
    query = out_of_table(spark, tmp_path, name, max_fragments_per_batch=2)
    assert [item.numInputRows for item in query.recentProgress if item.numInputRows] == [60, 40]
    assert ids_of(copy) == list(range(100))
    lance.write_dataset(rows(100, 150), uri, mode="append")
    lance.dataset(uri).delete("id < 50")
    jobs.compact(spark, uri)
    lance.write_dataset(rows(150, 160), uri, mode="append")
    lance.dataset(uri).merge_insert("id").when_matched_update_all().when_not_matched_insert_all(
    ).execute(rows(155, 170))  # fmt: skip
    lance.dataset(uri).update({"x": "1"}, where="id = 60")
    out_of_table(spark, tmp_path, later)
    assert ids_of(copy) == list(range(170))
    version = lance.dataset(copy).version
    forget(tmp_path / "following", 2)
    out_of_table(spark, tmp_path, later)
    assert (lance.dataset(copy).version, ids_of(copy)) == (version, list(range(170)))


def test_a_version_that_replaces_rows(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    out_of_table(spark, tmp_path)
    lance.write_dataset(pa.table({"id": [3]}), uri, mode="overwrite")
    with pytest.raises(Exception, match="on_change=skip passes it"):
        out_of_table(spark, tmp_path)
    lance.write_dataset(pa.table({"id": [4]}), uri, mode="append")
    out_of_table(spark, tmp_path, on_change="skip")
    assert ids_of(str(tmp_path / "copy")) == [1, 2, 4]


def test_from_a_version_on_and_rate_in_rows(spark, tmp_path):
    uri = str(tmp_path / "table")
    for number in range(4):
        mode = "append" if number else "create"
        lance.write_dataset(pa.table({"id": range(number * 10, number * 10 + 10)}), uri, mode=mode)
    query = out_of_table(spark, tmp_path, start=1, max_rows_per_batch=15, filter="id % 2 = 0")
    assert len([item for item in query.recentProgress if item.numInputRows]) == 3
    assert ids_of(str(tmp_path / "copy")) == list(range(10, 40, 2))


def test_each_batch_is_handed_to_a_function(spark, tmp_path):
    uri, copy, batches = str(tmp_path / "table"), str(tmp_path / "copy"), []
    alance.spark.write(spark.range(10), uri)
    alance.spark.write(spark.createDataFrame([], "id long, batch int"), copy)

    def upsert(frame, number):
        batches.append(number)
        frame.createOrReplaceTempView("arrived")
        frame.sparkSession.sql(
            f"MERGE INTO alance.`{copy}` t USING (SELECT id, {number} AS batch FROM arrived) s "
            "ON t.id = s.id WHEN NOT MATCHED THEN INSERT *"
        )

    def follow():
        stream = spark.readStream.format("alance").load(uri)
        writer = stream.writeStream.foreachBatch(upsert)
        writer = writer.option("checkpointLocation", str(tmp_path / "follow"))
        writer.trigger(availableNow=True).start().awaitTermination()

    follow()
    alance.spark.write(spark.range(10, 15), uri, mode="append")
    follow()
    forget(tmp_path / "follow", batches[-1])
    follow()
    assert batches[-1] == batches[-2]
    rows = spark.read.format("alance").load(copy).collect()
    assert sorted((row.id, row.batch) for row in rows) == [
        *((n, batches[0]) for n in range(10)),
        *((n, batches[-1]) for n in range(10, 15)),
    ]


def test_columns_that_come_and_go_while_a_query_follows_a_table(spark, tmp_path):
    uri = str(tmp_path / "table")
    alance.spark.write(spark.range(10).selectExpr("id", "id * 2 as twice"), uri)
    out_of_table(spark, tmp_path)
    before = spark.readStream.format("alance").load(uri)
    lance.dataset(uri).add_columns({"more": "id + 1"})
    alance.spark.write(
        spark.range(10, 12).selectExpr("id", "0 as twice", "5 as more"), uri, mode="append"
    )

    def follow(stream):
        writer = stream.writeStream.format("alance")
        writer = writer.option("checkpointLocation", f"{tmp_path}/following")
        writer.trigger(availableNow=True).start(str(tmp_path / "copy")).awaitTermination()

    with pytest.raises(Exception, match="more"):  # the copy has no such column
        out_of_table(spark, tmp_path)
    lance.dataset(uri).alter_columns({"path": "twice", "name": "double"})
    follow(before)
    rows = spark.read.format("alance").load(str(tmp_path / "copy"))
    assert rows.columns == ["id", "twice"]
    assert sorted(map(tuple, rows.collect())) == [
        *((n, 2 * n) for n in range(10)),
        (10, 0),
        (11, 0),
    ]
    lance.dataset(uri).drop_columns(["double"])
    alance.spark.write(spark.range(12, 13).selectExpr("id", "6 as more"), uri, mode="append")
    with pytest.raises(Exception, match="twice"):
        follow(before)


@pytest.mark.parametrize("source", ["alance", "alance_python"])
def test_versions_without_a_column_give_nulls_and_renamed_ones_their_values(
    spark, tmp_path, source
):
    spark.dataSource.register(PythonSource)
    uri, copy = str(tmp_path / "table"), str(tmp_path / "copy")
    first = pa.table({"id": [1], "x": ["one"], "s": [{"a": 1, "b": 2}]})
    lance.write_dataset(first, uri)
    out_of_table(spark, tmp_path, source)
    lance.write_dataset(first.set_column(0, "id", pa.array([2])), uri, mode="append")
    lance.dataset(uri).alter_columns({"path": "x", "name": "y"}, {"path": "s.a", "name": "c"})
    lance.dataset(uri).add_columns({"x": "cast(id as string)"})
    last = {"id": [3], "y": ["three"], "s": [{"c": 5, "b": 6}], "x": ["new"]}
    lance.write_dataset(pa.table(last), uri, mode="append")
    stream = spark.readStream.format(source).load(uri)
    writer = stream.writeStream.format("alance").option("merge_schema", "true")
    writer = writer.option("checkpointLocation", f"{tmp_path}/following")
    lance.dataset(copy).alter_columns({"path": "s.a", "name": "c"})
    ended(writer, copy)
    rows = lance.dataset(copy).to_table().sort_by("id").to_pylist()
    assert rows == [
        {"id": 1, "x": "one", "s": {"c": 1, "b": 2}, "y": None},
        {"id": 2, "x": None, "s": {"c": 1, "b": 2}, "y": "one"},
        {"id": 3, "x": "new", "s": {"c": 5, "b": 6}, "y": "three"},
    ]


def test_from_a_table_by_name_to_a_table_by_name(spark, tmp_path):
    lake = spark.conf.get("spark.sql.catalog.lance.warehouse")
    spark.range(10).writeTo("lance.streamed").create()

    def follow():
        writer = spark.readStream.table("lance.streamed").writeStream
        writer = writer.option("checkpointLocation", str(tmp_path / "named"))
        writer.trigger(availableNow=True).toTable("lance.copied").awaitTermination()

    try:
        follow()
        spark.range(10, 13).writeTo("lance.streamed").append()
        follow()
        version = lance.dataset(f"{lake}/copied.lance").version
        forget(tmp_path / "named", 1)
        follow()
        assert ids_of(f"{lake}/copied.lance") == list(range(13))
        assert lance.dataset(f"{lake}/copied.lance").version == version
    finally:
        spark.sql("DROP TABLE lance.streamed")
        spark.sql("DROP TABLE IF EXISTS lance.copied")

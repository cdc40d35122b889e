"""Reads through Spark: versions, columns, filters, parts; tables that pylance wrote."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import alance.spark
from alance.spark.options import ReadOptions
from alance.spark.reader import AlanceReader

NUM_ROWS = 50_000


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two fragments, one with deleted rows; version 2 without them is tagged."""
    uri = str(tmp_path_factory.mktemp("read") / "table")
    rows = pa.table(
        {
            "id": pa.array(range(NUM_ROWS), pa.int64()),
            "text": [f"row {index}" for index in range(NUM_ROWS)],
            "vector": pa.array(
                [[index, 1.0] for index in range(NUM_ROWS)], pa.list_(pa.float32(), 2)
            ),
        }
    )
    lance.write_dataset(rows[:30_000], uri)
    lance.write_dataset(rows[30_000:], uri, mode="append")
    lance.dataset(uri).tags.create("whole", 2)
    lance.dataset(uri).delete("id >= 15000 and id < 20000 and id % 2 = 0")
    return uri


def live() -> list[int]:
    return [index for index in range(NUM_ROWS) if not (15_000 <= index < 20_000 and index % 2 == 0)]


def test_all_rows_once_in_small_partitions(spark, table):
    frame = alance.spark.read(spark, table, partition_bytes=40_000)
    assert frame.rdd.getNumPartitions() >= 5
    assert frame.schema.simpleString() == "struct<id:bigint,text:string,vector:array<float>>"
    rows = frame.collect()
    assert [row.id for row in rows] == live()
    assert all(row.text == f"row {row.id}" and row.vector == [row.id, 1.0] for row in rows)


def test_a_read_has_at_least_min_partitions(spark, table):
    frame = alance.spark.read(spark, table, columns=["id"], min_partitions=7)
    assert frame.rdd.getNumPartitions() >= 7
    assert frame.count() == len(live())


def test_row_ids_addresses_and_filter(spark, table):
    frame = alance.spark.read(
        spark,
        table,
        columns=["text"],
        filter="id > 14997 and id < 15004",
        with_row_id=True,
        with_row_address=True,
        partition_bytes=40_000,
    )
    rows = lance.dataset(table).to_table(
        columns=["text"],
        filter="id > 14997 and id < 15004",
        with_row_id=True,
        with_row_address=True,
    )
    assert [row.asDict() for row in frame.collect()] == rows.to_pylist()


def test_versions_tags_and_times(spark, table):
    whole = alance.spark.read(spark, table, tag="whole", columns=["id"])
    assert whole.count() == NUM_ROWS
    assert alance.spark.read(spark, table, version=1, columns=["id"]).count() == 30_000
    # pylance's times are up to 1 µs beside those of the manifests; the second write took longer.
    first = lance.dataset(table).versions()[0]["timestamp"].astimezone()
    time = (first + timedelta(microseconds=10)).isoformat()
    assert alance.spark.read(spark, table, asof=time, columns=["id"]).count() == 30_000


def test_a_frame_keeps_to_the_version_that_it_found(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    frame = alance.spark.read(spark, uri)
    lance.write_dataset(pa.table({"id": [3]}), uri, mode="append")
    assert sorted(row.id for row in frame.collect()) == [1, 2]


def test_limit_and_schema_of_the_user(spark, table):
    rows = alance.spark.read(spark, table, columns=["id"], limit=5).collect()
    assert [row.id for row in rows] == [0, 1, 2, 3, 4]
    rows = alance.spark.read(spark, table, columns=["id"], limit=3, filter="id > 49990").collect()
    assert [row.id for row in rows] == [49_991, 49_992, 49_993]
    loaded = spark.read.format("alance").schema("text string, id long").load(table)
    assert loaded.where("id = 7").collect()[0].asDict() == {"text": "row 7", "id": 7}


def test_filters_of_one_query_do_not_reach_the_next(spark, table):
    """With Spark's pushdown on, a source that took filters over would lose rows here."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = alance.spark.read(spark, table, columns=["id"])
        assert frame.where("id < 10").count() == 10
        assert frame.count() == len(live())
        assert frame.union(frame.where("id < 10")).count() == len(live()) + 10
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_pushdown_on_request(spark, table):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        frame = alance.spark.read(spark, table, pushdown=True).where(
            "id > 10 and id <= 14 and text is not null and text <> 'row ''12' and vector[0] > 11"
        )
        plan = frame._jdf.queryExecution().toString()
        assert "(id#" not in plan[plan.index("Physical Plan") :]
        assert [row.id for row in frame.collect()] == [12, 13, 14]
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_plain_readers_take_no_filters():
    assert not hasattr(AlanceReader, "pushFilters") or (
        AlanceReader.pushFilters.__qualname__ == "DataSourceReader.pushFilters"
    )


def test_secrets_are_in_no_plan_and_no_text(spark, table):
    frame = alance.spark.read(
        spark, table, storage_options={"aws_secret_access_key": "GEHEIM"}, columns=["id"]
    ).where("id = 3")
    assert frame.count() == 1
    assert "GEHEIM" not in frame._jdf.queryExecution().toString()
    assert "GEHEIM" not in repr(ReadOptions.parse({"path": table, "storage.key": "GEHEIM"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonsense": "1"}, "option 'nonsense': not known"),
        ({"limit": "many"}, "limit='many': expected an integer"),
        ({"version": 1, "tag": "whole"}, "version, tag and asof: expected one of them"),
        ({"version": 99}, "version 99"),
        ({"columns": ["nothing"]}, "nothing"),
    ],
)
def test_a_bad_option_of_a_read_is_refused(spark, table, options, message):
    with pytest.raises(AnalysisException, match=message):
        alance.spark.read(spark, table, **options)


def test_columns_of_another_writer_that_spark_has_not(spark, tmp_path):
    uri = str(tmp_path / "table")
    rows = pa.table(
        {
            "u8": pa.array([1, None], pa.uint8()),
            "u64": pa.array([2**64 - 1, None], pa.uint64()),
            "half": pa.array([1.5, None], pa.float32()).cast(pa.float16()),
            "large": pa.array(["a", None], pa.large_string()),
            "fixed": pa.array([b"ab", None], pa.binary(2)),
            "nanos": pa.array([1_500, None], pa.timestamp("ns", "Europe/Berlin")),
            "words": pa.array(["x", "y"]).dictionary_encode(),
            "clock": pa.array([3, None], pa.time32("s")),
        }
    )
    lance.write_dataset(rows, uri)
    first, second = alance.spark.read(spark, uri).collect()
    assert (first.u8, int(first.u64), first.half, first.large) == (1, 2**64 - 1, 1.5, "a")
    assert (bytes(first.fixed), first.nanos.microsecond, first.words) == (b"ab", 1, "x")
    assert first.clock.second == 3
    assert Counter(second.asDict().values())[None] == 7


def test_an_empty_table(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    assert alance.spark.read(spark, uri).collect() == []

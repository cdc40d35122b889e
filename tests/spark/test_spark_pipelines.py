"""A pipeline from end to end, for any PySpark and pandas that are allowed: `make test-oldest`."""

from __future__ import annotations

import warnings

from alance.spark.session import register
from tests.spark.spark_cases import ids_of


def test_rows_are_written_read_and_merged(spark, tmp_path):
    uri = str(tmp_path / "table")
    register(spark)
    spark.range(5).selectExpr(
        "id", "concat('row ', id) AS text", "timestamp '2024-01-01' AS at"
    ).write.format("alance").mode("append").save(uri)
    frame = spark.read.format("alance").option("filter", "id > 2").load(uri)
    assert sorted(row["text"] for row in frame.collect()) == ["row 3", "row 4"]
    spark.sql(f"""
        MERGE INTO lance.`{uri}` t USING (SELECT id FROM range(4, 7)) s ON t.id = s.id
        WHEN MATCHED THEN UPDATE SET text = 'new'
        WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, 'new')
    """)
    assert ids_of(uri) == [*range(7)]
    assert spark.table(f"lance.`{uri}`").where("text = 'new'").count() == 3


def test_a_table_as_a_frame_of_pandas_on_spark(spark, tmp_path):
    uri = str(tmp_path / "table")
    spark.range(10).selectExpr("id", "id % 3 AS part").write.format("alance").mode("append").save(
        uri
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PySpark's own use of pandas
        frame = spark.read.format("alance").load(uri).pandas_api()
        sums = frame.groupby("part")["id"].sum().to_pandas()
        frame[frame["id"] > 4].to_spark().write.format("alance").mode("append").save(uri + "-copy")
    assert dict(sums) == {0: 18, 1: 12, 2: 15}
    assert ids_of(uri + "-copy") == [5, 6, 7, 8, 9]


def test_a_stream_follows_a_table(spark, tmp_path):
    uri, copy = str(tmp_path / "table"), str(tmp_path / "copy")
    spark.range(5).write.format("alance").mode("append").save(uri)
    writer = spark.readStream.format("alance").load(uri).writeStream.format("alance")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(copy).awaitTermination()
    assert ids_of(copy) == [*range(5)]

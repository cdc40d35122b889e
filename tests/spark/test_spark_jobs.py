"""The jobs of a pipeline, through their functions and the command."""

from __future__ import annotations

import json

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance.spark
from alance.errors import InvalidInputError
from alance.spark import jobs
from alance.spark.__main__ import main


def ids_of(uri: str) -> list[int]:
    return sorted(lance.dataset(uri).to_table(columns=["id"])["id"].to_pylist())


def rows(start: int, stop: int, factor: int = 1) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(start, stop), pa.int64()),
            "value": pa.array([index * factor for index in range(start, stop)], pa.int64()),
        }
    )


@pytest.fixture
def uri(tmp_path) -> str:
    """Four fragments of 250 rows, with stable row ids."""
    uri = str(tmp_path / "table")
    lance.write_dataset(rows(0, 1000), uri, max_rows_per_file=250, enable_stable_row_ids=True)
    return uri


def test_ingest_sorted_and_export(spark, tmp_path):
    spark.range(0, 5000, 1, 4).selectExpr("id", "id % 7 as k").write.parquet(f"{tmp_path}/in")
    uri, seen = str(tmp_path / "table"), []
    done = jobs.ingest(
        spark, f"{tmp_path}/in", uri, sort_by=["-k", "id"], target_bytes=20_000,
        columns=["id", "k", "id * 2 as twice"], stable_row_ids=True, on_progress=seen.append,
    )  # fmt: skip
    dataset = lance.dataset(uri)
    assert (done.counts["rows"], done.version) == (5000, 1)
    assert done.counts["fragments"] == len(dataset.get_fragments()) > 1
    table = dataset.to_table().to_pylist()
    assert table == sorted(table, key=lambda entry: (-entry["k"], entry["id"]))
    assert all(item["twice"] == 2 * item["id"] for item in table)
    jobs.export(spark, uri, f"{tmp_path}/out", columns=["id"], filter="k = 3")
    assert spark.read.parquet(f"{tmp_path}/out").count() == len(range(3, 5000, 7))


def test_repeated_ingest_writes_once(spark, tmp_path):
    frame, uri = spark.range(10), str(tmp_path / "table")
    for _ in range(2):
        jobs.ingest(spark, frame, uri, txn_app="load", txn_version=3)
    assert ids_of(uri) == list(range(10))
    jobs.ingest(spark, frame, uri, txn_app="load", txn_version=4)
    assert lance.dataset(uri).count_rows() == 20


def test_backfill_sql_and_function(spark, uri):
    lance.dataset(uri).delete("id % 100 = 5")
    done = jobs.backfill(spark, uri, {"twice": "value * 2"})
    assert (done.counts["fragments"], done.counts["computed"]) == (4, 4)

    def vectors(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = batch.column("id").to_numpy().astype(np.float32)
        flat = pa.array(np.stack([numbers, numbers + 1], axis=1).ravel())
        return pa.record_batch({"v": pa.FixedSizeListArray.from_arrays(flat, 2)})

    schema = pa.schema([pa.field("v", pa.list_(pa.float32(), 2))])
    jobs.backfill(spark, uri, vectors, schema=schema, read_columns=["id"])
    dataset = lance.dataset(uri)
    dataset.validate()
    for row in dataset.to_table().to_pylist():
        assert row["twice"] == 2 * row["id"]
        assert row["v"] == [row["id"], row["id"] + 1]


def test_backfill_goes_on_where_it_was(spark, uri, tmp_path):
    marks = tmp_path / "marks"
    marks.mkdir()
    schema = pa.schema([pa.field("w", pa.int64())])

    def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
        first = batch.column("id")[0].as_py()
        if first == 750 and not (marks / "go").exists():
            raise ValueError("not yet")
        (marks / f"{first}-{len(list(marks.iterdir()))}").touch()
        return pa.record_batch({"w": batch.column("id")})

    checkpoint = str(tmp_path / "checkpoint")
    with pytest.raises(Exception, match="not yet"):
        jobs.backfill(spark, uri, failing, schema=schema, checkpoint=checkpoint)
    assert "w" not in lance.dataset(uri).schema.names
    before = len(list(marks.iterdir()))
    (marks / "go").touch()
    lance.write_dataset(rows(1000, 1100), uri, mode="append")
    done = jobs.backfill(spark, uri, failing, schema=schema, checkpoint=checkpoint)
    assert done.counts["resumed"] >= 1
    assert done.counts["resumed"] + done.counts["computed"] == 5
    assert len(list(marks.iterdir())) == before + 1 + done.counts["computed"]
    table = lance.dataset(uri).to_table()
    assert table["w"].to_pylist() == table["id"].to_pylist()


def test_delete_by_predicate_and_keys(spark, uri):
    done = jobs.delete(spark, uri, "id >= 240 and id < 260")
    assert done.counts["rows"] == 20
    keys = spark.range(500, 1000, 3)
    done = jobs.delete(spark, uri, keys=keys, on=["id"])
    assert done.counts["rows"] == len(range(500, 1000, 3))
    gone = {*range(240, 260), *range(500, 1000, 3)}
    assert ids_of(uri) == [index for index in range(1000) if index not in gone]
    lance.dataset(uri).validate()
    assert jobs.delete(spark, uri, "id = -1").version == done.version


def test_merge_updates_and_inserts_and_keeps_row_ids(spark, uri):
    before = lance.dataset(uri).to_table(columns=["id"], with_row_id=True)
    mapping = dict(zip(before["id"].to_pylist(), before["_rowid"].to_pylist(), strict=True))
    source = spark.range(900, 1100, 1, 3).selectExpr("id * 10 as value", "id")
    done = jobs.merge(spark, uri, source, ["id"])
    assert (done.counts["rows_updated"], done.counts["rows_inserted"]) == (100, 100)
    dataset = lance.dataset(uri)
    dataset.validate()
    table = dataset.to_table(with_row_id=True).to_pylist()
    assert sorted(item["id"] for item in table) == list(range(1100))
    for entry in table:
        assert entry["value"] == entry["id"] * (10 if entry["id"] >= 900 else 1)
        assert entry["id"] >= 1000 or entry["_rowid"] == mapping[entry["id"]]
    done = jobs.merge(spark, uri, source, ["id"], when_matched="delete", when_not_matched="nothing")
    assert (done.counts["rows_deleted"], ids_of(uri)) == (200, list(range(900)))


def test_merge_of_some_columns_keeps_the_others(spark, tmp_path):
    """Also what Spark has no type for: nanoseconds, vectors, members of structs."""
    uri = str(tmp_path / "table")
    table = pa.table(
        {
            "id": pa.array(range(100), pa.int64()),
            "value": pa.array(range(100), pa.int64()),
            "nanos": pa.array([7 * n for n in range(100)], pa.timestamp("ns")),
            "vector": pa.array([[n, n + 1] for n in range(100)], pa.list_(pa.float32(), 2)),
            "s": [{"a": n, "b": str(n)} for n in range(100)],
            "text": [None if n % 7 == 0 else f"text {n}" for n in range(100)],
        }
    )
    lance.write_dataset(table, uri, max_rows_per_file=30)
    lance.dataset(uri).delete("id = 95")
    source = spark.range(90, 110, 1, 3).selectExpr(
        "-id as value", "id", "named_struct('a', -id) as s"
    )
    done = jobs.merge(spark, uri, source, ["id"])
    assert (done.counts["rows_updated"], done.counts["rows_inserted"]) == (9, 11)
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.schema == table.schema
    before = {row["id"]: row for row in table.to_pylist()}
    for row in dataset.to_table().to_pylist():
        number = row["id"]
        value = before.get(number)
        if number >= 100 or number == 95:
            s = {"a": -number, "b": None}
            value = {**dict.fromkeys(table.schema.names), "id": number, "value": -number, "s": s}
        elif number >= 90:
            value = {**value, "value": -number, "s": {"a": -number, "b": str(number)}}
        assert row == value


def test_merge_refuses_a_source_without_columns_that_cannot_be_null(spark, tmp_path):
    uri = str(tmp_path / "table")
    schema = pa.schema(
        [("id", pa.int64()), ("value", pa.int64()), pa.field("n", pa.int64(), False)]
    )
    columns = {"id": [1, 2], "value": [1, 2], "n": [3, 4]}
    lance.write_dataset(pa.table(columns, schema=schema), uri)
    source = spark.sql("select 2L as id, 20L as value")
    with pytest.raises(InvalidInputError, match="'n': missing in the data, and inserted rows"):
        jobs.merge(spark, uri, source, ["id"])
    assert lance.dataset(uri).version == 1
    jobs.merge(spark, uri, source, ["id"], when_not_matched="nothing")
    table = lance.dataset(uri).to_table().sort_by("id")
    assert table.to_pydict() == {"id": [1, 2], "value": [1, 20], "n": [3, 4]}


def test_merge_refuses_a_key_twice(spark, uri):
    source = spark.range(5, 7).selectExpr("5L as id", "id as value")
    files = len(list(lance.dataset(uri).get_fragments()))
    with pytest.raises(InvalidInputError, match="several rows of the source"):
        jobs.merge(spark, uri, source, ["id"])
    assert lance.dataset(uri).version == 1
    assert len(lance.dataset(uri).get_fragments()) == files


def test_compact_and_cleanup(spark, uri):
    lance.dataset(uri).delete("id % 2 = 0")
    before = lance.dataset(uri).to_table(with_row_id=True).sort_by("id")
    done = jobs.compact(spark, uri, target_rows_per_fragment=1000)
    assert (done.counts["fragments_removed"], done.counts["fragments_added"]) == (4, 1)
    dataset = lance.dataset(uri)
    dataset.validate()
    assert dataset.to_table(with_row_id=True).sort_by("id") == before
    assert jobs.compact(spark, uri, target_rows_per_fragment=1000).counts["tasks"] == 0
    done = jobs.cleanup(spark, uri, older_than_hours=0)
    assert done.counts["old_versions"] == 3
    assert len(lance.dataset(uri).versions()) == 1


def test_validate_job_and_command(spark, uri, capsys):
    done = jobs.validate(spark, uri, checks={"positive": "value >= 0"}, unique=["id"])
    assert done.counts == {
        "rows": 1000, "nulls.id": 0, "nulls.value": 0, "violations.positive": 0,
        "rows_in_manifest": 1000, "violations.unique id": 0, "findings": None,
    }  # fmt: skip
    assert main(["validate", uri, "--check", "small=value < 990", "--json", "--quiet"]) == 2
    counts = json.loads(capsys.readouterr().out)["counts"]
    assert counts["violations.small"] == 10
    assert main(["delete", uri, "--where", "id < 500"]) == 0
    assert ids_of(uri) == list(range(500, 1000))
    assert main(["backfill", uri, "half=value / 2"]) == 0
    root = spark.sparkContext._jvm.org.apache.logging.log4j.LogManager.getRootLogger
    assert main(["compact", f"{uri}-none", "--log-level", "ERROR"]) == 1
    assert str(root().getLevel()) == "ERROR"
    assert main(["compact", f"{uri}-none"]) == 1  # without the stacks of the JVM
    assert str(root().getLevel()) == "OFF"
    assert "alance-spark compact:" in capsys.readouterr().err


def test_read_after_jobs(spark, uri):
    jobs.backfill(spark, uri, {"text": "cast(id as string)"})
    jobs.delete(spark, uri, "id < 300")
    frame = alance.spark.read(spark, uri, columns=["id", "text"])
    assert frame.where("text = cast(id as string)").count() == 700

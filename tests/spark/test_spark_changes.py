"""DELETE, UPDATE and MERGE: rows that go and come in one version; pylance reads the results."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from pyspark.sql import functions as f

import alance.sync
from tests.spark.spark_cases import ids_of, killing_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """100 rows in 4 fragments, with stable row ids."""
    path = str(tmp_path / "table")
    rows = pa.table({"id": range(100), "text": [f"row {n}" for n in range(100)]})
    lance.write_dataset(rows, path, max_rows_per_file=25, enable_stable_row_ids=True)
    return path


def content(uri: str) -> dict[int, str]:
    rows = lance.dataset(uri).to_table().to_pylist()
    texts = {row["id"]: row["text"] for row in rows}
    assert len(texts) == len(rows)
    return texts


def row_ids(uri: str) -> dict[int, int]:
    rows = lance.dataset(uri).to_table(columns=["id"], with_row_id=True).to_pylist()
    return {row["id"]: row["_rowid"] for row in rows}


def test_a_delete_that_python_understands_runs_no_task(spark, uri):
    plan = spark.sql(f"EXPLAIN DELETE FROM lance.`{uri}` WHERE id < 30").collect()[0][0]
    assert "DeleteFromTable" in plan
    spark.sql(f"DELETE FROM lance.`{uri}` WHERE id < 30 OR text IS NULL")
    assert ids_of(uri) == list(range(30, 100))
    assert len(lance.dataset(uri).get_fragments()) == 3


def test_other_deletes_go_by_address(spark, uri):
    spark.sql(f"DELETE FROM lance.`{uri}` WHERE length(text) = 5 OR id IN (SELECT 50L)")
    assert ids_of(uri) == [n for n in range(10, 100) if n != 50]
    assert lance.dataset(uri).version == 2
    spark.sql(f"DELETE FROM lance.`{uri}` WHERE length(text) = 50")
    assert lance.dataset(uri).version == 2
    assert not list(Path(uri, "data").glob("*.tmp"))


def test_rows_that_are_updated_keep_their_ids(spark, uri):
    before = row_ids(uri)
    spark.sql(f"UPDATE lance.`{uri}` SET text = concat(text, '!') WHERE id % 10 = 3")
    expected = {n: f"row {n}" + ("!" if n % 10 == 3 else "") for n in range(100)}
    assert content(uri) == expected
    assert row_ids(uri) == before
    lance.dataset(uri).validate()


@pytest.mark.parametrize("stable", [True, False])
def test_a_merge_does_what_its_clauses_say(spark, tmp_path, stable):
    uri, choice = str(tmp_path / "merged"), random.Random(7)
    ids = choice.sample(range(200), 120)
    rows = pa.table({"id": ids, "text": [f"old {n}" for n in ids]})
    lance.write_dataset(rows, uri, max_rows_per_file=40, enable_stable_row_ids=stable)
    source = {n: f"new {n}" for n in choice.sample(range(250), 150)}
    frame = spark.createDataFrame(list(source.items()), "id long, text string").repartition(3)
    frame.createOrReplaceTempView("changes")
    spark.sql(f"""
        MERGE INTO lance.`{uri}` t USING changes s ON t.id = s.id
        WHEN MATCHED AND s.id % 5 = 0 THEN DELETE
        WHEN MATCHED AND s.id % 5 < 4 THEN UPDATE SET text = concat(t.text, ' ', s.text)
        WHEN NOT MATCHED AND s.id < 220 THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.id > 150 THEN DELETE
    """)
    expected = {n: f"new {n}" for n in source if n not in ids and n < 220}
    for n in ids:
        if n not in source:
            expected |= {} if n > 150 else {n: f"old {n}"}
        elif n % 5:
            expected[n] = f"old {n}" if n % 5 == 4 else f"old {n} new {n}"
    assert content(uri) == expected
    assert lance.dataset(uri).version == 2
    lance.dataset(uri).validate()
    spark.catalog.dropTempView("changes")


def test_two_new_values_for_one_row_are_refused(spark, uri):
    source = "(SELECT 2L AS id UNION ALL SELECT 2L)"
    with pytest.raises(Exception, match="MERGE_CARDINALITY_VIOLATION"):
        spark.sql(
            f"MERGE INTO lance.`{uri}` t USING {source} s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET text = 'x'"
        )
    assert lance.dataset(uri).version == 1
    assert len(list(Path(uri, "data").iterdir())) == 4


def meanwhile(uri: str, mark: Path, sql: str):
    """Rows of a frame; while they are read, somebody else deletes rows, once."""

    def rows(batches):
        for batch in batches:
            if not mark.exists():
                mark.touch()
                lance.dataset(uri).delete(sql)
            yield batch

    return rows


@pytest.mark.parametrize(("others", "conflicts"), [("id = 7", True), ("id = 99", False)])
def test_conflicts_are_those_of_alance(spark: SparkSession, uri, tmp_path, others, conflicts):
    frame = spark.range(7, 8, 1, 1).mapInArrow(meanwhile(uri, tmp_path / "m", others), "id long")
    frame.createOrReplaceTempView("late")
    merge = (
        f"MERGE INTO lance.`{uri}` t USING late s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET text = 'late'"
    )
    if conflicts:
        with pytest.raises(Exception, match="ConflictError"):
            spark.sql(merge)
        assert 7 not in content(uri)
        assert len(list(Path(uri, "data").iterdir())) == 4
    else:
        spark.sql(merge)
        assert content(uri)[7] == "late"
        assert 99 not in content(uri)
    spark.catalog.dropTempView("late")


def failing_once(mark: Path):
    def rows(batches):
        yield from batches
        if not mark.exists():
            mark.touch()
            raise ValueError("failed once")

    return rows


def test_a_task_that_is_retried_changes_each_row_once(spark, uri, tmp_path):
    frame = spark.range(0, 120, 1, 1).mapInArrow(failing_once(tmp_path / "failed"), "id long")
    frame.createOrReplaceTempView("again")
    spark.sql(
        f"MERGE INTO lance.`{uri}` t USING again s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET text = concat(t.text, '+') "
        "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, 'new')"
    )
    assert (tmp_path / "failed").exists()
    expected = {n: f"row {n}+" if n < 100 else "new" for n in range(120)}
    assert content(uri) == expected
    spark.catalog.dropTempView("again")


def test_a_process_that_is_killed_while_rows_are_written(spark, uri, tmp_path):
    mark = tmp_path / "killed"
    frame = spark.range(0, 50_000, 1, 1).mapInArrow(killing_python(mark), "id long")
    frame.createOrReplaceTempView("killed")
    spark.sql(
        f"MERGE INTO lance.`{uri}` t USING killed s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET text = 'seen' "
        "WHEN NOT MATCHED THEN INSERT (id, text) VALUES (s.id, 'new')"
    )
    assert mark.exists()
    assert content(uri) == {n: "seen" if n < 100 else "new" for n in range(50_000)}
    spark.catalog.dropTempView("killed")


def test_rows_of_a_branch_are_changed(spark, uri):
    branch = alance.sync.dataset(uri).create_branch("dev")
    spark.sql(f"UPDATE lance.`{branch.uri}` SET text = 'on dev' WHERE id = 5")
    spark.sql(f"DELETE FROM lance.`{branch.uri}` WHERE id > 50")
    assert (content(branch.uri)[5], len(content(branch.uri))) == ("on dev", 51)
    assert (content(uri)[5], len(content(uri))) == ("row 5", 100)


def test_a_view_of_some_rows_changes_none(spark, uri):
    options = f"path '{uri}', filter 'id < 10'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW few USING alance OPTIONS ({options})")
    with pytest.raises(Exception, match=r"with a filter or limit|not known"):
        spark.sql("DELETE FROM few WHERE id > 5")
    assert lance.dataset(uri).version == 1
    spark.catalog.dropTempView("few")


def test_types_finer_than_those_of_spark_stay(spark, tmp_path):
    """Vectors, dictionaries, unsigned numbers, half floats: of rows whose other column changes."""
    uri = str(tmp_path / "kinds")
    rows = pa.table(
        {
            "id": [1, 2],
            "v": pa.array([[1, 2], None], pa.list_(pa.float16(), 2)),
            "d": pa.array(["a", "b"]).dictionary_encode(),
            "u": pa.array([2**64 - 1, None], pa.uint64()),
            "s": pa.array([{"x": 1}, {"x": None}], pa.struct([("x", pa.uint8())])),
        }
    )
    lance.write_dataset(rows, uri)
    spark.sql(f"UPDATE lance.`{uri}` SET id = id + 10")
    after = lance.dataset(uri).to_table()
    assert after.schema.types == rows.schema.types
    assert after.drop_columns("id").to_pylist() == rows.drop_columns("id").to_pylist()


@pytest.mark.parametrize("way", ["frame", "SQL"])
def test_overwriting_by_a_condition_is_one_version(spark, uri, way):
    ids = row_ids(uri)
    rows = spark.range(90, 120).selectExpr("id", "'new' AS text")
    if way == "frame":
        rows.writeTo(f"lance.`{uri}`").overwrite(f.expr("id >= 80 AND text LIKE 'row%'"))
    else:
        rows.createOrReplaceTempView("coming")
        spark.sql(
            f"INSERT INTO lance.`{uri}` REPLACE WHERE id >= 80 AND text LIKE 'row%' "
            "SELECT * FROM coming"
        )
        spark.catalog.dropTempView("coming")
    assert content(uri) == {
        n: f"row {n}" if n < 80 else "new" for n in [*range(80), *range(90, 120)]
    }
    assert lance.dataset(uri).version == 2
    assert {n: number for n, number in row_ids(uri).items() if n < 80} == {
        n: number for n, number in ids.items() if n < 80
    }
    none = spark.createDataFrame([], "id long, text string")
    none.writeTo(f"lance.`{uri}`").overwrite(f.expr("text = 'new'"))
    assert (ids_of(uri), lance.dataset(uri).version) == (list(range(80)), 3)
    none.writeTo(f"lance.`{uri}`").overwrite(f.expr("text = 'new'"))
    assert lance.dataset(uri).version == 3


def test_overwriting_by_a_condition_that_alance_does_not_evaluate_is_refused(spark, uri):
    frame = spark.range(5).selectExpr("id", "'x' AS text")
    with pytest.raises(Exception, match=r"(?i)overwrite"):
        frame.writeTo(f"lance.`{uri}`").overwrite(f.expr("length(text) > 2"))
    assert lance.dataset(uri).version == 1

"""Defaults, lengths of texts and constraints of columns, and tables like others."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

NAME = "lance.limited"


@pytest.fixture(autouse=True)
def _dropped(spark: SparkSession) -> Iterator[None]:
    yield
    spark.sql(f"DROP TABLE IF EXISTS {NAME}")


def rows(spark: SparkSession, name: str = NAME) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in spark.table(name).collect())


def path_of(spark: SparkSession, name: str = NAME) -> str:
    described = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return next(row.data_type for row in described if row.col_name == "Location")


def test_new_rows_have_defaults_of_columns(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} (id INT, n INT DEFAULT 7, t STRING DEFAULT concat('a', 'b'))")
    spark.sql(f"INSERT INTO {NAME} (id) VALUES (1)")
    spark.sql(f"INSERT INTO {NAME} VALUES (2, DEFAULT, 'y')")
    assert rows(spark) == [(1, 7, "ab"), (2, 7, "y")]
    spark.sql(f"ALTER TABLE {NAME} ALTER COLUMN n SET DEFAULT 9")
    spark.sql(f"ALTER TABLE {NAME} ALTER COLUMN t DROP DEFAULT")
    spark.sql(f"INSERT INTO {NAME} (id) VALUES (3)")
    spark.sql(f"ALTER TABLE {NAME} ALTER COLUMN id SET DEFAULT 4")
    spark.sql(f"INSERT INTO {NAME} (t) VALUES ('z')")
    spark.sql(f"UPDATE {NAME} SET n = DEFAULT WHERE id = 1")
    assert rows(spark) == [(1, 9, "ab"), (2, 7, "y"), (3, 9, None), (4, 9, "z")]


@pytest.mark.parametrize(
    ("kind", "default", "value"),
    [
        ("INT NOT NULL", "3", 3),
        ("BOOLEAN", "true", True),
        ("DOUBLE", "0.5", 0.5),
        ("DECIMAL(5, 2)", "1.25", Decimal("1.25")),
        ("DATE", "DATE '2026-02-03'", date(2026, 2, 3)),
        (
            "TIMESTAMP_NTZ",
            "TIMESTAMP_NTZ '2026-02-03 04:05:06.7'",
            datetime(2026, 2, 3, 4, 5, 6, 700000),
        ),
        ("STRING", "'it''s'", "it's"),
        ("CHAR(3)", "'ab'", "ab "),
        ("INT", "NULL", None),
    ],
)
def test_a_new_column_has_its_default_in_all_rows(
    spark: SparkSession, kind: str, default: str, value: object
) -> None:
    spark.sql(f"CREATE TABLE {NAME} AS SELECT 1 id")
    spark.sql(f"ALTER TABLE {NAME} ADD COLUMNS (c {kind} DEFAULT {default}, d INT)")
    spark.sql(f"INSERT INTO {NAME} (id) VALUES (2)")
    assert rows(spark) == [(1, value, None), (2, value, None)]
    assert lance.dataset(path_of(spark)).to_table()["c"].to_pylist() == [value, value]


def test_texts_longer_than_their_column_are_refused(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE TABLE {NAME} (c CHAR(3), v VARCHAR(3), s STRUCT<a: VARCHAR(2)>, l ARRAY<CHAR(2)>)"
    )
    kinds = [row.data_type for row in spark.sql(f"DESCRIBE TABLE {NAME}").collect()]
    assert kinds == ["char(3)", "varchar(3)", "struct<a:varchar(2)>", "array<char(2)>"]
    insert = f"INSERT INTO {NAME} VALUES ({{}}, named_struct('a', 'x'), array('y'))"
    spark.sql(insert.format("'ab', 'ab'"))
    for values in ("'abcd', ''", "'', 'abcd'"):
        with pytest.raises(Exception, match="EXCEED_LIMIT_LENGTH"):
            spark.sql(insert.format(values))
    assert [tuple(row) for row in spark.table(NAME).collect()] == [("ab ", "ab", ("x",), ["y "])]
    assert lance.dataset(path_of(spark)).to_table()["c"].to_pylist() == ["ab "]


def test_texts_of_other_writers_are_compared_by_padded_values(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} (c CHAR(3), v VARCHAR(3))")
    path = path_of(spark)
    schema = lance.dataset(path).schema
    lance.write_dataset(pa.table([["ab"], ["ab"]], schema=schema), path, mode="append")
    spark.sql(f"INSERT INTO {NAME} VALUES ('ab', 'ab ')")
    for condition, count in {"c = 'ab'": 2, "v = 'ab'": 1, "c IN ('ab', 'x')": 2}.items():
        assert spark.table(NAME).where(condition).count() == count, condition
    spark.sql(f"DELETE FROM {NAME} WHERE c = 'ab'")
    assert rows(spark) == []


def test_a_length_can_be_changed(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} (v VARCHAR(3))")
    spark.sql(f"ALTER TABLE {NAME} ALTER COLUMN v TYPE VARCHAR(5)")
    spark.sql(f"INSERT INTO {NAME} VALUES ('abcde')")
    spark.sql(f"ALTER TABLE {NAME} ALTER COLUMN v TYPE STRING")
    spark.sql(f"INSERT INTO {NAME} VALUES ('abcdef')")
    assert rows(spark) == [("abcde",), ("abcdef",)]
    assert spark.table(NAME).schema["v"].dataType.simpleString() == "string"


def test_checks_refuse_rows(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} (id INT, n INT, CONSTRAINT positive CHECK (n > 0))")
    spark.sql(f"INSERT INTO {NAME} VALUES (1, 1), (2, NULL)")
    for statement in (
        f"INSERT INTO {NAME} VALUES (3, -1)",
        f"UPDATE {NAME} SET n = 0 WHERE id = 1",
        f"MERGE INTO {NAME} t USING (SELECT 1 id, -5 n) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET *",
    ):
        with pytest.raises(Exception, match="CHECK_CONSTRAINT_VIOLATION"):
            spark.sql(statement)
    assert rows(spark) == [(1, 1), (2, None)]
    with pytest.raises(Exception, match="NEW_CHECK_CONSTRAINT_VIOLATION"):
        spark.sql(f"ALTER TABLE {NAME} ADD CONSTRAINT many CHECK (id > 1)")
    spark.sql(f"ALTER TABLE {NAME} ADD CONSTRAINT few CHECK (id < 10)")
    with pytest.raises(Exception, match="constraint 'none': not there"):
        spark.sql(f"ALTER TABLE {NAME} DROP CONSTRAINT none")
    spark.sql(f"ALTER TABLE {NAME} DROP CONSTRAINT IF EXISTS none")
    spark.sql(f"ALTER TABLE {NAME} DROP CONSTRAINT positive")
    spark.sql(f"INSERT INTO {NAME} VALUES (3, -1)")
    with pytest.raises(Exception, match="CHECK_CONSTRAINT_VIOLATION"):
        spark.sql(f"INSERT INTO {NAME} VALUES (10, 1)")


def test_a_table_like_another_has_its_columns(spark: SparkSession) -> None:
    spark.sql(
        f"CREATE TABLE {NAME} (id INT NOT NULL, c CHAR(2) DEFAULT 'x' COMMENT 'text', "
        "CONSTRAINT key PRIMARY KEY (id) NOT ENFORCED, CONSTRAINT small CHECK (id < 10))"
    )
    spark.sql(f"INSERT INTO {NAME} (id) VALUES (1)")
    spark.sql(f"CREATE TABLE {NAME}_like LIKE {NAME}")
    try:
        assert rows(spark, f"{NAME}_like") == []
        spark.sql(f"INSERT INTO {NAME}_like (id) VALUES (2)")
        assert rows(spark, f"{NAME}_like") == [(2, "x ")]
        described = [tuple(row) for row in spark.sql(f"DESCRIBE TABLE {NAME}").collect()]
        assert [
            tuple(row) for row in spark.sql(f"DESCRIBE TABLE {NAME}_like").collect()
        ] == described
    finally:
        spark.sql(f"DROP TABLE {NAME}_like")


def test_columns_and_members_change_places(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} (id INT, s STRUCT<a: INT, b: INT>, t STRING)")
    spark.sql(f"INSERT INTO {NAME} VALUES (1, named_struct('a', 2, 'b', 3), 'x')")
    for change in (
        "ADD COLUMNS (k INT FIRST, l INT DEFAULT 7 AFTER k, m STRING)",
        "ADD COLUMN s.c INT AFTER a",
        "ALTER COLUMN t FIRST, id AFTER t",
        "ALTER COLUMN s.b FIRST",
    ):
        spark.sql(f"ALTER TABLE {NAME} {change}")
    spark.sql(f"INSERT INTO {NAME} (id, t) VALUES (2, 'y')")
    spark.sql(f"UPDATE {NAME} SET k = 5 WHERE id = 1")
    assert spark.table(NAME).columns == ["t", "id", "k", "l", "s", "m"]
    assert rows(spark) == [("x", 1, 5, 7, (3, 2, None), None), ("y", 2, None, 7, None, None)]
    with pytest.raises(Exception, match="column 'id': after='id', expected one of 't', 'k'"):
        spark.sql(f"ALTER TABLE {NAME} ALTER COLUMN id AFTER id")


def test_columns_are_not_replaced_by_empty_ones(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} AS SELECT 1 id, 'x' t")
    with pytest.raises(Exception, match="REPLACE COLUMNS: all values would go; write ALTER TABLE"):
        spark.sql(f"ALTER TABLE {NAME} REPLACE COLUMNS (id INT, other STRING)")
    with pytest.raises(Exception, match="not partitioned, clustered or bucketed"):
        spark.sql(f"ALTER TABLE {NAME} CLUSTER BY (id)")
    assert rows(spark) == [(1, "x")]


def test_a_table_cannot_be_placed_elsewhere(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} (id INT)")
    with pytest.raises(Exception, match="SET LOCATION: the place of a table is in the warehouse"):
        spark.sql(f"ALTER TABLE {NAME} SET LOCATION '/elsewhere'")


def test_inserts_with_schema_evolution_add_columns(spark: SparkSession) -> None:
    spark.sql(f"CREATE TABLE {NAME} AS SELECT 1 id, 2 n")
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {NAME} SELECT 2 id, 3 n, 'x' t")
    spark.sql(f"INSERT WITH SCHEMA EVOLUTION INTO {NAME} BY NAME SELECT 5000000000 n, 3 id, true b")
    assert spark.table(NAME).columns == ["id", "n", "t", "b"]
    ordered = spark.table(NAME).orderBy("id").collect()
    assert [tuple(row) for row in ordered] == [
        (1, 2, None, None),
        (2, 3, "x", None),
        (3, 5_000_000_000, None, True),
    ]


def test_texts_with_lengths_are_read_by_path_and_copied(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {NAME} (c CHAR(3), v VARCHAR(3) DEFAULT 'd')")
    spark.sql(f"INSERT INTO {NAME} (c) VALUES ('ab')")
    loaded = spark.read.format("alance").load(path_of(spark))
    assert [tuple(row) for row in loaded.collect()] == [("ab ", "d")]
    loaded.write.format("alance").save(str(tmp_path / "copy"))
    copied = lance.dataset(str(tmp_path / "copy")).to_table()
    assert copied.to_pylist() == [{"c": "ab ", "v": "d"}]
    spark.sql(f"CREATE TABLE {NAME}_copy AS SELECT * FROM {NAME}")
    try:
        kinds = [row.data_type for row in spark.sql(f"DESCRIBE TABLE {NAME}_copy").collect()]
        assert kinds == ["char(3)", "varchar(3)"]
    finally:
        spark.sql(f"DROP TABLE {NAME}_copy")


def test_streams_keep_the_lengths_of_texts(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE {NAME} (c CHAR(3), n INT DEFAULT 1)")
    source = f"{NAME}_source"
    spark.sql(f"CREATE TABLE {source} AS SELECT 'ab' c, 2 n")
    try:
        stream = spark.readStream.table(source).writeStream.trigger(availableNow=True)
        stream = stream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        stream.toTable(NAME).awaitTermination()
        assert rows(spark) == [("ab ", 2)]
    finally:
        spark.sql(f"DROP TABLE {source}")

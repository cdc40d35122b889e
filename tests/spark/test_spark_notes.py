"""Schema evolution, and the notes of fields for Spark: comments, collations, other metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lance
import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    yield "lance.noted"
    spark.sql("DROP TABLE IF EXISTS lance.noted")


def described(spark: SparkSession, name: str) -> dict[str, tuple[str, str | None]]:
    rows = spark.sql(f"DESCRIBE TABLE {name}").collect()
    return {row.col_name: (row.data_type, row.comment) for row in rows}


def test_a_merge_with_schema_evolution_adds_columns_and_widens_others(
    spark: SparkSession, name: str
) -> None:
    spark.sql(f"CREATE TABLE {name} AS SELECT 1 id, 'a' v, 1 n")
    merge = f"MERGE WITH SCHEMA EVOLUTION INTO {name} t USING v s ON t.id = s.id"
    for query, clauses in [
        (
            "SELECT 1 id, 'A' v, 2 n, 'x' w UNION ALL SELECT 2, 'B', 3, 'y'",
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
        ),
        ("SELECT 3 id, 'C' v, 5000000000 n, 'z' w, true b", "WHEN NOT MATCHED THEN INSERT *"),
    ]:
        spark.sql(f"CREATE OR REPLACE TEMP VIEW v AS {query}")
        spark.sql(f"{merge} {clauses}")
    assert [tuple(row) for row in spark.table(name).orderBy("id").collect()] == [
        (1, "A", 2, "x", None),
        (2, "B", 3, "y", None),
        (3, "C", 5_000_000_000, "z", True),
    ]


def test_text_is_compared_by_its_collation(spark: SparkSession, name: str) -> None:
    spark.sql(
        f"CREATE TABLE {name} (t STRING COLLATE UTF8_LCASE, p STRING, "
        "s STRUCT<a: STRING COLLATE UNICODE_CI>, l ARRAY<STRING COLLATE UTF8_LCASE>)"
    )
    values = "('{0}', '{0}', named_struct('a', '{0}'), array('{0}'))"
    spark.sql(f"INSERT INTO {name} VALUES {values.format('a')}, {values.format('A')}")
    for condition, count in {
        "t = 'a'": 2,
        "t IN ('A', 'b')": 2,
        "startswith(t, 'A')": 2,
        "p = 'a'": 1,
        "s.a = 'a'": 2,
        "array_contains(l, 'a')": 2,
    }.items():
        assert spark.table(name).where(condition).count() == count, condition
    assert spark.sql(f"SELECT count(DISTINCT t) FROM {name}").first()[0] == 1
    spark.sql(f"ALTER TABLE {name} ALTER COLUMN p TYPE STRING COLLATE UTF8_LCASE")
    spark.sql(f"DELETE FROM {name} WHERE p = 'a'")
    assert spark.table(name).count() == 0


def test_comments_and_collations_stay_when_columns_change(spark: SparkSession, name: str) -> None:
    spark.sql(f"CREATE TABLE {name} (t STRING COLLATE UTF8_LCASE COMMENT 'text', s STRUCT<a: INT>)")
    for change in (
        "ADD COLUMN (n INT COMMENT 'new', k STRING COLLATE UNICODE)",
        "ALTER COLUMN s COMMENT 'a struct'",
        "ALTER COLUMN n TYPE BIGINT",
        "RENAME COLUMN t TO tt",
    ):
        spark.sql(f"ALTER TABLE {name} {change}")
    expected = {
        "tt": ("string collate UTF8_LCASE", "text"),
        "s": ("struct<a:int>", "a struct"),
        "n": ("bigint", "new"),
        "k": ("string collate UNICODE", None),
    }
    assert described(spark, name) == expected
    spark.sql(f"CREATE TABLE {name}_copy AS SELECT * FROM {name}")
    assert described(spark, f"{name}_copy") == expected
    spark.sql(f"DROP TABLE {name}_copy")


def test_metadata_of_fields_is_read_back(spark: SparkSession, tmp_path: Path) -> None:
    metadata = {"comment": "c", "tags": {"a": [1, 2]}, "owner": "me"}
    schema = StructType([StructField("a", IntegerType(), True, metadata)])
    uri = str(tmp_path / "t")
    spark.createDataFrame([(1,)], schema).write.format("alance").save(uri)
    assert spark.read.format("alance").load(uri).schema[0].metadata == metadata
    assert lance.dataset(uri).schema.field("a").metadata[b"comment"] == b"c"
    table = lance.dataset(uri)
    table.update_field_metadata({"a": {"unit": "cm", "lance-encoding:compression": "zstd"}})
    read = spark.read.format("alance").load(uri).schema[0].metadata
    assert read == {**metadata, "unit": "cm"}

"""Statements of the extension, each short for a procedure, and CREATE and DROP INDEX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import lance
import pytest

from tests.spark.test_spark_columns import path_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

NAME = "lance.shop.items"


@pytest.fixture
def path(spark: SparkSession) -> Iterator[str]:
    """The path of a table of three versions: created, and two appends."""
    spark.sql("CREATE NAMESPACE lance.shop")
    spark.sql(f"CREATE TABLE {NAME} (id INT, `a word` STRING)")
    for number in range(2):
        spark.sql(f"INSERT INTO {NAME} VALUES ({number}, 'x')")
    yield path_of(spark, NAME)
    spark.sql("USE spark_catalog.default")
    spark.sql("DROP NAMESPACE lance.shop CASCADE")


def rows(spark: SparkSession, statement: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(statement).collect()]


def test_files_are_compacted_and_old_versions_removed(spark: SparkSession, path: str) -> None:
    assert rows(spark, f"OPTIMIZE {NAME}") == [(5, 2, 1)]
    assert [row[0] for row in rows(spark, f"describe  history\n{NAME};")] == [1, 2, 3, 4, 5]
    assert rows(spark, f"VACUUM {NAME} RETAIN 0 HOURS")[0][0] == 4
    assert [version["version"] for version in lance.dataset(path).versions()] == [5]
    steps = spark.sql(f"MAINTAIN {NAME}").columns
    assert steps[:3] == ["step", "target", "why"]


def test_tags_and_branches_are_made_dropped_and_restored(spark: SparkSession, path: str) -> None:
    spark.sql(f"ALTER TABLE {NAME} CREATE TAG first AS OF VERSION 2")
    spark.sql(f"ALTER TABLE {NAME} CREATE TAG `last`")
    spark.sql(f"ALTER TABLE {NAME} CREATE BRANCH dev AS OF VERSION 2")
    table = lance.dataset(path)
    assert {name: tag["version"] for name, tag in table.tags.list().items()} == {
        "first": 2,
        "last": 3,
    }
    assert list(table.branches.list()) == ["dev"]
    assert rows(spark, f"RESTORE TABLE {NAME} TO TAG first") == [(4,)]
    assert spark.table(NAME).count() == 1
    assert rows(spark, f"RESTORE {NAME} TO VERSION AS OF 3") == [(5,)]
    assert spark.table(NAME).count() == 2
    spark.sql(f"ALTER TABLE {NAME} DROP TAG first")
    spark.sql(f"ALTER TABLE {NAME} DROP BRANCH dev")
    table = lance.dataset(path)
    assert (list(table.tags.list()), list(table.branches.list())) == (["last"], [])


def test_names_are_found_as_in_other_statements(spark: SparkSession, path: str) -> None:
    assert len(rows(spark, f"DESCRIBE HISTORY lance.`{path}`")) == 3
    spark.sql("USE lance")
    assert len(rows(spark, "SHOW HISTORY OF shop.items")) == 3
    spark.sql("USE lance.shop")
    assert len(rows(spark, "DESC HISTORY `items`")) == 3
    for statement in ("OPTIMIZE spark_catalog.default.items", "OPTIMIZE items and more"):
        with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):  # left to Spark, or to others
            spark.sql(statement)


def test_indices_are_created_shown_and_dropped(spark: SparkSession, path: str) -> None:
    spark.sql(f"CREATE INDEX by_id ON TABLE {NAME} USING btree (id)")
    spark.sql(
        f"CREATE INDEX words ON TABLE {NAME} USING inverted (`a word`) "
        "OPTIONS (with_position = 'true', language = 'English')"
    )
    assert rows(spark, f"SHOW INDEXES IN {NAME}") == [
        ("by_id", "BTree", "id", 1),
        ("words", "Inverted", "a word", 1),
    ]
    with pytest.raises(Exception, match="INDEX_ALREADY_EXISTS"):
        spark.sql(f"CREATE INDEX by_id ON TABLE {NAME} USING btree (id)")
    spark.sql(f"CREATE INDEX IF NOT EXISTS by_id ON TABLE {NAME} USING btree (id)")
    spark.sql(f"DROP INDEX by_id ON TABLE {NAME}")
    with pytest.raises(Exception, match="INDEX_NOT_FOUND"):
        spark.sql(f"DROP INDEX by_id ON TABLE {NAME}")
    assert [index.name for index in lance.dataset(path).describe_indices()] == ["words"]
    with pytest.raises(Exception, match="expected one column, got 2"):
        spark.sql(f"CREATE INDEX two ON TABLE {NAME} USING btree (id, `a word`)")
    with pytest.raises(Exception, match="index of type"):
        spark.sql(f"CREATE INDEX bad ON TABLE {NAME} USING nothing (id)")

"""Jobs `update` and `merge` with all clauses: beside SQL's MERGE INTO, and alance without Spark."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

from alance import sync
from alance.errors import InvalidInputError, UnsupportedError
from alance.spark import jobs
from alance.spark.__main__ import main
from alance.spark.jobs import When

if TYPE_CHECKING:
    from pathlib import Path

KINDS = pa.table(
    {
        "id": pa.array(range(100), pa.int64()),
        "v": pa.array([n % 10 for n in range(100)], pa.int64()),
        "text": [None if n % 9 == 0 else f"row {n}" for n in range(100)],
        "nanos": pa.array([n * 1001 for n in range(100)], pa.timestamp("ns")),
        "big": pa.array([2**64 - 1 - n for n in range(100)], pa.uint64()),
        "vector": pa.array([[n, n + 1] for n in range(100)], pa.list_(pa.float32(), 2)),
        "s": [{"a": n, "b": str(n)} for n in range(100)],
    }
)


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Four fragments with stable row ids; some rows are deleted."""
    uri = str(tmp_path / "table")
    lance.write_dataset(KINDS, uri, max_rows_per_file=25, enable_stable_row_ids=True)
    lance.dataset(uri).delete("id % 20 = 3")
    return uri


def copy_of(uri: str) -> str:
    shutil.copytree(uri, f"{uri}-copy")
    return f"{uri}-copy"


def rows_of(uri: str, version: int | None = None, **options: Any) -> list[dict[str, Any]]:
    dataset = lance.dataset(uri, version=version)
    dataset.validate()
    return dataset.to_table(**options).sort_by("id").to_pylist()


def test_an_update_is_that_of_alance(spark, uri):
    copy = copy_of(uri)
    updates = {"text": "concat(text, '!')", "vector": "vector", "v": "v * 1000 + id", "big": "id"}
    done = jobs.update(spark, uri, updates, "v >= 4 and text is not null", partition_bytes=1)
    after = sync.dataset(copy).update(updates, where="v >= 4 and text is not null")
    assert done.counts["rows"] == after.summary["num_updated_rows"] > 0
    assert rows_of(uri, with_row_id=True) == rows_of(copy, with_row_id=True)
    assert lance.dataset(uri).schema == KINDS.schema
    assert jobs.update(spark, uri, {"v": "0"}, "id < 0").version == done.version == 3
    assert main(["update", uri, "v=-1", "--where", "id < 3", "--quiet"]) == 0
    assert [row["v"] for row in rows_of(uri, filter="id < 5")] == [-1, -1, -1, 4004]


def changes(spark):
    """Keys from 50 to 149; each fifth is to go."""
    return spark.range(50, 150, 1, 2).selectExpr(
        "id", "id % 7 as v", "concat('new ', id) as text", "id % 5 = 0 as gone"
    )


def test_a_merge_with_all_clauses_is_that_of_sql(spark, tmp_path):
    uri = str(tmp_path / "table")
    table = KINDS.select(["id", "v", "text", "vector"])
    lance.write_dataset(table, uri, max_rows_per_file=25, enable_stable_row_ids=True)
    copy = copy_of(uri)
    done = jobs.merge(
        spark,
        uri,
        changes(spark),
        ["id"],
        when_matched=[
            When("delete", "source.gone"),
            When("update", "source.v > target.v", {"text": "upper(source.text)"}),
            When("update", "target.v = 9", {"v": "target.v + source.v", "text": "null"}),
        ],
        when_not_matched=[
            When("nothing", "source.id > 140"),
            When("insert", "not source.gone", {"id": "source.id", "text": "source.text"}),
        ],
        when_not_matched_by_source=[
            When("update", "target.id < 10", {"text": "concat('stale ', target.text)"}),
            When("delete", "target.id between 20 and 29"),
        ],
    )
    changes(spark).createOrReplaceTempView("changes")
    spark.sql(f"""
        MERGE INTO lance.`{copy}` t USING changes s ON t.id = s.id
        WHEN MATCHED AND s.gone THEN DELETE
        WHEN MATCHED AND s.v > t.v THEN UPDATE SET text = upper(s.text)
        WHEN MATCHED AND t.v = 9 THEN UPDATE SET v = t.v + s.v, text = null
        WHEN NOT MATCHED AND s.id <= 140 AND NOT s.gone THEN INSERT (id, text) VALUES (s.id, s.text)
        WHEN NOT MATCHED BY SOURCE AND t.id < 10 THEN UPDATE SET text = concat('stale ', t.text)
        WHEN NOT MATCHED BY SOURCE AND t.id BETWEEN 20 AND 29 THEN DELETE
    """)
    spark.catalog.dropTempView("changes")
    before = {row["id"]: row["_rowid"] for row in rows_of(uri, version=1, with_row_id=True)}
    after = rows_of(uri, with_row_id=True)
    assert [{**row, "_rowid": 0} for row in after] == [
        {**row, "_rowid": 0} for row in rows_of(copy, with_row_id=True)
    ]
    assert all(row["_rowid"] == before[row["id"]] for row in after if row["id"] < 100)
    assert (done.version, lance.dataset(uri).version) == (2, 2)
    assert done.counts["rows_deleted"] == 10 + 10
    assert done.counts["rows_inserted"] == 32
    assert done.counts["rows_updated"] == 10 + sum(
        n % 5 != 0 and (n % 7 > n % 10 or n % 10 == 9) for n in range(50, 100)
    )


def test_a_merge_with_conditions_is_that_of_alance(spark, uri):
    copy, source = copy_of(uri), changes(spark).drop("gone")
    jobs.merge(
        spark, uri, source, ["id"],
        when_matched=When("update", "source.v < target.v"),
        when_not_matched_by_source=When("delete", "target.v = 1"),
    )  # fmt: skip
    merge = sync.dataset(copy).merge_insert("id")
    merge = merge.when_matched_update_all("source.v < target.v").when_not_matched_insert_all()
    merge.when_not_matched_by_source_delete("v = 1").execute(source.toArrow())
    assert rows_of(uri) == rows_of(copy)


def test_what_is_wrong_is_told_before_a_task_runs(spark, uri, capsys):
    ran = spark.sparkContext.accumulator(0)

    def seen(batches):
        for batch in batches:
            ran.add(1)
            yield batch

    source = changes(spark).mapInArrow(seen, changes(spark).schema)
    for clauses, message in (
        ({"when_matched": When("update", "source.v >")}, "condition = 'source.v >'"),
        ({"when_matched": When("update", "source.none > 1")}, "source.*none"),
        ({"when_matched": When("update", "source.v")}, "is bigint, expected boolean"),
        ({"when_matched": When("update", set={"none": "1"})}, "'none': not among"),
        ({"when_matched": When("update", set={"vector": "true"})}, "vector"),
        ({"when_matched": When("update", set={})}, "an update of nothing"),
        ({"when_matched": "insert"}, "expected update, delete, nothing"),
        ({"when_matched": "update"}, "'gone': not among"),
        ({"when_not_matched": When("insert", "target.v = 1")}, "target"),
        ({"when_not_matched_by_source": When("delete", "source.v = 1")}, "source"),
        ({"when_not_matched_by_source": "update"}, "an update of nothing"),
        ({"when_matched": "nothing", "when_not_matched": "nothing"}, "nothing to do"),
    ):
        arguments = {"when_matched": "nothing", "when_not_matched": "nothing", **clauses}
        with pytest.raises(InvalidInputError, match=message) as raised:
            jobs.merge(spark, uri, source, ["id"], **arguments)
        assert "\tat " not in str(raised.value)
    for updates, where, kind in (
        ({"none": "1"}, None, InvalidInputError),
        ({"v": "text +"}, None, InvalidInputError),
        ({"v": "1"}, "none = 1", InvalidInputError),
        ({"s.a": "1"}, None, UnsupportedError),
        ({}, None, InvalidInputError),
    ):
        with pytest.raises(kind):
            jobs.update(spark, uri, updates, where)
    with pytest.raises(InvalidInputError, match="none"):
        jobs.delete(spark, uri, "none = 1")
    with pytest.raises(InvalidInputError, match="none"):
        jobs.export(spark, uri, f"{uri}-out", filter="none = 1")
    with pytest.raises(Exception, match="none"):
        spark.read.format("alance").option("filter", "none = 1").load(uri)
    assert ran.value == 0
    assert lance.dataset(uri).version == 2
    for command in (
        ["export", uri, f"{uri}-out", "--option", "filter=id >"],
        ["update", uri, "v=text"],
        ["validate", uri, "--check", "bad=none > 1"],
        ["merge", uri, f"{uri}-none", "--on", "id"],
    ):
        capsys.readouterr()
        assert main([*command, "--quiet"]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"alance-spark {command[0]}: ")
        assert "JVM" not in error
        assert "\tat " not in error
        assert len(error.splitlines()) < 12

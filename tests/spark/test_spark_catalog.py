"""Tables by name in SQL: what there is, new ones, their versions, and rows that are added."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException

import alance.spark
from alance import InvalidInputError
from alance.spark.connector.catalog import uri_of
from alance.testing.lab import Lab
from tests.spark.cluster import POLL_S
from tests.spark.spark_cases import ids_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture
def lake(spark: SparkSession) -> Iterator[Path]:
    """The folder of the catalog, empty before and after."""
    folder = Path(spark.conf.get("spark.sql.catalog.lance.warehouse"))
    yield folder
    for row in spark.sql("SHOW NAMESPACES IN lance").collect():
        spark.sql(f"DROP NAMESPACE lance.{row.namespace} CASCADE")
    for row in spark.sql("SHOW TABLES IN lance").collect():
        spark.sql(f"DROP TABLE lance.`{row.tableName}`")
    assert list(folder.iterdir()) == []


def rows_of(spark: SparkSession, text: str) -> list[tuple]:
    return [tuple(row) for row in spark.sql(text).collect()]


def test_tables_are_made_listed_moved_and_dropped(spark, lake):
    spark.sql("CREATE NAMESPACE lance.sales")
    spark.sql(
        "CREATE TABLE lance.sales.items (id BIGINT NOT NULL, v ARRAY<FLOAT>) USING alance "
        "COMMENT 'what is sold' TBLPROPERTIES (stable_row_ids 'true', vectors 'v:2', team 'x')"
    )
    dataset = lance.dataset(str(lake / "sales" / "items.lance"))
    assert dataset.schema == pa.schema(
        [pa.field("id", pa.int64(), nullable=False), ("v", pa.list_(pa.float32(), 2))]
    )
    assert (dataset.version, dataset.count_rows(), dataset.has_stable_row_ids) == (1, 0, True)
    assert rows_of(spark, "SHOW TABLES IN lance.sales") == [("sales", "items", False)]
    assert rows_of(spark, "SHOW NAMESPACES IN lance") == [("sales",)]
    properties = dict(rows_of(spark, "SHOW TBLPROPERTIES lance.sales.items"))
    assert properties["team"] == "x"
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        spark.sql("CREATE TABLE lance.sales.items (id BIGINT)")
    spark.sql("CREATE TABLE IF NOT EXISTS lance.sales.items (id BIGINT)")
    spark.sql("ALTER TABLE lance.sales.items RENAME TO lance.sales.goods")
    assert rows_of(spark, "SHOW TABLES IN lance.sales") == [("sales", "goods", False)]
    assert ids_of(str(lake / "sales" / "goods.lance")) == []
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        spark.table("lance.sales.items")
    spark.sql("DROP TABLE IF EXISTS lance.sales.items")
    spark.sql("CREATE TABLE lance.sales.other (id BIGINT)")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        spark.sql("DROP NAMESPACE lance.sales")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql("CREATE TABLE lance.nowhere.t (id BIGINT)")


def test_namespaces_have_properties(spark, lake):
    spark.sql("CREATE NAMESPACE lance.plain")
    assert (lake / "plain" / ".namespace").read_bytes() == b""
    spark.sql("CREATE NAMESPACE lance.eu COMMENT 'west' WITH DBPROPERTIES (team='x', tier='ü')")
    described = dict(rows_of(spark, "DESCRIBE NAMESPACE EXTENDED lance.eu"))
    assert described["Comment"] == "west"
    assert described["Location"] == str(lake / "eu")
    assert described["Properties"] == "((team,x), (tier,ü))"
    spark.sql("ALTER NAMESPACE lance.eu SET PROPERTIES (team='y', more='z')")
    spark.sql("ALTER NAMESPACE lance.eu UNSET PROPERTIES (tier)")
    described = dict(rows_of(spark, "DESCRIBE NAMESPACE EXTENDED lance.eu"))
    assert described["Properties"] == "((more,z), (team,y))"
    spark.sql("ALTER NAMESPACE lance.plain SET PROPERTIES (a='b')")
    spark.sql("ALTER NAMESPACE lance.plain UNSET PROPERTIES (a)")
    assert (lake / "plain" / ".namespace").read_bytes() == b""
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_FOUND"):
        spark.sql("ALTER NAMESPACE lance.none SET PROPERTIES (a='b')")
    for statement in ("CREATE NAMESPACE lance.far", "ALTER NAMESPACE lance.eu SET"):
        with pytest.raises(Exception, match="the place of a namespace is its folder"):
            spark.sql(f"{statement} LOCATION '/x'")
    (lake / "plain" / ".namespace").write_bytes(b"[]")
    with pytest.raises(Exception, match=r"plain/.namespace: expected properties"):
        spark.sql("DESCRIBE NAMESPACE lance.plain")


def test_what_a_table_cannot_be_is_refused(spark, lake):
    lake.mkdir(exist_ok=True)
    with pytest.raises(Exception, match="not partitioned"):
        spark.sql("CREATE TABLE lance.t (id INT) PARTITIONED BY (id)")
    with pytest.raises(Exception, match="order the rows by these columns"):
        spark.range(3).write.partitionBy("id").format("alance").mode("append").save(str(lake))
    with pytest.raises(AnalysisException, match="name a table elsewhere by its path"):
        spark.sql("CREATE TABLE lance.t (id INT) LOCATION '/tmp/elsewhere'")
    with pytest.raises(AnalysisException, match="Lance tables alone"):
        spark.sql("CREATE TABLE lance.t (id INT) USING orc")
    with pytest.raises(AnalysisException, match=r"name '_t': expected one without"):
        spark.sql("CREATE TABLE lance._t (id INT)")


def test_a_query_makes_a_table_in_one_version(spark, lake):
    spark.sql("CREATE TABLE lance.t AS SELECT id, id % 3 AS part FROM range(0, 100, 1, 3)")
    uri = str(lake / "t.lance")
    assert (lance.dataset(uri).version, ids_of(uri)) == (1, list(range(100)))
    spark.sql("REPLACE TABLE lance.t AS SELECT id FROM lance.t WHERE part = 0")
    assert lance.dataset(uri).schema.names == ["id"]
    assert (lance.dataset(uri).version, ids_of(uri)) == (2, list(range(0, 100, 3)))
    frame = spark.range(5)
    frame.writeTo("lance.t").createOrReplace()
    frame.writeTo("lance.t").append()
    assert ids_of(uri) == sorted([*range(5)] * 2)
    with pytest.raises(AnalysisException, match="ALREADY_EXISTS"):
        frame.writeTo("lance.t").create()
    with pytest.raises(AnalysisException, match="NOT_FOUND"):
        frame.writeTo("lance.other").replace()
    frame.write.mode("ignore").saveAsTable("lance.t")
    frame.write.mode("overwrite").saveAsTable("lance.t")
    assert ids_of(uri) == list(range(5))


def test_rows_are_added_or_put_in_the_place_of_all(spark, lake):
    spark.sql(
        "CREATE TABLE lance.t (id BIGINT NOT NULL, v ARRAY<FLOAT>) TBLPROPERTIES (vectors 'v:2')"
    )
    uri = str(lake / "t.lance")
    spark.sql("INSERT INTO lance.t VALUES (1, array(1f, 2f)), (2, null)")
    spark.sql("INSERT INTO lance.t (id) SELECT id FROM range(3, 5)")
    assert ids_of(uri) == [1, 2, 3, 4]
    spark.sql("INSERT OVERWRITE lance.t SELECT id + 10, v FROM lance.t WHERE id < 3")
    assert ids_of(uri) == [11, 12]
    assert lance.dataset(uri).schema.field("v").type == pa.list_(pa.float32(), 2)
    assert not lance.dataset(uri).schema.field("id").nullable
    assert len(lance.dataset(uri).versions()) == 4
    with pytest.raises(Exception, match="NULL"):
        spark.sql("INSERT INTO lance.t VALUES (null, null)")
    with pytest.raises(Exception, match=r"(?s)InvalidInputError.*'v'"):
        spark.sql("INSERT INTO lance.t VALUES (5, array(1f))")
    spark.sql("TRUNCATE TABLE lance.t")
    assert ids_of(uri) == []


def test_a_query_that_fails_leaves_nothing(spark, lake):
    failing = "SELECT if(id = 99, raise_error('no'), id) AS id FROM range(0, 100, 1, 1)"
    with pytest.raises(Exception, match="no"):
        spark.sql(f"CREATE TABLE lance.t AS {failing}")
    assert rows_of(spark, "SHOW TABLES IN lance") == []
    spark.sql("DROP TABLE IF EXISTS lance.t")
    spark.sql("CREATE TABLE lance.u AS SELECT 7L AS id")
    with pytest.raises(Exception, match="no"):
        spark.sql(f"INSERT OVERWRITE lance.u {failing}")
    uri = lake / "u.lance"
    assert (lance.dataset(str(uri)).version, ids_of(str(uri))) == (1, [7])
    # Python removes what a task has begun when it sees that it hung up.
    while len([path for path in lake.glob("**/data/*") if path.is_file()]) != 1:
        time.sleep(POLL_S)
    shutil.rmtree(lake / "t.lance", ignore_errors=True)  # folders without a file


def test_versions_by_number_tag_time_and_branch(spark, lake):
    spark.sql("CREATE TABLE lance.t AS SELECT 1L AS id")
    spark.sql("CALL lance.system.create_tag(table => 't', tag => 'first')")
    spark.sql("INSERT INTO lance.t VALUES (2)")
    spark.sql("CALL lance.system.create_branch('t', 'dev')")
    assert rows_of(spark, "SELECT id FROM lance.t VERSION AS OF 1") == [(1,)]
    assert rows_of(spark, "SELECT id FROM lance.t VERSION AS OF 'first'") == [(1,)]
    assert rows_of(spark, "SELECT count(*) FROM lance.t TIMESTAMP AS OF now()") == [(2,)]
    branch = f"lance.`{lake}/t.lance/tree/dev`"
    spark.sql(f"INSERT INTO {branch} VALUES (9)")
    assert rows_of(spark, "SELECT max(id) FROM lance.t VERSION AS OF 'dev'") == [(9,)]
    assert rows_of(spark, "SELECT max(id) FROM lance.t") == [(2,)]
    for request, says in (("VERSION AS OF 9", "no version 9"), ("VERSION AS OF 'x'", "no tag 'x'")):
        with pytest.raises(AnalysisException, match=says):
            spark.sql(f"SELECT * FROM lance.t {request}")
    with pytest.raises(AnalysisException, match="no version from before 2020"):
        spark.sql("SELECT * FROM lance.t TIMESTAMP AS OF '2020-01-01'")
    spark.sql("CALL lance.system.restore(table => 't', version => 'first')")
    assert ids_of(str(lake / "t.lance")) == [1]


def test_columns_are_changed(spark, lake):
    spark.sql("CREATE TABLE lance.t AS SELECT 1L AS id, 2 AS n, named_struct('a', 3) AS s")
    spark.sql("ALTER TABLE lance.t ADD COLUMNS (text STRING, s.b INT)")
    spark.sql("ALTER TABLE lance.t RENAME COLUMN n TO number")
    spark.sql("ALTER TABLE lance.t ALTER COLUMN number TYPE BIGINT")
    spark.sql("ALTER TABLE lance.t DROP COLUMN text")
    spark.sql("ALTER TABLE lance.t SET TBLPROPERTIES (team 'x', other 'y')")
    spark.sql("ALTER TABLE lance.t UNSET TBLPROPERTIES (other)")
    dataset = lance.dataset(str(lake / "t.lance"))
    assert dataset.to_table().to_pylist() == [{"id": 1, "number": 2, "s": {"a": 3, "b": None}}]
    assert dataset.schema.field("number").type == pa.int64()
    assert dataset.config()["team"] == "x"
    assert "other" not in dataset.config()
    described = {row[0]: row[1] for row in rows_of(spark, "DESCRIBE lance.t")}
    assert described["s"] == "struct<a:int,b:int>"
    with pytest.raises(AnalysisException, match="expected one that can be null"):
        spark.sql("ALTER TABLE lance.t ADD COLUMN other INT NOT NULL")
    spark.sql("ALTER TABLE lance.t ADD COLUMN other INT FIRST")
    assert lance.dataset(str(lake / "t.lance")).schema.names == ["other", "id", "number", "s"]


def test_a_table_by_its_path(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    assert rows_of(spark, f"SELECT sum(id) FROM alance.`{uri}`") == [(3,)]
    spark.sql(f"INSERT INTO lance.`{uri}` VALUES (3)")
    spark.sql(f"CREATE TABLE alance.`{uri}2` AS SELECT * FROM lance.`{uri}`")
    assert (ids_of(uri), ids_of(uri + "2")) == ([1, 2, 3], [1, 2, 3])
    spark.sql(f"DROP TABLE alance.`{uri}2`")
    assert os.listdir(tmp_path) == ["table"]


def test_modes_of_a_writer(spark, tmp_path):
    """Modes that create a table never reach a Python data source; the connector has them."""
    uri, frame = str(tmp_path / "table"), spark.range(3)
    frame.write.format("alance").option("stable_row_ids", "true").save(uri)
    assert lance.dataset(uri).has_stable_row_ids
    with pytest.raises(AnalysisException, match="exists already"):
        frame.write.format("alance").mode("error").save(uri)
    frame.write.format("alance").mode("ignore").save(uri)
    assert lance.dataset(uri).version == 1
    frame.write.format("alance").mode("append").save(uri)
    assert ids_of(uri) == [0, 0, 1, 1, 2, 2]
    frame.selectExpr("id * 10 AS id").write.format("alance").mode("overwrite").save(uri)
    assert ids_of(uri) == [0, 10, 20]


def test_upkeep_by_procedures(spark, lake):
    spark.sql("CREATE TABLE lance.t AS SELECT id FROM range(0, 1000, 1, 4)")
    removed = rows_of(spark, "CALL lance.system.compact('t')")[0]
    assert removed[1:] == (4, 1)
    spark.sql("CALL lance.system.create_index(table => 't', column => 'id')")
    (index,) = lance.dataset(str(lake / "t.lance")).describe_indices()
    assert index.name == "id_idx"
    spark.sql("INSERT INTO lance.t VALUES (1000)")
    spark.sql("CALL lance.system.optimize_indices('t')")
    number = len(rows_of(spark, "CALL lance.system.versions('t')"))
    cleaned = "CALL lance.system.cleanup(table => 't', older_than_days => 0.0)"
    assert rows_of(spark, cleaned)[0][0] == number - 1
    names = [row.procedure_name for row in spark.sql("SHOW PROCEDURES IN lance.system").collect()]
    assert "restore" in names
    with pytest.raises(AnalysisException, match="no such folder"):
        spark.sql("CALL lance.system.compact('nothing')")


def test_maintenance_by_a_procedure(spark, lake):
    spark.sql("CREATE TABLE lance.m AS SELECT id FROM range(0, 100, 1, 4)")
    rules = "min_small_fragments => 4, max_deleted_share => 0.5, older_than => 'off'"
    call = f"CALL lance.system.maintain(table => 'm', {rules}"
    (planned,) = spark.sql(f"{call}, dry_run => true)").collect()
    assert (planned.step, planned.target, planned.why) == (
        "compact",
        None,
        "4 small fragments can be joined",
    )
    assert (planned.done, planned.outcome) == (False, "planned")
    assert len(lance.dataset(str(lake / "m.lance")).get_fragments()) == 4
    (done,) = spark.sql(f"{call})").collect()
    assert (done.done, done.outcome) == (True, "done")
    assert (done.bytes, done.requests) == (planned.bytes, planned.requests)
    assert len(lance.dataset(str(lake / "m.lance")).get_fragments()) == 1
    assert rows_of(spark, "CALL lance.system.maintain('m')") == []
    with pytest.raises(AnalysisException, match="older_than='seven'"):
        spark.sql("CALL lance.system.maintain(table => 'm', older_than => 'seven')")


def test_a_catalog_on_s3_shows_no_secret(spark):
    with Lab() as lab:
        session = spark.newSession()
        options = {**lab.lance_options(), "secret_access_key": "GEHEIM"}
        alance.spark.register(session, storage_options=options, warehouse="s3://lab/lake")
        session.sql("CREATE NAMESPACE lance.a")
        session.sql("CREATE TABLE lance.a.t AS SELECT id FROM range(10)")
        session.sql("DELETE FROM lance.a.t WHERE id % 3 = 0")
        explained = session.sql("EXPLAIN EXTENDED INSERT INTO lance.a.t SELECT id FROM lance.a.t")
        described = session.sql("DESCRIBE EXTENDED lance.a.t").collect()
        shown = str([*explained.collect(), *described])
        assert "s3://lab/lake/a/t.lance" in shown
        assert "GEHEIM" not in shown
        session.sql("ALTER TABLE lance.a.t RENAME TO a.u")
        uri = "s3://lab/lake/a/u.lance"
        dataset = lance.dataset(uri, storage_options=options)
        assert sorted(dataset.to_table()["id"].to_pylist()) == [1, 2, 4, 5, 7, 8]
        session.sql("DROP NAMESPACE lance.a CASCADE")
        assert rows_of(session, "SHOW NAMESPACES IN lance") == []


def test_names_are_folders_below_the_warehouse():
    request = {"warehouse": "s3://bucket/lake/", "catalog": "lance"}
    assert uri_of(request, ["a", "b"], "t") == "s3://bucket/lake/a/b/t.lance"
    assert uri_of(request, [], "s3://other/t") == "s3://other/t"
    for name in ("", "..", "_t", "t.lance", "a\\b"):
        with pytest.raises(InvalidInputError, match="expected one without"):
            uri_of(request, [], name)
    with pytest.raises(InvalidInputError, match="has no folder of tables"):
        uri_of({**request, "warehouse": None}, [], "t")

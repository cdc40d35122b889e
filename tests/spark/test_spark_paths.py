"""Several tables at once, branches by an option, and vectors of Spark's machine learning."""

from __future__ import annotations

import lance
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.ml.linalg import Matrices, MatrixUDT, Vectors, VectorUDT
from pyspark.sql.types import ArrayType, MapType, StringType, StructType

import alance.spark
from alance import sync
from alance.errors import InvalidInputError
from alance.spark.notes import USER_TYPE
from alance.spark.types import spark_schema
from tests.spark.spark_cases import ids_of


def ids(frame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_several_tables_of_the_same_columns(spark, tmp_path):
    uris = [str(tmp_path / name) for name in ("a", "b", "c")]
    lance.write_dataset(pa.table({"id": [1, 2], "s": ["x", "y"]}), uris[0])
    lance.write_dataset(pa.table({"s": ["z"], "id": [3]}), uris[1])
    lance.write_dataset(pa.table({"id": ["4"]}), uris[2])
    frame = alance.spark.read(spark, uris[:2])
    assert sorted(map(tuple, frame.collect())) == [(1, "x"), (2, "y"), (3, "z")]
    with pytest.raises(InvalidInputError, match="name those that all have"):
        alance.spark.read(spark, uris)
    with pytest.raises(InvalidInputError, match="no table"):
        alance.spark.read(spark, [])


def test_a_list_of_paths_is_one_table_for_the_planner(spark, tmp_path):
    uris = [str(tmp_path / name) for name in ("a", "b", "c")]
    lance.write_dataset(pa.table({"id": range(10), "s": [f"s{n}" for n in range(10)]}), uris[0])
    lance.write_dataset(pa.table({"id": range(5, 15), "s": ["z"] * 10}), uris[1])
    lance.write_dataset(pa.table({"s": ["x"]}), uris[2])
    frame = spark.read.format("alance").load(uris[:2])
    assert frame.count() == 20
    assert ids(frame.where("id >= 8")) == [8, 8, 9, 9, 10, 11, 12, 13, 14]
    plan = frame.where("id >= 8")._jdf.queryExecution().executedPlan().toString()
    assert "pushed filters: [id IS NOT NULL, id >= 8]" in plan
    assert tuple(frame.selectExpr("min(id)", "max(id)", "count(s)").first()) == (0, 14, 20)
    assert [row.id for row in frame.orderBy("id").limit(3).collect()] == [0, 1, 2]
    assert frame.limit(15).count() == 15
    assert ids(spark.read.format("alance").load([uris[1]])) == list(range(5, 15))
    few = spark.read.format("alance").option("columns", "s").load(uris)
    assert few.count() == 21
    with pytest.raises(AnalysisException, match=r"/c' has columns.*name those that all have"):
        spark.read.format("alance").load(uris)
    with pytest.raises(AnalysisException, match="without the option limit"):
        spark.read.format("alance").option("limit", 1).load(uris)


def test_a_branch_is_read_written_and_followed(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    branch = sync.dataset(uri).create_branch("dev/a").uri
    rows = spark.range(3, 5)
    rows.write.format("alance").mode("append").option("branch", "dev/a").save(uri)
    alance.spark.write(spark.range(5, 6), uri, mode="append", branch="dev/a")
    assert ids_of(branch) == [1, 2, 3, 4, 5]
    assert ids_of(uri) == [1, 2]
    on_branch = spark.read.format("alance").option("branch", "dev/a")
    assert ids(on_branch.load(uri)) == [1, 2, 3, 4, 5]
    version = sync.dataset(branch).version
    before = spark.read.format("alance").option("branch", "dev/a")
    assert ids(before.option("versionAsOf", version - 1).load(uri)) == [1, 2, 3, 4]
    assert ids(alance.spark.read(spark, uri, branch="dev/a", filter="id > 2")) == [3, 4, 5]
    stream = spark.readStream.format("alance").option("branch", "dev/a").load(uri)
    writer = stream.writeStream.format("alance").option("branch", "copy")
    sync.dataset(uri).create_branch("copy")
    writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(uri).awaitTermination()
    assert ids_of(f"{uri}/tree/copy") == [1, 1, 2, 2, 3, 4, 5]
    with pytest.raises(Exception, match="no branch 'none'"):
        alance.spark.write(rows, uri, mode="append", branch="none")
    with pytest.raises(Exception, match="tree/none"):
        alance.spark.read(spark, uri, branch="none")
    assert ids_of(uri) == [1, 2]


def test_vectors_and_matrices_of_machine_learning_come_back(spark, tmp_path):
    uri = str(tmp_path / "table")
    vectors = [Vectors.dense([1.0, 2.0]), Vectors.sparse(5, [1, 3], [0.5, 0.25]), None]
    schema = StructType().add("id", "long").add("v", VectorUDT()).add("m", MatrixUDT())
    rows = [(n, v, Matrices.dense(1, 2, [n, 1.0])) for n, v in enumerate(vectors)]
    frame = spark.createDataFrame(rows, schema)
    frame.write.format("alance").mode("append").save(uri)
    frame.write.format("alance").mode("append").save(uri)
    again = spark.read.format("alance").load(uri)
    assert again.schema == schema
    assert [tuple(row) for row in again.orderBy("id").collect()] == [
        row for row in rows for _ in "ab"
    ]
    assert again.where("id = 1").select("v").first().v == vectors[1]
    stored = lance.dataset(uri).schema.field("v")
    assert stored.metadata[USER_TYPE.encode()] == b"VectorUDT"
    name = f"lance.`{tmp_path}/by-name`"
    again.writeTo(name).create()
    spark.sql(f"DELETE FROM {name} WHERE id = 2 OR v IS NULL")
    spark.sql(f"UPDATE {name} SET id = 7 WHERE id = 1")
    remaining_rows = spark.table(name).orderBy("id").collect()
    assert [(row.id, row.v) for row in remaining_rows] == [
        (n, v) for n, v in ((0, vectors[0]), (7, vectors[1])) for _ in "ab"
    ]


def test_vectors_inside_of_other_columns_come_back(spark, tmp_path):
    uri = str(tmp_path / "table")
    vector = Vectors.sparse(5, [1, 3], [0.5, 0.25])
    inner = StructType().add("v", VectorUDT()).add("n", "integer")
    schema = (
        StructType()
        .add("one", inner)
        .add("many", ArrayType(VectorUDT()))
        .add("named", MapType(StringType(), inner))
    )
    row = ((vector, 1), [vector, None, Vectors.dense([2.0])], {"a": (vector, 2)})
    spark.createDataFrame([row, (None, [], {})], schema).coalesce(1).write.format("alance").mode(
        "append"
    ).save(uri)
    again = spark.read.format("alance").load(uri)
    assert again.schema == schema
    (whole,) = again.where("one IS NOT NULL").collect()
    assert tuple(whole) == row
    assert again.where("one.n = 1").selectExpr("named['a'].v").first()[0] == vector


def test_other_names_of_types_are_not_imported():
    kind = pa.struct([("type", pa.int8()), ("size", pa.int32())])
    for name in (b"VectorUDT", b"os.system", b"MatrixUDT", b"\xff"):
        schema = pa.schema([pa.field("v", kind, metadata={USER_TYPE: name})])
        assert spark_schema(schema)["v"].dataType.simpleString() == "struct<type:tinyint,size:int>"

"""`map_batches`: a function over the Arrow batches of a table, where they are read."""

from __future__ import annotations

import os

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance.spark
from alance.errors import InvalidInputError, NotFoundError

NUM_ROWS = 30_000
COUNTS = "rows long, total long, kinds string"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three fragments; some rows of the second one are deleted in version 2."""
    uri = str(tmp_path_factory.mktemp("map") / "table")
    rows = pa.table(
        {
            "id": pa.array(range(NUM_ROWS), pa.int64()),
            "vector": pa.array(
                [[index, 1.0] for index in range(NUM_ROWS)], pa.list_(pa.float32(), 2)
            ),
            "word": pa.array([f"w{index % 7}" for index in range(NUM_ROWS)]).dictionary_encode(),
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=10_000)
    lance.dataset(uri).delete("id >= 12000 and id < 13000")
    return uri


def live() -> list[int]:
    return [index for index in range(NUM_ROWS) if not 12_000 <= index < 13_000]


@pytest.fixture
def counted():
    """A function that is pickled as it is: the tests are not installed in the workers."""

    def count(batches):
        rows, total, kinds = 0, 0, ""
        for batch in batches:
            rows += batch.num_rows
            total += pc.sum(batch.column("id")).as_py() or 0
            kinds = ",".join(f"{item.name} {item.type}" for item in batch.schema)
        yield pa.record_batch({"kinds": [kinds], "rows": [rows], "total": [total]})

    return count


def test_each_row_once_in_the_types_of_the_table(spark, table, counted):
    frame = alance.spark.map_batches(spark, table, counted, COUNTS, partition_bytes=20_000)
    assert frame.rdd.getNumPartitions() > 3
    result = frame.collect()
    assert sum(row.rows for row in result) == len(live())
    assert sum(row.total for row in result) == sum(live())
    kinds = {row.kinds for row in result}
    assert kinds == {
        "id int64,vector fixed_size_list<item: float>[2],"
        "word dictionary<values=string, indices=int32, ordered=0>"
    }


def test_columns_filter_and_version(spark, table, counted):
    frame = alance.spark.map_batches(
        spark, table, counted, COUNTS, columns=["id", "_rowid"], filter="id % 2 = 0", version=1
    )
    result = frame.agg({"rows": "sum", "total": "sum"}).collect()[0].asDict()
    assert result == {"sum(rows)": 15_000, "sum(total)": sum(range(0, NUM_ROWS, 2))}
    assert {row.kinds for row in frame.collect()} == {"id int64,_rowid uint64"}
    frame = alance.spark.map_batches(spark, table, counted, COUNTS, limit=11)
    assert [row.rows for row in frame.collect()] == [11]


def test_rows_in_an_arrow_schema_to_spark(spark, table):
    def near(batches):
        for batch in batches:
            yield batch.filter(pc.less(batch.column("id"), 3))

    schema = pa.schema([("vector", pa.list_(pa.float32(), 2)), ("id", pa.uint32())])
    rows = alance.spark.map_batches(spark, table, near, schema).orderBy("id").collect()
    assert [(row.vector, row.id) for row in rows] == [([index, 1.0], index) for index in range(3)]


def test_a_frame_keeps_its_version(spark, tmp_path, counted):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": [1, 2]}), uri)
    frame = alance.spark.map_batches(spark, uri, counted, COUNTS)
    lance.write_dataset(pa.table({"id": [3]}), uri, mode="append")
    assert [row.rows for row in frame.collect()] == [2]


def test_a_task_that_fails_is_run_again(spark, table, tmp_path):
    mark = str(tmp_path / "failed")

    def failing(batches):
        for batch in batches:
            if 20_500 in batch.column("id").to_pylist() and not os.path.exists(mark):
                open(mark, "w").close()
                raise ValueError("failed once")
            yield batch.select(["id"])

    frame = alance.spark.map_batches(spark, table, failing, "id long", columns=["id"])
    assert sorted(row.id for row in frame.collect()) == live()
    assert os.path.exists(mark)


def test_an_empty_table_and_wrong_input(spark, table, tmp_path, counted):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": pa.array([], pa.int64())}), uri)
    assert alance.spark.map_batches(spark, uri, counted, COUNTS).collect() == []
    with pytest.raises(NotFoundError):
        alance.spark.map_batches(spark, f"{uri}-none", counted, COUNTS)
    for options in ({"nonsense": 1}, {"columns": ["none"]}, {"filter": "id >"}):
        with pytest.raises(InvalidInputError):
            alance.spark.map_batches(spark, table, counted, COUNTS, **options)
    with pytest.raises(Exception, match="the function gave columns"):
        alance.spark.map_batches(spark, table, counted, "missing long").collect()


def test_a_model_is_loaded_once_a_worker(spark, table, tmp_path):
    def load():
        (tmp_path / f"{os.getpid()}-{len(list(tmp_path.iterdir()))}").touch()
        return 3

    def scored(batches):
        model = alance.spark.once(f"model of {tmp_path}", load)
        for batch in batches:
            values = pc.multiply(batch.column("id"), model)
            yield pa.record_batch({"value": values, "pid": [os.getpid()] * batch.num_rows})

    frame = alance.spark.map_batches(
        spark, table, scored, "value long, pid long", columns=["id"], partition_bytes=10_000
    )
    assert frame.rdd.getNumPartitions() > 4
    rows = frame.collect()
    assert sorted(row.value for row in rows) == [3 * number for number in live()]
    loads = [int(path.name.partition("-")[0]) for path in tmp_path.iterdir()]
    assert len(loads) == len(set(loads))
    assert {row.pid for row in rows} <= set(loads)

"""Every type of Spark: to a table, back, and as pylance and pandas see it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import lance
import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

import alance.spark

UTC = dt.UTC
BIG = 10**37

COLUMNS: list[tuple[str, t.DataType, list[object]]] = [
    ("flag", t.BooleanType(), [True, False, None]),
    ("byte", t.ByteType(), [-128, 127, None]),
    ("short", t.ShortType(), [-32768, 32767, None]),
    ("integer", t.IntegerType(), [-(2**31), 2**31 - 1, None]),
    ("long", t.LongType(), [-(2**63), 2**63 - 1, None]),
    ("float", t.FloatType(), [1.5, float("-inf"), None]),
    ("double", t.DoubleType(), [0.1, float("inf"), None]),
    ("small_decimal", t.DecimalType(9, 2), [Decimal("-1234567.89"), Decimal("0.01"), None]),
    ("decimal", t.DecimalType(38, 0), [Decimal(BIG), Decimal(-BIG), None]),
    ("text", t.StringType(), ["", "grüße \U0001f600", None]),
    ("bytes", t.BinaryType(), [b"", b"\x00\xff", None]),
    ("day", t.DateType(), [dt.date(1, 1, 1), dt.date(2026, 2, 28), None]),
    (
        "instant",
        t.TimestampType(),
        [dt.datetime(2026, 3, 29, 1, 30, 0, 7), dt.datetime(1970, 1, 1), None],
    ),
    (
        "local",
        t.TimestampNTZType(),
        [dt.datetime(2026, 3, 29, 2, 30, 0, 1), dt.datetime(1066, 1, 1), None],
    ),
    (
        "span",
        t.DayTimeIntervalType(),
        [dt.timedelta(days=-3, microseconds=1), dt.timedelta(0), None],
    ),
    ("clock", t.TimeType(6), [dt.time(23, 59, 59, 999_999), dt.time(0), None]),
    ("numbers", t.ArrayType(t.IntegerType()), [[1, None, 3], [], None]),
    ("nested", t.ArrayType(t.ArrayType(t.StringType())), [[["a"], None, []], [], None]),
    ("map", t.MapType(t.StringType(), t.LongType()), [{"a": 1, "b": None}, {}, None]),
    (
        "struct",
        t.StructType().add("x", t.LongType()).add("y", t.ArrayType(t.DoubleType())),
        [Row(x=1, y=[0.5]), Row(x=None, y=None), None],
    ),
    (
        "structs",
        t.ArrayType(t.StructType().add("k", t.StringType()).add("d", t.DecimalType(5, 1))),
        [[Row(k="a", d=Decimal("1.5")), None], [], None],
    ),
]


@pytest.fixture(scope="module")
def uri(spark, tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("types") / "table")
    schema = t.StructType([t.StructField(name, kind) for name, kind, _ in COLUMNS])
    rows = list(zip(*(values for _, _, values in COLUMNS), strict=True))
    alance.spark.write(spark.createDataFrame(rows, schema).coalesce(1), uri)
    return uri


@pytest.mark.parametrize(("name", "kind", "values"), COLUMNS, ids=[column[0] for column in COLUMNS])
def test_spark_reads_what_it_wrote(whole, name, kind, values):
    schema, rows = whole
    assert schema[name].dataType == kind
    assert [row[name] for row in rows] == values


@pytest.fixture(scope="module")
def whole(spark, uri):
    frame = alance.spark.read(spark, uri)
    return frame.schema, frame.collect()


def test_pylance_and_pandas_read_the_same(uri):
    table = lance.dataset(uri).to_table()
    lance.dataset(uri).validate()
    by_name = {name: table[name].to_pylist() for name, _, _ in COLUMNS}
    for name, kind, values in COLUMNS:
        if isinstance(kind, t.StructType):
            items = [value and value.asDict() for value in values]
        elif name == "structs":
            items = [value and [two and two.asDict() for two in value] for value in values]
            items[1] = []
        elif isinstance(kind, t.MapType):
            items = [value and list(value.items()) for value in values]
            items[1] = []
        elif name == "instant":  # naive ones are of the zone of this process
            items = [value and value.astimezone(UTC) for value in values]
        else:
            items = values
        assert by_name[name] == items, name
    frame = table.select(["long", "text", "double"]).to_pandas()
    assert frame["text"].tolist()[:2] == ["", "grüße \U0001f600"]
    assert int(frame["long"].isna().sum()) == 1


def test_variant_and_void(spark, tmp_path):
    uri = str(tmp_path / "table")
    frame = spark.sql("""select parse_json('{"a": [1, 2]}') as v, null as n, 1 as i""")
    alance.spark.write(frame.drop("n"), uri)
    (row,) = alance.spark.read(spark, uri).collect()
    assert row.v.toPython() == {"a": [1, 2]} if hasattr(row.v, "toPython") else row.v


def test_null_variants_are_read_wherever_they_are(spark, tmp_path):
    uri = str(tmp_path / "table")
    frame = spark.sql(
        """
        select id, v, array(v, null) as list, map('k', v) as map, named_struct('v', v) as s
        from (select id, if(id = 1, null, parse_json(cast(id as string))) as v from range(0, 3))
        """
    )
    alance.spark.write(frame.coalesce(1), uri)
    content = alance.spark.read(spark, uri)
    assert content.schema["v"].dataType == frame.schema["v"].dataType
    shown = content.selectExpr(
        "id", "to_json(v) as v", "to_json(list[0]) as list", "size(list) as length",
        "to_json(map['k']) as map", "to_json(s.v) as s",
    )  # fmt: skip
    assert [tuple(row) for row in shown.orderBy("id").collect()] == [
        (0, "0", "0", 2, "0", "0"),
        (1, None, None, 2, None, None),
        (2, "2", "2", 2, "2", "2"),
    ]


def test_a_null_in_a_member_that_has_none_is_an_error(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"s": [{"x": 1}, None, {"x": None}]}), uri)
    reader = spark.read.format("alance").schema("s struct<x: bigint not null>")
    with pytest.raises(Exception, match="a null in 'x', which has none"):
        reader.load(uri).collect()
    rows = reader.option("limit", 2).load(uri).collect()
    assert [row.s and row.s.x for row in rows] == [1, None]


def test_appends_are_cast_to_the_columns_of_the_table(spark, tmp_path):
    """A table of pylance with types that Spark has not gets rows of Spark."""
    uri = str(tmp_path / "table")
    rows = pa.table(
        {
            "u8": pa.array([1], pa.uint8()),
            "u64": pa.array([2**64 - 1], pa.uint64()),
            "vector": pa.array([[1.0, 2.0]], pa.list_(pa.float32(), 2)),
            "large": pa.array(["a"], pa.large_string()),
            "nanos": pa.array([1], pa.timestamp("ns", "UTC")),
        }
    )
    lance.write_dataset(rows, uri)
    frame = spark.sql(
        "select 255 as u8, cast(18446744073709551615 as decimal(20, 0)) as u64, "
        "array(3f, 4f) as vector, 'b' as large, timestamp'1970-01-01 00:00:01 UTC' as nanos"
    )
    alance.spark.write(frame, uri, mode="append")
    table = lance.dataset(uri).to_table()
    assert table.schema == lance.dataset(uri, version=1).schema
    assert table["u8"].to_pylist() == [1, 255]
    assert table["u64"].to_pylist() == [2**64 - 1] * 2
    assert table["vector"].to_pylist() == [[1, 2], [3, 4]]
    assert table["nanos"].cast(pa.int64()).to_pylist() == [1, 10**9]
    back = alance.spark.read(spark, uri).collect()
    assert [item.vector for item in back] == [[1, 2], [3, 4]]


def test_values_that_do_not_fit_leave_the_table_as_it_was(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"u8": pa.array([1], pa.uint8())}), uri)
    with pytest.raises(Exception, match="u8"):
        alance.spark.write(spark.sql("select 256 as u8"), uri, mode="append")
    with pytest.raises(Exception, match="the rows have string, the table uint8"):
        alance.spark.write(spark.sql("select '1' as u8"), uri, mode="append")
    with pytest.raises(Exception, match="'other': not among the columns of the table"):
        alance.spark.write(spark.sql("select 1 as other"), uri, mode="append")
    assert lance.dataset(uri).version == 1


def test_rows_of_all_batches_have_their_nested_columns(spark, tmp_path):
    """Spark closes the columns of each batch before it asks for the next one."""
    path = str(tmp_path / "nested")
    frame = spark.sql(
        "SELECT id, named_struct('a', id, 'b', array(named_struct('c', id))) s, "
        "map(id, named_struct('d', id)) m, array(array(id)) l FROM range(0, 100, 1, 1)"
    )
    frame.write.format("alance").save(path)
    stored = spark.read.format("alance").option("batch_size", 10).load(path)
    assert stored.rdd.getNumPartitions() == 1
    assert stored.collect() == frame.collect()

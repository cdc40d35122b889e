"""The connector: what it takes over, and that it gives what Spark would."""

from __future__ import annotations

import datetime
import decimal
import functools
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

import alance.spark
import alance.sync
from tests.spark.cluster import POLL_S
from tests.spark.spark_cases import killing_python

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

UTC = datetime.UTC
NUM_ROWS = 20_000


def plan_of(frame: DataFrame) -> str:
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-128, -1, 0, 1, 127, None]),
    "small": (pa.uint8(), [0, 1, 128, 255, None]),
    "whole": (pa.int64(), [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1, None]),
    "huge": (pa.uint64(), [0, 1, 2**63, 2**64 - 1, None]),
    "float": (pa.float32(), [math.nan, -math.nan, -0.0, 0.0, 0.1, 1.0, math.inf, -math.inf, None]),
    "double": (pa.float64(), [math.nan, -0.0, 0.0, 0.1, 5e-324, math.inf, -math.inf, None]),
    "half": (pa.float16(), [math.nan, -0.0, 0.0, 0.5, 1.0, None]),
    "text": (
        pa.string(),
        ["", "a", "A", "a%", "a_b", "é", "e\u0301", "\U0001f600", "'", "\\", None],
    ),
    "flag": (pa.bool_(), [True, False, None]),
    "day": (
        pa.date32(),
        [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31), None],
    ),
    "price": (
        pa.decimal128(12, 2),
        [decimal.Decimal(text) for text in ("-1.00", "0.00", "0.01", "1.10", "9999999999.99")]
        + [None],
    ),
    "moment": (
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(1, 1, 2, tzinfo=UTC),
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime.datetime(2024, 3, 10, 7, tzinfo=UTC),
            None,
        ],
    ),
    "fine": (pa.timestamp("ns"), [0, 1, 999, 1000, 1001, -1, None]),
    "clock": (pa.timestamp("us"), [datetime.datetime(2024, 3, 10, 2, 30), None]),
}


@pytest.fixture(scope="module")
def kinds(spark, tmp_path_factory) -> tuple[DataFrame, DataFrame]:
    """Rows of all values of all types, in a table and in Spark's memory."""
    count = 40
    columns = {"id": pa.array(range(count))}
    for name, (kind, values) in VALUES.items():
        columns[name] = pa.array([values[i % len(values)] for i in range(count)], kind)
    columns["inner"] = pa.array(
        [None if i % 5 == 0 else {"x": None if i % 3 == 0 else i} for i in range(count)],
        pa.struct([("x", pa.int32())]),
    )
    uri = str(tmp_path_factory.mktemp("kinds") / "table")
    alance.sync.write_dataset(pa.table(columns), uri, max_rows_per_file=count // 2)
    frame = alance.spark.read(spark, uri, partition_bytes=1)  # two tasks
    memory = spark.createDataFrame(frame.collect(), frame.schema).coalesce(1).cache()
    return frame, memory


NAMES = sorted(VALUES)
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "safe")


@st.composite
def comparisons(draw: st.DrawFn) -> Column:
    name = draw(st.sampled_from(NAMES))
    column = F.col(name)
    if draw(st.integers(0, 5)) == 0:
        return column.isNull()
    values = [value for value in VALUES[name][1] if value is not None]
    if name == "fine":
        values = [datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 0, 0, 0, 1)]
    if name in ("text", "flag") and draw(st.booleans()):
        if name == "flag":
            return column
        ask = draw(st.sampled_from(["startswith", "endswith", "contains"]))
        return getattr(column, ask)(draw(st.sampled_from(values)))
    if draw(st.integers(0, 4)) == 0:
        return column.isin(draw(st.lists(st.sampled_from(values), min_size=1, max_size=3)))
    value = F.lit(draw(st.sampled_from(values)))
    ask = draw(st.sampled_from(COMPARISONS))
    if ask == "safe":
        return column.eqNullSafe(value)
    return getattr(column, f"__{ask}__")(value)


predicates = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        st.builds(lambda a: ~a, inner),
        st.builds(lambda a, b: a & b, inner, inner),
        st.builds(lambda a, b: a | b, inner, inner),
    ),
    max_leaves=4,
)


def test_filters_keep_the_rows_that_spark_would(spark, kinds):
    """Many predicates in one job; Spark evaluates them over its own copy of the rows."""
    frame, memory = kinds
    seen = []

    @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(predicates, min_size=40, max_size=40))
    def collect(several):
        seen.extend(several)

    collect()
    several = seen[:40]

    union = None
    for number, predicate in enumerate(several):
        part = frame.where(predicate).select(F.lit(number).alias("number"), "id")
        union = part if union is None else union.union(part)
    assert union is not None
    entries: dict[int, set[int]] = {number: set() for number in range(len(several))}
    for row in union.collect():
        entries[row.number].add(row.id)
    assert plan_of(union).count(" Filter ") < len(several) * 0.8
    answers = memory.select("id", *several).collect()
    for number, predicate in enumerate(several):
        expected = {row[0] for row in answers if row[number + 1]}
        assert entries[number] == expected, str(predicate)


@pytest.mark.parametrize(
    ("text", "is_pushed"),
    [
        ("tiny > 3", True),
        ("inner.x = 4", True),
        ("float >= 0.1", True),
        ("double >= 0.1D", True),
        ("price = 1.10", True),
        ("moment < timestamp'2024-03-10 07:00:00Z'", True),
        ("day in (date'1969-12-31')", True),
        ("text like 'a%'", True),
        ("flag", True),
        ("huge > 1", False),
        ("fine > timestamp_ntz'1970-01-01'", False),
        ("length(text) = 1", False),
        ("rlike(text, 'a')", False),
    ],
)
def test_what_is_taken_over(kinds, text, is_pushed):
    frame, memory = kinds
    request = frame.where(text)
    assert (" Filter " not in plan_of(request)) == is_pushed
    assert request.count() == memory.where(text).count()


def test_counts_least_and_greatest_values(kinds):
    frame, memory = kinds
    counted = frame.groupBy().count()
    assert "LocalTableScan" in plan_of(counted)
    assert counted.collect()[0][0] == 40
    names = ["tiny", "small", "whole", "text", "day", "price", "moment", "clock", "fine"]
    aggregates = [fn(name) for name in names for fn in (F.min, F.max, F.count)]
    request = frame.where("id > 3").agg(F.count("*"), *aggregates)
    assert "count(*)" in plan_of(request)
    assert request.collect() == memory.where("id > 3").agg(F.count("*"), *aggregates).collect()
    nothing = frame.where("id > 99").agg(F.count("*"), F.min("tiny"))
    assert [tuple(row) for row in nothing.collect()] == [(0, None)]
    assert frame.agg(F.max("double"), F.max("float")).collect()[0][0] is not None
    assert "max" not in plan_of(frame.agg(F.max("double"))).split("BatchScan")[1].split("pushed")[0]


SORTED = sorted(VALUES.keys() - {"huge", "fine"})
orders = st.lists(
    st.tuples(st.sampled_from(SORTED), st.sampled_from(["asc", "desc"]), st.booleans()),
    min_size=1,
    max_size=3,
    unique_by=lambda key: key[0],
)


def test_first_rows_in_an_order_are_those_of_spark(spark, kinds):
    """Many orders in one job, of tasks that each give their first rows."""
    frame, memory = kinds
    seen = []

    @settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(st.tuples(orders, st.integers(1, 12)), min_size=25, max_size=25))
    def collect(several):
        seen.extend(several)

    collect()

    def firsts(rows):
        parts = []
        for number, (keys, limit) in enumerate(seen[:25]):
            by = [
                getattr(F.col(name), f"{way}_nulls_{'first' if first else 'last'}")()
                for name, way, first in keys
            ]
            names = F.concat_ws(
                "|", *(F.coalesce(F.col(key[0]).cast("string"), F.lit("-")) for key in keys)
            )
            part = rows.orderBy(*by).limit(limit)
            parts.append(part.select(F.lit(number).alias("number"), names.alias("keys")))
        return functools.reduce(lambda a, b: a.union(b), parts)

    request = firsts(frame)
    assert plan_of(request).count(" by: [") >= 25
    assert sorted(map(tuple, request.collect())) == sorted(map(tuple, firsts(memory).collect()))


@pytest.mark.parametrize(
    ("order", "is_pushed"),
    [
        ("double DESC NULLS FIRST, text", True),
        ("fine", False),
        ("length(text)", False),
        ("inner.x", False),
    ],
)
def test_which_orders_are_taken_over(spark, kinds, order, is_pushed):
    kinds[0].createOrReplaceTempView("kinds")
    rows = spark.sql(f"SELECT id, text FROM kinds WHERE tiny > -1 ORDER BY {order} LIMIT 3")
    assert (", first 3 by: [" in plan_of(rows)) == is_pushed
    many = spark.sql(f"SELECT id FROM kinds ORDER BY {order} LIMIT 20000")
    rest = spark.sql(f"SELECT id FROM kinds WHERE length(text) = 1 ORDER BY {order} LIMIT 3")
    assert " by: [" not in plan_of(many) + plan_of(rest)


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("connector") / "table")
    rows = pa.table(
        {
            "id": pa.array(range(NUM_ROWS)),
            "text": [f"row {number}" for number in range(NUM_ROWS)],
            "wide": [b"x" * 200] * NUM_ROWS,
        }
    )
    lance.write_dataset(rows, uri, max_rows_per_file=NUM_ROWS // 2)
    return uri


def test_only_columns_of_the_query_are_read(spark, table):
    frame = spark.read.format("alance").load(table)
    plan = plan_of(frame.where("id < 5").select("text"))
    assert "BatchScan alance[text#" in plan
    assert [row.text for row in frame.where("id < 2").select("text").collect()] == [
        "row 0",
        "row 1",
    ]
    assert [bytes(row.wide) for row in frame.limit(1).select("wide").collect()] == [b"x" * 200]
    assert len(frame.select(F.lit(1)).collect()) == NUM_ROWS


def test_first_rows_are_read_of_the_columns_of_their_order_first(spark, table):
    """Each task reads one row of a wide column of 4 MB."""
    frame = spark.read.format("alance").load(table)
    request = frame.orderBy(F.desc("id")).limit(2)
    assert [row.id for row in request.collect()] == [NUM_ROWS - 1, NUM_ROWS - 2]
    scan = request._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() <= 4


@pytest.mark.parametrize(
    ("master", "cores", "threads"),
    [
        ("local", None, 1),
        ("local[3]", None, 3),
        ("local[2, 4]", "9", 2),
        ("local[*]", None, 16),
        ("local-cluster[2, 5, 1024]", None, 5),
        ("spark://host:7077", "4", 4),
        ("spark://host:7077", None, 16),
    ],
)
def test_the_process_decodes_for_as_many_tasks_as_run_at_once(spark, master, cores, threads):
    jvm = spark._jvm
    conf = jvm.org.apache.spark.SparkConf(False).set("spark.master", master)
    if cores is not None:
        conf.set("spark.executor.cores", cores)
    assert jvm.alance.spark.AlanceReaderFactory.cores(conf, 16) == threads


def test_small_tables_are_broadcast(spark, table):
    frame = spark.read.format("alance").load(table)
    joined = spark.range(1_000_000).join(frame.select("id"), "id")
    assert "BroadcastHashJoin" in plan_of(joined)


@pytest.mark.parametrize("keys", [[3, 7, 15_000], ["row 5", "row 19999"]])
def test_keys_of_a_join_s_filtered_side_are_a_filter_of_the_scan(spark, table, keys):
    frame = spark.read.format("alance").load(table)
    name = "id" if isinstance(keys[0], int) else "text"
    others = [-1] if isinstance(keys[0], int) else ["-"]
    retained, dropped = ([(key, flag) for key in part] for part, flag in ((keys, 1), (others, 0)))
    side = spark.createDataFrame(retained + dropped, [name, "flag"]).where("flag + 0 = 1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")  # whose plans hide their leaves
    joined = frame.join(F.broadcast(side), name)
    assert "RuntimeFilters: [dynamicpruningexpression" in plan_of(joined)
    assert sorted(row[name] for row in joined.collect()) == sorted(keys)
    scan = joined._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numOutputRows").value() == len(keys)


def test_a_filter_of_a_running_query_is_of_its_own_scan_alone(spark, table):
    frame = spark.read.format("alance").load(table)
    side = spark.createDataFrame([(3, 1), (-1, 0)], ["id", "flag"]).where("flag + 0 = 1")
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    joined = frame.join(F.broadcast(side), "id").select(frame.id)
    pair = joined.union(frame.select("id")).union(joined)
    assert "RuntimeFilters: [dynamicpruningexpression" in plan_of(pair)
    assert pair.count() == 1 + frame.count() + 1


def test_errors_of_tasks_have_their_text(spark, tmp_path):
    uri = str(tmp_path / "table")
    lance.write_dataset(pa.table({"id": list(range(9))}), uri)
    frame = spark.read.format("alance").load(uri)
    (file,) = (tmp_path / "table" / "data").iterdir()
    file.write_bytes(b"")
    with pytest.raises(Exception, match=rf"(?s)CorruptFileError.*{file.name}"):
        frame.collect()


@pytest.fixture(scope="module")
def nested(tmp_path_factory) -> str:
    uri = str(tmp_path_factory.mktemp("nested") / "table")
    inner = [None if n % 5 == 0 else {"p": f"p{n}", "q": None if n % 3 else n} for n in range(900)]
    columns = {
        "id": pa.array(range(900)),
        "s": pa.array([None if n % 4 == 3 else {"x": n, "inner": inner[n]} for n in range(900)]),
        "items": pa.array([[{"x": n, "inner": inner[n]}] * (n % 3) for n in range(900)]),
        "entries": pa.array(
            [[("k", {"u": n, "v": -n})] for n in range(900)],
            pa.map_(pa.string(), pa.struct([("u", pa.int64()), ("v", pa.int64())])),
        ),
    }
    alance.sync.write_dataset(pa.table(columns), uri, data_storage_version="2.2")
    return uri


@pytest.mark.parametrize(
    ("columns", "schema"),
    [
        (["s.x"], "s:struct<x:bigint>"),
        (["s.inner.q", "id"], "struct<inner:struct<q:bigint>>"),
        (["s.inner is null", "s.x"], "struct<x:bigint,inner:struct<p:string,q:bigint>>"),
        (["items.x"], "array<struct<x:bigint>>"),
        (["items.inner.p", "items.x"], "array<struct<x:bigint,inner:struct<p:string>>>"),
        (["entries['k'].v", "s.inner.p"], "struct<inner:struct<p:string>>"),
    ],
)
def test_only_the_members_that_a_query_uses_are_read(spark, nested, columns, schema):
    frame = spark.read.format("alance").load(nested)
    request = frame.where("s.x > 40 or s is null").orderBy("id").selectExpr(*columns)
    scanned = request._jdf.queryExecution().optimizedPlan().collectLeaves().head().schema()
    assert schema in scanned.catalogString()
    pruning = "spark.sql.optimizer.nestedSchemaPruning.enabled"
    rows = request.collect()
    spark.conf.set(pruning, "false")
    try:
        whole = spark.read.format("alance").load(nested)
        plain = whole.where("s.x > 40 or s is null").orderBy("id").selectExpr(*columns)
        assert rows == plain.collect()
    finally:
        spark.conf.unset(pruning)


ENDS = ("whole", "text", "day", "price", "moment", "clock", "fine", "small", "double", "float")


@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_least_and_greatest_values_by_statistics_are_those_of_spark(spark, tmp_path, data):
    """Rows enough for several zones, some of them deleted, beside Spark without push-down."""
    columns = {"id": pa.array(range(NUM_ROWS))}
    for name in ENDS:
        kind, values = VALUES[name]
        runs = data.draw(st.lists(st.sampled_from(values), min_size=1, max_size=4))
        columns[name] = pa.array([runs[i * len(runs) // NUM_ROWS] for i in range(NUM_ROWS)], kind)
    uri = str(tmp_path / "table")
    dataset = alance.sync.write_dataset(
        pa.table(columns), uri, mode="overwrite", max_rows_per_file=NUM_ROWS - 3000
    )
    start = data.draw(st.integers(0, NUM_ROWS))
    dataset.delete(f"id >= {start} AND id < {start + 9000}")
    frame = spark.read.format("alance").load(uri)
    names = [name for name in ENDS if name not in ("double", "float")]
    aggregates = [fn(name) for name in names for fn in (F.min, F.max, F.count)]
    request = frame.agg(F.count("*"), *aggregates)
    assert "min(day)" in plan_of(request).split("BatchScan")[1]
    plain = frame.where("length(text) >= 0 or text is null")
    assert request.collect() == plain.agg(F.count("*"), *aggregates).collect()
    floats = [fn(name) for name in ("double", "float") for fn in (F.min, F.max)]
    assert str(frame.agg(*floats).collect()) == str(plain.agg(*floats).collect())


def test_the_python_process_that_is_killed_while_rows_are_read(spark, tmp_path):
    uri, mark = str(tmp_path / "table"), tmp_path / "killed"
    rows = pa.table({"id": range(60_000), "wide": [b"x" * 500] * 60_000})
    alance.sync.write_dataset(rows, uri)
    frame = spark.read.format("alance").option("batch_size", 1000).load(uri)
    read = frame.mapInArrow(killing_python(mark), frame.schema)
    counted = read.agg(F.count("*"), F.countDistinct("id"), F.sum("id")).collect()
    assert mark.exists()
    assert tuple(counted[0]) == (60_000, 60_000, sum(range(60_000)))
    assert frame.where("id < 5").count() == 5


def test_a_task_that_waits_for_a_python_that_does_not_start_is_cancelled(
    spark, tmp_path, monkeypatch
):
    """The session's Python hangs as long as a file is there; the tasks are planned before."""
    uri, hangs, begun = str(tmp_path / "table"), tmp_path / "hangs", tmp_path / "begun"
    alance.spark.write(spark.range(20), uri)
    program = tmp_path / "python3"
    program.write_text(
        f"#!/bin/sh\necho $$ > {begun}\n[ -e {hangs} ] && exec sleep 3600\n"
        f'exec {sys.executable} "$@"\n'
    )
    program.chmod(0o755)
    session, context = spark.newSession(), spark.sparkContext
    with monkeypatch.context() as patch:
        patch.setattr(context, "pythonExec", str(program))
        alance.spark.register(session)
    rows = session.read.format("alance").load(uri)._jdf.queryExecution().toRdd()
    assert rows.getNumPartitions() > 0
    hangs.touch()
    end_process(begun)

    errors: list[Exception] = []

    def count() -> None:
        context.setJobGroup("hangs", "waits for Python", interruptOnCancel=True)
        try:
            rows.count()
        except Exception as error:
            errors.append(error)

    job = threading.Thread(target=count)
    job.start()
    while not (begun.exists() and is_in("alance.spark.Server.address", context)):
        time.sleep(POLL_S)
    context.cancelJobGroup("hangs")
    job.join()
    assert "cancelled" in str(errors[0])
    while is_in("alance.spark.Server.address", context):
        time.sleep(POLL_S)
    hangs.unlink()
    end_process(begun)
    assert rows.count() == 20


def end_process(path: Path) -> None:
    """Kill the process whose id a file has, and wait until it is gone; the file goes, too."""
    pid = int(path.read_text())
    path.unlink()
    os.kill(pid, signal.SIGKILL)
    while Path(f"/proc/{pid}").exists():
        time.sleep(POLL_S)


def is_in(method: str, context: Any) -> bool:
    """True if a thread of Spark's JVM is in a method."""
    threads = context._jvm.org.apache.spark.util.Utils.getThreadDump()
    return any(method in thread.toString() for thread in threads)

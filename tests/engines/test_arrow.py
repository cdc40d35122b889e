"""Datasets as pyarrow datasets and as lazy frames of Polars: same rows, and what is read."""

from __future__ import annotations

import asyncio
import datetime as dt
import math
import pickle
from typing import TYPE_CHECKING, Any

import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pytest
from polars import col

import alance
import alance.sync

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from alance.testing.lab import Lab

ROWS = 1000
DAY = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
ODD = {0: math.nan, 1: -math.nan, 2: 0.0, 3: -0.0}
MIXED = pa.table(
    {
        "id": range(ROWS),
        "x": [None if n % 9 == 0 else n % 7 for n in range(ROWS)],
        "f": [ODD.get(n % 100, n / 2) for n in range(ROWS)],
        "rare": [{555: math.nan, 666: -math.nan}.get(n, float(n)) for n in range(ROWS)],
        "small": pa.array([n / 10 for n in range(ROWS)], pa.float32()),
        "text": [f"text {n}" for n in range(ROWS)],
        "kind": pa.array([["a", "b", None][n % 3] for n in range(ROWS)]).dictionary_encode(),
        "nested": [{"a": n, "b": n / 2} for n in range(ROWS)],
        "date": [DAY.date() + dt.timedelta(n) for n in range(ROWS)],
        "time": [DAY + dt.timedelta(hours=n) for n in range(ROWS)],
        "price": pa.array([n * 5 for n in range(ROWS)]).cast(pa.decimal128(22, 2)),
    }
)


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> alance.sync.Dataset:
    uri = tmp_path_factory.mktemp("mixed") / "t"
    return alance.sync.write_dataset(MIXED, uri, max_rows_per_file=100)


@pytest.mark.parametrize(
    "query",
    [
        lambda frame: frame.head(10).filter(col("x") == 3),
        lambda frame: frame.filter(col("x") == 3).head(2),
        lambda frame: frame.head(5).select("id"),
        lambda frame: frame.slice(150, 3).select("text"),
        lambda frame: frame.tail(2),
        lambda frame: frame.filter(col("f") > 480).select("id"),
        lambda frame: frame.filter(col("f") <= 3),
        lambda frame: frame.filter(col("f").is_nan()).select("id"),
        lambda frame: frame.filter(col("f").is_in([3.0, math.nan])).select("id"),
        lambda frame: frame.filter(col("f").is_in([0.0, 3.0])).select("id"),
        lambda frame: frame.filter(~col("f").is_in([0.0, 3.0]) & (col("id") < 20)).select("id"),
        lambda frame: frame.filter(col("rare") > 5000).select("id"),
        lambda frame: frame.filter(col("rare") < 5).select("id"),
        lambda frame: frame.filter(col("small") == 0.1).select("id"),
        lambda frame: frame.filter(col("small") != 0.1).select("id"),
        lambda frame: frame.filter(col("text").str.starts_with("text 9") & (col("id") < 200)),
        lambda frame: frame.filter(col("kind") == "b").select("id", "kind"),
        lambda frame: frame.filter(col("nested").struct.field("a") == 4),
        lambda frame: frame.filter(col("date") > dt.date(2022, 9, 20)).select("date"),
        lambda frame: frame.filter(col("time") > DAY + dt.timedelta(hours=990)),
        lambda frame: frame.filter(col("price") > 4990).select("price"),
        lambda frame: frame.filter(col("x").is_null() & (col("id") < 20)),
        lambda frame: frame.filter(~(col("x") > 2) & (col("id") < 20)),
        lambda frame: frame.filter(col("x").ne_missing(2)).select(pl.len()),
        lambda frame: frame.filter(col("id") + col("x") > 990).select("text"),
        lambda frame: frame.filter(col("id") > 1.5, col("id") < 2**70).select("id"),
        lambda frame: frame.select(pl.len()),
        lambda frame: frame.group_by("x").agg(col("id").sum()).sort("x"),
    ],
)
def test_a_lazy_frame_gives_what_one_of_the_rows_gives(
    mixed: alance.sync.Dataset, query: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> None:
    expected = query(pl.DataFrame(MIXED).lazy()).collect()
    assert query(mixed.to_polars_lazy()).collect().equals(expected)
    assert query(mixed.to_polars_lazy()).collect(engine="streaming").equals(expected)


@pytest.fixture
async def wide(lab: Lab) -> AsyncIterator[alance.Dataset]:
    """A table of 24 MB on the store, of which the footers are known."""
    rng = np.random.default_rng(7)
    async with alance.Session() as session:
        place = {"uri": "s3://lab/engines-wide", "storage_options": lab.lance_options()}
        for part in range(3):
            ids = np.arange(250_000) + part * 250_000
            columns = {"id": ids, "day": ids // 25_000, "a": rng.random(len(ids))}
            columns |= {"b": rng.random(len(ids))}
            mode: Any = "append" if part else "overwrite"
            dataset = await alance.write_dataset(columns, mode=mode, session=session, **place)
        await dataset.to_table(["id"], filter="id < 0", use_stats=False)
        yield dataset


def check_bytes(seen: dict[str, int]) -> None:
    """Reads of parts take a small part of the bytes that all takes."""
    assert seen["none"] == 0
    assert seen["head"] < seen["all"] / 20
    assert seen["few"] < seen["all"] / 15
    assert seen["narrow"] < seen["all"] / 2


async def test_polars_reads_the_columns_rows_and_limits_that_it_needs(
    wide: alance.Dataset, lab: Lab
) -> None:
    frame = await wide.to_polars_lazy()
    seen: dict[str, int] = {}
    for name, query in {
        "head": frame.head(5),
        "narrow": frame.select(col("a").sum()),
        "few": frame.filter(col("day") == 3).select("a"),
        "none": frame.filter(col("id") > 10_000_000),
        "all": frame.select(pl.all().sum()),
    }.items():
        with lab.recording() as recording:
            await query.collect_async()
        seen[name] = recording.summary()["get_bytes"]
    check_bytes(seen)


async def test_pandas_reads_the_columns_rows_and_limits_that_it_needs(
    wide: alance.Dataset, lab: Lab
) -> None:
    seen: dict[str, int] = {}
    for name, (columns, options) in {
        "head": (None, {"limit": 5}),
        "narrow": (["a"], {}),
        "few": (["a"], {"filter": "day = 3"}),
        "none": (None, {"filter": "id > 10000000"}),
        "all": (None, {}),
    }.items():
        chosen: Any = options
        with lab.recording() as recording:
            frame = await wide.to_pandas(columns, **chosen)
        seen[name] = recording.summary()["get_bytes"]
        assert len(frame) == await wide.scanner(**chosen).count_rows()
    check_bytes(seen)


async def test_a_duckdb_of_ones_own_reads_the_columns_and_rows_that_it_needs(
    wide: alance.Dataset, lab: Lab
) -> None:
    """Over a pyarrow dataset, which it tells columns and filters, and no limits."""
    items = await wide.to_arrow_dataset()

    def run(query: str) -> list[Any]:
        with duckdb.connect() as connection:
            connection.register("items", items)
            return connection.sql(query).fetchall()

    seen: dict[str, int] = {}
    for name, query in {
        "narrow": "select sum(a) from items",
        "few": "select sum(a) from items where day = 3",
        "none": "select sum(a) from items where id > 10000000",
        "all": "select sum(a), sum(b), sum(id), sum(day) from items",
    }.items():
        with lab.recording() as recording:
            await asyncio.to_thread(run, query)
        seen[name] = recording.summary()["get_bytes"]
    assert seen["none"] == 0
    assert seen["few"] < seen["all"] / 15
    assert seen["narrow"] < seen["all"] / 2


async def test_sql_reads_the_columns_and_rows_that_it_needs(wide: alance.Dataset, lab: Lab) -> None:
    seen: dict[str, int] = {}
    for name, query in {
        "narrow": "select sum(a) from dataset",
        "few": "select sum(a) from dataset where day = 3",
        "none": "select sum(a) from dataset where id > 10000000",
        "all": "select sum(a), sum(b), sum(id), sum(day) from dataset",
    }.items():
        with lab.recording() as recording:
            await wide.sql(query)
        seen[name] = recording.summary()["get_bytes"]
    assert seen["none"] == 0
    assert seen["few"] < seen["all"] / 15
    assert seen["narrow"] < seen["all"] / 2


@pytest.mark.parametrize(
    "condition",
    [
        "kind = 'b'",
        "kind is null and id < 10",
        "price > 4990",
        "small = 0.1::float",
        "small > 99.8",
        "f > 480",
        "f = 'nan'",
        "f is not null and f < 3",
        "time > timestamptz '2020-02-10 00:00:00+00'",
        "date between '2020-01-05' and '2020-01-07'",
        "nested.a = 4 or nested.b > 498",
        "x in (1, 2) and id < 20",
        "x is distinct from 2 and id < 20",
        "not (x > 2) and text >= 'text 99'",
        "text like 'text 99%'",
        "id % 100 = 3",
    ],
)
def test_duckdb_finds_the_rows_that_it_finds_in_memory(
    mixed: alance.sync.Dataset, condition: str
) -> None:
    query = f"select id, kind, nested, f from items where {condition} order by id"
    with duckdb.connect() as connection:
        connection.register("items", MIXED)
        expected = connection.sql(query).to_arrow_table()
        connection.register("items", mixed.to_arrow_dataset())
        rows = connection.sql(query).to_arrow_table()
    assert repr(rows.to_pylist()) == repr(expected.to_pylist())  # a NaN is no NaN's equal
    assert len(expected)


def test_a_pyarrow_dataset_gives_the_rows_of_scans(mixed: alance.sync.Dataset) -> None:
    table = mixed.to_arrow_dataset()
    assert isinstance(table, pads.Dataset)
    theirs = lance.dataset(mixed.uri)
    assert table.schema == mixed.schema
    assert table.count_rows() == ROWS
    condition = (pads.field("x") == 3) & (pads.field("id") < 90)
    assert table.count_rows(condition) == theirs.count_rows(condition)
    assert table.to_table(["id"], condition).equals(theirs.to_table(["id"], filter=condition))
    assert table.to_table(columns={"y": "id * 2"}, filter="id < 3")["y"].to_pylist() == [0, 2, 4]
    assert table.head(7, columns=["id"]).equals(theirs.head(7, columns=["id"]))
    assert table.take([5, 3], columns=["id"])["id"].to_pylist() == [5, 3]
    assert sum(batch.num_rows for batch in table.to_batches(batch_size=30)) == ROWS
    reader = table.scanner(columns=["x", "id"], filter=condition, use_threads=False).to_reader()
    assert reader.schema.names == ["x", "id"]
    assert reader.read_all().num_rows == theirs.count_rows(condition)
    assert "version=1" in repr(table)
    with pytest.raises(alance.InvalidInputError, match="nope"):
        table.to_table(columns=["nope"])


def test_datafusion_hands_columns_and_filters_down(lab: Lab) -> None:
    import datafusion

    options = lab.lance_options()
    rows = pa.table({"id": range(200_000), "v": np.random.default_rng(1).random(200_000)})
    dataset = alance.sync.write_dataset(
        rows, "s3://lab/datafusion", storage_options=options, max_rows_per_file=50_000
    )
    context = datafusion.SessionContext()
    context.register_dataset("t", dataset.to_arrow_dataset())
    with lab.recording() as seen:
        answer = context.sql("select count(*) as n, min(id) as least from t where id >= 150000")
        assert answer.to_pylist() == [{"n": 50_000, "least": 150_000}]
    assert seen.summary()["get_bytes"] < rows["v"].nbytes / 2
    plan = context.sql("select v from t where id >= 150000").execution_plan().display_indent()
    assert "filter_expr=(id >= 150000)" in plan
    assert "projection=[v" in plan


def test_a_fragment_is_read_as_datafusion_does(mixed: alance.sync.Dataset) -> None:
    table = mixed.to_arrow_dataset()
    condition = (pads.field("x") == 3) & (pads.field("id") < 90)
    (fragment,) = table.get_fragments(filter=condition)
    scanner = fragment.scanner(table.schema, columns=["id"], filter=condition, batch_size=1000)
    assert scanner.projected_schema.names == ["id"]
    ids = [number for batch in scanner.to_batches() for number in batch["id"].to_pylist()]
    assert ids == [n for n in range(90) if n % 7 == 3 and n % 9]
    counted = fragment.scanner(table.schema, columns=[]).to_batches()
    assert sum(batch.num_rows for batch in counted) == ROWS


def test_blobs_are_their_bytes_to_engines() -> None:
    field = pa.field("image", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table([[1, 2], [b"a", b"bc"]], schema=pa.schema([("id", pa.int64()), field]))
    dataset = alance.sync.write_dataset(rows, "memory://engine-blobs")
    query = "select id, octet_length(image) as n from dataset order by id"
    assert dataset.sql(query)["n"].to_pylist() == [1, 2]


@pytest.mark.parametrize(
    "use",
    [
        lambda table: table.children,
        lambda table: table.filter(pads.field("id") > 1),
        lambda table: table.join(pads.dataset(MIXED), "id"),
        lambda table: table.join_asof(pads.dataset(MIXED), "id", "x", 1),
        lambda table: table.replace_schema(MIXED.schema),
        lambda table: table.sort_by("id"),
        pickle.dumps,
    ],
)
def test_what_is_not_done_is_refused(
    mixed: alance.sync.Dataset, use: Callable[[Any], object]
) -> None:
    with pytest.raises(alance.UnsupportedError, match="ArrowDataset"):
        use(mixed.to_arrow_dataset())


@pytest.mark.parametrize(
    "use",
    [
        lambda table: pads.Scanner.from_dataset(table).to_table(),
        lambda table: pads.dataset([table]).to_table(),
        lambda table: pads.UnionDataset(table.schema, [table]).count_rows(),
        lambda table: pads.write_dataset(table, "nowhere", format="parquet"),
    ],
)
def test_readers_of_arrow_that_go_around_it_fail(
    mixed: alance.sync.Dataset, use: Callable[[Any], object]
) -> None:
    """Neither a crash of the process nor rows that are not there."""
    with pytest.raises(
        (OSError, TypeError, alance.UnsupportedError), match=r"ArrowDataset|ArrowScanner"
    ):
        use(mixed.to_arrow_dataset())


async def test_frames_are_the_rows(mixed: alance.sync.Dataset) -> None:
    dataset = await alance.dataset(mixed.uri)
    plain = ["id", "x", "text", "date"]
    rows = await dataset.to_table(plain, filter="id < 50")
    frame = await dataset.to_pandas(plain, filter="id < 50")
    assert frame.equals(rows.to_pandas())
    assert (await dataset.to_polars(filter="x = 3")).equals(
        pl.DataFrame(MIXED).filter(col("x") == 3)
    )
    scanner = dataset.scanner(["id"], limit=3)
    assert (await scanner.to_pandas())["id"].tolist() == [0, 1, 2]
    assert (await scanner.to_polars())["id"].to_list() == [0, 1, 2]
    blocking = await asyncio.to_thread(mixed.to_pandas, plain, filter="id < 50")
    assert blocking.equals(frame)

"""SQL by DuckDB over datasets: the same rows as over pylance's, and no more read than it needs."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from concurrent.futures import wait
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import duckdb
import lance
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance.engines import bridge as bridges
from alance.engines import sql
from alance.engines.bridge import Bridge
from alance.engines.duckdb_plan import Pushed
from tests.lifecycle.test_cancelled_writes import FREE_S

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from alance.testing.lab import Lab

QUERIES = [
    "select l_orderkey, l_tax from dataset where l_quantity > 49 and l_tax < 0.03 order by all",
    "select l_returnflag, count(*), sum(l_quantity) from dataset group by all order by all",
    "select count(*) from dataset",
    "select count(*) from dataset where l_comment like '%furious%'",
    "select l_orderkey from dataset where l_shipmode in ('AIR', 'RAIL') order by all limit 20",
    "select count(*) as n, count(1) + 1 as m from dataset where l_quantity > 49 and l_tax < 0.03",
    "select count(*) from dataset where l_orderkey < 0",
    "select count(*) from dataset having count(*) > 1",
    "select count(*) filter (where l_tax < 0.03), count(l_tax) from dataset",
    "select count(*) from (select l_tax from dataset limit 17 offset 5)",
    "with t as (from dataset limit 5 offset 2) select l_orderkey + 1, 2 from t limit 3 offset 1",
    "select l_orderkey from dataset where l_quantity > 49 and l_tax < 0.03 limit 9 offset 3",
    "select l_orderkey from dataset where l_orderkey % 7 = 1 and l_tax < 0.03 limit 4",
    "select l_orderkey from dataset where l_comment like '%furious%' limit 2",
    "select distinct l_returnflag from dataset order by all limit 2",
    "select count(*) from dataset a, dataset b where a.l_orderkey = b.l_orderkey limit 1",
    "select l_orderkey from dataset limit null offset 59990",
    "select count(*) from dataset; select count(*) as n from dataset where l_tax < 0.03",
    "from dataset limit 0",
    "select max(a.l_orderkey) from dataset a join dataset b on a.l_orderkey = b.l_partkey",
]

LONG = "select count(*) from dataset a, dataset b, dataset c where a.l_tax + b.l_tax > c.l_tax"


@pytest.fixture
def uri(golden: Path) -> str:
    return str(golden / "lineitem.lance")


@pytest.mark.parametrize("query", QUERIES)
async def test_a_query_gives_what_it_gives_over_pylance(uri: str, query: str) -> None:
    rows = await (await alance.dataset(uri)).sql(query)
    with duckdb.connect() as connection:
        connection.register("dataset", lance.dataset(uri).to_table())
        assert rows.equals(connection.sql(query).to_arrow_table())


async def test_values_and_other_tables_are_given_beside_the_text(uri: str) -> None:
    dataset = await alance.dataset(uri)
    names = pa.table({"flag": ["R", "N"], "name": ["returned", "none"]})
    query = """select name, count(*) as n from dataset join names on l_returnflag = flag
        where l_quantity > $least and l_orderkey in (select l_orderkey from older) group by all
        order by all"""
    older = await dataset.checkout_version(1)
    rows = await dataset.sql(query, params={"least": 49}, tables={"names": names, "older": older})
    keys = (await older.to_table(["l_orderkey"]))["l_orderkey"]
    flags = await dataset.to_table(
        ["l_returnflag"], filter="l_quantity > 49 AND l_orderkey IN :keys", params={"keys": keys}
    )
    counts = {
        item["values"]: item["counts"] for item in flags["l_returnflag"].value_counts().to_pylist()
    }
    assert rows.to_pylist() == [
        {"name": name, "n": counts[flag]}
        for flag, name in (("N", "none"), ("R", "returned"))
        if counts[flag]
    ]
    rows = await dataset.sql("select count(*) as n from dataset where l_orderkey = ?", params=[1])
    assert rows["n"].to_pylist() == [await dataset.count_rows("l_orderkey = 1")]


@asynccontextmanager
async def opened(lab: Lab) -> AsyncGenerator[alance.Dataset, None]:
    """The table of a lab, in a session of its own that knows its footers."""
    async with alance.Session() as session:
        uri, options = "s3://lab/lineitem.lance", lab.lance_options()
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        await dataset.sql("select max(l_linenumber) from dataset")
        yield dataset


async def test_only_the_columns_and_rows_that_a_query_needs_are_read(lineitem_lab: Lab) -> None:
    async with opened(lineitem_lab) as dataset:
        seen = {}
        for name, query in {
            "narrow": "select max(l_tax) from dataset",
            "few": "select l_comment from dataset where l_orderkey = 7",
            "none": "select l_comment from dataset where l_orderkey < 0",
            "all": "select * from dataset",
        }.items():
            with lineitem_lab.recording() as recording:
                await dataset.sql(query)
            seen[name] = recording.summary()["get_bytes"]
    assert seen["narrow"] < seen["all"] / 8
    assert seen["few"] < seen["all"] / 8
    assert seen["none"] <= seen["few"]


async def test_limits_and_counts_read_no_more_than_they_need(lineitem_lab: Lab) -> None:
    """DuckDB 2.0 tells a dataset neither; its plan does."""
    async with opened(lineitem_lab) as dataset:
        seen = {}
        for query, params in {
            "select l_comment from dataset": None,
            "select l_comment from dataset limit 10": None,
            "select l_comment || '!' from dataset limit $n offset 5": {"n": 10},
            "select count(*) as n from dataset": None,
            "select count(*) from dataset where l_tax = 0.03 limit 1": None,
            "select max(l_tax) from dataset": None,
        }.items():
            with lineitem_lab.recording() as recording:
                table = await dataset.sql(query, params=params)
            seen[query] = recording.summary().get("get_bytes", 0)
            if query.startswith("select count(*) as n"):
                assert table["n"].to_pylist() == [await dataset.count_rows()]
    whole, first, later, counted, filtered, tax = seen.values()
    assert first < whole / 2  # the small page of one of three files, whole
    assert later == 0
    assert counted == 0
    assert filtered <= tax * 1.2


async def test_a_result_is_a_stream_that_ends_its_query_when_it_is_closed(uri: str) -> None:
    dataset = await alance.dataset(uri)
    query = "select a.l_comment from dataset a cross join dataset b"
    async with aclosing(dataset.sql_batches(query)) as batches:
        async for batch in batches:
            assert batch.schema.names == ["l_comment"]
            break
    await no_threads()
    empty = [batch async for batch in dataset.sql_batches("select l_tax from dataset where false")]
    assert [batch.num_rows for batch in empty] == [0]
    assert empty[0].schema.names == ["l_tax"]
    assert (await dataset.sql("select l_tax from dataset where false")).num_rows == 0


async def no_threads() -> None:
    """Wait until the threads of queries have ended."""
    for thread in threading.enumerate():
        if thread.name.startswith("alance-sql"):
            await asyncio.to_thread(thread.join)


@pytest.mark.parametrize("query", ["select count(*) from range(1000000000000000)", LONG, "wait"])
async def test_a_query_that_is_cancelled_is_free_at_once(uri: str, lab: Lab, query: str) -> None:
    dataset = await alance.dataset(uri)
    tables = {}
    if query == "wait":  # for a store that does not answer
        place = {"uri": "s3://lab/silent", "storage_options": lab.lance_options()}
        tables["silent"] = await alance.write_dataset(pa.table({"x": range(9)}), **place)
        lab.config(faults=[{"action": "stall"}])
        query = "select * from silent"
    running = asyncio.create_task(dataset.sql(query, tables=tables))
    await asyncio.sleep(0.2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(FREE_S):
            await running
    await no_threads()


async def test_a_query_that_is_left_before_duckdb_runs_it_ends(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning, remaining = threading.Event(), threading.Event()

    def pushed(*_: object) -> Pushed:
        planning.set()
        remaining.wait()
        return Pushed()

    monkeypatch.setattr(sql, "pushed", pushed)
    dataset = await alance.dataset(uri)
    endless = "select count(*) from range(1000000000000000)"
    running = asyncio.create_task(dataset.sql(endless))
    await asyncio.to_thread(planning.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    remaining.set()
    async with asyncio.timeout(120):  # the query itself takes days
        await no_threads()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"query": "selec 1"}, "syntax error"),
        ({"query": "select nope from dataset"}, "nope"),
        ({"query": "select * from other"}, "other"),
        ({"query": " -- nothing"}, "expected a query"),
        ({"query": "select * from dataset where l_tax = ?", "params": [1, 2]}, "sql: "),
        ({"query": "select l_comment::int from dataset"}, "convert"),
        ({"query": "select 1", "tables": {"dataset": 1}}, "name of the dataset"),
        ({"query": "select 1", "tables": {"other": 1}}, "'other'"),
        ({"query": "select 1", "settings": {"nope": 1}}, "nope"),
        ({"query": "select 1", "settings": [1]}, "settings: list, expected a mapping"),
        ({"query": "select 1", "tables": [1]}, "tables: list, expected a mapping"),
        ({"query": "select ?", "params": 5}, "params: int, expected a sequence"),
        ({"query": None}, "sql: NoneType, expected a text"),
        ({"query": "select * from read_text('/etc/hostname')"}, "/etc/hostname"),
        ({"query": "copy dataset to 'rows.csv'"}, "rows.csv"),
    ],
)
async def test_what_cannot_be_run_is_told(
    uri: str, arguments: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(alance.InvalidInputError, match=words):
        await (await alance.dataset(uri)).sql(**arguments)
    assert not os.listdir()


async def test_settings_let_a_query_read_files(uri: str, tmp_path: Path) -> None:
    (tmp_path / "flags.csv").write_text("flag\nR\n")
    query = f"""select count(*) as n from dataset
        where l_returnflag in (select flag from read_csv('{tmp_path}/flags.csv'))"""
    dataset = await alance.dataset(uri)
    rows = await dataset.sql(query, settings={"enable_external_access": True, "threads": 1})
    assert rows["n"].to_pylist() == [await dataset.count_rows("l_returnflag = 'R'")]


async def test_queries_that_change_nothing_use_one_database(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dicts: list[dict[str, Any]] = []
    connect = duckdb.connect

    def counted(*, config: dict[str, Any]) -> duckdb.DuckDBPyConnection:
        dicts.append(config)
        return connect(config=config)

    dataset = await alance.dataset(uri)
    await dataset.sql("select 1")
    await no_threads()  # a query that ends gives its database back in its thread
    monkeypatch.setattr(duckdb, "connect", counted)
    bounds = {"memory_limit": "100MB", "threads": 1}
    for settings in (None, None, bounds, bounds):
        for _ in range(3):
            await dataset.sql("select count(*) from dataset where l_tax < 0.03", settings=settings)
            await no_threads()
    assert [config.get("memory_limit") for config in dicts] == ["100MB"]
    for _ in range(2):
        await dataset.sql("select 1", settings={"enable_external_access": True})
        await no_threads()
    assert len(dicts) == 3


@pytest.mark.parametrize(
    ("query", "trace"),
    [
        ("create table left_behind as select 1 as x", "select * from left_behind"),
        ("create view left_behind as select 1 as x; select 1", "select * from left_behind"),
        ("create macro left_behind() as 1", "select left_behind()"),
        ("set variable x = 7", "select getvariable('x') = 7 or error('not set')"),
        ("set global threads = 7", "select current_setting('threads') = 7 or error('not set')"),
        ("attach ':memory:' as left_behind", "use left_behind"),
        ("select * from given", "select * from given"),
    ],
)
async def test_a_query_leaves_nothing_to_the_next(uri: str, query: str, trace: str) -> None:
    dataset = await alance.dataset(uri)
    await dataset.sql("select 1")
    await no_threads()
    await dataset.sql(query, tables={"given": pa.table({"x": [1]})})
    await no_threads()
    with pytest.raises(alance.InvalidInputError):
        await dataset.sql(trace)


FORKING = """
import os, sys
import alance.sync as alance
count = "select count(*) as n from dataset"
dataset = alance.dataset(sys.argv[1])
rows = dataset.sql(count).num_rows
child = os.fork()
if child == 0:
    os._exit(dataset.sql(count).num_rows)
_, status = os.waitpid(child, 0)
sys.exit(10 * rows + os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_queries_with_a_database_of_its_own(uri: str) -> None:
    ran = subprocess.run([sys.executable, "-c", FORKING, uri], timeout=120, check=False)
    assert ran.returncode == 11


async def test_damage_is_told_as_a_scan_tells_it(uri: str, tmp_path: Path) -> None:
    rows = pa.table({"x": range(1000)})
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    (file,) = (tmp_path / "t" / "data").iterdir()
    file.unlink()
    with pytest.raises(alance.NotFoundError):
        await dataset.sql("select max(x) from dataset")


async def test_a_trace_sees_what_a_query_reads(uri: str) -> None:
    dataset = await alance.dataset(uri)
    with alance.trace() as recorder:
        await dataset.sql("select max(l_tax) from dataset")
    assert recorder.totals.num_bytes > 0


async def test_an_engine_on_the_loop_is_refused(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = await (await alance.dataset(uri)).to_arrow_dataset()
    with pytest.raises(alance.InvalidInputError, match="event loop"):
        table.to_table(columns=["l_tax"])
    monkeypatch.setattr(bridges, "STALL_S", 0.2)
    with duckdb.connect() as connection:
        connection.register("items", table)
        with pytest.raises(duckdb.Error, match="event loop"):
            connection.sql("select sum(l_tax) from items").fetchall()


async def test_a_busy_loop_is_not_one_that_waits_for_its_query(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, has_stalled = asyncio.get_running_loop(), threading.Event()

    def keep_busy(_: Bridge) -> bool:
        loop.call_soon_threadsafe(has_stalled.wait, 60)  # ahead of what the query asks for
        return False

    def counted(futures: Any, timeout_s: float) -> Any:
        waited = wait(futures, timeout_s)
        if not waited.done:
            has_stalled.set()
        return waited

    dataset = await alance.dataset(uri)
    monkeypatch.setattr(Bridge, "_is_here", keep_busy)
    monkeypatch.setattr(bridges, "wait", counted)
    monkeypatch.setattr(bridges, "STALL_S", 0.01)
    rows = await dataset.sql("select max(l_tax) as most from dataset")
    assert rows["most"][0].as_py() is not None
    assert has_stalled.is_set()


def count_queries(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the number of queries under way at the start of each query."""
    under_way: set[object] = set()
    counts = []
    enter, leave = sql._Query.__enter__, sql._Query.__exit__

    def begin(query: sql._Query) -> sql._Query:
        under_way.add(query)
        counts.append(len(under_way))
        return enter(query)

    def end(query: sql._Query, *error: object) -> None:
        under_way.discard(query)
        leave(query, *error)

    monkeypatch.setattr(sql._Query, "__enter__", begin)
    monkeypatch.setattr(sql._Query, "__exit__", end)
    return counts


def test_few_of_a_crowd_of_queries_run_at_once(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count_queries(monkeypatch)

    async def ask() -> list[int]:
        dataset = await alance.dataset(uri)
        calls = [dataset.sql(f"select {n} as n") for n in range(3 * sql.QUERIES_OF_A_LOOP)]
        return [rows["n"][0].as_py() for rows in await asyncio.gather(*calls)]

    for _ in range(2):  # loops of their own
        assert asyncio.run(ask()) == [*range(3 * sql.QUERIES_OF_A_LOOP)]
    assert max(counts) == sql.QUERIES_OF_A_LOOP


def test_crowds_of_queries_keep_no_loop_that_has_ended(uri: str) -> None:
    async def ask() -> weakref.ref[asyncio.AbstractEventLoop]:
        dataset = await alance.dataset(uri)
        await asyncio.gather(*(dataset.sql("select 1") for _ in range(2 * sql.QUERIES_OF_A_LOOP)))
        return weakref.ref(asyncio.get_running_loop())

    ended = asyncio.run(ask())
    asyncio.run(ask())
    gc.collect()
    assert ended() is None


async def test_streams_that_are_read_half_keep_no_query_waiting(uri: str) -> None:
    dataset = await alance.dataset(uri)
    streams = [dataset.sql_batches("select 1 as n") for _ in range(2 * sql.QUERIES_OF_A_LOOP)]
    for stream in streams:
        assert (await anext(stream))["n"].to_pylist() == [1]
    assert (await dataset.sql("select 2 as n"))["n"].to_pylist() == [2]
    for stream in streams:
        await stream.aclose()  # type: ignore[attr-defined]  # a generator


def test_a_loop_that_has_ended_is_told(uri: str) -> None:
    async def start() -> Bridge:
        return Bridge()

    bridge = asyncio.run(start())
    with pytest.raises(alance.InvalidInputError, match="ended"):
        bridge.run(lambda: asyncio.sleep(0))


def test_blocking_code_has_the_same(uri: str) -> None:
    items = alance.sync.dataset(uri)
    query = "select count(*) as n from dataset where l_tax > 0.07"
    expected = items.count_rows("l_tax > 0.07")
    assert items.sql(query)["n"].to_pylist() == [expected]
    batches = items.sql_batches("select l_tax from dataset")
    assert sum(batch.num_rows for batch in batches) == len(items)
    pair = "select count(*) as n from dataset semi join other using (l_orderkey)"
    assert items.sql(pair, tables={"other": items})["n"].to_pylist() == [len(items)]


def test_duckdb_reads_variables_that_are_datasets(uri: str) -> None:
    items = alance.sync.dataset(uri)
    pushed = items.to_arrow_dataset()
    expected = [(items.count_rows("l_tax > 0.07"),)]
    assert duckdb.sql("select count(*) from pushed where l_tax > 0.07").fetchall() == expected
    assert duckdb.sql("select count(*) from items where l_tax > 0.07").fetchall() == expected
    del pushed


async def test_json_columns_are_json_in_results_as_in_those_of_pylance(tmp_path: Path) -> None:
    values = pa.array(['{"a":1}', None, "[2]"], pa.json_())
    inside = pa.StructArray.from_arrays([values], ["x"])
    path = str(tmp_path / "t.lance")
    rows = pa.table({"id": [1, 2, 3], "j": values, "s": inside, "t": ["a", "b", "c"]})
    dataset = await alance.write_dataset(rows, path)
    result = await dataset.sql("SELECT j, t, j AS k, s FROM dataset ORDER BY id")
    assert result.schema.types == [pa.json_(), pa.string(), pa.json_(), inside.type]
    assert result["k"].to_pylist() == ['{"a":1}', None, "[2]"]
    assert result["s"].to_pylist() == [{"x": '{"a":1}'}, {"x": None}, {"x": "[2]"}]
    (theirs,) = lance.dataset(path).sql("SELECT j, t FROM dataset").build().to_batch_records()
    assert theirs.schema.types == result.schema.types[:2]
    nested = await dataset.sql("SELECT [j] AS l, MAP {'a': j} AS m, [id] AS n FROM dataset")
    assert nested.schema.field("l").type.value_type == pa.json_()
    assert nested.schema.field("m").type.item_type == pa.json_()
    assert nested["l"].to_pylist() == [['{"a":1}'], [None], ["[2]"]]
    assert nested["m"].to_pylist()[0] == [("a", '{"a":1}')]
    empty = await dataset.sql("SELECT j FROM dataset WHERE id > 9")
    assert (empty.num_rows, empty.schema.types) == (0, [pa.json_()])
    again = await alance.write_dataset(result.select(["j"]), tmp_path / "again.lance")
    assert lance.dataset(again.uri).schema.field("j").type == pa.json_()

"""Engines over a table: SQL by DuckDB, and Polars, each with the datasets of both sides."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any, Final

import duckdb
import polars as pl

from benchmarks.cases import PERCENT, Case, Opened

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa


def their_sql(opened: Opened, query: str) -> pa.Table:
    """Run a query in DuckDB on pylance's dataset, which is a pyarrow dataset.

    A connection is opened for each query, as for alance.
    """
    with duckdb.connect() as connection:
        connection.register("dataset", opened.theirs)
        return connection.sql(query).to_arrow_table()


def sql(name: str, query: str, target: float | None = None, *, remote: bool = False) -> Case:
    """Return the case of a query by DuckDB."""
    return Case(
        name,
        "lineitem",
        lambda opened: opened.ours.sql(query),
        lambda opened: their_sql(opened, query),
        target,
        remote,
    )


def polars(name: str, ask: Callable[[pl.LazyFrame], pl.LazyFrame], *, remote: bool = False) -> Case:
    """Return the case of a lazy frame of Polars."""

    async def ours(opened: Opened) -> Any:
        return await ask(await opened.ours.to_polars_lazy()).collect_async()

    def theirs(opened: Opened) -> Any:
        return ask(pl.scan_pyarrow_dataset(opened.theirs)).collect()

    return Case(name, "lineitem", ours, theirs, None, remote)


def percent(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return one column of the rows for which `PERCENT` is true."""
    shipped = pl.col("l_shipdate")
    within = shipped.is_between(date(1994, 1, 1), date(1994, 1, 26), closed="left")
    return frame.filter(within).select("l_extendedprice")


SUM: Final = f"select sum(l_extendedprice) from dataset where {PERCENT}"
GROUPS: Final = (
    "select l_returnflag, l_linestatus, sum(l_quantity), count(*) from dataset group by all"
)

ENGINES: Final = [
    case
    for remote in (False, True)
    for case in (
        sql("sql, sum over a filter of 1 %", SUM, remote=remote),
        sql("sql, groups of 3 columns", GROUPS, remote=remote),
        polars("polars, filter 1 %, one column", percent, remote=remote),
        polars("polars, first 5 rows", lambda frame: frame.head(5), remote=remote),
    )
]

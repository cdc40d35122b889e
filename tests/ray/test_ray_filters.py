"""Filters of Ray Data that a scan applies: fewer bytes, and the rows that Ray would keep."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from functools import reduce
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
import ray
from ray.data.expressions import col, lit, udf

import alance.ray
import alance.sync
from alance.testing.lab import Lab
from tests.ray.conftest import rows

if TYPE_CHECKING:
    from pathlib import Path

    from ray.data.expressions import Expr

NUM_ROWS = 20_000


def test_a_filter_of_ray_reads_what_a_filter_of_the_table_reads() -> None:
    with Lab() as lab:
        uri, options = "s3://lab/table", lab.lance_options()
        alance.sync.write_dataset(rows(NUM_ROWS), uri, storage_options=options)
        alance.sync.dataset(uri, storage_options=options).create_scalar_index("id", "BTREE")

        sql = "id >= 12000 and id < 12010"

        def cost(expr: Expr | None = None, **arguments: str) -> tuple[list[int], int]:
            with lab.recording() as seen:
                read = alance.ray.read_table(uri, storage_options=options, **arguments)
                read = read if expr is None else read.filter(expr=expr)
                ids = [row["id"] for row in read.select_columns(["id", "v"]).take_all()]
            return sorted(ids), seen.summary()["get_bytes"]

        cost(filter=f"{sql} ")  # reads a page of the index
        by_table, table_bytes = cost(filter=sql)
        by_ray, ray_bytes = cost((col("id") >= 12_000) & (col("id") < 12_010))
        _, all_bytes = cost()
    assert by_ray == by_table == list(range(12_000, 12_010))
    assert ray_bytes <= table_bytes < all_bytes / 20


def _leaf(random: Random) -> Expr:
    name, values = random.choice(
        [
            ("id", [0, 7, 399, 10**30]),
            ("f", [0.0, 1.5, -1, math.nan]),
            ("s", ["", "a", "ab"]),
            ("kind", ["a", "zz"]),
            ("b", [True, False]),
            ("t", [datetime(2024, 1, 2), datetime(2024, 1, 2, tzinfo=UTC)]),
        ]
    )
    column, value = col(name), random.choice(values)
    if random.random() < 0.2:
        return column.is_null()
    if random.random() < 0.2:
        return column.not_in([value]) if random.random() < 0.5 else column.is_in([value])
    if name == "s" and random.random() < 0.3:
        return column.str.starts_with(value)
    if random.random() < 0.1:
        return column == lit(None)
    operators = ["__gt__", "__lt__", "__ge__", "__le__", "__eq__", "__ne__"]
    return getattr(column, random.choice(operators))(value)


def _filter(random: Random) -> Expr:
    def joined(left: Expr, right: Expr) -> Expr:
        return left & right if random.random() < 0.5 else left | right

    leaves = (_leaf(random) for _ in range(random.choice([1, 1, 2, 3])))
    expr = reduce(joined, leaves)
    return ~expr if random.random() < 0.3 else expr


def _rows_of_ray(table: pa.Table, expr: Expr) -> list[int] | str:
    from ray.data._internal.planner.plan_expression.expression_evaluator import eval_expr

    try:
        mask = eval_expr(expr, table)
        return table.filter(mask)["row"].to_pylist()
    except (pa.ArrowException, OverflowError, TypeError) as error:
        return repr(error)


def test_rows_are_those_that_ray_itself_keeps(tmp_path: Path) -> None:
    random, count = Random(38), 400
    texts = [None, "", "a", "ab", "b"]
    floats = [None, math.nan, 0.0, -0.0, 1.5, -1.0, math.inf]
    days = [None, datetime(2024, 1, 1), datetime(2024, 1, 2)]
    table = pa.table(
        {
            "row": range(count),
            "id": pa.array([None if n % 9 == 0 else n for n in range(count)]),
            "f": pa.array(random.choices(floats, k=count)),
            "s": pa.array(random.choices(texts, k=count)),
            "kind": pa.array(random.choices(texts, k=count)).dictionary_encode(),
            "b": pa.array(random.choices([None, True, False], k=count)),
            "t": pa.array(random.choices(days, k=count), pa.timestamp("us")),
        }
    )
    uri = str(tmp_path / "table")
    dataset = alance.sync.write_dataset(table, uri, max_rows_per_file=100)
    dataset.create_scalar_index("f", "BTREE")
    source = _source(alance.ray.read_table(uri))
    dataset, pushed = alance.sync.dataset(uri), 0
    for _ in range(150):
        expr = _filter(random)
        applied = source.apply_predicate(expr)
        if applied is not source:
            pushed += 1
            scanned = dataset.to_table(["row"], filter=applied._options.filter)["row"].to_pylist()
            assert scanned == _rows_of_ray(table, expr), expr
    assert pushed > 75


def _source(read: ray.data.Dataset) -> ray.data.Datasource:
    return read._logical_plan.dag.datasource


def test_filters_that_a_scan_cannot_apply_are_those_of_ray(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    alance.sync.write_dataset(rows(3000), uri)

    @udf(return_dtype=ray.data.datatype.DataType.bool())
    def is_even(values: pa.Array) -> pa.Array:
        return pa.compute.equal(pa.compute.bit_wise_and(values, 1), 0)

    def count(expr: Expr, **arguments: object) -> int:
        return len(alance.ray.read_table(uri, **arguments).filter(expr=expr).take_all())

    assert count(is_even(col("id")) & (col("id") < 100)) == 50
    assert count(col("id") + 1 < 100) == 99
    assert count(col("price") < 100) == 400
    assert count(col("id") < 100, filter="id >= 90") == 10
    assert count(col("id") < 100, nearest={"column": "v", "q": [100.0] * 4, "k": 9}) == 4
    read = alance.ray.read_table(uri, ["id"])
    with pytest.raises(Exception, match="large"):
        read.filter(expr=col("large") == "text 1").take_all()
    renamed = read.rename_columns({"id": "n"}).filter(expr=col("n") > 2990)
    assert sorted(row["n"] for row in renamed.take_all()) == list(range(2991, 3000))
    limited = alance.ray.read_table(uri, override_num_blocks=1).limit(10)
    assert limited.filter(expr=col("id") > 2000).count() == 0
    twice = read.filter(expr=col("id") > 5).filter(expr=col("id") < 9)
    assert twice.count() == 3
    assert twice.schema().names == ["id"]
    assert read.filter(expr=col("id") < 0).take_all() == []

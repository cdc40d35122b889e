"""Filters as pyarrow expressions ask indices, too; parts that are not understood are left out."""

from __future__ import annotations

import datetime as dt
import math

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.expr.arrow import ArrowCondition
from alance.expr.arrow_parts import implied_by
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import plan_scan
from tests.indices.index_cases import by_pylance, rows

field = pc.field
USED: dict[str, pc.Expression] = {
    "equal": field("i") == 5,
    "between": (field("i") >= 100) & (field("i") < 120),
    "turned": pa.scalar(10) > field("i"),
    "list": field("i").isin([1, 2, 3]),
    "text": field("s") == "v3",
    "or": (field("i") == 3) | (field("s") == "v7"),
    "not": ~((field("i") > 20) | field("i").is_null()),
    "not equal": (field("i") != 5) & (field("i") < 20),
    "null": field("i").is_null() & (field("s") == "v1"),
    "valid": field("i").is_valid() & (field("i") < 3),
    "prefix": pc.starts_with(field("s"), "v11"),
    "zeros": field("f") == 0.0,
    "floats": field("f") < 5.0,
    "not of floats": ~(field("f") < 5.0),
    "nan": (field("f") == math.nan) | (field("i") == 8),
    "boolean": field("b") & (field("s") == "v2"),
    "time": field("t") == pa.scalar(dt.datetime(2024, 1, 1, 0, 20), pa.timestamp("us")),
    "time in seconds": field("t") == pa.scalar(dt.datetime(2024, 1, 1, 0, 20), pa.timestamp("s")),
    "time in nanoseconds": field("t") < pa.scalar(dt.datetime(2024, 1, 1, 1), pa.timestamp("ns")),
    "beside what is not known": (field("i") == 12) & (field("id") * 2 > 100),
}
SCANNED: dict[str, pc.Expression] = {
    "other column": field("id") == 5,
    "computed": field("i") + 1 == 8,
    "or with what is not known": (field("i") == 12) | (field("id") + 1 == 4),
    "rounded": field("i") == 5.0,
    "list with null": field("i").isin([1, None]),
    "null literal": field("i") == pa.scalar(None, pa.int64()),
    "nan as null": field("f").is_null(nan_is_null=True),
}


@pytest.mark.parametrize("name", [*USED, *SCANNED])
async def test_a_pyarrow_expression_gets_the_rows_of_a_scan(
    tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    base = tmp_path_factory.getbasetemp() / "expressions"
    if not base.exists():
        by_pylance(base)
    dataset = await alance.dataset(base)
    condition = {**USED, **SCANNED}[name]
    table = await dataset.to_table(["id"], filter=condition)
    assert table.equals(await dataset.to_table(["id"], filter=condition, use_scalar_index=False))
    assert table.num_rows or name in ("null literal",)
    plan = await plan_scan(dataset._snapshot, ["id"], ScanOptions(filter=condition))
    assert bool(plan.index_lines) == (name in USED), plan.index_lines


@pytest.mark.parametrize("name", [*USED, *SCANNED])
def test_what_is_implied_is_true_wherever_the_expression_is(name: str) -> None:
    table = rows(3_000)
    condition = {**USED, **SCANNED}[name]
    implied = implied_by(condition, table.schema)
    assert implied is not None or name in SCANNED
    if implied is None:
        return
    (batch,) = table.combine_chunks().to_batches()
    mask = ArrowCondition(condition).with_float_order(batch.schema).evaluate(batch)
    ids = set(batch.filter(pc.fill_null(mask, False))["id"].to_pylist())
    rows_implied = batch.filter(pc.fill_null(implied.node.evaluate(batch), False))
    assert ids <= set(rows_implied["id"].to_pylist())
    if implied.is_true:
        assert ids == set(rows_implied["id"].to_pylist())


def test_names_that_look_like_something_else() -> None:
    name = "a'\nliteral: '0"
    schema = pa.schema([(name, pa.int64()), ("end: 'x'", pa.int64())])
    assert implied_by(field(name) == 5, schema) is None
    assert implied_by(field("none") == 5, schema) is None
    single = pa.schema([("end: 'x'", pa.int64())])
    implied = implied_by(field("end: 'x'") == 5, single)
    assert implied is not None
    batch = pa.RecordBatch.from_pydict({"end: 'x'": [4, 5, None]})
    assert implied.node.evaluate(batch).to_pylist() == [False, True, None]

"""Random columns, changes and filters: an index never changes what a filter gives."""

from __future__ import annotations

import asyncio
import math
import tempfile
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st
from lance.indices import IndexConfig

import alance
from alance.expr.compare import total_order
from alance.io.reading.pool import DecodePool
from alance.ops.index.values.sort import RowSorter
from tests.indices.scalar_kinds import NUMBER_KINDS, TEXT_KINDS

FLOATS = [0.0, -0.0, 1.5, -2.25, math.inf, -math.inf, math.nan, -math.nan, 1e300]
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any], list[str]]] = {
    "i": (pa.int16(), st.integers(-9, 9), ["-3", "0", "4", "9.5", "100000"]),
    "f": (
        pa.float64(),
        st.sampled_from(FLOATS),
        ["0", "1.5", "cast('NaN' as double)", "cast('inf' as double)", "-1e300"],
    ),
    "s": (
        pa.string(),
        st.sampled_from(["", "a", "ab", "é", "z" * 40, "Abc1 abéz", "xABC"]),
        ["''", "'ab'", "'zz'", "'xABC'"],
    ),
}
KINDS = st.sampled_from([*TEXT_KINDS, None])
OTHERS = [
    "id = 3",
    "isnan(f)",
    "s like 'a%'",
    "length(s) > 1",
    "i = id",
    "contains(s, 'zzz')",
    "contains(s, 'ABC')",
    "contains(s, 'b')",
    "s ilike '%abc%'",
    "regexp_like(s, 'Abc1|zz')",
    "array_has(l, 3)",
    "array_has_any(l, [1, 4, 9])",
    "array_has_all(l, [0, 2])",
]


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["leaf", "leaf", "and", "or", "not"] if depth else ["leaf"]))
    if kind == "not":
        return f"not ({draw(conditions(depth - 1))})"
    if kind != "leaf":
        return f"({draw(conditions(depth - 1))}) {kind} ({draw(conditions(depth - 1))})"
    column = draw(st.sampled_from(sorted(VALUES)))
    literals = st.sampled_from(VALUES[column][2])
    form = draw(st.sampled_from(["compare", "compare", "between", "in", "null", "other"]))
    if form == "compare":
        operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
        return f"{column} {operator} {draw(literals)}"
    if form == "between":
        return f"{column} between {draw(literals)} and {draw(literals)}"
    if form == "in":
        return f"{column} in ({draw(literals)}, {draw(literals)})"
    if form == "null":
        return f"{column} is {draw(st.sampled_from(['', 'not ']))}null"
    return draw(st.sampled_from(OTHERS))


columns = st.fixed_dictionaries(
    {
        name: st.lists(st.none() | strategy, min_size=40, max_size=40)
        for name, (_, strategy, _) in VALUES.items()
    }
    | {
        "l": st.lists(
            st.none() | st.lists(st.none() | st.integers(0, 4), max_size=3),
            min_size=40,
            max_size=40,
        )
    }
)


def table(values: dict[str, list[Any]], first: int) -> pa.Table:
    arrays = {name: pa.array(values[name], VALUES[name][0]) for name in VALUES}
    lists = pa.array(values["l"], pa.list_(pa.int32()))
    return pa.table({"id": pa.array(range(first, first + 40)), **arrays, "l": lists})


@settings(max_examples=20)
@given(
    values=columns,
    more=columns,
    kinds=st.lists(KINDS, min_size=3, max_size=3),
    is_theirs=st.booleans(),
    stable=st.booleans(),
    changes=st.lists(st.sampled_from(["delete", "update", "append", "optimize"]), max_size=3),
    filters=st.lists(conditions(), min_size=6, max_size=6),
)
def test_filters_give_the_same(
    values: dict[str, list[Any]],
    more: dict[str, list[Any]],
    kinds: list[str | None],
    is_theirs: bool,
    stable: bool,
    changes: list[str],
    filters: list[str],
) -> None:
    async def check(path: Path) -> None:
        async with alance.Session() as session:
            options = {"max_rows_per_file": 15, "enable_stable_row_ids": stable}
            theirs = lance.write_dataset(table(values, 0), path, **options)
            indexed = {
                name: kind
                for name, kind in zip(VALUES, kinds, strict=True)
                if kind is not None and (kind in NUMBER_KINDS or name == "s")
            }
            if kinds[0] is not None:
                indexed["l"] = "LABEL_LIST"
            if is_theirs:
                for name, kind in indexed.items():
                    config = IndexConfig(kind.lower(), {})
                    theirs.create_scalar_index(name, config if kind == "FM" else kind)  # type: ignore[arg-type]
            dataset = await alance.dataset(path, session=session)
            if not is_theirs:
                for name, kind in indexed.items():
                    dataset = await dataset.create_scalar_index(name, kind)
            for change in changes:
                if change == "delete":
                    dataset = await dataset.delete("id % 7 = 2 or i = 4")
                elif change == "update":
                    dataset = await dataset.update({"i": "i + 1", "s": "'ab'"}, where="id % 9 = 5")
                elif change == "append":
                    dataset = await dataset.insert(table(more, 40))
                else:
                    dataset = await dataset.optimize.optimize_indices(num_indices_to_merge=0)
            for condition in filters:
                rows = await dataset.to_table(["id"], filter=condition)
                plain = await dataset.to_table(["id"], filter=condition, use_scalar_index=False)
                assert rows.equals(plain), condition
                assert await dataset.count_rows(condition) == plain.num_rows, condition
                first = dataset._snapshot.handles[0].id
                part = {"filter": condition, "fragments": [first]}
                counted = await dataset.scanner(["id"], **part).count_rows()
                rows_of_part = await dataset.to_table(["id"], use_scalar_index=False, **part)
                assert counted == rows_of_part.num_rows, condition

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check(Path(folder) / "t"))


@settings(max_examples=15)
@given(
    values=st.lists(st.none() | st.sampled_from(FLOATS), max_size=300),
    memory=st.sampled_from([100, 1_000, 1 << 20]),
    size=st.integers(1, 90),
)
def test_sorting_in_parts_is_sorting(values: list[float | None], memory: int, size: int) -> None:
    schema = pa.schema([("values", pa.float64()), ("ids", pa.uint64())])
    arrays = [pa.array(values, pa.float64()), pa.array(range(len(values)), pa.uint64())]
    whole = pa.RecordBatch.from_arrays(arrays, schema=schema)

    async def run() -> pa.Table:
        async def batches() -> Any:
            for start in range(0, whole.num_rows, size):
                yield whole.slice(start, size)

        pool = DecodePool(2)
        try:
            output = [batch async for batch in RowSorter(pool, memory).sorted(batches(), schema)]
        finally:
            await pool.aclose()
        return pa.Table.from_batches(output, schema)

    output = asyncio.run(run())
    order = pc.array_sort_indices(total_order(whole.column(0)), null_placement="at_start")
    assert output["ids"].to_pylist() == whole.take(order).column(1).to_pylist()

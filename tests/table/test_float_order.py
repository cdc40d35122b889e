"""Every path that compares floats, for all special values, against a plain model of their order.

The same questions go to filters of tables, with and without statistics, by each kind of index of
either writer, to deletes and updates, to aggregates, orders, and engines.
"""

from __future__ import annotations

import asyncio
from functools import cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any

import duckdb
import lance
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from tests.reference.floats import NANS, OPERATORS, TYPES, array_of, rank, ranks, specials
from tests.reference.thinned import paired, thinned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from tests.reference.floats import Rank

INDICES = ["BTREE", "BITMAP", "ZONEMAP", "BLOOMFILTER"]
WRITERS = ["alance", "pylance"]
# Half floats have no bloom filter in either library.
INDEXED = [
    case
    for case in thinned([*TYPES], INDICES, WRITERS, part=3)
    if case.values[:2] != ("f2", "BLOOMFILTER")
]

# Places among the special values: NaN, -NaN, a payload, the zeros, infinities, 1.0, and null.
ALONE = (0, 1, 5, 6, 10, 13, 14, 21, 22)


def numbers(kind: str) -> list[float]:
    """The special values as Python has them: only one NaN of each sign."""
    return list(map(float, [*specials(kind)[:2], *specials(kind)[len(NANS[kind]) :]]))


def rows(kind: str) -> list[pa.Table]:
    """One table per value in `ALONE`, for fragments of tight bounds, then one of all values."""
    values = array_of(kind)
    lists = pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values)
    table = pa.table({"i": pa.array(range(len(values))), "x": values, "l": lists})
    return [*(pa.concat_tables([table.slice(place, 1)] * 3) for place in ALONE), table]


async def written(path: Path, kind: str, writer: str = "alance") -> alance.Dataset:
    for place, table in enumerate(rows(kind)):
        mode: Any = "append" if place else "create"
        if writer == "alance":
            await alance.write_dataset(table, path, mode=mode)
        else:
            lance.write_dataset(table, path, mode=mode)
    return await alance.dataset(path)


async def indexed(path: Path, kind: str, index: str, writer: str, column: str) -> alance.Dataset:
    dataset = await written(path, kind, writer)
    if writer == "alance":
        return await dataset.create_scalar_index(column, index)
    lance.dataset(path).create_scalar_index(column, index)
    return await alance.dataset(path)


@cache
def ranked(kind: str) -> list[tuple[int, Rank | None]]:
    """The `i` of each row in the order of the table, and the rank of its value."""
    table = pa.concat_tables(rows(kind))
    return [*zip(table["i"].to_pylist(), ranks(table["x"].combine_chunks()), strict=True)]


def model(kind: str, test: Callable[[Rank], bool]) -> list[int]:
    """The values of `i` of the rows for which a test is true, in the order of the table."""
    return [i for i, value in ranked(kind) if value is not None and test(value)]


async def check_filters(
    dataset: alance.Dataset,
    kind: str,
    several: Sequence[float],
    *,
    with_arrow: bool = True,
    **options: Any,
) -> None:
    async def ids_where(condition: str, *params: Any) -> list[int]:
        table = await dataset.to_table(["i"], filter=condition, params=params, **options)
        values: list[int] = table["i"].to_pylist()
        return values

    for number in several:
        own = rank(number)
        for op, test in OPERATORS.items():
            expected = model(kind, lambda r: test(r, own))  # noqa: B023
            assert await ids_where(f"x {op} ?", number) == expected, (op, number)
            if kind != "f2" and with_arrow:  # Arrow does not compare half floats
                table = await dataset.to_table(["i"], filter=test(pc.field("x"), number), **options)
                assert table["i"].to_pylist() == expected, (op, number)
        items = [number, *(2.0 + other for other in range(20))]
        assert await ids_where("x IN ?", items) == model(kind, lambda r: r == own)  # noqa: B023
        assert await ids_where("x NOT IN ?", items) == model(kind, lambda r: r != own)  # noqa: B023
        for other in (0.0, float("nan")):
            low, high = rank(other), own
            between = model(kind, lambda r: low <= r <= high)  # noqa: B023
            assert await ids_where("x BETWEEN ? AND ?", other, number) == between
            outside = model(kind, lambda r: r < low or r > high)  # noqa: B023
            assert await ids_where("x < ? OR x > ?", other, number) == outside


@pytest.mark.parametrize(("kind", "writer"), thinned([*TYPES], WRITERS))
async def test_filters_compare_floats_in_their_order(
    tmp_path: Path, kind: str, writer: str
) -> None:
    dataset = await written(tmp_path / "t", kind, writer)
    await check_filters(dataset, kind, numbers(kind))
    if writer == "alance":
        several = numbers(kind)[::2]
        await check_filters(dataset, kind, several, with_arrow=False, use_stats=False)


@pytest.mark.parametrize(("kind", "first"), thinned(["f4", "f8"], [0, 1]))
async def test_filters_by_page_statistics_of_files_of_0_1(
    tmp_path: Path, kind: str, first: int
) -> None:
    for place, table in enumerate(rows(kind)):
        mode = "append" if place else "create"
        present = table.drop_columns(["l"]).filter(pc.field("x").is_valid())  # 0.1 has no nulls
        lance.write_dataset(present, tmp_path / "t", mode=mode, data_storage_version="legacy")
    await check_filters(await alance.dataset(tmp_path / "t"), kind, numbers(kind)[first::2])


@pytest.mark.parametrize(("kind", "index", "writer"), INDEXED)
async def test_filters_by_indices(tmp_path: Path, kind: str, index: str, writer: str) -> None:
    dataset = await indexed(tmp_path / "t", kind, index, writer, "x")
    plan = await dataset.scanner(filter="x = ?", params=[1.0]).explain()
    assert "index x_idx" in str(plan)
    await check_filters(dataset, kind, numbers(kind), with_arrow=index == "BTREE")


@pytest.mark.parametrize("writer", WRITERS)
async def test_items_of_lists_by_an_index(tmp_path: Path, writer: str) -> None:
    dataset = await indexed(tmp_path / "t", "f8", "LABEL_LIST", writer, "l")
    for number in numbers("f8"):
        own = rank(number)
        for text in ("array_has(l, ?)", "array_has_any(l, [?, 7.0])"):
            for by_index in (True, False):
                table = await dataset.to_table(
                    ["i"], filter=text, params=[number], use_scalar_index=by_index
                )
                expected = model("f8", lambda r: r == own)  # noqa: B023
                assert table["i"].to_pylist() == expected, (text, number, by_index)


@pytest.mark.parametrize("index", [None, "BTREE"])
@pytest.mark.parametrize("kind", TYPES)
async def test_deletes_and_updates(tmp_path: Path, kind: str, index: str | None) -> None:
    dataset = await written(tmp_path / "t", kind)
    if index is not None:
        dataset = await dataset.create_scalar_index("x", index)
    nulls = [
        table["i"][place].as_py()
        for table in rows(kind)
        for place in range(len(table))
        if not table["x"][place].is_valid
    ]
    smaller = await dataset.delete("x < 0.5")
    assert sorted((await smaller.to_table(["i"]))["i"].to_pylist()) == sorted(
        [*model(kind, lambda r: r >= rank(0.5)), *nulls]
    )
    changed = await smaller.update({"i": "-1"}, where="x > 1e4")
    counted = len(model(kind, lambda r: r > rank(1e4)))
    assert await changed.count_rows("i = -1") == counted


@pytest.mark.parametrize("kind", TYPES)
async def test_groups_and_extremes(tmp_path: Path, kind: str) -> None:
    dataset = await written(tmp_path / "t", kind)
    values = pa.chunked_array([table["x"].combine_chunks() for table in rows(kind)])
    own = ranks(values.combine_chunks())
    groups = await dataset.aggregate({"count": "count(*)"}, ["x"])
    by_rank = dict(
        zip(ranks(groups["x"].combine_chunks()), groups["count"].to_pylist(), strict=True)
    )
    assert by_rank == {value: own.count(value) for value in own}
    assert groups.num_rows == len({*own})
    present = [value for value in own if value is not None]
    ends = await dataset.aggregate({"least": "min(x)", "most": "max(x)"})
    assert ranks(ends["least"].combine_chunks()) == [min(present)]
    assert ranks(ends["most"].combine_chunks()) == [max(present)]
    of_nan = await dataset.scanner(filter="isnan(x)").aggregate({"least": "min(x)"})
    assert ranks(of_nan["least"].combine_chunks()) == [rank(float("nan"))]


@pytest.mark.parametrize(
    ("limit", "nulls_first", "ascending", "kind"),
    paired([None, 7], [True, False], [True, False], [*TYPES]),
)
async def test_rows_are_ordered_by_floats_in_their_order(
    tmp_path: Path, kind: str, ascending: bool, nulls_first: bool, limit: int | None
) -> None:
    dataset = await written(tmp_path / "t", kind)
    own = [value for table in rows(kind) for value in ranks(table["x"].combine_chunks())]
    order = [alance.ColumnOrdering("x", ascending=ascending, nulls_first=nulls_first)]
    table = await dataset.to_table(["x"], order_by=order, limit=limit)
    present = sorted((value for value in own if value is not None), reverse=not ascending)
    nulls = [None] * own.count(None)
    expected = [*nulls, *present] if nulls_first else [*present, *nulls]
    assert ranks(table["x"].combine_chunks()) == expected[:limit]


@pytest.mark.parametrize(("kind", "first"), thinned(["f4", "f8"], [0, 1]))
async def test_engines_compare_floats_in_their_order(tmp_path: Path, kind: str, first: int) -> None:
    dataset = await written(tmp_path / "t", kind)
    source, lazy = await dataset.to_arrow_dataset(), await dataset.to_polars_lazy()
    of_source = pl.scan_pyarrow_dataset(source)

    def by_duckdb(condition: str) -> list[int]:
        with duckdb.connect() as connection:
            connection.register("source", source)
            table = connection.execute(f"select i from source where {condition}").fetchall()
        return sorted(row[0] for row in table)

    def by_polars(frame: pl.LazyFrame, condition: pl.Expr) -> list[int]:
        return sorted(frame.filter(condition).select("i").collect()["i"].to_list())

    for number, (op, test) in product(numbers(kind)[first::2], OPERATORS.items()):
        own = rank(number)
        expected = sorted(model(kind, lambda r: test(r, own)))  # noqa: B023
        literal = f"'{number!r}'::{'float' if kind == 'f4' else 'double'}"
        message = await dataset.sql(f"select i from dataset where x {op} {literal}")
        assert sorted(message["i"].to_pylist()) == expected, (op, number)
        assert await asyncio.to_thread(by_duckdb, f"x {op} {literal}") == expected
        for frame in (lazy, of_source):
            condition = test(pl.col("x"), pl.lit(number, frame.collect_schema()["x"]))
            assert await asyncio.to_thread(partial(by_polars, frame, condition)) == expected
    counted = await dataset.sql("select count(distinct x) as n from dataset")
    assert counted["n"].to_pylist() == [len({*ranks(array_of(kind))} - {None})]


async def test_nans_that_sql_makes_are_like_all_others(tmp_path: Path) -> None:
    """On most processors `0.0 / 0.0` gives a NaN with its sign set."""
    table = pa.table({"num": [0.0, 1.0, 3.0, 0.0], "den": [0.0, 2.0, 2.0, 0.0]})
    dataset = await alance.write_dataset(table, tmp_path / "t")
    dataset = await dataset.add_columns({"score": "num / den"})
    scores = (await dataset.to_table(["score"]))["score"].to_numpy()
    assert np.isnan(scores[[0, 3]]).all()
    dataset = await dataset.delete("score < 0.75")
    assert (await dataset.to_table(["num"]))["num"].to_pylist() == [0.0, 3.0, 0.0]
    assert await dataset.count_rows("score > 2") == 2
    assert (await dataset.aggregate({"n": "count(*)"}, ["score"])).num_rows == 2

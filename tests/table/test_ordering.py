"""Scans in an order: that of pylance, in bounded memory, by columns of the output or others."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lance.dataset import ColumnOrdering as TheirOrdering

import alance
from alance import ColumnOrdering, InvalidInputError, Session, UnsupportedError
from alance.distributed import fragments_of, plan_splits, read_split, version_record
from alance.ops.read.options import orderings_of
from alance.ops.read.sorting import FirstRows, in_order, stable_order

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

NUMBERS = [3.0, None, 1.5, math.nan, -2.0, 1.5, None, math.inf, -math.inf, 0.0]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Numbers with nulls and NaN, texts, members of structs; several fragments, deleted rows."""
    num_rows = 3_000
    rng = np.random.default_rng(5)
    table = pa.table(
        {
            "id": pa.array(range(num_rows)),
            "number": pa.array([NUMBERS[n % 10] for n in range(num_rows)], pa.float64()),
            "text": [None if n % 7 == 0 else f"text {n % 13}" for n in range(num_rows)],
            "key": rng.permutation(num_rows),
            "s": [{"a": int(n), "b": str(n)} for n in rng.permutation(num_rows)],
            "list": [[n] for n in range(num_rows)],
            "wide": [rng.bytes(200) + str(n).encode() for n in range(num_rows)],
        }
    )
    path = str(tmp_path_factory.mktemp("ordering") / "table")
    dataset = lance.write_dataset(table, path, max_rows_per_file=700)
    dataset.delete("id % 11 = 3")
    return path


ORDERS: list[list[Any]] = [
    ["key"],
    ["-key"],
    ["number", "-key"],
    [ColumnOrdering("number", nulls_first=True), "key"],
    [ColumnOrdering("number", ascending=False, nulls_first=True), "key"],
    [ColumnOrdering("number", ascending=False), ColumnOrdering("text", nulls_first=True), "key"],
    ["-text", "number", "key"],
]


def theirs(order: list[Any]) -> list[TheirOrdering]:
    return [
        TheirOrdering(key.column_name, key.ascending, key.nulls_first)
        for key in orderings_of(order)
    ]


@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"limit": 20},
        {"limit": 50, "offset": 1_000},
        {"limit": 7, "filter": "id < 1200 and text <> 'text 3'"},
        {"limit": 9, "with_row_id": True, "with_row_address": True},
    ],
    ids=str,
)
async def test_rows_are_in_the_order_of_pylance(
    uri: str, order: list[Any], options: dict[str, Any]
) -> None:
    expected = lance.dataset(uri).to_table(order_by=theirs(order), **options)
    dataset = await alance.dataset(uri)
    table = await dataset.to_table(order_by=order, **options)
    assert table.schema.names == expected.schema.names
    assert table["key"].to_pylist() == expected["key"].to_pylist()
    assert repr(table.to_pylist()) == repr(expected.to_pylist())


@pytest.mark.parametrize("limit", [None, 30])
@pytest.mark.parametrize(
    "columns", [["id"], ["id", "s.b"], {"twice": "id * 2"}, [], ["_rowid", "wide"]], ids=str
)
async def test_columns_of_the_order_need_not_be_in_the_output(
    uri: str, columns: Any, limit: int | None
) -> None:
    dataset = await alance.dataset(uri)
    whole = (await dataset.to_table(["key", "id"])).sort_by([("key", "descending")])
    ids = whole["id"].to_pylist()[:limit]
    scanner = dataset.scanner(columns, order_by=["-key"], limit=limit)
    table = await scanner.to_table()
    assert table.schema == scanner.projected_schema
    assert table.num_rows == len(ids)
    if "twice" in columns:
        assert table["twice"].to_pylist() == [2 * n for n in ids]
    elif "id" in columns:
        assert table["id"].to_pylist() == ids
    elif "wide" in columns:
        assert [int(value[200:]) for value in table["wide"].to_pylist()] == ids


@pytest.mark.parametrize("limit", [None, 5])
async def test_members_of_structs_and_computed_columns_order_as_well(
    uri: str, limit: int | None
) -> None:
    dataset = await alance.dataset(uri)
    members = (await dataset.to_table(["s.a", "id"])).sort_by("s.a")
    table = await dataset.to_table(["id"], order_by=["s.a"], limit=limit)
    assert table["id"].to_pylist() == members["id"].to_pylist()[:limit]
    computed = await dataset.to_table({"less": "-id"}, order_by=["less"], limit=limit)
    expected = sorted(-n for n in members["id"].to_pylist())[:limit]
    assert computed["less"].to_pylist() == expected


async def test_many_first_rows_are_scanned_with_all_columns(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await alance.dataset(uri)
    options: dict[str, Any] = {"order_by": ["-number", "key"], "limit": 40, "offset": 3}
    taken = await dataset.to_table(["id", "s.b"], **options)
    monkeypatch.setattr("alance.ops.read.ordering.LATE_ROWS", 42)
    scanner = dataset.scanner(["id", "s.b"], **options)
    assert (await scanner.to_table()) == taken
    assert "are taken" not in str(await scanner.explain())


async def test_deleted_rows_are_sorted_as_well_where_they_are_asked_for(uri: str) -> None:
    dataset = await alance.dataset(uri)
    options: dict[str, Any] = {"with_row_id": True, "include_deleted_rows": True}
    table = await dataset.to_table(["id"], order_by=["-id"], limit=12, **options)
    assert table["id"].to_pylist() == list(range(2_999, 2_987, -1))
    assert table["_rowid"].null_count == 1


async def test_the_first_rows_read_no_other_column(lab: Lab) -> None:
    rng = np.random.default_rng(5)
    wide = [rng.bytes(200) for _ in range(30_000)]
    rows = pa.table({"key": rng.permutation(len(wide)), "wide": wide})
    options = lab.lance_options()
    async with Session() as session:
        place = {"storage_options": options, "session": session}
        dataset = await alance.write_dataset(rows, "s3://lab/first-rows", **place)
        await dataset.take([0])
        with lab.recording() as recording:
            table = await dataset.to_table(order_by=["key"], limit=3)
        assert table["key"].to_pylist() == [0, 1, 2]
        assert (
            sum(int(record.get("out", 0)) for record in recording.records) < rows["wide"].nbytes / 4
        )
        text = str(await dataset.scanner(order_by=["-key"], limit=3).explain())
    assert "  sorted by: -key" in text
    assert "taken of the rows that are given" in text
    assert "read first: key\n" in text + "\n"


@given(
    st.lists(st.tuples(st.none() | st.floats(width=32), st.integers(0, 4)), max_size=60),
    st.lists(st.integers(1, 9), min_size=1, max_size=5),
    st.none() | st.integers(0, 20),
    st.booleans(),
    st.booleans(),
)
def test_batches_that_are_cut_give_the_first_rows_of_all(
    values: list[tuple[float | None, int]],
    sizes: list[int],
    num_rows: int | None,
    ascending: bool,
    nulls_first: bool,
) -> None:
    columns = {"x": [x for x, _ in values], "y": [y for _, y in values]}
    schema = pa.schema({"x": pa.float32(), "y": pa.int64()})
    table = pa.table(columns, schema)
    keys = [ColumnOrdering("y", ascending), ColumnOrdering("x", ascending, nulls_first)]
    for orderings in (keys, keys[::-1]):
        first = FirstRows(schema, orderings, num_rows, spare=4)
        start = 0
        for number in range(len(values)):
            size = sizes[number % len(sizes)]
            for batch in table.slice(start, size).to_batches():
                first.add(batch)
            start += size
        assert repr(first.result().to_pylist()) == repr(
            in_order(table, orderings).slice(0, num_rows).to_pylist()
        )


@pytest.mark.parametrize(
    "kind",
    [
        pa.float16(),
        pa.dictionary(pa.int8(), pa.string()),
        pa.decimal128(22, 2),
        pa.date32(),
        pa.bool_(),
        pa.binary(2),
    ],
    ids=str,
)
def test_values_of_many_types_are_cut(kind: pa.DataType) -> None:
    numbers = [None if n % 5 == 0 else 7 * n % 11 for n in range(60)]
    if pa.types.is_dictionary(kind):
        values = pa.array([n if n is None else str(n) for n in numbers]).dictionary_encode()
        values = values.cast(kind)
    elif pa.types.is_fixed_size_binary(kind):
        values = pa.array([n if n is None else bytes([n, 1]) for n in numbers], kind)
    elif pa.types.is_float16(kind):
        values = pa.array([n if n is None else np.float16(n) for n in numbers], kind)
    else:
        middle = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        values = pa.array(numbers, middle).cast(kind)
    table = pa.table({"x": values, "place": range(60)})
    for ascending, nulls_first in ((True, True), (False, False), (True, False)):
        orderings = [ColumnOrdering("x", ascending, nulls_first)]
        first = FirstRows(table.schema, orderings, 7, spare=4)
        for start in range(0, 60, 5):
            first.add(table.slice(start, 5).to_batches()[0])
        assert first.result().to_pylist() == in_order(table, orderings).slice(0, 7).to_pylist()


def test_equal_rows_stay_in_their_order_and_nan_is_the_greatest() -> None:
    table = pa.table({"x": NUMBERS, "place": range(10)})
    rows = in_order(table, [ColumnOrdering("x", ascending=False, nulls_first=True)])
    assert rows["place"].to_pylist() == [1, 6, 3, 7, 0, 2, 5, 9, 4, 8]
    half = table.set_column(0, "x", pc.cast(table["x"], pa.float16()))
    assert in_order(half, [ColumnOrdering("x")])["place"].to_pylist() == [
        8, 4, 9, 2, 5, 0, 7, 3, 1, 6
    ]  # fmt: skip


async def test_dictionaries_have_the_order_of_their_values(tmp_path: Path) -> None:
    kinds = pa.array(["b", None, "c", "a"] * 40).dictionary_encode()
    lance.write_dataset(pa.table({"kind": kinds, "id": range(160)}), tmp_path / "t")
    dataset = await alance.dataset(tmp_path / "t")
    choices: list[dict[str, Any]] = [{}, {"limit": 50}]
    for options in choices:
        order: list[Any] = [ColumnOrdering("kind", ascending=False), "id"]
        rows = await dataset.to_table(order_by=order, **options)
        expected = lance.dataset(tmp_path / "t").to_table(order_by=theirs(order), **options)
        assert rows["id"].to_pylist() == expected["id"].to_pylist()


async def test_bad_orders_are_refused(uri: str) -> None:
    dataset = await alance.dataset(uri)
    for order, words in (
        (["colour"], "colour"),
        ("key", "expected a list"),
        (5, "order_by=5: expected a list"),
        ([3], "neither a name"),
        (ColumnOrdering("key"), "expected a list"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            await dataset.to_table(order_by=order, limit=1)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match="without an order"):
        await dataset.to_table(order_by=["list"])
    empty = await dataset.to_table(order_by=["key"], filter="id < 0", limit=4)
    assert empty.num_rows == 0


async def test_an_empty_table_is_sorted(tmp_path: Path) -> None:
    dataset = await alance.write_dataset(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "t")
    assert (await dataset.to_table(order_by=["a"], limit=4)).num_rows == 0


async def test_each_split_of_a_scan_gives_the_first_rows_of_its_own(tmp_path: Path) -> None:
    uri, numbers = str(tmp_path / "t"), range(20_000)
    rows = pa.table({"id": numbers, "k": [7919 * n % len(numbers) for n in numbers]})
    dataset = await alance.write_dataset(rows, uri, max_rows_per_file=12_000)
    dataset = await dataset.delete("k > 19990")
    splits = plan_splits(fragments_of(dataset), split_bytes=1000, min_splits=4)
    assert [(piece.start, piece.stop) for split in splits for piece in split] == [
        (0, 6000),
        (6000, 12_000),
        (0, None),
    ]
    options = alance.ScanOptions(order_by=["-k"], limit=3, filter="id % 2 = 0")
    bounds = iter([(0, 6000), (6000, 12_000), (12_000, 20_000)])
    for split in splits:
        read = read_split(version_record(dataset), uri, split, ["_rowid", "id", "k"], options)
        values = pa.Table.from_batches([batch async for batch in read]).to_pylist()
        start, stop = next(bounds)
        retained = [row for row in rows.to_pylist()[start:stop] if row["id"] % 2 == 0]
        best = sorted((row for row in retained if row["k"] <= 19_990), key=lambda row: -row["k"])[
            :3
        ]
        assert [(row["id"], row["k"]) for row in values] == [(row["id"], row["k"]) for row in best]
        assert {row["_rowid"] & 0xFFFFFFFF for row in values} == {
            row["id"] % 12_000 for row in best
        }


@pytest.mark.parametrize("ascending", [True, False])
@pytest.mark.parametrize("num_runs", [1, 2, 5, 4000])
def test_rows_in_runs_are_ordered_as_others_are(num_runs: int, ascending: bool) -> None:
    rng = np.random.default_rng(num_runs)
    values = rng.integers(-500, 500, 8000)  # equal values keep their order
    runs = [np.sort(run) for run in np.array_split(values, num_runs)]
    numbers = np.concatenate(runs if ascending else [run[::-1] for run in runs])
    valid = rng.random(len(numbers)) > 0.1
    keys = numbers if ascending else -numbers
    right = np.argsort(keys, kind="stable")
    assert stable_order(numbers, None, ascending=ascending).tolist() == right.tolist()
    nulls_last = [*right[valid[right]].tolist(), *np.flatnonzero(~valid).tolist()]
    order = stable_order(numbers, valid, ascending=ascending, nulls_first=False)
    assert order.tolist() == nulls_last

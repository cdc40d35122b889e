"""Aggregates of scans: those of pylance's SQL, in bounded memory, by what reads least."""

from __future__ import annotations

import math
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import alance
import alance.sync
from alance import ColumnNotFoundError, InvalidInputError, UnsupportedError
from alance.ops.read.aggregates import aggregate
from alance.ops.read.aggregates.aggregate import Groups, Measure

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

NUM_ROWS = 3_000
FUNCTIONS = ("count", "min", "max", "sum", "avg")
COLUMNS = ("id", "tiny", "float", "half", "price", "flag", "text", "day", "time", "took", "bytes")
KEYS: list[list[str] | None] = [None, ["kind"], ["kind", "flag"], ["s.a"]]


def rows() -> pa.Table:
    rng = np.random.default_rng(3)
    floats = [None if n % 13 == 0 else n / 7 for n in range(NUM_ROWS)]
    return pa.table(
        {
            "id": pa.array(range(NUM_ROWS)),
            "tiny": pa.array(rng.integers(0, 255, NUM_ROWS), pa.uint8()),
            "kind": [None if n % 11 == 0 else f"kind {n % 5}" for n in range(NUM_ROWS)],
            "float": pa.array(floats, pa.float32()),
            "half": pa.array(rng.integers(0, 9, NUM_ROWS).astype(np.float16)),
            "price": pa.array([Decimal(n) / 100 for n in range(NUM_ROWS)], pa.decimal128(9, 2)),
            "flag": pa.array([[True, False, None][n % 3] for n in range(NUM_ROWS)]),
            "text": pa.array([f"text {n % 97}" for n in range(NUM_ROWS)]).dictionary_encode(),
            "day": [date(2020, 1, 1) + timedelta(n) for n in range(NUM_ROWS)],
            "time": [datetime(2020, 1, 1) + timedelta(hours=n) for n in range(NUM_ROWS)],
            "took": pa.array(range(NUM_ROWS), pa.duration("us")),
            "bytes": [str(n).encode() for n in range(NUM_ROWS)],
            "s": [{"a": n % 4} for n in range(NUM_ROWS)],
            "list": [[n] for n in range(NUM_ROWS)],
            "my `column`": pa.array(range(NUM_ROWS)),
        }
    )


@pytest.fixture(scope="module", params=["alance", "pylance"])
def uri(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Values of many types with nulls; several fragments, deleted rows; by each writer."""
    path = str(tmp_path_factory.mktemp("aggregates") / request.param)
    if request.param == "alance":
        alance.sync.write_dataset(rows(), path, max_rows_per_file=700).delete("id % 17 = 3")
    else:
        lance.write_dataset(rows(), path, max_rows_per_file=700).delete("id % 17 = 3")
    return path


def theirs(uri: str, request: dict[str, str], keys: list[str] | None, where: str = "") -> pa.Table:
    names = [*(f"{key} as `{key}`" for key in keys or ())]
    arguments = ", ".join([*names, *(f"{text} as {name}" for name, text in request.items())])
    query = f"select {arguments} from dataset {where and f'where {where}'}"
    if keys:
        query += f" group by {', '.join(keys)}"
    return pa.Table.from_batches(lance.dataset(uri).sql(query).build().to_batch_records())


def assert_alike(ours: pa.Table, expected: pa.Table, keys: list[str] | None) -> None:
    assert ours.schema.names == expected.schema.names
    assert ours.schema.types == expected.schema.types
    if keys:
        order = [(key, "ascending") for key in keys]
        ours, expected = ours.sort_by(order), expected.sort_by(order)
    for name in ours.column_names:
        pairs = zip(ours[name].to_pylist(), expected[name].to_pylist(), strict=True)
        for own, other in pairs:
            is_close = isinstance(own, float) and isinstance(other, float)
            assert math.isclose(own, other) if is_close else own == other, name


@pytest.mark.parametrize("keys", KEYS, ids=str)
@pytest.mark.parametrize("where", ["", "kind = 'kind 2' and float < 100"])
async def test_aggregates_are_those_of_pylance(
    uri: str, keys: list[str] | None, where: str
) -> None:
    numbers = ("id", "tiny", "float", "half", "price", "took")
    mapping = {
        f"{function}_{name}": f"{function}({name})"
        for name in COLUMNS
        for function in FUNCTIONS
        if function not in ("sum", "avg") or name in numbers
    }
    mapping |= {"rows": "count(*)", "one": "count(1)", "computed": "sum(id * 2 + tiny)"}
    dataset = await alance.dataset(uri)
    ours = await dataset.aggregate(mapping, keys, filter=where or None)
    assert_alike(ours, theirs(uri, mapping, keys, where), keys)


async def test_of_no_rows_there_is_one_group_without_keys_and_none_with_keys(uri: str) -> None:
    request = {"n": "count(*)", "m": "count(id)", "low": "min(id)", "mean": "avg(id)"}
    dataset = await alance.dataset(uri)
    ours = await dataset.aggregate(request, filter="id < 0")
    assert_alike(ours, theirs(uri, request, None, "id < 0"), None)
    groups = await dataset.aggregate(request, ["kind"], filter="id < 0")
    assert groups.schema.types[1:] == ours.schema.types
    assert len(groups) == 0


async def test_each_group_comes_once(uri: str) -> None:
    dataset = await alance.dataset(uri)
    groups = await dataset.aggregate({"n": "count(*)"}, {"left": "id % 5", "k": "kind"})
    table = await dataset.to_table({"left": "id % 5", "k": "kind"})
    seen = set(zip(table["left"].to_pylist(), table["k"].to_pylist(), strict=True))
    assert set(zip(groups["left"].to_pylist(), groups["k"].to_pylist(), strict=True)) == seen
    assert len(groups) == len(seen)
    assert sum(groups["n"].to_pylist()) == await dataset.count_rows()
    keys = await dataset.aggregate({}, ["kind"])
    assert set(keys["kind"].to_pylist()) == set(table["k"].to_pylist())
    assert len(keys) == len(table["k"].unique())


async def test_options_of_scans_say_which_rows(uri: str) -> None:
    dataset = await alance.dataset(uri)
    request = {"n": "count(*)", "low": "min(id)", "high": "max(id)"}
    (fragment,) = (await dataset.aggregate(request, fragments=[1])).to_pylist()
    ids = (await dataset.to_table(["id"], fragments=[1]))["id"].to_pylist()
    assert fragment == {"n": len(ids), "low": min(ids), "high": max(ids)}
    (few,) = (await dataset.aggregate(request, order_by=["-id"], limit=10)).to_pylist()
    assert few["n"] == 10
    assert few["high"] == NUM_ROWS - 1
    (stored,) = (
        await dataset.aggregate(request, include_deleted_rows=True, with_row_id=True)
    ).to_pylist()
    assert stored == {"n": NUM_ROWS, "low": 0, "high": NUM_ROWS - 1}
    request = {"n": "count(*)", "same": "count(id)"}
    (picked,) = (await dataset.aggregate(request, filter="id < ?", params=[5])).to_pylist()
    assert picked == {"n": 4, "same": 4}
    scanner = dataset.scanner(["text"], filter="id < 5")
    assert (await scanner.aggregate({"total": "sum(id)"})).to_pylist() == [{"total": 7}]


async def test_nan_is_greater_than_all_numbers(tmp_path: Path) -> None:
    values = pa.table({"f": [1.0, math.nan, 2.0, math.nan], "g": [1, 1, 2, 3]})
    dataset = await alance.write_dataset(values, tmp_path / "t")
    request = {"low": "min(f)", "high": "max(f)"}
    assert str((await dataset.aggregate(request)).to_pylist()) == "[{'low': 1.0, 'high': nan}]"
    groups = await dataset.aggregate(request, ["g"])
    assert str(groups["low"].to_pylist()) == "[1.0, 2.0, nan]"
    assert str(groups["high"].to_pylist()) == "[nan, 2.0, nan]"


async def test_a_sum_that_its_type_does_not_hold_is_an_error_and_no_other_number(
    tmp_path: Path,
) -> None:
    values = pa.table({"a": [2**63 - 1, 1, -5], "b": pa.array([2**64 - 1, 1, 0], pa.uint64())})
    dataset = await alance.write_dataset(values, tmp_path / "t")
    with pytest.raises(InvalidInputError, match=r"'x': a sum is beyond uint64; .*decimal"):
        await dataset.aggregate({"x": "sum(b)"})
    for filter_ in (None, "a > 0 or a < 0"):
        (held,) = (await dataset.aggregate({"x": "sum(a)"}, filter=filter_)).to_pylist()
        assert held == {"x": 2**63 - 5}
    (exact,) = (await dataset.aggregate({"x": "sum(cast(b as decimal(38, 0)))"})).to_pylist()
    assert exact == {"x": 2**64}


async def test_decimals_do_not_wrap_around(tmp_path: Path) -> None:
    most = 10**38 - 1
    values = {"d": [most, most, most, 1 - most], "k": [1, 1, 2, 2]}
    schema = pa.schema([("d", pa.decimal128(38, 0)), ("k", pa.int64())])
    rows = pa.table({"d": [Decimal(own) for own in values["d"]], "k": values["k"]}, schema)
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    sums = await dataset.aggregate({"x": "sum(d)"}, filter="k = 2")
    assert sums.to_pylist() == [{"x": 1}]
    with pytest.raises(InvalidInputError, match=r"'x': a sum is beyond decimal128\(38, 0\)"):
        await dataset.aggregate({"x": "sum(d)"})
    with pytest.raises(InvalidInputError, match="'x': Decimal value does not fit"):
        await dataset.aggregate({"x": "avg(d)"})  # it has four more digits
    wide = pa.table({"d": pa.array([Decimal(5) * 10**75] * 30, pa.decimal256(76, 0))})
    dataset = await alance.write_dataset(wide, tmp_path / "wide")
    with pytest.raises(InvalidInputError, match="beyond 76 digits"):
        await dataset.aggregate({"x": "sum(d)"})


async def test_means_are_told_where_the_sum_is_beyond_its_type(tmp_path: Path) -> None:
    rows = pa.table(
        {
            "took": pa.array([2**62, 2**62, 2**62, 1], pa.duration("us")),
            "price": pa.array([Decimal(10) ** 33] * 4, pa.decimal128(34, 0)),
            "long": pa.array([Decimal(1), Decimal(0), Decimal(0), None], pa.decimal256(50, 3)),
        }
    )
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    means = await dataset.aggregate({"a": "avg(took)", "b": "avg(price)", "c": "sum(long)"})
    assert means["a"].cast(pa.int64()).to_pylist() == [(3 * 2**62 + 1) // 4]
    assert means["b"].to_pylist() == [10**33]
    assert means["c"].type == pa.decimal256(60, 3)
    with pytest.raises(InvalidInputError, match="'a': a sum is beyond int64"):
        await dataset.aggregate({"a": "sum(took)"})


async def test_ends_are_told_of_times_that_python_has_not(tmp_path: Path) -> None:
    numbers = [-(2**62), 5, 2**62]
    times = pa.array(numbers, pa.int64()).view(pa.timestamp("us"))
    dataset = await alance.write_dataset(pa.table({"t": times}), tmp_path / "t")
    dataset = await dataset.delete("t = ?", params=[times[2]])
    ends = await dataset.aggregate({"low": "min(t)", "high": "max(t)"})
    assert [column.cast(pa.int64()).to_pylist() for column in ends] == [[-(2**62)], [5]]


BAD: list[tuple[Any, Any, type[Exception], str]] = [
    ({}, None, InvalidInputError, "expected names"),
    ("sum(id)", None, InvalidInputError, "expected names"),
    ({"x": "id"}, None, InvalidInputError, "expected count, min"),
    ({1: "sum(id)"}, None, InvalidInputError, "name of an aggregate or a group_by: 1"),
    ({"x": "sum(id)"}, 3, InvalidInputError, "group_by=3: expected a list of names"),
    ({"x": "sum(id)"}, {3: "id"}, InvalidInputError, "name of an aggregate or a group_by: 3"),
    ({"x": "sum(id) + 1"}, None, InvalidInputError, "expected count, min"),
    ({"x": "sum(id, tiny)"}, None, InvalidInputError, "expected count, min"),
    ({"x": "sum(*)"}, None, InvalidInputError, "expected count, min"),
    ({"x": "sum(id"}, None, InvalidInputError, "aggregate, line 1, column 5: syntax error"),
    ({"x": 3}, None, InvalidInputError, "expected SQL text"),
    ({"x": "sum(idd)"}, None, ColumnNotFoundError, "unknown column 'idd'"),
    ({"x": "sum(id)"}, ["idd"], ColumnNotFoundError, "idd"),
    ({"x": "sum(id)"}, "kind", InvalidInputError, "expected a list of names"),
    ({"x": "sum(id)"}, ["kind", "kind"], InvalidInputError, "twice"),
    ({"kind": "sum(id)"}, ["kind"], InvalidInputError, "of an aggregate and of a group_by"),
    ({"x": "sum(text)"}, None, InvalidInputError, "'x': string has no sum"),
    ({"x": "max(list)"}, None, InvalidInputError, "has no max"),
    ({"x": "sum(id)"}, ["list"], InvalidInputError, "no type to group by"),
    ({"x": "count(distinct id)"}, None, UnsupportedError, "DISTINCT; `Dataset.sql` has it"),
    ({"x": "stddev(id)"}, None, UnsupportedError, "`Dataset.sql` has others"),
]


@pytest.mark.parametrize(("aggregates", "keys", "error", "message"), BAD)
async def test_what_cannot_be_aggregated_is_refused(
    uri: str, aggregates: Any, keys: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await (await alance.dataset(uri)).aggregate(aggregates, keys)


async def test_groups_beyond_their_memory_are_an_error(uri: str) -> None:
    dataset = await alance.dataset(uri)
    with pytest.raises(InvalidInputError, match=r"groups take \d+ bytes, more than memory_bytes"):
        await dataset.aggregate({"n": "count(*)"}, ["id"], memory_bytes=1000)
    with pytest.raises(InvalidInputError, match="memory_bytes=0"):
        await dataset.aggregate({"n": "count(*)"}, memory_bytes=0)


async def test_counts_and_ends_read_little(lab: Lab) -> None:
    ids = np.sort(np.random.default_rng(1).integers(0, 1 << 60, 1_000_000))
    table = pa.table({"id": ids})
    options = lab.lance_options()
    uri = "s3://lab/test_aggregates_read_little.lance"
    await alance.write_dataset(table, uri, storage_options=options)
    async with alance.Session() as session:
        dataset = await alance.dataset(uri, storage_options=options, session=session)
        with alance.trace() as counting:
            assert (await dataset.aggregate({"n": "count(*)"})).to_pylist() == [{"n": len(ids)}]
        assert counting.totals.num_requests == 0
        with alance.trace() as ends:
            request = {"n": "count(*)", "low": "min(id)", "high": "max(id)"}
            (row,) = (await dataset.aggregate(request)).to_pylist()
        assert row == {"n": len(ids), "low": ids[0], "high": ids[-1]}
        with alance.trace() as whole:
            await dataset.aggregate({"mean": "avg(id)"})
        assert ends.totals.num_bytes < whole.totals.num_bytes / 2


@given(
    st.lists(st.tuples(st.integers(0, 3), st.none() | st.integers(-(2**63), 2**63 - 1))),
    st.integers(1, 7),
)
def test_chunks_of_any_size_give_the_same(
    pairs: list[tuple[int, int | None]], rows_a_chunk: int
) -> None:
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    table = pa.table([list(column) for column in zip(*pairs, strict=True)] or [[], []], schema)
    measures = [Measure(name, name, "v", pa.int64()) for name in ("count", "min", "max", "avg")]
    patch = pytest.MonkeyPatch()
    patch.setattr(aggregate, "MERGED_ROWS", 3)
    with patch.context():
        groups = Groups(schema, ["k"], [*measures, Measure("n", "count", None, pa.null())], 1 << 20)
        for batch in table.to_batches(max_chunksize=rows_a_chunk):
            groups.add([batch])
        result = groups.result().to_pylist()
    expected = []
    for key in dict.fromkeys(key for key, _ in pairs):
        every = [value for other, value in pairs if other == key]
        values = [value for value in every if value is not None]
        mean = float(sum(values)) / len(values) if values else None
        ends = (min(values), max(values)) if values else (None, None)
        expected.append((key, len(values), *ends, mean, len(every)))
    assert len(result) == len(expected)
    for row, other in zip(result, expected, strict=True):
        assert (row["k"], row["count"], row["min"], row["max"], row["n"]) == (
            *other[:4],
            other[5],
        )
        assert row["avg"] == (None if other[4] is None else pytest.approx(other[4]))


def test_the_blocking_face_has_it(uri: str) -> None:
    dataset = alance.sync.dataset(uri)
    assert dataset.aggregate({"n": "count(*)"}).to_pylist() == [{"n": dataset.count_rows()}]
    assert len(dataset.scanner(filter="id < 9").aggregate({}, ["id"])) == 8

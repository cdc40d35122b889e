"""Filters over the types that are rare: as pylance answers them."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from alance.expr import parse_filter

if TYPE_CHECKING:
    from pathlib import Path

MOMENTS = [0, 1577836800, None, -1, 1577836801]
SMALL = [1, 2, 3, None, 5]
TABLE = pa.table(
    {
        "id": range(5),
        "ls": pa.array(["a", "b", None, "", "ä"], pa.large_string()),
        "bin": [b"a", b"\xff", None, b"", b"ab"],
        "fb": pa.array([b"aa", b"\xff\x00", None, b"\0\0", b"ab"], pa.binary(2)),
        "dic": pa.array(["x", "y", None, "x", "z"]).dictionary_encode(),
        "h": pa.array(np.array([1.5, np.nan, 0.1, -0.0, -2], np.float16)),
        "d64": pa.array([dt.date(2020, 1, n + 1) for n in range(5)], pa.date64()),
        "ts": pa.array(MOMENTS, pa.timestamp("s")),
        "tms": pa.array([m and m * 1000 for m in MOMENTS], pa.timestamp("ms")),
        "tz": pa.array([m and m * 10**6 for m in MOMENTS], pa.timestamp("us", "UTC")),
        "tb": pa.array([m and m * 10**6 for m in MOMENTS], pa.timestamp("us", "Europe/Berlin")),
        "du": pa.array([0, 1, None, -5, 3600], pa.duration("s")),
        "dms": pa.array([0, 1, None, -5, 3600000], pa.duration("ms")),
        "wide": pa.array([*map(Decimal, ("1.5", "-2.25", "0")), None, None], pa.decimal256(40, 2)),
        "whole": pa.array([*map(Decimal, ("1", "-2", "0", "100")), None], pa.decimal128(38, 0)),
        "i8": pa.array([1, -128, None, 127, 0], pa.int8()),
        "u8": pa.array([1, 255, None, 127, 0], pa.uint8()),
        "i16": pa.array([1, -5, None, 127, 0], pa.int16()),
        "u32": pa.array([1, 1 << 31, None, 127, 0], pa.uint32()),
        "i64": [1, -(1 << 63), None, (1 << 63) - 1, 0],
        "ll": pa.array([[1], [], None, [1, None], [2, 1]], pa.large_list(pa.int32())),
        "fl": pa.array([[1, 2], [3, 4], None, [5, 6], [1, None]], pa.list_(pa.int32(), 2)),
        "lst": [["a"], [], None, ["b", None], ["a", "c"]],
        "nul": pa.nulls(5),
        "deep": [{"a": {"b": 1, "c": "x"}}, {"a": None}, None, {"a": {"b": 7, "c": "z"}}, {}],
        "Cap": ["a", "b", "c", "d", None],
        **dict.fromkeys(("select", "date", "end", "left", "value"), pa.array(SMALL)),
    }
)

ALL = [0, 1, 2, 3, 4]
FILTERS = [
    *["ls = 'a'", "ls like 'a%'", "ls in ('a', 'b')", "ls || 'x' = 'ax'", "dic = ls"],
    *["bin = X'ff'", "bin in (X'ff', X'61')", "bin < X'62'", "fb = X'ff00'", "fb in (X'ff00')"],
    *["dic = 'x'", "dic in ('x', 'y')", "dic like 'x%'", "dic is null", "upper(dic) = 'X'"],
    *["h = 1.5", "h > 0", "h = 0.1", "h < 1", "h = 0", "h + 1 > 2", "isnan(h)"],
    *["d64 = date '2020-01-02'", "d64 > date '2020-01-03'"],
    *["ts = timestamp '2020-01-01 00:00:00'", "ts > timestamp '2020-01-01 00:00:00.5'"],
    *["ts >= date '2020-01-01'", "ts = tms", "tms > timestamp '2020-01-01 00:00:00.4999999'"],
    *["tz = timestamp '2020-01-01 00:00:00Z'", "tz = timestamp '2020-01-01 01:00:00+01:00'"],
    *[
        "tb = timestamp '2020-01-01 01:00:00'",
        "tz = tb",
        "tz = tms",
        "date_part('hour', tb) = 1",
        "cast(tb as date) = date '2020-01-01'",
    ],
    *["date_trunc('day', tb) = timestamp '2020-01-01 00:00:00'", "du = dms", "du is null"],
    *["wide > 1", "wide + 1 > 2", "wide = whole", "whole in (1, 100)", "whole / 3 > 1"],
    *["i8 = u8", "i8 + u8 > 200", "u8 + u8 > 300", "u8 - 2 < 0", "u32 + i8 > 0", "u32 * u32 > 1"],
    *["i64 + 1 > 0", "i64 - 1 < 0", "i64 = u32", "i64 * 2 = 0", "i64 % -1 = 0", "i8 = -128"],
    *["abs(i16) = 5", "i8 / -1 = -127", "i64 > 9223372036854775806"],
    *["array_has(ll, 1)", "array_length(ll) = 2", "ll[2] is null", "array_has_any(ll, [2])"],
    *["array_has(fl, 1)", "array_length(fl) = 2", "fl[1] = 3", "array_position(fl, 6) = 2"],
    *["lst[1] = 'a'", "array_has(lst, 'a')", "array_has_any(lst, ['b', 'c'])"],
    *["array_has_all(lst, ['a', 'c'])", "array_has(lst, dic)", "lst[-1] = 'c'"],
    *["not (nul < 'a')", "nul = i8"],
    *["nul is null", "nul is not null", "deep.a.b = 1", "deep.a is null", "deep is null"],
    *["deep.a.b is null", "deep['a']['b'] = 1", "deep.a['b'] = 7", "`deep`.`a`.`b` = 7"],
    *["deep.a.c in ('x', 'y')", "deep.a.b + 1 = 2", "Cap = 'a'", "`Cap` = 'a'"],
    *["`select` = 1", "date = 1", "date > 1", "`end` = 1", "left = 1", "left(ls, 1) = 'a'"],
    *["value in (1, 2) and left > 1", "_rowid in (0, 3)", "_rowid + 1 = 2", "_rowaddr < 3"],
]


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> lance.LanceDataset:
    path: Path = tmp_path_factory.mktemp("types") / "table"
    return lance.write_dataset(TABLE, str(path), data_storage_version="2.1")


@pytest.mark.parametrize("condition", FILTERS)
def test_a_filter_of_rare_types_keeps_the_rows_that_pylance_keeps(
    dataset: lance.LanceDataset, condition: str
) -> None:
    batch = TABLE.combine_chunks().to_batches()[0]
    rows = pa.array(range(5), pa.uint64())
    batch = batch.append_column("_rowid", rows).append_column("_rowaddr", rows)
    for part in (batch, batch.slice(1), batch.slice(2, 0)):
        mask = parse_filter(condition, batch.schema).mask(part)
        ns = [n for n, keep in zip(part["id"].to_pylist(), mask.to_pylist(), strict=True) if keep]
        expected = dataset.to_table(["id"], filter=condition)["id"].to_pylist()
        assert ns == [n for n in expected if n in part["id"].to_pylist()]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        *[("nul = 1 or id = 1", [1]), ("1 > nul", []), ("nul != date '2020-01-01'", [])],
        *[("nul in (1, 2)", []), ("nul not in ('a')", []), ("not (nul between 1 and 2)", [])],
        (f"nul not in ({', '.join(map(str, range(100)))})", []),
        *[("upper(nul) = 'A'", []), ("nul like 'a%' or id = 2", [2]), ("md5(nul) is null", ALL)],
        *[
            (f"cast(nul as {name}) is null", ALL)
            for name in ("int", "date", "string", "decimal(9, 2)")
        ],
        *[("nul is distinct from 1", ALL), ("nul is not distinct from 1", [])],
    ],
)
def test_a_column_of_nulls_is_compared_with_anything(condition: str, expected: list[int]) -> None:
    """pylance refuses literals of other types beside it, but for some below a NOT."""
    batch = TABLE.combine_chunks().to_batches()[0]
    mask = parse_filter(condition, batch.schema).mask(batch)
    assert pc.indices_nonzero(mask).to_pylist() == expected

"""Timestamps with and without offset, for columns with a time zone: one rule on every path."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final
from zoneinfo import ZoneInfo

import lance
import numpy as np
import pyarrow as pa
import pytest

import alance

if TYPE_CHECKING:
    from pathlib import Path

BERLIN: Final = ZoneInfo("Europe/Berlin")
TYPE: Final = pa.timestamp("us", "Europe/Berlin")
UTC_MIDNIGHT: Final = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
LOCAL_MIDNIGHT: Final = dt.datetime(2024, 1, 1, tzinfo=BERLIN)
NAIVE: Final = dt.datetime(2024, 1, 1)


@pytest.fixture
async def dataset(tmp_path: Path) -> alance.Dataset:
    """Row 0 is midnight in UTC, row 1 midnight in Berlin; `n` is a timestamp without zone."""
    table = pa.table(
        {
            "i": [0, 1],
            "t": pa.array([UTC_MIDNIGHT, LOCAL_MIDNIGHT], TYPE),
            "n": pa.array([NAIVE, NAIVE], pa.timestamp("us")),
            "s": ["2024-01-01 00:00:00Z", "2024-01-01 00:00:00"],
        }
    )
    return await alance.write_dataset(table, tmp_path / "t")


TEXTS: Final = {
    "timestamp '2024-01-01 00:00:00Z'": 0,
    "timestamp '2024-01-01T00:00:00z'": 0,
    "timestamp '2024-01-01 02:00:00+02:00'": 0,
    "timestamp '2023-12-31 19:00:00.000-05'": 0,
    "'2024-01-01 00:00:00Z'": 0,
    "to_timestamp('2024-01-01 00:00:00Z')": 0,
    "cast('2024-01-01 00:00:00Z' as timestamp)": 0,
    "timestamp '2024-01-01 00:00:00'": 1,
    "timestamp '2024-01-01'": 1,
    "timestamp '2023-12-31 23:00:00Z'": 1,
    "'2024-01-01 00:00:00'": 1,
    "arrow_cast('2024-01-01 00:00:00', 'Timestamp(Microsecond, Some(\"Europe/Berlin\"))')": 1,
}
VALUES: Final[list[tuple[Any, int]]] = [
    (UTC_MIDNIGHT, 0),
    (LOCAL_MIDNIGHT, 1),
    (NAIVE, 1),
    (np.datetime64("2024-01-01T00:00:00"), 1),
    (pa.scalar(NAIVE), 1),
    (pa.scalar(UTC_MIDNIGHT), 0),
]


def value_of(table: pa.Table) -> dt.datetime:
    value: dt.datetime = table["t"][0].as_py()
    return value.astimezone(dt.UTC)


@pytest.mark.parametrize("text", TEXTS)
async def test_texts_mean_one_instant_in_filters_and_updates(
    dataset: alance.Dataset, text: str
) -> None:
    row = TEXTS[text]
    for condition in (f"t = {text}", f"t IN ({text})", f"t BETWEEN {text} AND {text}"):
        assert (await dataset.to_table(["i"], filter=condition))["i"].to_pylist() == [row]
    assert await dataset.count_rows(f"coalesce(t, t) = {text}") == 1
    updated = await dataset.update({"t": text})
    expected = (UTC_MIDNIGHT, LOCAL_MIDNIGHT)[row]
    assert value_of(await updated.to_table(["t"])) == expected.astimezone(dt.UTC)


@pytest.mark.parametrize(("value", "row"), VALUES)
async def test_values_mean_one_instant_in_params_keys_and_updates(
    dataset: alance.Dataset, value: Any, row: int
) -> None:
    for condition, params in (("t = ?", [value]), ("t IN ?", [[value]])):
        table = await dataset.to_table(["i"], filter=condition, params=params)
        assert table["i"].to_pylist() == [row]
    assert (await dataset.get_many([value], "t"))["i"].to_pylist() == [row]
    by_key = await dataset.get(value, "t")
    assert by_key is not None
    assert by_key["i"] == row
    updated = await dataset.update({"t": "?"}, params=[value])
    expected = (UTC_MIDNIGHT, LOCAL_MIDNIGHT)[row]
    assert value_of(await updated.to_table(["t"])) == expected.astimezone(dt.UTC)


async def test_columns_without_zone_become_local_as_by_pylance(dataset: alance.Dataset) -> None:
    theirs = lance.dataset(dataset.uri)
    form = "arrow_cast(n, 'Timestamp(Microsecond, Some(\"Europe/Berlin\"))')"
    ours = await dataset.to_table({"x": form})
    assert ours == theirs.to_table({"x": form})
    assert ours["x"][0].as_py() == LOCAL_MIDNIGHT
    assert await dataset.count_rows("t = n") == 1
    updated = await dataset.update({"t": "n"}, where="i = 0")
    assert await updated.count_rows("t = timestamp '2023-12-31 23:00:00Z'") == 2
    updated = await updated.update({"t": "s"})
    assert (await updated.to_table(["t"], order_by=["i"]))["t"].to_pylist() == [
        UTC_MIDNIGHT,
        LOCAL_MIDNIGHT,
    ]
    altered = await updated.alter_columns({"path": "n", "data_type": TYPE})
    assert (await altered.to_table(["n"]))["n"].to_pylist() == [LOCAL_MIDNIGHT] * 2


async def test_columns_without_zone_meet_instants_as_utc(dataset: alance.Dataset) -> None:
    assert await dataset.count_rows("n = timestamp '2024-01-01 00:00:00Z'") == 2
    assert await dataset.count_rows("n = timestamp '2024-01-01 01:00:00+01:00'") == 2
    assert await dataset.count_rows("n = ?", params=[LOCAL_MIDNIGHT]) == 0


async def test_hours_that_clocks_show_twice_or_never(dataset: alance.Dataset) -> None:
    twice, never = "timestamp '2024-10-27 02:30:00'", "timestamp '2024-03-31 02:30:00'"
    for text, instant in ((twice, "2024-10-27 00:30:00Z"), (never, "2024-03-31 00:59:59.999999Z")):
        updated = await dataset.update({"t": text})
        assert await updated.count_rows(f"t = timestamp '{instant}'") == 2
        assert await updated.count_rows(f"t = {text}") == 2

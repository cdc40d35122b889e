"""Filters of many terms: the loop stays free, and nothing is asked once a term and fragment."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.expr import index_query, parse_projection, pruning_checks
from alance.ops.read import pruning
from alance.testing.stalls import Stalls

if TYPE_CHECKING:
    from pathlib import Path

    from alance.expr import Computed
    from alance.expr.pruning import Check

ROWS = 400
FRAGMENTS = 40
TABLE = pa.table({"a": range(ROWS), "t": [f"text{n:04}" for n in range(ROWS)]})
TRIES = 6  # work takes longer where others have a part of the processor that no process sees
SHAPES = {
    "or": " or ".join(f"a = {n}" for n in range(0, 4000, 2)),
    "or of texts": " or ".join(f"t = 'text{n:04}'" for n in range(0, 4000, 2)),
    "in": "t in (" + ", ".join(f"'text{n:04}'" for n in range(0, 20000, 2)) + ")",
    "not in": f"a not in ({', '.join(str(n) for n in range(1, 4000, 2))})",
    "ranges": " or ".join(f"a between {n} and {n}" for n in range(0, 2000, 2)),
    "and of ors": " and ".join(
        "(" + " or ".join(f"a = {n}" for n in range(0, 800, 2)) + f" or t < '{part}')"
        for part in range(4)
    ),
    "two columns": " or ".join(f"(a = {n} and t = 'text{n:04}')" for n in range(0, 400, 2)),
}


async def write(folder: Path) -> alance.Dataset:
    return await alance.write_dataset(
        TABLE, folder / "t", statistics=True, max_rows_per_file=ROWS // FRAGMENTS
    )


@pytest.mark.parametrize("shape", SHAPES)
async def test_rows_are_those_without_pruning(tmp_path: Path, shape: str) -> None:
    dataset = await write(tmp_path)
    expected = TABLE["a"].to_pylist()[::2]
    for use_stats in (True, False):
        table = await dataset.to_table(["a"], filter=SHAPES[shape], use_stats=use_stats)
        assert table["a"].to_pylist() == expected


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_callback_of_the_loop_parses_or_builds(tmp_path: Path, shape: str) -> None:
    dataset = await write(tmp_path)
    await dataset.to_table(["a"], filter="a = 1 and t = 'x'")  # what is imported once
    for _ in range(TRIES):
        async with Stalls() as stalls:
            await dataset.to_table(["a"], filter=SHAPES[shape])
        if stalls.longest_callback < 0.010:
            break
    # Parsing alone takes 10 to 500 ms of processor time, each time.
    assert stalls.longest_callback < 0.010, stalls.slowest


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "two columns"])
async def test_fragments_are_looked_up_together(
    tmp_path: Path, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = await write(tmp_path)
    looks = 0
    plain = pruning_checks.Within.may

    def counted(self: pruning_checks.Within, zones: pruning_checks.Zones) -> pruning_checks.May:
        nonlocal looks
        looks += 1
        return plain(self, zones)

    monkeypatch.setattr(pruning_checks.Within, "may", counted)
    await dataset.to_table(["a"], filter=SHAPES[shape])
    # Once for 64 fragments, whose only zone is the whole of each.
    assert looks == (8 if shape == "and of ors" else 1)


async def test_small_fragments_are_read_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "LEAST_WORK", 64 << 10)
    dataset = await write(tmp_path)
    explanation = await dataset.scanner(filter="a = 7").explain()
    assert explanation.skipped is None
    many = " or ".join(f"(a = {n} and t = 'text{n:04}')" for n in range(100))
    assert (await dataset.scanner(filter=many).explain()).skipped is None
    large = await alance.write_dataset(
        pa.table({"a": range(100_000)}), tmp_path / "large", max_rows_per_file=25_000
    )
    skipped = (await large.scanner(filter="a = 30000").explain()).skipped
    assert skipped is not None
    assert skipped.num_fragments == 4


@pytest.mark.parametrize("has_index", [False, True])
@pytest.mark.parametrize("form", ["parameter", "expression", "keys"])
async def test_long_lists_that_the_text_does_not_show_are_sorted_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, has_index: bool
) -> None:
    dataset = await write(tmp_path)
    if has_index:
        dataset = await dataset.create_scalar_index("t", "BTREE")
    threads = []

    def check_of(condition: object) -> Check | None:
        threads.append(threading.current_thread())
        return pruning_of(condition)

    pruning_of = pruning.check_of
    monkeypatch.setattr(index_query if has_index else pruning, "check_of", check_of)
    texts = [f"text{n:04}" for n in range(0, 20_000, 2)]
    if form == "parameter":
        count = await dataset.count_rows("t in :texts", params={"texts": texts})
    elif form == "expression":
        count = await dataset.count_rows(pc.field("t").isin(texts))
    else:
        count = (await dataset.get_many(texts, "t", missing="skip")).num_rows
    assert count == ROWS // 2
    assert threads
    assert threading.main_thread() not in threads


@pytest.mark.parametrize("way", ["in order", "sorted", "by keys"])
async def test_many_computed_columns_are_parsed_off_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    dataset = await write(tmp_path)
    threads = []

    def parsed(text: str, schema: pa.Schema) -> Computed:
        if text.strip("`") != "a":  # that of the order alone
            threads.append(threading.current_thread())
        return parse_projection(text, schema)

    monkeypatch.setattr("alance.expr.parse_projection", parsed)
    columns = {f"column{number}": f"a + {number}" for number in range(200)}
    if way == "by keys":
        table = await dataset.get_many([0], "a", columns)
    else:
        order = ["a"] if way == "sorted" else None
        table = await dataset.to_table(columns, limit=1, order_by=order)
    assert table.to_pylist() == [{f"column{number}": number for number in range(200)}]
    assert threads
    assert threading.main_thread() not in threads

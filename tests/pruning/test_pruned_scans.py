"""Filtered scans with statistics and without give the same, whatever became of the table."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
from alance.errors import AlanceError
from alance.format.encode import statistics
from tests.pruning.pruning_cases import FILTERS, tables

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa


@pytest.fixture(autouse=True)
def small_zones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "WRITTEN_ZONE_ROWS", 4)


async def answers(dataset: alance.Dataset, text: str, **options: object) -> str | None:
    """All rows that match, as Python's text (where NaN equals itself); None: an error."""
    try:
        table = await dataset.to_table(filter=text, with_row_id=True, **options)
        return str(table.to_pylist())
    except AlanceError:
        return None


async def check_equal_scans(dataset: alance.Dataset, filters: list[str]) -> None:
    for text in filters:
        plain = await answers(dataset, text, use_stats=False)
        if plain is None:  # rows that the filter cannot take may be among those that are skipped
            continue
        assert await answers(dataset, text) == plain, text
        late = await answers(dataset, text, columns=["i", "s"])
        assert late == await answers(dataset, text, columns=["i", "s"], use_stats=False), text
        count = await dataset.scanner(filter=text, use_stats=False).count_rows()
        assert await dataset.count_rows(text) == count, text


CHANGES = st.lists(
    st.sampled_from(["delete", "update", "append", "compact", "add"]), max_size=4
).map(lambda names: [*dict.fromkeys(names)])


@settings(max_examples=8)
@given(
    tables(),
    tables(8),
    CHANGES,
    st.lists(FILTERS, min_size=3, max_size=6),
    st.integers(3, 30),
)
def test_answers_are_the_same_after_changes(
    tmp_path: Path,
    table: pa.Table,
    more: pa.Table,
    changes: list[str],
    filters: list[str],
    rows: int,
) -> None:
    async def run() -> None:
        shutil.rmtree(tmp_path / "t", ignore_errors=True)
        dataset = await alance.write_dataset(table, tmp_path / "t", max_rows_per_file=rows)
        await check_equal_scans(dataset, filters)
        for change in changes:
            if change == "delete":
                dataset = await dataset.delete("i < 0 or s = 'a'")
            elif change == "update":
                dataset = await dataset.update({"i": "2", "f": "1.5"}, where="i = 1")
            elif change == "append":
                dataset = await dataset.insert(more)
            elif change == "compact":
                dataset = await dataset.optimize.compact_files()
            else:
                dataset = await dataset.add_columns({"twice": "cast(i as bigint) * 2"})
            extra = ["twice > 3", "twice = 2 and i = 1"] if "twice" in dataset.schema.names else []
            await check_equal_scans(dataset, filters + extra)

    asyncio.run(run())

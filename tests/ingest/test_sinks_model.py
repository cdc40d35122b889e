"""Random changes by several sinks that are cancelled and killed, beside pylance and maintenance."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from alance.ops.merge import match
from tests.ingest.sinks_model import KEYS, Sinks

if TYPE_CHECKING:
    from pathlib import Path

    from alance.testing.lab import Lab

_numbers = itertools.count()
SEEDS = [
    pytest.param(range(1), id="short"),
    pytest.param(range(1, 40), id="long", marks=[pytest.mark.soak, pytest.mark.timeout(0)]),
]


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("keys", KEYS)
async def test_each_change_is_in_the_table_once(
    tmp_path: Path, keys: str, seeds: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are found by a scan, by a scan with the keys as a filter, or by the index."""
    fewest_rows, filtered_rows = match.FEWEST_ROWS, match.FILTERED_ROWS
    for seed in seeds:
        way = (len(keys) + seed) % 3
        monkeypatch.setattr(match, "FEWEST_ROWS", 0 if way == 1 else fewest_rows)
        monkeypatch.setattr(match, "FILTERED_ROWS", 0 if way == 2 else filtered_rows)
        await Sinks(str(tmp_path / f"{seed}"), keys, seed).run(4 if len(seeds) == 1 else 8)


@pytest.mark.parametrize("seeds", SEEDS)
@pytest.mark.parametrize("keys", ["int", "several"])
async def test_lost_answers_and_refusals_lose_no_change(lab: Lab, keys: str, seeds: range) -> None:
    for seed in seeds:
        uri = f"s3://lab/sinks-{next(_numbers)}.lance"
        await Sinks(uri, keys, seed, lab).run(4 if len(seeds) == 1 else 8)

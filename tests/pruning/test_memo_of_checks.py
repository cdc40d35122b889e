"""Checks of filters against statistics are memoized if the same filter is found again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import alance
from alance.format.schema import Remembered
from alance.ops.read.pruning import Pruner

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("condition", "is_memoized"),
    [
        ("id > 5", True),
        (pc.field("id") > 5, False),
        ("at < now()", False),
    ],
)
async def test_only_filters_that_are_found_again_are_memoized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: Any, *, is_memoized: bool
) -> None:
    rows = pa.table({"id": range(10), "at": pa.array([0] * 10, pa.timestamp("us", "UTC"))})
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    memo = dataset._snapshot.schema.remember(Pruner, Remembered)  # equal schemas share it
    before = len(memo)
    pruners, of = list[Pruner](), Pruner.of

    def noted(*arguments: Any) -> Pruner:
        pruners.append(of(*arguments))
        return pruners[-1]

    monkeypatch.setattr(Pruner, "of", noted)
    for _ in range(3):
        assert await dataset.count_rows(condition) in (4, 10)
    assert len(pruners) == (1 if is_memoized else 3)
    assert len(memo) - before == (1 if is_memoized else 0)

"""The code of the page about training runs as it stands, and so does its example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import alance.sync
from tests.pages import ROOT, run_example, run_page

if TYPE_CHECKING:
    from pathlib import Path

    import torch


async def test_the_code_of_the_page_about_training_runs(tmp_path: Path) -> None:
    pixels = pa.FixedSizeListArray.from_arrays(np.zeros(16_000, np.uint8), 16)
    table = pa.table({"pixels": pixels, "label": np.arange(1000) % 10})
    alance.sync.write_dataset(table, tmp_path / "table")
    steps: list[tuple[int, ...]] = []

    def train(pixels: torch.Tensor, label: torch.Tensor) -> None:
        assert pixels.shape == (len(label), 16)
        steps.append(tuple(label.shape))

    await run_page(ROOT / "docs" / "training.md", {"uri": tmp_path / "table", "train": train})
    assert len(steps) == 2 * 13 + 2 * 16  # two epochs and none left, samples, all with a transform


def test_the_example_runs_from_any_folder(tmp_path: Path) -> None:
    printed = run_example("training", tmp_path)
    assert "at batch 40 of 125" in printed
    assert "at batch 125 of 125" in printed
    assert "right: True" in printed

"""The code of the page about training runs as it stands, and so does its example."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.pages import ROOT, run_example, run_page

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_the_code_of_the_page_about_training_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await run_page(ROOT / "docs" / "training.md", {})


def test_the_example_runs_from_any_folder(tmp_path: Path) -> None:
    printed = run_example("training", tmp_path)
    assert "at batch 40 of 125" in printed
    assert "at batch 125 of 125" in printed
    assert "right: True" in printed

"""The code of the page about Ray runs as it stands, and so does its example."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import lance

from tests.pages import ROOT, run_example, run_page

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_code_of_the_page_about_ray_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asyncio.run(run_page(ROOT / "docs" / "ray.md", {}))
    photos = lance.dataset("photos.lance")
    assert {"vector", "area"} < set(photos.schema.names)
    assert 0 < lance.dataset("bright.lance").count_rows() < photos.count_rows() == 1000


def test_the_example_runs_from_any_folder(tmp_path: Path) -> None:
    printed = run_example("ray_embeddings", tmp_path, warnings="ignore")  # those of Ray
    assert "version 3, 2000 rows" in printed
    assert "1234 row 1234 0.0" in printed  # of six rows with the same digits

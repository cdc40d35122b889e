"""The subcommand `health` on all tables of a catalog, and as a check of scripts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import alance.sync
from alance.command import main

if TYPE_CHECKING:
    from pathlib import Path

Shown = pytest.CaptureFixture[str]
RULES = {"alance.maintenance.min_small_fragments": "3"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog: `calm` needs nothing, `eu/old` a compaction, `stale` also an index."""
    catalog = alance.sync.connect(tmp_path / "shop")
    catalog.create_namespace("eu")
    for name, number in (("calm", 1), (("eu", "old"), 4), ("stale", 4)):
        table = catalog.create_table(name, {"id": list(range(10))})
        if name == "stale":
            table = table.create_scalar_index("id", "BTREE")
        for _ in range(1, number):
            table = table.insert({"id": list(range(10))})
        table.update_config(RULES)
    return tmp_path / "shop"


def run(shown: Shown, *arguments: str, status: int = 0) -> list[Any]:
    assert main([*arguments, "--json"]) == status
    return [json.loads(line) for line in shown.readouterr().out.splitlines()]


def test_tables_are_listed_from_the_worst_to_the_best(folder: Path, capsys: Shown) -> None:
    rows = run(capsys, "health", str(folder))
    steps = {row["table"]: [step["kind"] for step in row["due"]] for row in rows}
    assert list(steps.items()) == [
        ("stale", ["compact", "index"]),
        ("eu/old", ["compact"]),
        ("calm", []),
    ]
    assert [row["num_small_fragments"] for row in rows] == [4, 4, 1]
    assert main(["health", str(folder), "--reclaimable"]) == 0
    text = capsys.readouterr().out
    assert text.index("stale") < text.index("eu/old") < text.index("calm")
    assert "index id_idx: " in text


def test_a_check_says_by_its_status_what_is_due(folder: Path, capsys: Shown) -> None:
    run(capsys, "health", str(folder), "--check", status=2)
    (state,) = run(capsys, "health", "stale", "--in", str(folder), "--check", status=2)
    assert [step["kind"] for step in state["due"]] == ["compact", "index"]
    (state,) = run(capsys, "health", str(folder / "calm.lance"), "--check")
    assert state["due"] == []
    assert main(["health", str(folder / "calm.lance"), "--check", "--version", "1"]) == 1
    assert main(["maintain", str(folder)]) == 0
    capsys.readouterr()
    run(capsys, "health", str(folder), "--check")


def test_a_table_that_cannot_be_read_is_the_worst(folder: Path, capsys: Shown) -> None:
    for manifest in (folder / "calm.lance" / "_versions").iterdir():
        manifest.write_bytes(b"damaged")
    first, *others = run(capsys, "health", str(folder), "--check", status=1)
    assert first["table"] == "calm"
    assert "too short" in first["error"]
    assert [row["table"] for row in others] == ["stale", "eu/old"]
    assert main(["health", str(folder)]) == 1
    assert "error: " in capsys.readouterr().out

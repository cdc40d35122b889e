"""The code and the commands of the page about migration run as they stand."""

from __future__ import annotations

import asyncio
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import alance.sync
from alance.command import main
from tests.pages import ROOT, blocks, run_block

if TYPE_CHECKING:
    import pytest


def test_the_page_about_migration_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        for block in blocks(ROOT / "docs" / "migrating.md"):
            if block.language == "python":
                runner.run(run_block(block, names))
                continue
            for line in block.code.splitlines():
                command, _, target = line.partition(" > ")
                capfdbinary.readouterr()
                assert main(shlex.split(command)[1:]) == 0
                if target:
                    Path(target).write_bytes(capfdbinary.readouterr().out)
    counts = {"from_parquet": 4, "from_delta": 3, "from_iceberg": 3}
    for name, count in counts.items():
        assert alance.sync.dataset(f"{name}.lance").count_rows() == count
    assert names["pa"].dataset.dataset("out.parquet").count_rows() == 3

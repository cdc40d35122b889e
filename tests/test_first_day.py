"""The stories of docs/first-day.md and the notebook beside them, as a newcomer would run them."""

from __future__ import annotations

import ast
import asyncio
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any, Final

import pytest

import alance
from tests.pages import ROOT, Block, blocks, run_block

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE: Final = ROOT / "docs" / "first-day.md"
NOTEBOOK: Final = ROOT / "examples" / "first_day.ipynb"
END: Final = "end of the block"


class Shell:
    """One bash for a page, which ends at the first command that fails."""

    def __init__(self, folder: Path) -> None:
        programs = folder / "programs"
        programs.mkdir()
        command = programs / "alance"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m alance "$@"\n')
        command.chmod(0o755)
        self.errors = (folder / "errors").open("w+")
        self.process = subprocess.Popen(
            ["bash", "-e"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
            cwd=folder,
            env=os.environ
            | {"PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "200", "NO_PROXY": "*"},
            start_new_session=True,
        )

    def run(self, code: str) -> list[str]:
        """Run a block, and return the lines that it prints."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{code}echo; echo '{END}'\n")
        self.process.stdin.flush()
        lines = []
        for line in self.process.stdout:
            if line.strip() == END:
                return lines
            lines.append(line)
        self.errors.seek(0)
        pytest.fail(f"{code}\n{''.join(lines)}\n{self.errors.read()}")

    def close(self) -> None:
        """End it, with what it has started."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()
        self.errors.close()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.close()


def check_shown(shown: str, printed: list[str]) -> None:
    """The lines of a page are among those that were printed, in this order.

    Spaces count as one; `...` stands for what is different each time.
    """
    lines = iter([" ".join(line.split()) for line in printed])
    for line in shown.splitlines():
        pattern = ".*".join(map(re.escape, " ".join(line.split()).split("...")))
        assert any(re.fullmatch(pattern, other) for other in lines), f"{line!r} in {printed}"


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.timeout(900)  # some thirty processes, one after the other
async def test_the_stories_run_as_they_are_told(
    tmp_path: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    port = free_port()
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: list[str] = []
    compared = 0
    for block in blocks(PAGE):
        if block.language == "python":
            await run_block(block, names)
        elif block.language == "text":
            check_shown(block.code, printed)
            compared += 1
        elif not re.search(r"^pip install", block.code, re.MULTILINE):
            printed = await asyncio.to_thread(shell.run, block.code.replace("8000", port))
    assert compared >= 8
    assert "<script" in (tmp_path / "trace.html").read_text()
    await alance.Session.of_loop().aclose()
    names.clear()
    gc.collect()


def test_what_the_stories_install_are_extras_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.findall(r"pip install '\.\[([\w,]+)\]'", PAGE.read_text())
    assert len(extras) >= 2
    for names in extras:
        assert set(names.split(",")) <= set(project["optional-dependencies"])


def test_lines_that_were_not_printed_are_told() -> None:
    check_shown("a 1 ...\nc", ["a  1 2026\n", "b\n", "c\n"])
    with pytest.raises(AssertionError, match="'b'"):
        check_shown("c\nb", ["b\n", "c\n"])


async def test_the_notebook_runs_from_top_to_bottom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    names: dict[str, Any] = {"__name__": "__main__"}
    shown = {}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        assert cell["outputs"] == []
        source = "".join(cell["source"])
        await run_block(Block(cell["id"], "python", 1, source), names)
        last = ast.parse(source).body[-1]
        if isinstance(last, ast.Expr) and isinstance(last.value, ast.Name):
            shown[cell["id"]] = names[last.value.id]
    assert "<th>rows</th><td>160</td>" in shown["table"]._repr_html_()
    assert names["near"]["word"].to_pylist()[0] == "waterfall"
    assert names["german_only"]["word"].to_pylist()[0] == "wasserfall"
    assert names["both"]["word"].to_pylist()[0] == "glass"
    assert names["accuracy"] > 0.85
    assert shown["loss"]._repr_svg_().startswith("<svg")
    assert "take" in shown["requests"]._repr_html_()
    printed = capsys.readouterr().out
    assert "% of 32 words that it has not seen are right" in printed
    assert "vector: " in printed
    await alance.Session.of_loop().aclose()
    names.clear()
    shown.clear()
    gc.collect()

"""Completions of values by `alance completions values`, and by the script of bash."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import alance.sync
from alance.command import main
from alance.command.main import parser
from alance.command.values import KINDS

if TYPE_CHECKING:
    from alance.testing.lab import Lab

Shown = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A catalog with the tables `users` and `eu/orders`."""
    folder = tmp_path_factory.mktemp("lake")
    catalog = alance.sync.connect(folder)
    catalog.create_namespace("eu")
    rows = {"id": [1, 2], "idea": ["a", "b"], "$(touch run) *": [1, 2]}
    catalog.create_table(("eu", "orders"), rows)
    users = catalog.create_table("users", rows).create_scalar_index("id", "BTREE")
    users.tags.create("first", 1)
    users.create_branch("trial")
    return folder


def values(shown: Shown, line: str) -> list[str]:
    assert main(["completions", "values", line]) == 0
    return shown.readouterr().out.splitlines()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("alance head --in {} ", ["users", "eu/orders"]),
        ("alance head --in {} us", ["users"]),
        ("alance head users --in {} --columns id", ["id", "idea"]),
        ("alance head users --in {} --columns idea,id", ["idea,id", "idea,idea"]),
        ("alance head {}/users.lance --columns ide", ["idea"]),
        ("alance alter {}/users.lance --rename i", ["id=", "idea="]),
        ("alance alter {}/users.lance --drop ide", ["idea"]),
        ("alance index {}/users.lance --drop ", ["id_idx"]),
        ("alance index {}/users.lance --type IVF_P", ["IVF_PQ"]),
        ("alance count {}/users.lance --version ", ["first"]),
        ("alance count {}/users.lance --branch t", ["trial"]),
        ("alance cat {}/users.lance --format p", ["parquet"]),
        ("alance head ", []),
        ("alance head {}/none --columns ", []),
        ("alance head 'open", []),
        ("alance nothing x", []),
        ("alance", []),
        ("", []),
    ],
)
def test_values_are_those_of_the_table(
    folder: Path, capsys: Shown, line: str, expected: list[str]
) -> None:
    assert values(capsys, line.format(folder)) == expected


def test_options_with_values_are_options_of_commands() -> None:
    (commands,) = (action for action in parser()._actions if action.dest == "command")
    options = {
        f"{command} {option}"
        for command, below in dict(commands.choices or {}).items()
        for option in below._option_string_actions
    }
    for name in KINDS:
        assert any(f" {option}".endswith(f" {name}") for option in options), name


def test_a_table_in_a_store_that_hangs_has_no_values(
    lab: Lab, capsys: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    from alance.command import values as module

    monkeypatch.setattr(module, "MAX_SECONDS", 0.2)
    lab.config(latency_ms=5000)
    options = " ".join(f"--storage {key}={value}" for key, value in lab.lance_options().items())
    try:
        assert values(capsys, f"alance head s3://lab/slow {options} --columns ") == []
    finally:
        lab.calm()


def test_bash_completes_names_that_it_does_not_run(
    folder: Path, tmp_path: Path, capsys: Shown
) -> None:
    assert main(["completions", "bash"]) == 0
    script = capsys.readouterr().out
    (tmp_path / "alance").write_text(f'#!/bin/sh\nexec {sys.executable} -m alance "$@"\n')
    (tmp_path / "alance").chmod(0o755)
    line = f"alance head {folder}/users.lance --columns "
    probe = (
        f"{script}\nCOMP_LINE='{line}' COMP_POINT={len(line)}\n"
        f"COMP_WORDS=({line} '') COMP_CWORD=4\n"
        'cd "$1"; _alance; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    root = Path(alance.__file__).parents[1]
    paths = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(root)}
    done = subprocess.run(
        ["bash", "-c", probe, "bash", str(tmp_path)],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, **paths},
    )
    assert done.stdout.splitlines() == ["id", "idea", "$(touch run) *"]
    assert not (tmp_path / "run").exists()

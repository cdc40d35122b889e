"""The subcommand `maintain` on all tables of a catalog."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance
import pyarrow as pa
import pytest

import alance
import alance.sync
from alance import MaintenancePolicy
from alance.command import main
from alance.command.budget import MaintenanceBudget
from alance.ops.maintain import lease

if TYPE_CHECKING:
    from collections.abc import Iterator

Shown = pytest.CaptureFixture[str]
RULES = ("--rule", "min_small_fragments=3")
NAMES = ("eu/c", "a", "b")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog of three tables of four small fragments, one of them in a namespace."""
    catalog = alance.sync.connect(tmp_path / "shop")
    catalog.create_namespace("eu")
    for name in ("a", "b", ("eu", "c")):
        for number in range(4):
            rows = {"id": list(range(10 * number, 10 * number + 10))}
            catalog.create_table(name, rows, mode="append" if number else "create")
    return tmp_path / "shop"


def num_fragments(folder: Path) -> dict[str, int]:
    catalog = alance.sync.connect(folder)
    return {name: len(catalog.open_table(tuple(name.split("/"))).fragments) for name in NAMES}


def run(shown: Shown, *arguments: str, status: int = 0) -> list[Any]:
    assert main([*arguments, "--json"]) == status
    return [json.loads(line) for line in shown.readouterr().out.splitlines()]


def steps(rows: list[Any]) -> list[tuple[str, str]]:
    return [(row["table"], row.get("outcome", "error")) for row in rows]


def test_each_table_is_maintained_and_a_dry_run_shows_it(folder: Path, capsys: Shown) -> None:
    planned = run(capsys, "maintain", str(folder), "--dry-run", *RULES)
    assert steps(planned) == [("a", "planned"), ("b", "planned"), ("eu/c", "planned")]
    assert num_fragments(folder) == dict.fromkeys(NAMES, 4)
    assert main(["maintain", str(folder), *RULES, "--at-once", "2"]) == 0
    text = capsys.readouterr().out
    assert "eu/c:\n  done        compact: 4 small fragments can be joined" in text
    assert num_fragments(folder) == dict.fromkeys(NAMES, 1)
    assert run(capsys, "maintain", str(folder), *RULES) == []


def test_a_table_that_its_catalog_lacks_is_no_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Shown
) -> None:
    monkeypatch.chdir(folder.parent)
    assert main(["maintain", folder.name, "--in", str(folder.parent / "other"), *RULES]) == 1
    assert "no table" in capsys.readouterr().err
    assert num_fragments(folder) == dict.fromkeys(NAMES, 4)


def test_a_broken_table_is_reported_and_does_not_stop_the_others(
    folder: Path, capsys: Shown
) -> None:
    for manifest in (folder / "a.lance" / "_versions").iterdir():
        manifest.write_bytes(b"damaged")
    rows = run(capsys, "maintain", str(folder), *RULES, status=1)
    assert steps(rows) == [("a", "error"), ("b", "done"), ("eu/c", "done")]
    assert rows[0]["error"].startswith("manifest of 7 bytes")
    assert main(["maintain", str(folder), *RULES]) == 1
    assert "\na: " in "\n" + capsys.readouterr().out


def test_a_budget_is_that_of_all_tables(folder: Path, capsys: Shown) -> None:
    planned = run(capsys, "maintain", str(folder), "--dry-run", *RULES)
    most = sum(step["num_requests"] for step in planned[:2])
    budget = ("--max-requests", str(most))
    over = [("a", "planned"), ("b", "planned"), ("eu/c", "error")]
    rows = run(capsys, "maintain", str(folder), "--dry-run", *RULES, *budget)
    assert steps(rows) == over
    assert rows[2]["error"] == "not reached: the budget is spent"
    run(capsys, "maintain", str(folder), *RULES, *budget)
    assert num_fragments(folder) == {"a": 1, "b": 1, "eu/c": 4}
    assert main(["maintain", str(folder), "--max-requests", "0"]) == 1
    assert "--max-requests 0: expected a number above 0" in capsys.readouterr().err


def test_tables_at_once_share_what_is_left() -> None:
    budget = MaintenanceBudget(100, None, None, 2)
    first, second = budget.take(), budget.take()
    assert first is not None
    assert second is not None
    assert (first.num_bytes, second.num_bytes) == (50, 50)
    assert second.limit(MaintenancePolicy(max_bytes=7)).max_bytes == 7
    assert second.limit(MaintenancePolicy()).max_bytes == 50
    budget.give_back(first, None)
    budget.give_back(second, None)
    assert budget.take() == first


def test_what_is_neither_table_nor_catalog_is_an_error(tmp_path: Path, capsys: Shown) -> None:
    assert main(["maintain", str(tmp_path)]) == 1
    assert str(tmp_path) in capsys.readouterr().err


@pytest.fixture(params=["", "trap '' INT; "], ids=["in front", "in the background"])
def process(folder: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "alance", "maintain", str(folder), *RULES, "--every", "10ms"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    # Room for the step of a single table: the next run goes on with the next table.
    command += ["--max-requests", "20"]
    command = ["sh", "-c", f'{request.param}exec "$@"', "sh", *command]
    with subprocess.Popen(
        command, env=environment, stderr=subprocess.PIPE, text=True, bufsize=1
    ) as child:
        try:
            yield child
        finally:
            child.kill()  # a test that fails leaves it running


def test_runs_go_on_with_the_next_table_until_a_signal_ends_them(
    folder: Path, process: subprocess.Popen[str]
) -> None:
    assert process.stderr is not None
    done: list[str] = []
    while len(done) < 3:
        line = process.stderr.readline()
        assert line, done
        if line.endswith(":\n"):
            name = line[:-2]
        done += [name] * ("done        compact" in line)
    assert sorted(done) == ["a", "b", "eu/c"]
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    for path in folder.rglob(f"{lease.LEASE_FOLDER}/*.json"):
        assert json.loads(path.read_text())["expires_at"] is None


def test_a_single_table_of_the_catalog_is_a_table(folder: Path, capsys: Shown) -> None:
    (step,) = run(capsys, "maintain", str(folder / "b.lance"), *RULES)
    assert (step["outcome"], "table" in step) == ("done", False)
    assert lance.dataset(str(folder / "b.lance")).to_table() == pa.table({"id": range(40)})
    assert num_fragments(folder) == {"a": 4, "b": 1, "eu/c": 4}

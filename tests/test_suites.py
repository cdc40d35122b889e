"""Last lines of `make test`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.suites import Suite, run, suites

if TYPE_CHECKING:
    from pathlib import Path

TESTS = """
import pytest
def test_that_passes(): pass
@pytest.mark.skip
def test_that_is_skipped(): pass
"""


@pytest.fixture(autouse=True)
def without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them is needed here, and each run of pytest would import them all."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def suite(folder: Path, name: str, content: str) -> Suite:
    path = folder / f"test_{name}.py"
    path.write_text(content)
    return Suite(
        name, f"make {name}", ("-q", "-p", "no:cacheprovider", "-c", "/dev/null", str(path))
    )


def test_the_last_lines_tell_what_ran_and_what_did_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    fails = suite(tmp_path, "fails", TESTS + "def test_that_fails(): assert False\n")
    broken = suite(tmp_path, "broken", "import nothing_of_this_name\n")
    passes = suite(tmp_path, "passes", TESTS)
    assert run([fails, broken, passes, Suite("clouds", "make clouds", absent="no cloud")]) == 1
    message = re.sub(r"in \d+ s", "in N s", capfd.readouterr().out).splitlines()[-6:]
    assert message == [
        "What ran:",
        "  fails    1 passed, 1 failed, 1 skipped in N s (exit code 1)",
        "  broken   0 passed, 0 failed, 0 skipped, 1 errors in N s (exit code 2)",
        "  passes   1 passed, 0 failed, 1 skipped in N s (exit code 0)",
        "What did not run:",
        "  clouds   make clouds: no cloud",
    ]


def test_a_run_that_fails_late_fails(tmp_path: Path) -> None:
    broken = suite(tmp_path, "broken", "import nothing_of_this_name\n")
    assert run([suite(tmp_path, "passes", TESTS), broken]) == 2
    assert run([suite(tmp_path, "passes", TESTS)]) == 0


@pytest.mark.parametrize(("unwritten", "compiled"), [("1", False), ("", True)])
def test_modules_are_compiled_once_a_run_and_not_beside_the_tests_where_that_is_unwanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unwritten: str, *, compiled: bool
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", unwritten)
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    compiles = "import sys\ndef test_it(): assert not sys.dont_write_bytecode\n"
    assert run([suite(tmp_path, "compiles", compiles)]) == 0
    assert (tmp_path / "__pycache__").exists() == compiled


def test_each_suite_is_run_or_has_a_reason() -> None:
    """Suites that pytest excludes by a mark are named."""
    named = " ".join(item.command for item in suites())
    parts = ("spark", "browser", "azure", "lakes", "ray", "torch", "frames")
    for command in ("test", *[f"test-{part}" for part in parts], "soak", "fuzz"):
        assert f"make {command}" in named
    assert all(item.arguments or item.absent for item in suites())

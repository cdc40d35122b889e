"""Jobs that the project does in one way only: who finds a second one here, uses the first."""

from __future__ import annotations

import ast
from pathlib import Path

import alance

PACKAGE = Path(alance.__file__).parent


def modules_that_name(name: str) -> set[str]:
    """Modules of the package whose code names something."""
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Name) and node.id == name)
        or (isinstance(node, ast.Attribute) and node.attr == name)
    }


def test_plans_are_stepped_in_one_place() -> None:
    assert modules_that_name("StopIteration") == {"format/plans.py"}

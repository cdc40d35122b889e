"""`docs/commits.md`, "Who tries again", names each loop that answers a conflict."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Its handler ends an append that guessed wrong, or notes a failure; nothing is tried again there.
NO_LOOPS = {"append_by_uri.py", "auto_compact.py"}


def catches_conflicts(loop: ast.AST) -> bool:
    """True if a loop has a handler of conflicts that does not always end the loop."""
    return any(
        isinstance(node, ast.ExceptHandler)
        and node.type is not None
        and "ConflictError" in ast.unparse(node.type)
        for node in ast.walk(loop)
    )


def test_the_page_names_each_loop_that_answers_a_conflict() -> None:
    page = (ROOT / "docs" / "commits.md").read_text()
    section = page.split("## Who tries again")[1].split("\n## ")[0]
    files = {
        path.name
        for path in (ROOT / "alance").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.While | ast.For) and catches_conflicts(node)
    }
    assert "commits.py" in files
    missing = {name for name in files - NO_LOOPS if name not in section}
    assert not missing

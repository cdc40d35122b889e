"""The retry loop of verbs; `docs/commits.md`, "Who tries again", names each such loop."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from alance.errors import CommitConflictError, RetryableConflictError
from alance.ops.version.commits import with_retries

if TYPE_CHECKING:
    from alance.ops.version.snapshot import Snapshot

ROOT = Path(__file__).parents[2]
# Its handler ends an append that guessed wrong, or notes a failure; nothing is tried again there.
NO_LOOPS = {"append_by_uri.py", "auto_compact.py"}


class Conflicts:
    """A verb over numbered versions: so many of its attempts conflict, then one commits."""

    def __init__(self, count: int, newest: int = 100) -> None:
        self.count = count
        self.newest = newest
        self.bases: list[int] = []

    async def attempt(self, base: Snapshot) -> int:
        number = cast("int", base)
        self.bases.append(number)
        if len(self.bases) <= self.count:
            raise RetryableConflictError(f"attempt {len(self.bases)}")
        return number

    async def rebase(self, base: Snapshot) -> Snapshot | None:
        number = cast("int", base)
        return cast("Snapshot", number + 1) if number < self.newest else None

    async def run(self, max_retries: int, deadline: float | None = None) -> int:
        base, rebase = cast("Snapshot", 1), self.rebase
        return await with_retries(base, self.attempt, max_retries, rebase=rebase, deadline=deadline)


async def test_each_attempt_is_made_on_a_newer_version() -> None:
    verb = Conflicts(3)
    assert await verb.run(max_retries=3) == 4
    assert verb.bases == [1, 2, 3, 4]


async def test_the_conflict_of_the_last_attempt_is_raised() -> None:
    verb = Conflicts(3)
    with pytest.raises(RetryableConflictError, match="attempt 3"):
        await verb.run(max_retries=2)
    assert verb.bases == [1, 2, 3]


async def test_no_attempt_begins_after_the_deadline() -> None:
    now = asyncio.get_running_loop().time()
    late, early = Conflicts(1), Conflicts(1)
    with pytest.raises(RetryableConflictError, match="attempt 1"):
        await late.run(max_retries=9, deadline=now)
    assert await early.run(max_retries=9, deadline=now + 1e6) == 2


async def test_the_conflict_is_raised_where_another_attempt_cannot_help() -> None:
    verb = Conflicts(9, newest=2)
    with pytest.raises(RetryableConflictError, match="attempt 2"):
        await verb.run(max_retries=9)
    assert verb.bases == [1, 2]


@pytest.mark.parametrize("error", [CommitConflictError("final"), asyncio.CancelledError()])
async def test_other_errors_end_the_retries(error: BaseException) -> None:
    attempts: list[Any] = []

    async def attempt(base: Snapshot) -> None:
        attempts.append(base)
        raise error

    with pytest.raises(type(error)):
        await with_retries(cast("Snapshot", 1), attempt, 9, rebase=Conflicts(0).rebase)
    assert attempts == [1]


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


def test_the_page_names_each_file_that_bounds_retries() -> None:
    page = (ROOT / "docs" / "commits.md").read_text()
    section = page.split("## Who tries again")[1].split("\n## ")[0]
    words = "RETRIES|TRIES|ATTEMPTS|BEGINNINGS|RETRY_S|RETRY_SECONDS"
    bound = re.compile(rf"^_?(?:[A-Z]+_)*(?:{words}): ", re.MULTILINE)
    files = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "alance").rglob("*.py")
        if bound.search(path.read_text())
    }
    assert "alance/io/cloud/upload_remote.py" in files
    assert {name for name in files if f"`{name}`" not in section} == set()

"""The code blocks of a page of documentation, and what runs them; examples."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import dataclass
from inspect import CO_COROUTINE
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A block between fences, as it stands on the page.

    Attributes:
        line: of the page, on which its code begins, from 1.
    """

    page: str
    language: str
    line: int
    code: str

    def compiled(self) -> CodeType:
        """Its code, where `await` may stand outside of functions; lines are those of the page."""
        return compile(
            "\n" * (self.line - 1) + self.code,
            self.page,
            "exec",
            flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
            dont_inherit=True,
        )


def blocks(path: Path) -> list[Block]:
    """All blocks of a page, in its order."""
    text = path.read_text()
    return [
        Block(path.name, match[1], text.count("\n", 0, match.start(2)) + 1, match[2])
        for match in _FENCE.finditer(text)
    ]


async def run_block(block: Block, names: dict[str, Any]) -> None:
    """Run a Python block with these names, and leave its own among them."""
    code = block.compiled()
    result = eval(code, names)  # gives a coroutine where the block awaits
    if code.co_flags & CO_COROUTINE:
        await result


async def run_page(path: Path, names: dict[str, Any]) -> None:
    """Run the Python blocks of a page, one after the other, with these names to begin with."""
    names["__name__"] = "__main__"  # so that functions of the page can be pickled by value
    for block in blocks(path):
        if block.language == "python":
            await run_block(block, names)


def run_example(name: str, folder: Path, warnings: str = "error") -> str:
    """Run an example as a process of its own in a folder, which has to go well; what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", warnings, ROOT / "examples" / f"{name}.py"],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

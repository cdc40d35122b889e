"""Docstrings of public functions and methods, their sections and their examples."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from dataclasses import dataclass
from importlib import import_module
from inspect import CO_COROUTINE
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MODULES: Final = (
    "alance",
    "alance.blocking",
    "alance.distributed",
    "alance.indexing",
    "alance.observe",
    "alance.operations",
    "alance.optimize",
    "alance.types",
)
_SECTION: Final = re.compile(r"^(\w+):\n((?:(?: .*)?\n)+)", re.MULTILINE)
_NAMES: Final = re.compile(r"^(\w+(?:, \w+)*):(?:\s|$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Documented:
    """A public function or method, and its docstring.

    Attributes:
        name: `insert_dataset`, `Dataset.take`.
        text: its docstring; empty if it has none.
    """

    name: str
    function: Callable[..., Any]
    text: str

    def section(self, title: str) -> str:
        """Return the text below `Args:`, `Raises:` or another title; empty if it is not there."""
        sections = {match[1]: match[2] for match in _SECTION.finditer(f"{self.text}\n")}
        return textwrap.dedent(sections.get(title, "")).strip("\n")

    def names(self, title: str) -> list[str]:
        """Return the names that a section has lines for: `start, stop: ...` gives two."""
        return [
            name for match in _NAMES.finditer(self.section(title)) for name in match[1].split(", ")
        ]

    @property
    def is_async(self) -> bool:
        """True for coroutines and async iterators."""
        function = inspect.unwrap(self.function)
        return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def documented() -> Iterator[Documented]:
    """List the functions of the public modules, and the methods of their classes, once each."""
    seen = set()
    for module in map(import_module, MODULES):
        for name in module.__all__:
            for place, function in _functions(name, getattr(module, name)):
                if function not in seen:
                    seen.add(function)
                    yield Documented(place, function, inspect.getdoc(function) or "")


def _functions(name: str, value: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    if inspect.isfunction(value):
        yield name, value
    if not inspect.isclass(value) or not value.__module__.startswith("alance"):
        return
    for member_name, member in inspect.getmembers_static(value):
        if isinstance(member, classmethod | staticmethod):
            member = member.__func__
        is_ours = inspect.isfunction(member) and member.__module__.startswith("alance")
        if is_ours and not member_name.startswith("_") and "_pb2" not in value.__module__:
            yield f"{name}.{member_name}", member


async def run_example(code: str, names: dict[str, Any]) -> None:
    """Run the code of an example, and compare what it prints with its comments.

    A `print` stands on a line of its own, with its output behind `  # `.

    Raises:
        AssertionError: an `assert` fails, a line prints something else, or a `print` is not run.
    """
    lines = code.splitlines()
    pending = {number for number, line in enumerate(lines) if line.lstrip().startswith("print(")}

    def compare(*values: object) -> None:
        number = sys._getframe(1).f_lineno - 1
        _, _, expected = lines[number].partition("  # ")
        printed = " ".join(map(str, values))
        assert printed == expected, f"{lines[number].strip()}: printed {printed!r}"
        pending.discard(number)

    names["print"] = compare
    program = compile(
        code, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    result = eval(program, names)
    if program.co_flags & CO_COROUTINE:
        await result
    assert not pending, [f"{lines[number].strip()}: not run" for number in sorted(pending)]


def checks(code: str) -> bool:
    """True if an example compares a result: by an `assert` or a `print`."""
    return any(
        isinstance(node, ast.Assert)
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "print")
        for node in ast.walk(ast.parse(code))
    )


def examples(functions: Iterable[Documented]) -> dict[str, str]:
    """Return the code of examples by the names of their functions."""
    return {
        function.name: f"{code}\n"
        for function in functions
        if (code := function.section("Example"))
    }

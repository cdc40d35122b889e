"""Variables and functions are named for what they are."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS: Final = ("alance", "benchmarks", "examples", "tools")
# Names that say nothing but that there is something.
EMPTY: Final = frozenset(
    [
        "both",
        "found",
        "given",
        "known",
        "made",
        "mine",
        "one",
        "same",
        "some",
        "there",
        "this",
        "wanted",
    ]
)

# Further such names, in folders that have none of them; `left` stands beside `right` as well.
FILLER: Final = frozenset(["asked", "kept", "left", "said", "told"])
FOLDERS_WITHOUT: Final = tuple(
    f"alance/{name}" for name in ("ops", "versioning", "verbs", "catalogs", "spark")
)
MEANT: Final = frozenset(
    [
        ("alance/ops/lookup/files.py", "left"),  # a side
        ("alance/ops/upkeep/repair.py", "left"),  # public
        ("alance/spark/filters.py", "left"),  # a side
    ]
)


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that are bound to something, and their lines: variables, arguments, functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.lstrip("_"), node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


def empty_names() -> list[str]:
    """The places of empty names outside of the tests."""
    return [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not path.stem.endswith("_pb2")
        for name, line in bound(ast.parse(path.read_text()))
        if name in EMPTY
    ]


def filler_names() -> list[str]:
    """The places of filler names, also as attributes, in the folders that have none."""
    return [
        f"{place}:{line}: {name}"
        for folder in FOLDERS_WITHOUT
        for path in sorted((ROOT / folder).rglob("*.py"))
        for place, tree in [(path.relative_to(ROOT).as_posix(), ast.parse(path.read_text()))]
        for name, line in (*bound(tree), *attributes(tree))
        if name.strip("_") in FILLER and (place, name) not in MEANT
    ]


def attributes(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Attributes that are set, and their lines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_names_of_cleared_folders_are_no_filler() -> None:
    places = filler_names()
    assert not places, "\n".join(places)


def test_names_say_what_they_hold() -> None:
    places = empty_names()
    assert not places, "\n".join(places)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("one = 1", ["one"]),
        ("for found in names: pass", ["found"]),
        ("def pick(known, *, wanted): pass", ["known", "pick", "wanted"]),
        ("def _pick(*made, **mine): pass", ["made", "mine", "pick"]),
        ("numbers = [one for one in names]", ["numbers", "one"]),
        ("with place as found, other as (known, rest): pass", ["found", "known", "rest"]),
        ("if (made := build()): pass", ["made"]),
        ("try: pass\nexcept ValueError as known: pass", ["known"]),
        ("match value:\n    case [one, *wanted]: pass", ["one", "wanted"]),
        ("lambda one: one.found", ["one"]),
        ("read(found=one)", []),
    ],
)
def test_names_are_found_wherever_they_are_bound(text: str, names: list[str]) -> None:
    assert Counter(name for name, _ in bound(ast.parse(text))) == Counter(names)


def test_the_name_of_a_test_has_at_least_three_words() -> None:
    short = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 3
    ]
    assert not short, "\n".join(short)

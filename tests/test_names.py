"""Variables and functions are named for what they are."""

from __future__ import annotations

import ast
import re
from collections import Counter
from typing import TYPE_CHECKING, Final

import pytest

from tests.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FOLDERS: Final = ("alance", "benchmarks", "examples", "tests", "tools")
# Names that say nothing but that there is something. `left` stands beside `right` as well.
FILLER: Final = frozenset(
    [
        *("asked", "both", "found", "given", "kept", "known", "left", "made", "mine", "one"),
        *("said", "same", "some", "there", "this", "told", "wanted"),
    ]
)
MEANT: Final = frozenset(
    [
        ("alance/io/events/trace.py", "asked"),  # public, and warns
        ("alance/ops/upkeep/repair.py", "left"),  # public
    ]
)

# Parts of names that say as little: `kept_by`, `is_told`.
FILLER_PARTS: Final = FILLER - {"known", "mine", "there", "this"}
# Rooms whose names have such parts as yet.
OPEN_ROOMS: Final = ("alance/format/", "alance/file/", "alance/ops/read/")
# Names of protocols, of pylance and of the format, and two helpers that the open rooms use.
MEANT_PARTS: Final = frozenset(
    ["connection_made", "left_nan", "left_on", "left_side", "some_columns", "some_nulls", "some_of"]
)


# Kernels in C++ have no fillers either, and spell constants kCamel.
KERNELS: Final = ROOT / "alance" / "kernels"
FILLER_IN_KERNELS: Final = FILLER - {"known", "mine", "there", "this"}
_NO_CODE: Final = re.compile(
    r"""//[^\n]*|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])'|\bif constexpr\b"""
)


def bound(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Names that are bound to something, and their lines: variables, arguments, functions.

    Also attributes that are set, but `known`, which says what an object knows.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if node.attr.strip("_") != "known":
                yield node.attr, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name.lstrip("_"), node.lineno
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name, node.lineno


def fillers_of(path: Path) -> Iterator[str]:
    """The places of filler names in a file, and of names of several words that have a filler."""
    place, tree = path.relative_to(ROOT).as_posix(), ast.parse(path.read_text())
    names = [*bound(tree)]
    sides = {"left"} if "right" in dict(names) else set()
    for name, line in names:
        words = name.strip("_").lower().split("_")
        if len(words) == 1:
            is_filler = name.strip("_") in FILLER - sides and (place, name) not in MEANT
        else:
            is_filler = has_filler(words) and not place.startswith(OPEN_ROOMS)
        if is_filler:
            yield f"{place}:{line}: {name}"


def has_filler(words: list[str]) -> bool:
    """True if a word of a name is a filler; the name of a test is a sentence."""
    is_free = words[0] == "test" or "_".join(words) in MEANT_PARTS
    return not is_free and not FILLER_PARTS.isdisjoint(words)


def kernels() -> Iterator[tuple[str, str]]:
    """Sources of the kernels: their places, and their code without comments and texts."""
    for path in sorted(KERNELS.rglob("*.[ch]pp")):
        yield path.relative_to(ROOT).as_posix(), _NO_CODE.sub(" ", path.read_text())


def constants(code: str) -> Iterator[str]:
    """Names of the variables that C++ code declares `constexpr`."""
    for part in re.split(r"\bconstexpr\b", code)[1:]:
        head = re.match(r"[^;={(\[]*", part)
        if head is None or part[head.end() : head.end() + 1] == "(":
            continue  # a function
        yield head.group().split()[-1].strip("*&")
        depth = 0
        for at, sign in enumerate(part):
            depth += (sign in "({[") - (sign in ")}]")
            if depth == 0 and sign == ";":
                break
            if depth == 0 and sign == "," and (more := re.match(r",\s*(\w+)\s*[={\[]", part[at:])):
                yield more[1]


def test_constants_of_kernels_have_one_spelling() -> None:
    names = [(place, name) for place, code in kernels() for name in constants(code)]
    assert len(names) > 100
    assert not [pair for pair in names if not re.fullmatch(r"k[A-Z][A-Za-z0-9]*", pair[1])]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("constexpr int64_t kOne = 1, TWO = 2;", ["kOne", "TWO"]),
        ("static constexpr std::array<int, 3> sizes{8, 16, 32};", ["sizes"]),
        ("constexpr uint8_t ORDER[2][2] = {{0, 1}, {2, 3}};", ["ORDER"]),
        ("template <int T> constexpr int row_at = 16 * T;", ["row_at"]),
        ("constexpr T least() { return {1, 2}; }", []),
    ],
)
def test_constants_of_code_are_found(code: str, names: list[str]) -> None:
    assert list(constants(code)) == names


def test_names_in_kernels_are_no_filler() -> None:
    fillers = [
        f"{place}: {name}"
        for place, code in kernels()
        for names in [frozenset(name.rstrip("_") for name in re.findall(r"[A-Za-z_]\w*", code))]
        for name in sorted(names & FILLER_IN_KERNELS)
        if name != "left" or "right" not in names
    ]
    assert not fillers, "\n".join(fillers)


@pytest.mark.parametrize("folder", FOLDERS)
def test_names_say_what_they_hold(folder: str) -> None:
    paths = [path for path in (ROOT / folder).rglob("*.py") if not path.stem.endswith("_pb2")]
    fillers = [filler for path in sorted(paths) for filler in fillers_of(path)]
    assert paths
    assert not fillers, "\n".join(fillers)


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
        ("self.found = self.known = _one", ["found"]),
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

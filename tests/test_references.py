"""References in pages and docstrings: pages, headings, files, rules of conflicts exist."""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import TYPE_CHECKING, Final

import pytest

from alance.format.table.changes.conflicts import COLUMNS, MATRIX, RULES
from tests.pages import PAGES, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCES: Final = [
    path
    for folder, pattern in [
        ("alance", "**/*.py"),
        ("alance/kernels", "**/*.[ch]pp"),
        ("benchmarks", "**/*.py"),
        ("examples", "*.py"),
        ("protos", "*.sh"),
        ("tests", "**/*.py"),
    ]
    for path in sorted((ROOT / folder).glob(pattern))
    if "_pb2" not in path.name and path.name != "test_references.py"
]
# docs/format/table.md, "Deletion files" and "Manifest files"
CITATION: Final = re.compile(r'(docs/[\w./-]+\.md)`?((?:,? (?:and )?"[^"]+")*)')
# A specification by no page: nobody can follow that.
VAGUE: Final = re.compile(
    r"(?:table|file) format spec|encoding spec|format notes|file format 0\.1, \"", re.IGNORECASE
)
# What follows the name of a heading: the mark of what was verified, or more words in brackets.
MARK: Final = re.compile(r"\s*\[[VRIWO][^\]]*\].*$")
BRACKETS: Final = re.compile(r"\s*\([^()]*\)$")
# `alance/io`, `ops/read/take.py`, `layouts/planar.py`
FILE: Final = re.compile(
    r"`((?:alance|benchmarks|docs|examples|tests|tools)/[\w./*-]+|[\w/*]+/[\w*]+\.[ch]?p[py])`"
)
# The same and more in the guide's tasks: folders, and files without a folder.
GUIDED_FILE: Final = re.compile(
    r"`((?:alance|docs|io|layouts|merge|protos|tests|tools|upkeep|write)/[\w./*-]*"
    r"|\w+\.(?:pyi?|[ch]pp|java|md|proto))`"
)
GUIDED_NAME: Final = re.compile(
    r"`(_?[A-Za-z]\w*(?:(?:::|\.)(?!(?:pyi?|[ch]pp|java|md|proto)`)\w+)?)`"
)
IN_ROOT: Final = {"CHANGELOG.md", "CONTRIBUTING.md", "README.md"}
TEXTS: Final = {".py", ".pyi", ".cpp", ".hpp", ".java", ".md", ".proto"}
PLACES: Final = [ROOT, *(ROOT / "alance" / place for place in ("", "format", "ops"))]
COMMITS: Final = ROOT / "docs" / "commits.md"


def words(path: Path) -> str:
    """A file's text with its comment signs and line ends as single spaces."""
    return re.sub(r"\s*\n\s*(?:#|//)?\s*", " ", path.read_text())


def headings(page: Path) -> set[str]:
    """The headings of a page: without numbers and marks; with and without brackets."""
    names = set()
    for title in re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE):
        name = re.sub(r"^(?:\d+(?:\.\d+)*\.?|Appendix \w\.) ", "", title)
        name = MARK.sub("", name).replace("`", "")
        names |= {name, BRACKETS.sub("", name)}
    return names


def citations(path: Path) -> Iterator[tuple[Path, list[str]]]:
    for match in CITATION.finditer(words(path)):
        yield ROOT / match[1], re.findall(r'"([^"]+)"', match[2].replace("`", ""))


def links(page: Path) -> list[Path]:
    """The files that a page links to."""
    targets = re.findall(r"\]\(([^):#]+)\)", page.read_text())
    return [(page.parent / target).resolve() for target in targets]


def table(page: Path, first_cell: str) -> list[list[str]]:
    """The rows, without that of the head, of the table whose head begins with this cell."""
    lines = page.read_text().splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith(f"| {first_cell} |"))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


@pytest.mark.parametrize("folder", ["alance", "benchmarks", "examples", "protos", "tests", "pages"])
def test_cited_pages_and_their_headings_are_there(folder: str) -> None:
    paths = [path for path in SOURCES if path.relative_to(ROOT).parts[0] == folder]
    for path in PAGES if folder == "pages" else paths:
        for page, names in citations(path):
            assert page.is_file(), f"{path} cites {page}"
            assert set(names) <= headings(page), f"{path} cites {page}: {names}"


def test_a_specification_is_cited_by_page() -> None:
    for path in SOURCES:
        vague = VAGUE.search(words(path))
        assert vague is None, f"{path} cites {vague and vague[0]}"


def test_files_that_pages_name_are_there() -> None:
    for path in PAGES:
        text = re.sub(r"^```.*?^```$", "", path.read_text(), flags=re.DOTALL | re.MULTILINE)
        for name in FILE.findall(text):
            assert any(any(place.glob(name)) for place in PLACES), f"{path} names {name}"


def tasks() -> Iterator[tuple[str, list[Path], list[str]]]:
    """The rows and paragraphs of the guide's tasks: the text, the files, the names of code.

    A file without a folder lies in the folder that is named before it. Raises if it does not.
    """
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    section = guide.split("## Where do I change X?")[1].split("\n## ")[0]
    for part in re.split(r"\n(?=\|)|\n\n", section):
        paths: list[Path] = []
        folder = ""
        for name in GUIDED_FILE.findall(part):
            whole = name if "/" in name or name in IN_ROOT else f"{folder}/{name}"
            folder = name.rpartition("/")[0] or folder
            present = [path for place in PLACES for path in place.glob(whole.lstrip("/"))]
            assert present, f"{name} is not in the folder that is named before it: {part}"
            paths += present
        yield part, paths, GUIDED_NAME.findall(part)


def tables_of_tasks() -> Iterator[tuple[str, list[str], list[list[str]]]]:
    """The tables of the guide's tasks: the task, the cells of the head, those of each row."""
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    section = guide.split("## Where do I change X?")[1].split("\n## ")[0]
    for task in section.split("\n### ")[1:]:
        for block in re.findall(r"(?:^\|.*\n)+", task, re.MULTILINE):
            head, _, *rows = [line.strip("| ").split(" | ") for line in block.splitlines()]
            yield task.partition("\n")[0], head, rows


def test_places_that_always_change_are_few_and_without_conditions() -> None:
    tables = [(task, head[0], rows) for task, head, rows in tables_of_tasks()]
    always = [(task, rows) for task, name, rows in tables if name == "always"]
    assert len(always) > 18
    for task, rows in always:
        assert len(rows) <= 10, task
        for row in rows:
            assert not re.search(r"\bif\b", " ".join(row)), f"{task}: {row}"


def test_other_places_of_a_task_begin_with_their_condition() -> None:
    tables = [(task, rows) for task, head, rows in tables_of_tasks() if head[0] == "only if"]
    assert len(tables) > 12
    for task, rows in tables:
        for row in rows:
            assert len(row) == 3, f"{task}: {row}"
            assert "`" in row[1], f"{task}: {row}"


def test_each_file_of_a_task_lies_in_the_folder_named_before_it() -> None:
    assert sum(len(paths) for _, paths, _ in tasks()) > 100


def test_each_name_of_a_task_is_in_one_of_the_files_beside_it() -> None:
    for part, paths, names in tasks():
        files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
        texts = "\n".join(file.read_text() for file in files if file.suffix in TEXTS)
        for name in names if paths else ():
            word = re.split(r"::|\.", name)[-1]
            assert re.search(rf"\b{word}\b", texts), f"{name} is in none of the files: {part}"


def test_pages_link_to_files_that_are_there() -> None:
    for path in PAGES:
        for target in links(path):
            assert target.exists(), f"{path} links to {target}"


def test_the_index_has_every_page() -> None:
    index = ROOT / "docs" / "README.md"
    listed = [path for path in links(index) if path.parent != ROOT]
    assert len(listed) == len(set(listed))
    assert set(listed) == {path for path in PAGES if path.parent != ROOT} - {index}


def test_the_guide_says_what_lies_in_each_folder_of_tests() -> None:
    rows = table(ROOT / "CONTRIBUTING.md", "folder of `tests/`")
    names = [name for folders, _ in rows for name in re.findall(r"`(\w+)`", folders)]
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert sorted(names) == sorted(folders)


def test_the_matrix_of_the_page_is_that_of_the_code() -> None:
    page = {row[0]: row[1:] for row in table(COMMITS, r"ours \ theirs")}
    assert page == {
        ours: [cell.replace(",", ", ") for cell in cells.split()] for ours, cells in MATRIX.items()
    }
    assert all(len(cells) == len(COLUMNS) for cells in page.values())


def test_each_rule_of_the_matrix_has_a_line_and_each_line_a_rule() -> None:
    used = {rule for row in MATRIX.values() for rule in re.split(r"[ ,]", row)}
    legend = {number: function.strip("`") for number, _, function in table(COMMITS, "rule")}
    assert legend.keys() == {rule for rule in used if rule.isdigit()}
    for number, function in legend.items():
        module, name = function.split(".")
        assert RULES[number].__name__ == name
        assert RULES[number].__module__ == f"alance.format.table.changes.{module}"


GUIDES: Final = [
    path
    for path in sorted((ROOT / "alance").glob("**/__init__.py"))
    if "Where to change what:" in path.read_text()
]


def names_of(package: str) -> set[str]:
    """The modules of a package, and what these define, alone and behind the module's name.

    Modules of folders inside are behind the folder's name.
    """
    folder = importlib.import_module(package)
    modules = {
        module.name.removeprefix(f"{package}.")
        for module in pkgutil.walk_packages(folder.__path__, f"{package}.")
    }
    names = set(modules)
    for module in modules:
        values = vars(importlib.import_module(f"{package}.{module}"))
        names |= {*values, *(f"{module}.{name}" for name in values)}
    return names


@pytest.mark.parametrize("path", GUIDES, ids=lambda path: str(path.parent.relative_to(ROOT)))
def test_the_guide_of_a_package_names_what_is_there(path: Path) -> None:
    package = ".".join(path.parent.relative_to(ROOT).parts)
    guide = path.read_text().partition("Where to change what:")[2].partition('"""')[0]
    names = names_of(package)
    rooms = {
        iter_module.name for iter_module in pkgutil.iter_modules([str(ROOT / "alance" / "ops")])
    }
    for name in re.findall(r"`([\w.]+)`", guide):
        room, _, rest = name.partition(".")
        if name in names or name.startswith("dataset."):  # `dataset.tags`: what users have
            continue
        if room == "alance":
            importlib.import_module(name)
        else:
            assert room in rooms, name
            assert not rest or rest in names_of(f"alance.ops.{room}"), name

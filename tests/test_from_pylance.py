"""`docs/from-pylance.md` leaves out no public name of pylance; those of alance in it are there."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any, Final

import lance
import lance.file
import lance.namespace
import lance.optimize
import lance.query
import lance.sampler
import pytest
from lance.dataset import (
    Branches,
    DatasetDelta,
    DatasetOptimizer,
    LanceOperation,
    MergeInsertBuilder,
    Tags,
)

import alance
import alance.operations
import alance.sync
import alance.types
from alance.verbs.peer_names import COUNTERPARTS
from tests.pages import ROOT

PAGE: Final = (ROOT / "docs" / "from-pylance.md").read_text()
CODE: Final = re.compile(r"`([^`]+)`")
NONE: Final = "—"


def tables(page: str) -> dict[str, list[tuple[str, str, str]]]:
    """The rows of the table below each heading: names of the peer, of alance, what differs."""
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        title, _, text = section.partition("\n")
        lines = [line for line in text.splitlines() if line.startswith("|")][2:]
        rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        if rows:
            sections[title.replace("`", "")] = [(row[0], row[1], row[2]) for row in rows]
    return sections


TABLES: Final = tables(PAGE)


def public(owner: object) -> set[str]:
    return {name for name in dir(owner) if not name.startswith("_")}


def classes_of(module: Any) -> set[str]:
    return {
        name
        for name in public(module)
        if getattr(getattr(module, name), "__module__", None) == module.__name__
    }


def exported(source: Path) -> set[str]:
    """`__all__` of a module that cannot be imported here, such as one that wants PyTorch."""
    for statement in ast.parse(source.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    raise AssertionError(source)


OWNERS: Final = {
    "LanceDataset": public(lance.LanceDataset),
    "LanceFragment": public(lance.LanceFragment),
    "LanceScanner": public(lance.LanceScanner),
    "MergeInsertBuilder": public(MergeInsertBuilder),
    "LanceOperation": public(LanceOperation),
    "Session": public(lance.Session),
    "DatasetOptimizer": public(DatasetOptimizer),
    "Tags": public(Tags),
    "Branches": public(Branches),
    "DatasetDelta": public(DatasetDelta),
    "LanceFileReader": public(lance.file.LanceFileReader),
    "LanceFileWriter": public(lance.file.LanceFileWriter),
    "LanceFileSession": public(lance.file.LanceFileSession),
    "lance.optimize": classes_of(lance.optimize),
    "lance.query": classes_of(lance.query),
    "lance.file": {*lance.file.__all__, "LanceFileSession", "ListResult"},
    "lance.sampler": {*lance.sampler.__all__, "ShardedFixedBatchSampler"},
    "lance.torch.data": exported(Path(lance.__file__).parent / "torch" / "data.py"),
}


@pytest.mark.parametrize("title", sorted(OWNERS))
def test_no_public_name_of_pylance_is_left_out(title: str) -> None:
    named = [CODE.findall(theirs)[0] for theirs, _, _ in TABLES[title]]
    assert sorted(named) == sorted(OWNERS[title])


def test_no_argument_of_scans_is_left_out() -> None:
    parameters = set(inspect.signature(lance.LanceDataset.scanner).parameters) - {"self"}
    named = [CODE.findall(theirs)[0] for theirs, _, _ in TABLES["Arguments of scans"]]
    assert sorted(named) == sorted(parameters)


def test_functions_of_the_package_are_named() -> None:
    functions = {
        f"lance.{name}"
        for name in lance.__all__
        if inspect.isroutine(getattr(lance, name)) and not name.startswith("_")
    }
    named = {CODE.findall(theirs)[0] for theirs, _, _ in TABLES["Functions and arguments"]}
    assert functions <= named
    for name in named:
        value: Any = lance
        for part in name.split(".")[1:]:
            value = getattr(value, part)


# Modules that serve pylance itself.
INNER: Final = frozenset({"conftest", "dependencies", "download", "log", "dist", "bench_utils"})


def modules() -> list[Path]:
    """The sources of pylance's public modules."""
    root = Path(lance.__file__).parent
    sources = [source.relative_to(root) for source in sorted(root.rglob("*.py"))]
    return [
        root / source
        for source in sources
        if source.stem not in INNER
        and not any(p.startswith("_") for p in source.parts[:-1])
        and (source.stem == "__init__" or not source.stem.startswith("_"))
    ]


def public_of(source: Path) -> set[str]:
    """The names of `__all__`; else the public classes and functions that a module defines."""
    body = ast.parse(source.read_text()).body
    for statement in body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    defined = (s for s in body if isinstance(s, ast.ClassDef | ast.FunctionDef))
    return {s.name for s in defined if not s.name.startswith("_")}


@pytest.mark.parametrize("source", modules(), ids=lambda path: "/".join(path.parts[-2:]))
def test_each_class_and_function_of_a_module_is_named(source: Path) -> None:
    codes = [CODE.findall(theirs) for rows in TABLES.values() for theirs, _, _ in rows]
    named = {part for row in codes for code in row for part in code.split(".")}
    submodules = {path.stem for path in source.parent.iterdir()}
    omitted = public_of(source) - named - submodules - set(TABLES) - {"__version__"}
    assert not omitted


def resolve(path: str) -> object:
    if path.startswith("torch."):
        assert path[len("torch.") :] in exported(ROOT / "alance" / "torch" / "__init__.py")
        return None
    return pkgutil.resolve_name(f"alance.{path}")


def keywords_of(function: Any) -> set[str]:
    """The parameters of a function; of `**options` the keys of all argument types."""
    names = set(inspect.signature(function).parameters)
    for name in alance.types.__all__:
        if name.endswith("Arguments"):
            names |= set(getattr(alance.types, name).__annotations__)
    return names


@pytest.mark.parametrize("title", sorted(TABLES))
def test_each_name_of_alance_exists(title: str) -> None:
    for theirs, ours, note in TABLES[title]:
        if ours == NONE:
            continue
        for code in CODE.findall(ours):
            path, _, arguments = code.partition("(")
            value = resolve(path)
            for argument in re.findall(r"(\w+)=", arguments):
                assert argument in keywords_of(value), (theirs, code)
        for code in CODE.findall(note):
            if code.startswith(("Dataset.", "distributed.", "DatasetFragment.")):
                resolve(code)


@pytest.mark.parametrize(
    ("title", "owner"),
    [
        ("LanceDataset", alance.Dataset),
        ("LanceFragment", alance.DatasetFragment),
        ("LanceScanner", alance.Scanner),
        ("MergeInsertBuilder", alance.MergeInsert),
        ("Session", alance.Session),
        ("Tags", alance.Tags),
        ("Branches", alance.Branches),
        ("DatasetDelta", alance.DatasetDelta),
        ("LanceFileReader", alance.FileReader),
        ("LanceFileWriter", alance.FileWriter),
        ("LanceFileSession", alance.FileSession),
    ],
)
def test_a_name_that_both_have_is_not_told_to_be_missing(title: str, owner: type) -> None:
    for theirs, ours, _ in TABLES[title]:
        (name,) = CODE.findall(theirs)
        if name in public(owner):
            assert ours.startswith(f"`{owner.__name__}.{name}"), name


def test_names_that_only_alance_has_are_named() -> None:
    paragraph = PAGE.split("Only in alance:")[1].split("\n\n")[0]
    only = public(alance.Dataset) - public(lance.LanceDataset)
    named = {code.removeprefix("Dataset.") for code in re.findall(r"`([^`\n]+)`", PAGE)}
    assert {code.removeprefix("Dataset.") for code in re.findall(r"`([^`\n]+)`", paragraph)} <= only
    assert only <= named, only - named


def test_where_alance_has_no_counterpart_the_page_says_why() -> None:
    rows = [row for table in TABLES.values() for row in table]
    assert [name for name, own, why in rows if own == "—" and not why] == []
    assert any(own == "—" for _, own, _ in rows)


def test_errors_for_names_of_pylance_say_the_counterpart() -> None:
    def of_page(cell: str) -> str:
        name = CODE.findall(cell)[0]
        is_function = hasattr(alance, name) and "." not in name
        return f"alance.{name}" if is_function else name.removeprefix("Dataset.")

    expected = {
        CODE.findall(theirs)[0]: of_page(ours)
        for theirs, ours, _ in TABLES["LanceDataset"]
        if ours != NONE and not hasattr(alance.Dataset, CODE.findall(theirs)[0])
    }
    assert expected == COUNTERPARTS


async def test_an_attribute_that_is_not_there_is_an_error_that_says_what_is(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"x": [1]}, tmp_path / "t")
    blocking = alance.sync.dataset(tmp_path / "t")
    for each in (dataset, blocking):
        with pytest.raises(AttributeError, match="'get_fragments'; its counterpart is `fragments`"):
            each.get_fragments()  # type: ignore[attr-defined]
        with pytest.raises(AttributeError, match=r"'Dataset' object has no attribute 'nothing'$"):
            each.nothing  # type: ignore[attr-defined]  # noqa: B018
        assert not hasattr(each, "has_index")

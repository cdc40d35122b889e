"""Jobs that the project does in one way only: who finds a second one here, uses the first."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import alance

PACKAGE = Path(alance.__file__).parent


@cache
def _names() -> dict[str, set[str]]:
    """Return the names in the code of each module of the package."""
    return {
        str(path.relative_to(PACKAGE)): {
            node.id if isinstance(node, ast.Name) else node.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, (ast.Name, ast.Attribute))
        }
        for path in PACKAGE.rglob("*.py")
    }


def modules_that_name(name: str) -> set[str]:
    """Modules of the package whose code names something."""
    return {module for module, names in _names().items() if name in names}


def test_plans_are_stepped_in_one_place() -> None:
    coroutines = {"io/loop/tasks.py"}  # what begins before its task steps none of plans
    assert modules_that_name("StopIteration") == {"format/plans.py", *coroutines}


def test_what_differs_between_stores_is_asked_of_them() -> None:
    kinds = ("LocalStore", "RemoteStore", "MemoryStore")
    outside = {path for kind in kinds for path in modules_that_name(kind)}
    assert {path for path in outside if not path.startswith("io/")} == set()
    assert {path for path in modules_with(r"profile\.kind") if not path.startswith("io/")} == set()


def test_no_store_of_a_kind_is_asked_for_by_those_that_read() -> None:
    readers = {
        "io/reading/inline.py",
        "io/reading/scheduler.py",
        "io/reading/engine.py",
        "io/reading/flights.py",
    }
    kinds = ("LocalStore", "RemoteStore", "MemoryStore")
    assert not readers & {path for kind in kinds for path in modules_that_name(kind)}


def test_a_trace_chooses_no_other_way() -> None:
    """Code that checks for a trace only reports more to it."""
    asking = {
        "file/open/tracing.py",
        "io/caches/cache.py",
        "io/reading/reads.py",
        "io/events/trace.py",
    }
    assert modules_with(r"\btrace\.active\b|^active: ") <= asking


def test_footers_and_small_files_are_read_in_one_place() -> None:
    assert modules_that_name("file_ends") == {"format/container.py"}
    assert modules_that_name("parse_column") == {"format/container.py"}
    assert modules_that_name("whole_tables") == {"file/rows/whole.py"}


def test_pages_are_decoded_by_one_kernel() -> None:
    assert modules_that_name("RowBatch") == {"file/rows/tasks.py"}


def test_containers_and_statistics_are_written_in_one_place() -> None:
    sources = {path.name: path.read_text() for path in (PACKAGE / "kernels").rglob("*.?pp")}
    for text, source in (('+= "LANC"', "container.cpp"), ('= "alancest"', "zones.cpp")):
        assert {name for name, code in sources.items() if text in code} == {source}
    assert modules_that_name("ColumnMetadata") & in_folder("format/encode", "file") == set()
    assert modules_that_name("statistics_buffer") == {"format/encode/statistics.py"}


def test_small_batches_are_joined_in_one_place() -> None:
    assert modules_that_name("merged") & {"file/write/writer.py"} == {"file/write/writer.py"}
    assert modules_that_name("combine_chunks") & in_folder("ops/write", "file") == {
        "file/write/small_batches.py"
    }


def test_classes_with_slots_are_made_by_records() -> None:
    """Classes of `dataclasses` compile six functions each while the package is imported."""
    by_itself = modules_with(r"^from dataclasses import (.*, )?dataclass\b") - {"records.py"}
    public_modules_alone = ("command/", "ray/", "serve/", "spark/", "torch/", "huggingface.py")
    within = {path for path in by_itself if not path.startswith(public_modules_alone)}
    assert within & modules_with(r"^@dataclass\(.*slots=True") == set()


def in_folder(*folders: str) -> set[str]:
    """The modules of some folders."""
    return {
        str(path.relative_to(PACKAGE))
        for folder in folders
        for path in (PACKAGE / folder).rglob("*.py")
    }


def modules_with(pattern: str) -> set[str]:
    """Modules of the package whose text has something."""
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(pattern, path.read_text(), re.MULTILINE)
    }

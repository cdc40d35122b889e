"""`docs/caches.md` lists every cache of the package, with its bound."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from alance import session
from alance.format import schema
from alance.format.table import manifest
from alance.io.caches import blocks, disk_cache
from alance.io.disk import local
from alance.io.opening import registry
from alance.ops.read import filters
from alance.ops.search import eligible
from alance.ops.write import append

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "caches.md").read_text()
KINDS = {
    "BlockCache",
    "FileCache",
    "Memo",
    "OrderedDict",
    "SearchCache",
    "WeakKeyDictionary",
    "WeakValueDictionary",
    "cache",
    "lru_cache",
}
# They follow what is under way or stand for a cache that is listed; or it is a server for tests.
NO_CACHES = {
    "alance/ops/read/explain.py",
    "alance/io/reading/scheduler.py",
    "alance/testing/objects.py",
}
MIB = 1 << 20


def kinds_used(tree: ast.AST) -> set[str]:
    """Names of kinds of caches that a module calls or decorates with."""
    uses: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            uses.append(node.func)
        elif isinstance(node, ast.FunctionDef):
            uses += node.decorator_list
        elif isinstance(node, ast.ClassDef):
            uses += node.bases
    plain = [use.value if isinstance(use, ast.Subscript) else use for use in uses]
    names = {use.attr if isinstance(use, ast.Attribute) else ast.unparse(use) for use in plain}
    return names & KINDS


def sizes_of_memos(tree: ast.AST) -> list[int]:
    """The sizes of the `lru_cache`s of a module."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    sizes = [
        [*call.args, *(keyword.value for keyword in call.keywords)][0]
        for call in calls
        if ast.unparse(call.func) == "lru_cache"
    ]
    return [eval(ast.unparse(size)) for size in sizes]


@cache
def modules() -> dict[str, ast.AST]:
    """The modules of the package that name a kind of cache; most do not, and are not parsed."""
    texts = {path: path.read_text() for path in sorted((ROOT / "alance").rglob("*.py"))}
    names = re.compile("|".join({*KINDS, "@cache"} - {"cache"}))
    return {
        path.relative_to(ROOT).as_posix(): ast.parse(text)
        for path, text in texts.items()
        if names.search(text)
    }


def row_of(text: str) -> str:
    """The first row of a table that has a text."""
    return next(line for line in PAGE.splitlines() if line.startswith("|") and text in line)


def test_every_module_with_a_cache_is_on_the_page() -> None:
    with_caches = {name for name, tree in modules().items() if kinds_used(tree)}
    assert {"alance/io/caches/cache.py", "alance/format/layouts/__init__.py"} <= with_caches
    named = set(re.findall(r"`(alance/[\w/]+\.py)`", PAGE))
    assert with_caches - named - NO_CACHES == set()


def test_the_page_has_the_sizes_of_memos() -> None:
    sizes = {name: sizes_of_memos(tree) for name, tree in modules().items()}
    for name, numbers in sizes.items():
        for number in numbers:
            rows = [line for line in PAGE.splitlines() if line.startswith("|") and name in line]
            assert any(f"| {number} " in row for row in rows)


def test_the_page_has_the_bounds_of_spark() -> None:
    names = ("planning", "streams")
    texts = [(ROOT / "alance" / "spark" / "connector" / f"{name}.py").read_text() for name in names]
    bounds = [
        re.findall(r"^(?:PLANNED_VERSIONS|FOLLOWED_TABLES): Final = (\d+)", text, re.M)
        for text in texts
    ]
    assert bounds == [["4"], ["16"]]
    assert "| 4; 16 |" in row_of("alance/spark/connector/planning.py")


@pytest.mark.parametrize(
    ("place", "text", "bound", "number"),
    [
        ("search cache", "256 MiB", session.CACHE_BYTES, 256 * MIB),
        ("block cache", "256 MiB", session.BLOCK_CACHE_BYTES, 256 * MIB),
        ("block cache", "65,536", blocks.MAX_ENDS, 65_536),
        ("alance/io/caches/disk_store.py", "1 GiB", session.CACHE_DIR_BYTES, 1024 * MIB),
        ("alance/io/caches/disk_cache.py", "32 MiB", disk_cache.RECALLED_BYTES, 32 * MIB),
        ("alance/io/caches/disk_cache.py", "16 MiB", disk_cache.MAX_PENDING_BYTES, 16 * MIB),
        ("alance/io/disk/files.py", "512", local.MAX_OPEN_FILES, 512),
        ("alance/io/opening/registry.py", "32 stores", registry.MAX_OPEN_STORES, 32),
        ("alance/io/opening/registry.py", "600 seconds", registry.STORE_IDLE_S, 600),
        ("alance/io/disk/local.py", "1,024", local.MAX_QUICK_FOLDERS, 1024),
        ("alance/format/table/manifest.py", "2 MiB", manifest.MET_BYTES, 2 * MIB),
        ("alance/format/table/manifest.py", "256 KiB", manifest.LARGE, MIB // 4),
        ("alance/format/schema.py", "256 entries", schema.MAX_REMEMBERED, 256),
        ("alance/ops/read/filters.py", "16 MiB", filters.FILTER_TEXT_BYTES, 16 * MIB),
        ("alance/ops/read/filters.py", "16,384", filters.MAX_TEXT, 16_384),
        ("rows that the filters of searches", "16 MiB", eligible.FILTER_BYTES, 16 * MIB),
        ("masks of index parts", "16 MiB", eligible.MASK_BYTES, 16 * MIB),
        ("alance/ops/write/append.py", "64", append.MAX_QUEUES, 64),
    ],
)
def test_the_page_has_the_bounds_of_caches(
    place: str, text: str, bound: object, number: object
) -> None:
    assert bound == number
    assert text in row_of(place)

"""The site has every page and every public name; `make docs` builds it."""

from __future__ import annotations

import re
from typing import Final

import alance
from tests.pages import ROOT
from tools import site

CONFIG: Final = (ROOT / "mkdocs.yml").read_text()


def test_each_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"^ +- (?:[^:\n]+: )?([\w./-]+\.md)$", CONFIG, re.MULTILINE)
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert sorted(listed) == sorted(pages - {"README.md"} | set(site.MOVED.values()))


def test_each_public_name_is_in_the_reference() -> None:
    modules = {name for name in alance.__all__ if f"alance.{name}" in _reference()}
    names = {name.removeprefix("alance.") for name in _reference()}
    assert modules >= {"distributed", "indexing", "observe", "operations", "optimize"}
    assert names >= {name for name in alance.__all__ if name[0] != "_"}
    assert names >= {"types", "ray", "spark", "torch", "testing.lab"}


def test_links_lead_to_pages_of_the_site() -> None:
    text = "[a](docs/sql.md#functions) [b](CHANGELOG.md) [c](https://example.org) [d](#here)"
    assert site.relinked(text, "README.md", "index.md") == (
        "[a](sql.md#functions) [b](changelog.md) [c](https://example.org) [d](#here)"
    )
    text = "[a](file.md) [b](../README.md) [c](../../README.md) [d](../sql.md)"
    assert site.relinked(text, "docs/format/table.md", "format/table.md") == (
        "[a](../format/file.md) [b](../pages.md) [c](../index.md) [d](../sql.md)"
    )


def _reference() -> set[str]:
    return {name for _, _, names in site.reference() for name in names}

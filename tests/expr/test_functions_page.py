"""docs/sql.md lists the functions that are evaluated, and no others."""

from __future__ import annotations

import re

from alance.expr.functions import FUNCTIONS
from tests.pages import ROOT


def test_the_page_lists_each_function_and_no_other() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    section = page.split("## All functions")[1].split("\n## ")[0]
    names = re.findall(r"`([a-z_0-9]+)\(", section)
    assert len(names) == len({*names})
    twins = {name.replace("array_", "list_") for name in names if name.startswith("array_")}
    assert {*names, *twins} == FUNCTIONS.keys()


def test_the_page_names_no_more_arguments_than_a_function_takes() -> None:
    page = (ROOT / "docs" / "sql.md").read_text()
    section = page.split("## All functions")[1].split("\n## ")[0]
    for name, text in re.findall(r"`([a-z_0-9]+)\(([^)]*)\)", section):
        arguments = re.split(", | IN ", text) if text else []
        function = FUNCTIONS[name]
        is_open = "..." in arguments
        assert is_open == (function.most > 100), name
        assert function.least <= len(arguments) <= function.most, name

"""Modules that are imported when something of them is first asked for."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from alance.base.deferred import Deferred, lazy

ROOT = Path(__file__).parents[1]
SOURCES = [
    path
    for path in sorted((ROOT / "alance").rglob("*.py"))
    if "= Deferred(" in path.read_text() and path.name != "deferred.py"
]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of modules."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_module.py").write_text("name = 3\nother = 4\n")
    monkeypatch.delitem(sys.modules, "late_module", raising=False)
    return tmp_path


def test_a_deferred_module_is_imported_when_it_is_asked_for_a_name(place: Path) -> None:
    module = Deferred("late_module")
    assert "late_module" not in sys.modules
    assert module.__name__ == "late_module"
    assert "late_module" not in sys.modules
    assert module.name == 3
    sys.modules.pop("late_module")


def test_a_name_that_a_deferred_module_has_not_is_an_attribute_error(place: Path) -> None:
    with pytest.raises(AttributeError, match="'late_module' has no attribute 'nothing'"):
        Deferred("late_module").nothing  # noqa: B018
    sys.modules.pop("late_module")


def test_a_lazy_name_is_looked_for_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("face")
    monkeypatch.setitem(sys.modules, "face", module)
    find, names = lazy("face", {"name": "late_module", "renamed": "late_module:other"})
    assert {"name", "renamed"} <= set(names())
    assert (find("name"), find("renamed")) == (3, 4)
    assert (module.name, module.renamed) == (3, 4)
    with pytest.raises(AttributeError, match="module 'face' has no attribute 'other'"):
        find("other")
    sys.modules.pop("late_module")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_type_checkers_see_the_modules_that_are_deferred(path: Path) -> None:
    checked: dict[str, str] = {}
    deferred: dict[str, str] = {}
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.If) or ast.unparse(node.test) != "TYPE_CHECKING":
            continue
        for item in node.body:
            if isinstance(item, ast.ImportFrom):
                checked |= {n.asname or n.name: f"{item.module}.{n.name}" for n in item.names}
        for item in node.orelse:
            assert isinstance(item, ast.Assign)
            assert isinstance(item.value, ast.Call)
            (argument,) = item.value.args
            deferred[ast.unparse(item.targets[0])] = ast.literal_eval(argument)
    assert deferred
    for name, module in deferred.items():
        assert checked[name] == module
        assert importlib.util.find_spec(module) is not None, module

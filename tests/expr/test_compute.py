"""Functions of Arrow as `alance.base.compute` calls them are those of `pyarrow.compute`."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pytest

from alance.base import compute

ROOT = Path(__file__).parents[2]
VALUES = pa.array([1.25, None, -2.5])
TEXTS = pa.array(["a b", None, "ab"])


def used() -> set[str]:
    names = set()
    for path in (ROOT / "alance").rglob("*.py"):
        text = path.read_text()
        if "from alance.base import compute as pc" in text:
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "pc":
                    names.add(node.attr)
    return names


def test_each_function_that_is_used_is_one_that_arrow_has_by_that_name() -> None:
    names = used()
    assert len(names) > 100
    for name in names - set(compute.__all__):
        described = getattr(pyarrow.compute, name).__arrow_compute_function__
        assert getattr(compute, name) is getattr(compute, name)
        assert described["name"] == {"and_": "and", "or_": "or"}.get(name, name)
    written = {
        name
        for name, function in inspect.getmembers(pyarrow.compute, inspect.isfunction)
        if function.__module__ == "pyarrow.compute"
        and not hasattr(function, "__arrow_compute_function__")
    }
    assert names & written <= set(compute.__all__)


CALLS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("add", (VALUES, 1.0), {}),
    ("and_", (True, False), {}),
    ("round", (VALUES, 1), {}),
    ("round", (VALUES,), {"ndigits": 1, "round_mode": "up"}),
    ("is_in", (VALUES,), {"value_set": VALUES[:2], "skip_nulls": True}),
    ("split_pattern", (TEXTS, " "), {}),
    ("binary_join_element_wise", (TEXTS, TEXTS, "-"), {"null_handling": "replace"}),
    ("coalesce", (VALUES, 3.0), {}),
    ("max_element_wise", (VALUES, 0.0), {"skip_nulls": False}),
    ("cast", (VALUES, pa.float32()), {}),
    ("cast", (VALUES, "int8"), {"safe": False}),
    ("cast", (VALUES,), {"options": compute.CastOptions.safe(pa.string())}),
    ("fill_null", (VALUES, 3), {}),
    ("fill_null", (VALUES, pa.scalar(3, pa.int8())), {}),
    ("fill_null", (VALUES, VALUES.slice(0, 3)), {}),
)


@pytest.mark.parametrize(("name", "args", "named"), CALLS, ids=[call[0] for call in CALLS])
def test_a_call_gives_what_arrow_gives(
    name: str, args: tuple[Any, ...], named: dict[str, Any]
) -> None:
    got = getattr(compute, name)(*args, **named)
    expected = getattr(pyarrow.compute, name)(*args, **named)
    assert got.equals(expected)
    assert got.type == expected.type


def test_wrong_calls_are_refused() -> None:
    with pytest.raises(AttributeError, match="no function 'nothing'"):
        _ = compute.nothing
    with pytest.raises(TypeError, match="takes 2 arguments, got 1"):
        compute.add(VALUES)
    with pytest.raises(TypeError, match="takes 2 arguments, got 3"):
        compute.add(VALUES, 1, 2)
    with pytest.raises(TypeError, match="options once"):
        compute.round(VALUES, 1, options=pyarrow.compute.RoundOptions(2))
    with pytest.raises(ValueError, match="either"):
        compute.cast(VALUES, pa.int8(), options=compute.CastOptions.safe(pa.int8()))
    expression = compute.equal(pyarrow.compute.field("a"), pyarrow.compute.scalar(1))
    assert str(expression) == "(a == 1)"

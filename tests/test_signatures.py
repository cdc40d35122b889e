"""Signatures that help, notebooks and the stub show, and reprs of what notebooks show."""

from __future__ import annotations

import inspect
import pydoc
import subprocess
import sys
from typing import TYPE_CHECKING, Any, get_args

import pytest

import alance
import alance.sync
from alance import types
from alance.base import signatures
from alance.ops.index.values.options import KINDS_IN_ERRORS
from alance.ops.index.vectors.new import INDEX_TYPES

if TYPE_CHECKING:
    from pathlib import Path

SHOWN: dict[str, tuple[Any, dict[str, object]]] = {
    "scanner": (alance.Dataset.scanner, {"filter": None, "scan_in_order": True, "fragments": None}),
    "to_table": (alance.sync.Dataset.to_table, {"limit": None, "use_stats": True}),
    "to_pandas": (alance.Dataset.to_pandas, {"limit": None, "date_as_object": True}),
    "nearest": (alance.Dataset.nearest, {"metric": None, "prefilter": True, "nprobes": None}),
    "create_index": (
        alance.Dataset.create_index,
        {"num_partitions": None, "sample_rate": 256, "language": "English", "with_position": False},
    ),
    "create_scalar_index": (
        alance.Dataset.create_scalar_index,
        {"rows_per_zone": 8192, "path": ..., "message": None},
    ),
    "compact_files": (alance.optimize.Optimize.compact_files, {"uncover_indices": False}),
    "plan": (alance.Compaction.plan, {"excluded_fragment_ids": ()}),
    "dataset": (alance.dataset, {"session": None, "commit_lock": None}),
}


@pytest.mark.parametrize("name", SHOWN)
def test_signatures_show_each_keyword_and_its_default(name: str) -> None:
    function, expected = SHOWN[name]
    parameters = inspect.signature(function).parameters
    assert not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    assert {key: parameters[key].default for key in expected} == expected


def test_help_shows_the_arguments_of_a_bound_method(tmp_path: Path) -> None:
    dataset = alance.sync.write_dataset({"id": [1]}, tmp_path / "t")
    assert "filter: 'str | pc.Expression | None' = None" in pydoc.render_doc(dataset.to_table)
    bound = inspect.signature(dataset.to_table).bind(["id"], limit=1)
    assert bound.arguments == {"columns": ["id"], "limit": 1}


def test_every_unpacked_argument_has_a_signature() -> None:
    """No public method shows `**options`, and no default is of an argument that is not there."""
    for place in (alance, alance.optimize, alance.indexing):
        for name in place.__all__:
            value = getattr(place, name)
            if not inspect.isclass(value) or not value.__module__.startswith("alance."):
                continue
            for member_name, member in inspect.getmembers(value, inspect.isroutine):
                if not member_name.startswith("_"):
                    try:
                        shown = str(inspect.signature(member))
                    except ValueError:  # of C
                        continue
                    assert "Unpack[" not in shown, f"{name}.{member_name}"
    for name in signatures._DEFAULTS:
        assert getattr(types, name).__annotations__


def test_importing_the_package_makes_no_signature() -> None:
    program = (
        "import alance; s = vars(alance.Dataset.to_table)['__signature__'];"
        "assert not vars(s).keys() & {'_expanded', 'written'}"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_literals_are_the_kinds_that_are_written() -> None:
    assert set(get_args(types.VectorIndexKind)) == set(INDEX_TYPES)
    kinds = {kind.index_type for kind in KINDS_IN_ERRORS}
    assert set(get_args(types.ScalarIndexKind)) == kinds | {"JSON"}
    assert set(get_args(types.JsonIndexKind)) == {
        k.index_type for k in KINDS_IN_ERRORS if k.of_json
    }


async def test_kinds_and_metrics_are_taken_in_any_case(tmp_path: Path) -> None:
    rows = {"id": [1, 2], "vector": [[0.0, 1.0]] * 2}
    dataset = await alance.write_dataset(rows, tmp_path / "t")
    dataset = await dataset.create_index("vector", "ivf_flat", metric="L2", num_partitions=1)  # type: ignore[arg-type]
    dataset = await dataset.create_scalar_index("id", "bTree")  # type: ignore[arg-type]
    assert [index["type"] for index in dataset.list_indices()] == ["BTree", "IVF_FLAT"]
    assert type(dataset.list_indices()[0]) is dict


def test_stubs_and_editors_find_each_blocking_name() -> None:
    """Editors look for docstrings where the stub has none: `sync.py` imports these modules."""
    names = {*alance.__all__, *alance.indexing.__all__, *alance.optimize.__all__}
    assert {*alance.sync._CLASSES, *alance.sync._FUNCTIONS} <= names


async def test_reprs_are_short_and_show_no_parameter(tmp_path: Path) -> None:
    dataset = await alance.write_dataset({"id": [1], "t": ["a"]}, tmp_path / "t")
    uri = dataset.uri
    scan = dataset.scanner(["id"], filter="t = ?", params=["secret"], limit=2)
    assert repr(scan) == f"Scanner({uri!r}, version=1, ['id'], filter='t = ?', limit=2)"
    assert repr(dataset.scanner()) == f"Scanner({uri!r}, version=1)"
    near = dataset.scanner(nearest={"column": "v", "q": [0.0] * 999, "k": 1})
    assert repr(near) == f"Scanner({uri!r}, version=1, nearest='v')"
    assert repr(dataset.optimize) == f"Optimize({uri!r}, version=1)"
    explanation = await dataset.scanner(["id"]).explain()
    assert repr(explanation) == str(explanation)
    async with alance.Session(cache_bytes=1000, block_cache_bytes=24, decode_threads=1) as session:
        assert repr(session) == "Session(0 of 1,024 bytes cached, decode_threads=1)"
    assert repr(session).startswith("Session(closed, ")

"""Public names: they suffice for all signatures, and engines need no others."""

from __future__ import annotations

import ast
import builtins
import dataclasses
import inspect
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import alance
import alance.distributed
import alance.observe
import alance.types
from alance.ops.version.options import CommitOptions
from alance.optimize import CompactionOptions
from alance.spark.options import ReadArguments, SelectArguments, WriteArguments

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[1]
PUBLIC = ("", ".blocking", ".distributed", ".indexing", ".observe")
PUBLIC += (".operations", ".optimize", ".types")
MODULES = [import_module(f"alance{name}") for name in PUBLIC]
# What engines and the blocking face may import besides.
OWN = (
    "alance.base.extras",
    "alance.huggingface",
    "alance.ray",
    "alance.serve",
    "alance.spark",
    "alance.sync",
    "alance.torch",
)
# Names of other packages, and of typing, that annotations may have.
OUTSIDE = {"Any", "Final", "Literal", "Self", "TracebackType", "Unpack", "os", "np", "npt"}
OUTSIDE |= {"Path", "pa", "pc", "pd", "pl", "datetime", "timedelta", "table_pb2", "file_pb2"}
OUTSIDE |= {"AsyncGenerator", "AsyncIterator", "Awaitable", "Callable", "Collection", "Iterable"}
OUTSIDE |= {"Future", "Iterator", "Mapping", "Sequence", "T"}
OUTSIDE |= {"Int64s", "UInt64s"}  # of alance.base.arrays: short for numpy's own

# What is of no use outside of the package, and has no underscore since modules of it use it.
INTERNAL = {"CompactionOptions.resolved", "InsertedKeys.filter", "InsertedKeys.of"}
INTERNAL |= {"Session.engine", "VersionInfo.of"}
WIRE = ("from_protobuf", "to_protobuf")


def exported() -> dict[str, Any]:
    return {name: getattr(module, name) for module in MODULES for name in module.__all__}


def signatures() -> Iterator[tuple[str, inspect.Signature]]:
    """Yield the signatures of public functions, methods and properties."""
    for name, value in exported().items():
        if inspect.isfunction(value):
            yield name, inspect.signature(value)
        if not inspect.isclass(value) or not value.__module__.startswith("alance"):
            continue
        if "_pb2" in value.__module__:
            continue
        for member_name, member in inspect.getmembers_static(value):
            if member_name.startswith("_") or member_name in WIRE:
                continue
            if f"{name}.{member_name}" in INTERNAL:
                continue
            if isinstance(member, property):
                member = member.fget
            if isinstance(member, classmethod | staticmethod):
                member = member.__func__
            if inspect.isfunction(member):
                yield f"{name}.{member_name}", inspect.signature(member)


def names(annotation: object) -> set[str]:
    """The names in an annotation, and those in texts inside of it."""
    todo: list[ast.AST] = [ast.parse(str(annotation), mode="eval")]
    distinct = set()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name):
            distinct.add(node.id)
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            distinct |= names(node.value)
        if not (isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"):
            todo.extend(ast.iter_child_nodes(node))
    return distinct


def test_all_names_in_public_signatures_are_public() -> None:
    recognized = {*exported(), *OUTSIDE, *dir(builtins)}
    missing: dict[str, set[str]] = {}
    for where, signature in signatures():
        annotations = [parameter.annotation for parameter in signature.parameters.values()]
        for annotation in [*annotations, signature.return_annotation]:
            if annotation is not inspect.Signature.empty:
                for name in names(annotation) - recognized:
                    missing.setdefault(name, set()).add(where)
    assert missing == {}


def test_no_public_signature_takes_just_anything_by_keyword() -> None:
    for where, signature in signatures():
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                assert str(parameter.annotation).startswith("Unpack["), where


def imports(path: Path) -> Iterator[str]:
    """The modules of ours that a file imports, for type checking as well."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("alance"):
            yield node.module or ""
        if isinstance(node, ast.Import):
            yield from (item.name for item in node.names if item.name.startswith("alance"))


@pytest.mark.parametrize(
    "path",
    [
        *(ROOT / "alance").glob("sync.py*"),
        *sorted((ROOT / "alance" / "ray").rglob("*.py")),
        *sorted((ROOT / "alance" / "serve").rglob("*.py")),
        *sorted((ROOT / "alance" / "spark").rglob("*.py")),
        *sorted((ROOT / "alance" / "torch").rglob("*.py")),
    ],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_engines_and_the_blocking_face_import_public_modules_alone(path: Path) -> None:
    public = {module.__name__ for module in MODULES}
    for module in imports(path):
        assert module in public or module.startswith(OWN), module


def test_types_are_where_type_checkers_look_for_them() -> None:
    tree = ast.parse(Path(alance.types.__file__).read_text())
    result = {}
    block = next(node for node in tree.body if isinstance(node, ast.If))
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for item in node.names:
            name = item.asname or item.name
            place = f"{node.module}" if name == item.name else f"{node.module}:{item.name}"
            result[name] = place
    assert result == alance.types._TYPE_PLACES
    for name in alance.types.__all__:
        assert getattr(alance.types, name) is not None
    assert set(alance.types.__all__) <= set(dir(alance.types))


@pytest.mark.parametrize(
    ("arguments", "options"),
    [
        (alance.types.ScanArguments, alance.ScanOptions),
        (alance.types.CommitArguments, CommitOptions),
        (alance.types.CompactionArguments, CompactionOptions),
    ],
)
def test_arguments_are_the_fields_of_their_options(arguments: Any, options: Any) -> None:
    fields = {field.name: field.type for field in dataclasses.fields(options)}
    assert {
        name: item.__forward_arg__ for name, item in arguments.__annotations__.items()
    } == fields


def test_a_scan_of_a_fragment_takes_all_but_fragments() -> None:
    whole = set(alance.types.ScanArguments.__annotations__)
    assert set(alance.types.FragmentScanArguments.__annotations__) == whole - {"fragments"}


def test_arguments_of_a_frame_are_those_of_pyarrow() -> None:
    theirs = set(inspect.signature(pa.Table.to_pandas).parameters) - {"self"}
    assert set(alance.types.FrameArguments.__annotations__) == theirs


def test_arguments_of_a_cleanup_are_those_of_its_verb() -> None:
    signature = inspect.signature(alance.Dataset.cleanup_old_versions)
    verb = {name: item.annotation for name, item in signature.parameters.items() if name != "self"}
    assert verb.pop("progress") == "OnProgress | None"  # a job of Spark has its own
    arguments = alance.types.CleanupArguments.__annotations__.items()
    assert {name: item.__forward_arg__ for name, item in arguments} == verb


def test_arguments_of_spark_are_the_fields_of_its_options() -> None:
    pytest.importorskip("pyspark")
    options = import_module("alance.spark.options")
    place = {"LISTS", "path", "storage"}
    read, written = options.ReadOptions, options.SparkWriteOptions
    assert {*SelectArguments.__annotations__} == {*read.__dataclass_fields__} - place
    assert {*ReadArguments.__annotations__} == {*SelectArguments.__annotations__} - {
        "columns",
        "filter",
    }
    assert {*WriteArguments.__annotations__} == {*written.__dataclass_fields__} - place - {
        "if_exists"
    }


async def test_a_wrong_keyword_is_a_type_error_that_names_it() -> None:
    uri = "memory://wrong-keywords"
    async with alance.Session() as session:
        rows = pa.table({"x": [1]})
        dataset = await alance.write_dataset(rows, uri, session=session)
        with pytest.raises(
            TypeError, match="unexpected keyword argument 'fliter', did you mean 'filter'"
        ):
            dataset.scanner(fliter="x > 1")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'fliter'"):
            dataset.to_batches(fliter="x > 1")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'mesage'"):
            await dataset.delete("x = 1", mesage="why")  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="unexpected keyword argument 'rows'; its arg"):
            await dataset.optimize.compact_files(rows=1)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="'fragments'"):
            dataset.fragments[0].scanner(fragments=[1])  # type: ignore[call-arg]
        assert await dataset.latest_version() == 1
        for opening in (alance.dataset, alance.FileReader.open, alance.repair):
            with pytest.raises(TypeError, match="'stor', did you mean 'store'"):
                await opening(uri, stor=None)  # type: ignore[operator]
        with pytest.raises(TypeError, match="'versoins', did you mean 'versions'"):
            await dataset.cleanup_old_versions(versoins=[1])  # type: ignore[call-arg]


def test_submodules_are_found_as_attributes() -> None:
    for name in ("distributed", "indexing", "operations", "optimize", "types"):
        module = getattr(alance, name)
        assert isinstance(module, ModuleType)
        assert module is sys.modules[f"alance.{name}"]

"""Write `sync.pyi`: the types of the blocking API, derived from the async classes.

    python -m tools.stubs

A test compares the committed file with the output.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from pathlib import Path
from typing import Any, Final, get_overloads

import alance
from alance import sync
from alance.base.signatures import ExpandedSignature

TARGET: Final = Path(sync.__file__).with_suffix(".pyi")

HEADER: Final = '''"""The blocking face: the same names as `alance`, without `await`.

Made by `python -m tools.stubs`.
"""'''
# Where the names in the signatures come from; a stub with another one would not check.
STANDARD: Final[dict[str, str]] = {
    "Callable": "collections.abc",
    "Collection": "collections.abc",
    "Iterable": "collections.abc",
    "Iterator": "collections.abc",
    "Mapping": "collections.abc",
    "Sequence": "collections.abc",
    "datetime": "datetime",
    "timedelta": "datetime",
    "Any": "typing",
    "Literal": "typing",
    "Self": "typing",
    "Unpack": "typing",
    "overload": "typing",
}
# The public modules, in the order in which a name is looked for.
OURS: Final = (
    alance,
    alance.types,
    alance.observe,
    alance.operations,
    alance.optimize,
    alance.indexing,
)
MODULES: Final = {"os", "pa", "pc", "pd", "pl", "types"}
SHOWN_AGAIN: Final[tuple[str, ...]] = vars(sync)["_UNCHANGED"]  # the stub does not show it
ARROW: Final = ("pandas as pd", "polars as pl", "pyarrow as pa", "pyarrow.compute as pc")
FUNCTIONS: Final = (
    "check_store",
    "commit",
    "commit_batch",
    "dataset",
    "connect",
    "drop",
    "ingest",
    "repair",
    "warm_up",
    "write_dataset",
    "write_fragments",
)
CONTEXT: Final = (
    "    def __enter__(self) -> Self: ...",
    "    def __exit__(self, kind: object, error: object, trace: object) -> None: ...",
)
TABLES: Final = (
    "    def __getitem__(self, table: TableName) -> Dataset: ...",
    "    def __contains__(self, table: TableName) -> bool: ...",
    "    def __iter__(self) -> Iterator[str]: ...",
    "    def __len__(self) -> int: ...",
)
CAPSULE: Final = (
    "    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ..."
)
SCANS: Final = ("Dataset", "DatasetFragment", "Scanner")  # classes with `to_reader`


def stub() -> str:
    """Return the text of the stub file."""
    classes = [
        sync.Dataset,
        sync.DatasetDelta,
        sync.DatasetFragment,
        sync.Scanner,
        sync.FileReader,
        sync.FileSession,
        sync.FileWriter,
        sync.Sink,
        sync.BlobFile,
        sync.DedicatedBlobWriter,
        sync.PackedBlobWriter,
        sync.Tags,
        sync.Branches,
        sync.Catalog,
        sync.MergeInsert,
        sync.Optimize,
        sync.AutoCompaction,
        sync.Maintenance,
        sync.Compaction,
        sync.CompactionPlan,
        sync.CompactionTask,
        sync.IndexBuild,
        sync.IndexPlan,
        sync.IndexRange,
        sync.IndexTask,
    ]
    places = (alance, alance.optimize, alance.indexing)
    bodies = [
        _class(
            next(
                getattr(place, class_.__name__)
                for place in places
                if hasattr(place, class_.__name__)
            )
        )
        for class_ in classes
    ]
    functions = [_functions(name, getattr(alance, name), "") for name in FUNCTIONS]
    text = "\n\n".join([*bodies, "\n".join(functions)])
    imports = [*_modules(text), ""]
    imports += [f"import {name}" for name in ARROW if re.search(rf"\b{name.split()[-1]}\.", text)]
    ours = [f"from alance import {name} as {name}" for name in SHOWN_AGAIN]
    imports += ["", *ours, *_imports(text)]
    return "\n".join([HEADER, "", *imports, "", f"{text}\n"])


def _modules(text: str) -> list[str]:
    return [f"import {name}" for name in ("os", "types") if re.search(rf"\b{name}\.", text)]


def _imports(text: str) -> list[str]:
    """Return imports for the names in annotations; an annotation without its import is an error."""
    tree = ast.parse(text)
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)} | set(dir(builtins))
    own |= set(SHOWN_AGAIN)
    places: dict[str, list[str]] = {}
    for name in sorted(_names(tree) - own - MODULES):
        place = STANDARD.get(name) or next(
            (module.__name__ for module in OURS if name in module.__all__), None
        )
        assert place is not None, f"{name}: in a public signature, and no public module has it"
        places.setdefault(place, []).append(name)
    return [f"from {place} import {', '.join(places[place])}" for place in sorted(places)]


def _names(tree: ast.Module) -> set[str]:
    """Return the names in the annotations and decorators of functions."""
    names: set[str] = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            arguments = function.args
            every = [*arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            annotations = [node.annotation for node in every if node is not None]
            for annotation in [*annotations, function.returns, *function.decorator_list]:
                if annotation is not None:
                    names |= {
                        node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)
                    }
    return names


def _class(async_class: type) -> str:
    lines = [f"class {async_class.__name__}:"]
    for name in vars(getattr(sync, async_class.__name__)):
        member = inspect.getattr_static(async_class, name, None)
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            assert member.fget is not None
            answer = _type(inspect.signature(member.fget).return_annotation)
            lines += ["    @property", f"    def {name}(self) -> {answer}: ..."]
        elif inspect.ismemberdescriptor(member):
            answer = _type(async_class.__annotations__[name])
            lines += ["    @property", f"    def {name}(self) -> {answer}: ..."]
        elif isinstance(member, classmethod):
            lines += ["    @classmethod", _function(name, member.__func__, "    ")]
        elif inspect.isfunction(member):
            lines.append(_function(name, member, "    "))
    if hasattr(async_class, "__aenter__"):
        lines += CONTEXT
    if hasattr(async_class, "open_table"):
        lines += TABLES
    if async_class.__name__ in SCANS:
        scan = inspect.signature(getattr(async_class, "scanner", _scan_again))
        reader = scan.replace(return_annotation="pa.RecordBatchReader")
        lines += [_declared("to_reader", reader, "    "), CAPSULE]
        lines.append("    def __len__(self) -> int: ...")
    return "\n".join(lines)


def _scan_again(self: object) -> object:
    """Signature of `Scanner.to_reader`, which takes no options: a scanner already has them."""


def _functions(name: str, function: Any, indent: str) -> str:
    """Return a function as text, or all of its overloads."""
    forms = [
        _declared(name, ExpandedSignature(form), indent)  # type: ignore[arg-type]  # a function
        for form in get_overloads(function)
    ]
    return "\n".join(f"{indent}@overload\n{form}" for form in forms) or _function(
        name, function, indent
    )


def _function(name: str, function: object, indent: str) -> str:
    return _declared(name, inspect.signature(function), indent)  # type: ignore[arg-type]


def _declared(name: str, signature: inspect.Signature, indent: str) -> str:
    parts: list[str] = []
    seen_star = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not seen_star:
            parts.append("*")
            seen_star = True
        prefix = "**" if parameter.kind is parameter.VAR_KEYWORD else ""
        if parameter.kind is parameter.VAR_POSITIONAL:
            prefix, seen_star = "*", True
        text = f"{prefix}{parameter.name}"
        if parameter.annotation is not parameter.empty:
            text += f": {_type(parameter.annotation)}"
        if parameter.default is not parameter.empty:
            text += f" = {_default(parameter.default)}"
        parts.append(text)
    answer = _type(signature.return_annotation)
    line = f"{indent}def {name}({', '.join(parts)}) -> {answer}: ..."
    if len(line) <= 100:
        return line
    inner = "".join(f"\n{indent}    {part}," for part in parts)
    return f"{indent}def {name}({inner}\n{indent}) -> {answer}: ..."


def _default(value: object) -> str:
    """Return a default as an editor shows it; `...` if it is not a literal."""
    is_literal = value is None or type(value) in (bool, int, float, str)
    return repr(value).replace("'", '"') if is_literal or value == () else "..."


def _type(annotation: object) -> str:
    text = str(annotation).replace("'", '"').replace("table_pb2.", "")
    text = re.sub(r"\bAsyncIterator\b", "Iterator", text)
    return re.sub(r"\bAwaitable\[(.*)\]", r"\1", text)


if __name__ == "__main__":
    TARGET.write_text(stub())

"""Writes `sync.pyi`: the types of the blocking face, derived from the async classes as it is.

    python -m alance.testing.stubs

A test compares the committed file with what this gives.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Final

import alance
from alance import sync

TARGET: Final = Path(sync.__file__).with_suffix(".pyi")

HEADER: Final = '''"""The blocking face: the same names as `alance`, without `await`.

Made by `python -m alance.testing.stubs`.
"""

import os
import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from alance import ScanOptions as ScanOptions
from alance import trace as trace
from alance.file_version import FileVersion
from alance.format.field import Field
from alance.format.table.fragment import Fragment
from alance.format.table.transaction import Transaction
from alance.ops.projection import Columns
from alance.session import Session
'''
# Names of types that the header imports; a stub with another one would not check.
EXTRA: Final[dict[str, str]] = {
    "BranchContents": "alance.format.table.refs",
    "Explanation": "alance.ops.explain",
    "TagContents": "alance.format.table.refs",
    "VersionInfo": "alance.versioning.load",
}


READERS: Final = (
    "    def to_reader(self, columns: Columns = ..., **options: Any) -> pa.RecordBatchReader: ...",
    "    def __arrow_c_stream__(self, requested_schema: object | None = ...) -> object: ...",
)


def stub() -> str:
    """The text of the stub file."""
    classes = [
        sync.Dataset,
        sync.DatasetFragment,
        sync.Scanner,
        sync.FileReader,
        sync.BlobFile,
        sync.Tags,
        sync.Branches,
    ]
    bodies = [_class(getattr(alance, one.__name__)) for one in classes]
    text = "\n\n".join([*bodies, _function("dataset", alance.dataset, "")])
    extra = "".join(
        f"from {module} import {name}\n"
        for name, module in sorted(EXTRA.items(), key=lambda one: one[1])
        if re.search(rf"\b{name}\b", text)
    )
    return f"{HEADER}{extra}\n{text}\n"


def _class(async_class: type) -> str:
    lines = [f"class {async_class.__name__}:"]
    for name, member in vars(async_class).items():
        if name.startswith("_"):
            continue
        if isinstance(member, property):
            assert member.fget is not None
            answer = _type(inspect.signature(member.fget).return_annotation)
            lines += ["    @property", f"    def {name}(self) -> {answer}: ..."]
        elif isinstance(member, classmethod):
            lines += ["    @classmethod", _function(name, member.__func__, "    ")]
        elif inspect.isfunction(member):
            lines.append(_function(name, member, "    "))
    if hasattr(async_class, "to_batches") and async_class.__name__ != "FileReader":
        lines += READERS
    return "\n".join(lines)


def _function(name: str, function: object, indent: str) -> str:
    signature = inspect.signature(function)  # type: ignore[arg-type]
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
            text += " = ..."
        parts.append(text)
    answer = _type(signature.return_annotation)
    line = f"{indent}def {name}({', '.join(parts)}) -> {answer}: ..."
    if len(line) <= 100:
        return line
    inner = "".join(f"\n{indent}    {part}," for part in parts)
    return f"{indent}def {name}({inner}\n{indent}) -> {answer}: ..."


def _type(annotation: object) -> str:
    text = str(annotation)
    text = re.sub(r"\bAsyncIterator\b", "Iterator", text)
    return re.sub(r"\bAwaitable\[(.*)\]", r"\1", text)


if __name__ == "__main__":
    TARGET.write_text(stub())

"""The blocking face: the same names as `alance`, without `await`.

    import alance.sync as alance
    dataset = alance.dataset("s3://bucket/table")
    rows = dataset.take([7, 42])

Derived from the async classes: a verb is written, documented and tested once. All calls run on one
background event loop in a daemon thread, so that concurrent threads share requests as concurrent
tasks do. Scans implement the Arrow PyCapsule stream protocol: polars, duckdb, pandas and pyarrow
read them directly.
"""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import AsyncIterator, Callable
from functools import wraps
from typing import Any, Final

import pyarrow as pa

import alance
from alance.blocking import OwnLoop

_background: Final = OwnLoop("alance.sync")
os.register_at_fork(after_in_child=_background.forget)

_faces: Final[dict[type, type]] = {}


def _wrap(value: Any) -> Any:
    """Async objects as their blocking faces, lists and tuples of them too."""
    face = _faces.get(type(value))
    if face is not None:
        return face(value)
    if type(value) in (list, tuple) and any(type(item) in _faces for item in value):
        return type(value)(_wrap(item) for item in value)
    return value


def _unwrap(value: Any) -> Any:
    return value._inner if type(value) in _faces.values() else value


def _blocking(function: Callable[..., Any], *, is_method: bool) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if is_method:
            args = (args[0]._inner, *args[1:])
        arguments = [_unwrap(argument) for argument in args]
        named = {name: _unwrap(argument) for name, argument in kwargs.items()}

        async def start() -> Any:
            result = function(*arguments, **named)
            return await result if inspect.isawaitable(result) else result

        result = _background.run(start())
        return _background.iterate(result) if isinstance(result, AsyncIterator) else _wrap(result)

    return call


def _read_only(name: str, original: property | types.MemberDescriptorType) -> property:
    async def read(inner: Any) -> Any:
        return getattr(inner, name)

    return property(lambda self: _wrap(_background.run(read(self._inner))), doc=original.__doc__)


def _public_members(async_class: type) -> dict[str, Any]:
    """The public names of a class and its bases, bases first."""
    members: dict[str, Any] = {}
    for base in reversed(async_class.__mro__[:-1]):
        members |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    return members


def _face(async_class: type) -> type:
    """A class with the same public names, each blocking."""

    def __init__(self: Any, inner: Any) -> None:
        self._inner = inner

    def __repr__(self: Any) -> str:
        return f"alance.sync.{self._inner!r}"

    members: dict[str, Any] = {
        "__slots__": ("_inner",),
        "__init__": __init__,
        "__repr__": __repr__,
        "__doc__": async_class.__doc__,
        "__module__": __name__,
    }
    for name, member in _public_members(async_class).items():
        if isinstance(member, property | types.MemberDescriptorType):
            members[name] = _read_only(name, member)
        elif isinstance(member, classmethod):
            bound = getattr(async_class, name)
            members[name] = staticmethod(_blocking(bound, is_method=False))
        elif inspect.isfunction(member):
            members[name] = _blocking(member, is_method=True)
    if hasattr(async_class, "__aenter__"):
        members["__enter__"] = _enter
        members["__exit__"] = _exit
    if "to_batches" in members:
        members["to_reader"] = _to_reader
        members["__arrow_c_stream__"] = _arrow_c_stream
    face = type(async_class.__name__, (), members)
    _faces[async_class] = face
    return face


def _enter(self: Any) -> Any:
    _background.run(self._inner.__aenter__())
    return self


def _exit(self: Any, *error: Any) -> None:
    _background.run(self._inner.__aexit__(*error))


def _to_reader(self: Any, columns: Any = None, **options: Any) -> pa.RecordBatchReader:
    """The scan as a pyarrow reader; batches are read when asked for."""
    scanner = self if hasattr(self, "projected_schema") else self.scanner(columns, **options)
    _background.run(scanner._inner._load())
    return pa.RecordBatchReader.from_batches(scanner.projected_schema, scanner.to_batches())


def _arrow_c_stream(self: Any, requested_schema: object | None = None) -> object:
    """The scan by the Arrow PyCapsule stream protocol."""
    return self.to_reader().__arrow_c_stream__(requested_schema)


Dataset = _face(alance.Dataset)
DatasetDelta = _face(alance.DatasetDelta)
DatasetFragment = _face(alance.DatasetFragment)
Scanner = _face(alance.Scanner)
FileReader = _face(alance.FileReader)
FileWriter = _face(alance.FileWriter)
Sink = _face(alance.Sink)
BlobFile = _face(alance.BlobFile)
Tags = _face(alance.Tags)
Branches = _face(alance.Branches)
MergeInsert = _face(alance.MergeInsert)
Optimize = _face(alance.optimize.Optimize)
Compaction = _face(alance.Compaction)
CompactionPlan = _face(alance.optimize.CompactionPlan)
CompactionTask = _face(alance.optimize.CompactionTask)
IndexBuild = _face(alance.IndexBuild)
IndexPlan = _face(alance.indexing.IndexPlan)
IndexTask = _face(alance.indexing.IndexTask)

check_store = _blocking(alance.check_store, is_method=False)
commit = _blocking(alance.commit, is_method=False)
dataset = _blocking(alance.dataset, is_method=False)
drop = _blocking(alance.drop, is_method=False)
ingest = _blocking(alance.ingest, is_method=False)
write_dataset = _blocking(alance.write_dataset, is_method=False)
write_fragments = _blocking(alance.write_fragments, is_method=False)
batch_udf = alance.batch_udf
operations = alance.operations
trace = alance.trace
ScanOptions = alance.ScanOptions

__all__ = [
    "BlobFile",
    "Branches",
    "Compaction",
    "CompactionPlan",
    "CompactionTask",
    "Dataset",
    "DatasetDelta",
    "DatasetFragment",
    "FileReader",
    "FileWriter",
    "IndexBuild",
    "IndexPlan",
    "IndexTask",
    "MergeInsert",
    "Optimize",
    "ScanOptions",
    "Scanner",
    "Sink",
    "Tags",
    "batch_udf",
    "check_store",
    "commit",
    "dataset",
    "drop",
    "ingest",
    "operations",
    "trace",
    "write_dataset",
    "write_fragments",
]

"""Blocking API: the same names as `alance`, without `await`.

    import alance.sync as alance
    dataset = alance.dataset("s3://bucket/table")
    rows = dataset.take([7, 42])

The classes are derived from the async classes, so that a verb is written, documented and tested
once. A name is derived, and its module imported, at its first use. All calls run on one background
event loop in a daemon thread, so that concurrent threads share requests as concurrent tasks do.
Scans implement the Arrow PyCapsule stream protocol: polars, duckdb, pandas and pyarrow read them
directly.
"""

from __future__ import annotations

import inspect
import io
import types
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import alance
from alance.blocking import Hinted, OwnLoop, Uncalled, no_name, no_use, not_constructed

if TYPE_CHECKING:  # the stub has the types; editors find the docstrings by these imports
    from alance import *  # noqa: F403
    from alance.indexing import *  # noqa: F403
    from alance.optimize import *  # noqa: F403

_background: Final = OwnLoop("alance.sync")

# Classes that have a blocking version, with the public module of each.
_CLASSES: Final = {
    "AutoCompaction": "alance.optimize",
    "BlobFile": "alance",
    "Branches": "alance",
    "Catalog": "alance",
    "Compaction": "alance",
    "CompactionPlan": "alance.optimize",
    "CompactionTask": "alance.optimize",
    "Dataset": "alance",
    "DatasetDelta": "alance",
    "DatasetFragment": "alance",
    "DedicatedBlobWriter": "alance",
    "FileReader": "alance",
    "FileSession": "alance",
    "FileWriter": "alance",
    "IndexBuild": "alance",
    "IndexPlan": "alance.indexing",
    "IndexRange": "alance.indexing",
    "IndexTask": "alance.indexing",
    "Maintenance": "alance",
    "MergeInsert": "alance",
    "Optimize": "alance.optimize",
    "PackedBlobWriter": "alance",
    "Scanner": "alance",
    "Sink": "alance",
    "Tags": "alance",
}
_FUNCTIONS: Final = (
    "check_store",
    "commit",
    "commit_batch",
    "connect",
    "dataset",
    "drop",
    "ingest",
    "repair",
    "warm_up",
    "write_dataset",
    "write_fragments",
)
# Names that do not wait are the same objects as in `alance`: errors, options, sessions.
_UNCHANGED: Final = tuple(
    name for name in alance.__all__ if name not in _CLASSES and name not in _FUNCTIONS
)

_faces: Final[dict[type, type]] = {}  # blocking classes derived so far


def __getattr__(name: str) -> Any:
    if name in _CLASSES:
        value = _face(getattr(import_module(_CLASSES[name]), name))
    elif name in _FUNCTIONS:
        value = _blocking(getattr(alance, name), is_method=False)
    elif name in _UNCHANGED:
        value = getattr(alance, name)
    else:
        raise no_name(__name__, name)
    return globals().setdefault(name, value)


def __dir__() -> list[str]:
    return sorted(__all__)


def _face_of(kind: type) -> type | None:
    """Return the blocking version of a class; None if it has none."""
    for base in kind.__mro__:
        name = base.__name__
        if base not in _faces and name in _CLASSES and base.__module__.startswith("alance."):
            __getattr__(name)
        if base in _faces:
            return _faces[base]
    return None


def _wrap(value: Any) -> Any:
    """Replace async objects by their blocking versions, also inside lists, tuples and dicts."""
    kind = type(value)
    face = _face_of(kind)
    if face is not None:
        return face(value)
    if kind in (list, tuple) and _has_faces(value):
        return kind(map(_wrap, value))
    if kind is dict and _has_faces(value.values()):
        return {name: _wrap(item) for name, item in value.items()}
    return value


def _has_faces(values: Iterable[Any]) -> bool:
    return any(_face_of(kind) for kind in set(map(type, values)))


def _unwrap(value: Any) -> Any:
    """Replace blocking objects by their async originals, also inside dicts."""
    if type(value) is dict:
        return {name: _unwrap(item) for name, item in value.items()}
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
    """Return the public members of a class and its bases, by name."""
    members: dict[str, Any] = {}
    for base in reversed(async_class.__mro__[:-1]):
        members |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    return members


def _face(async_class: type) -> type:
    """Derive the blocking version of a class: the same public names, all blocking."""

    def __init__(self: Any, inner: Any) -> None:
        if not isinstance(inner, async_class):
            raise not_constructed(async_class)
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
        members["__aenter__"] = members["__aexit__"] = _async_enter
    if hasattr(async_class, "__getattr__"):  # it only raises errors with hints
        members["__getattr__"] = async_class.__getattr__
    if hasattr(async_class, "_repr_html_"):
        members["_repr_html_"] = _blocking(async_class._repr_html_, is_method=True)
    _add_protocols(members)
    bases = tuple(base for base in (Uncalled, Hinted) if issubclass(async_class, base))[:1]
    if "readall" in members:  # libraries that read Python's binary files accept it
        bases = (io.BufferedIOBase,)
        members |= {"read1": members["read"], "__del__": _leave_open}
    # If threads derive the same class at once, all get the class of the first thread.
    return _faces.setdefault(async_class, type(async_class.__name__, bases, members))


def _add_protocols(members: dict[str, Any]) -> None:
    """Add members for protocols of Python and Arrow, such as `__len__` and `__arrow_c_stream__`."""
    if "to_pandas" in members:
        members["to_pandas"] = wraps(members["to_pandas"])(_to_pandas)
    if "to_batches" in members:
        members["to_reader"] = _to_reader
        members["__arrow_c_stream__"] = _arrow_c_stream
        members |= {"__len__": _len, "__bool__": _is_full}
    if "open_table" in members:
        members |= {"__getitem__": members["open_table"], "__contains__": members["table_exists"]}
        members |= {"__iter__": _iter_tables, "__len__": _len_tables, "__bool__": _is_full}


def _enter(self: Any) -> Any:
    _background.run(self._inner.__aenter__())
    return self


def _exit(self: Any, *error: Any) -> None:
    _background.run(self._inner.__aexit__(*error))


async def _async_enter(self: Any, *_: Any) -> None:
    raise no_use(self, "async with", "`with`, as for all of alance.sync")


def _to_reader(self: Any, columns: Any = None, **options: Any) -> pa.RecordBatchReader:
    """Return the scan as a pyarrow reader, which reads batches on demand."""
    scanner = self if hasattr(self, "projected_schema") else self.scanner(columns, **options)
    _background.run(scanner._inner._load())
    return pa.RecordBatchReader.from_batches(scanner.projected_schema, scanner.to_batches())


def _to_pandas(self: Any, *args: Any, **options: Any) -> Any:
    return _background.run(self._inner._frame(_wrap, *args, **options))


def _leave_open(self: Any) -> None:
    """Do nothing: the object holds no resources, and closing it would require the loop."""


def _len(self: Any) -> int:
    """Return the number of rows."""
    return int(self.count_rows())


def _is_full(self: Any) -> bool:
    """Return True if a dataset has rows, or a catalog has tables."""
    return len(self) > 0


def _iter_tables(self: Any) -> Iterator[str]:
    """Iterate over the sorted names of the tables in the root."""
    return iter(self.list_tables())


def _len_tables(self: Any) -> int:
    """Return the number of tables in the root."""
    return len(self.list_tables())


def _arrow_c_stream(self: Any, requested_schema: object | None = None) -> object:
    """Return the scan as an Arrow stream, by the PyCapsule protocol."""
    return self.to_reader().__arrow_c_stream__(requested_schema)


__all__ = sorted([*_CLASSES, *_FUNCTIONS, *_UNCHANGED])

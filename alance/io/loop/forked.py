"""Reload obstore in a child that was forked from a process with obstore loaded.

In a child, the threads of obstore's runtime are gone, its locks may be held for ever, and the
library never creates a second runtime. So a child loads the library again from a copy, which the
loader treats as another library. The parent's objects are not touched. This costs 12 ms of
processor time and 15 MB at the first request of a child.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import spec_from_file_location
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import obstore
import obstore.store

from alance.errors import ForkedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec

T = TypeVar("T")

_NATIVE: Final = "obstore._obstore"
_file: Final[str] = sys.modules[_NATIVE].__file__ or ""  # path of the library


def load_again() -> None:
    """Load the library again, and replace the contents of obstore's modules.

    Raises:
        OSError, ImportError: the library cannot be loaded from a copy on this system.
    """
    names = [name for name in sys.modules if name == "obstore" or name.startswith("obstore.")]
    old = {name: sys.modules.pop(name) for name in names}
    try:
        with _copy(_file) as path, _NativeFinder(path):
            new = {name: importlib.import_module(name) for name in names}
    finally:
        sys.modules.update(old)  # earlier imports of the modules hold these objects
    inner = {new[name]: old[name] for name in names}
    for name in names:
        for key, value in vars(new[name]).items():
            if not key.startswith("__"):
                is_module = isinstance(value, type(sys))
                setattr(old[name], key, inner.get(value, value) if is_module else value)


def of_this_process(objects: T) -> T:
    """Return a store object, rebuilt if it belongs to the library that was loaded before the fork.

    Raises:
        ForkedError: the object cannot be rebuilt, such as a `MemoryStore` of obstore.
    """
    kind: Any = getattr(obstore.store, type(objects).__name__, None)
    if (
        type(objects).__module__ != obstore.store.__name__
        or kind is None
        or isinstance(objects, kind)
    ):
        return objects
    if not hasattr(objects, "__getnewargs_ex__"):
        raise ForkedError(
            f"{type(objects).__name__}: it was made before this process was forked, or had obstore "
            f"loaded anew; make it again"
        )
    args, named = objects.__getnewargs_ex__()
    return cast("T", kind(*args, **named))


class _NativeFinder:
    """Context manager in which imports load obstore's native module from `path`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        if name != _NATIVE:
            return None
        return spec_from_file_location(
            name, self._path, loader=ExtensionFileLoader(name, self._path)
        )

    def __enter__(self) -> None:
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)


@contextmanager
def _copy(path: str) -> Iterator[str]:
    """Copy a file; yield a path that neither this process nor a parent has loaded."""
    with open(path, "rb") as source:
        content = source.read()
    if hasattr(os, "memfd_create"):  # Linux, where some folders are mounted without execution
        with os.fdopen(os.memfd_create("obstore"), "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/{os.getpid()}/fd/{memory.fileno()}"
    else:
        with tempfile.TemporaryDirectory() as folder:
            name = os.path.join(folder, os.path.basename(path))
            with open(name, "wb") as file:
                file.write(content)
            yield name

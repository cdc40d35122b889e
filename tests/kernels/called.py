"""Kernels that a run calls: `make sanitize` fails if its tests omit any."""

from __future__ import annotations

import atexit
import functools
import os
from typing import TYPE_CHECKING, Any

import _alance_kernels as kernels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class _Noted:
    """A function of the kernels; unlike one of Python it may be an attribute of a class."""

    def __init__(self, name: str, function: Callable[..., Any], names: set[str]) -> None:
        functools.update_wrapper(self, function, ("__module__", "__name__", "__doc__"), ())
        self._name, self._function, self._names = name, function, names

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        self._names.add(self._name)
        return self._function(*arguments, **options)


def _noted_method(name: str, method: Callable[..., Any], names: set[str]) -> Callable[..., Any]:
    def call(self: object, *arguments: Any, **options: Any) -> Any:
        names.add(name)
        return method(self, *arguments, **options)

    return call


def _functions() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Yield the owner, the name and the value of each function or method of the kernels."""
    for owner in (kernels, *[kind for kind in vars(kernels).values() if isinstance(kind, type)]):
        for name, value in list(vars(owner).items()):
            if type(value).__name__ in ("nb_func", "nb_method") and not name.startswith("_"):
                yield owner, name, value


def _full_name(owner: Any, name: str) -> str:
    return name if owner is kernels else f"{owner.__name__}.{name}"


def note_calls(folder: str) -> None:
    """Note in a file of the folder, at the end of the process, what it has called."""
    names: set[str] = set()
    for owner, name, value in list(_functions()):
        full_name = _full_name(owner, name)
        is_method = type(value).__name__ == "nb_method"
        setattr(owner, name, (_noted_method if is_method else _Noted)(full_name, value, names))

    def write() -> None:
        with open(os.path.join(folder, f"called.{os.getpid()}"), "w") as out:
            out.write("\n".join(names))

    atexit.register(write)


def never_called(folder: Path) -> list[str]:
    """The functions and methods that no process noted in the folder."""
    called = {name for file in folder.glob("called.*") for name in file.read_text().split("\n")}
    return [
        full_name
        for owner, name, _ in _functions()
        if (full_name := _full_name(owner, name)) not in called
    ]

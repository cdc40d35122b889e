"""Modules and names that are imported when they are first used.

`import alance` loads only what opens, takes and scans need; see docs/architecture.md.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from alance.base.hints import no_name

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Deferred(ModuleType):
    """A module that is imported when an attribute of it is first read.

        if TYPE_CHECKING:
            from alance.ops.rows import delete
        else:
            delete = Deferred("alance.ops.rows.delete")

    A verb first has a thread import its modules, so that the import does not block the loop: `await
    self._load(delete)`.
    """

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(self.__name__), name)


def lazy(
    module: str, places: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a module that re-exports names of other modules.

    Args:
        module: name of the re-exporting module.
        places: module of each public name, followed by `:name` if the module uses another name; a
            submodule has its own module.
    """

    def find(name: str) -> Any:
        if name not in places:
            raise no_name(module, name)
        place, _, attribute = places[name].partition(":")
        value: Any = import_module(place)
        if place != f"{module}.{name}":
            value = getattr(value, attribute or name)
        setattr(sys.modules[module], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[module]), *places})

    return find, names

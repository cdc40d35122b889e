"""Dataclasses whose methods are compiled when they are first called.

`dataclasses` compiles six functions for each class, which takes up to a millisecond, and a process
uses few of the classes that it imports. In this module a class gets its slots at once and its
methods at their first use: `__init__` is generated from the fields, and the other methods are taken
from a twin class that `dataclasses` creates. Type checkers see `dataclasses.dataclass`.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, FrozenInstanceError, field, fields, is_dataclass
from dataclasses import dataclass as standard
from functools import partial
from inspect import get_annotations
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, slots=False, **options):
        """Create a dataclass; `dataclasses` itself creates classes without slots."""
        if not slots:
            return standard(cls, **options)
        return partial(_slotted, **options) if cls is None else _slotted(cls, **options)


__all__ = ["dataclass"]

_RECORD_NAMES: Final = (
    "__init__",
    "__dataclass_fields__",
    "__dataclass_params__",
    "__match_args__",
    *["__replace__"] * (sys.version_info >= (3, 13)),
)
_OF_INSTANCES: Final = ("__dict__", "__weakref__")  # classes with slots have neither


def _slotted(
    cls: type, frozen: bool = False, eq: bool = True, repr: bool = True, kw_only: bool = False
) -> type:
    written = {name: value for name, value in vars(cls).items() if name not in _OF_INSTANCES}
    if "__eq__" in written and written["__hash__"] is None:  # Python has set it
        del written["__hash__"]
    own = [name for name, kind in get_annotations(cls).items() if "ClassVar" not in str(kind)]
    source = _ClassSource(
        written, own, {"frozen": frozen, "eq": eq, "repr": repr, "kw_only": kw_only}
    )
    names = [*_RECORD_NAMES, *["__repr__"] * repr, *["__eq__", "__hash__"] * eq]
    body: dict[str, Any] = {name: _Later(source) for name in names}
    if frozen:
        body |= _FROZEN
    elif eq:
        body["__hash__"] = None
    inherited = {slot for base in cls.__mro__[1:] for slot in vars(base).get("__slots__", ())}
    body["__slots__"] = tuple(name for name in own if name not in inherited)
    body |= {name: value for name, value in written.items() if name not in own}
    source.slotted = _again(cls, body)
    return source.slotted


def _again(cls: type, body: dict[str, Any]) -> type:
    copy: type = type(cls)(cls.__name__, cls.__bases__, body)
    copy.__qualname__ = cls.__qualname__
    return copy


class _ClassSource:
    """Attributes of a class as it was written, from which methods are generated.

    Args:
        body: attributes of the class without slots.
        own: names of the fields that the class adds to those of its bases.
        options: options of the dataclass.

    Attributes:
        slotted: the class with slots.
    """

    __slots__ = ("_body", "_options", "_own", "slotted")
    slotted: type

    def __init__(self, body: dict[str, Any], own: list[str], options: dict[str, bool]) -> None:
        self._body = body
        self._own = own
        self._options = options

    def attribute(self, name: str) -> Any:
        """Return an attribute that `dataclasses` would have added to the class."""
        if name == "__init__":
            return _init(self.slotted, self._fields(), self._options)
        options = dict(self._options)
        if name != "__dataclass_params__":  # it contains all options
            options["frozen"] &= any(map(is_dataclass, self.slotted.__bases__))
            options["init"] = False
            options["eq"] = name == "__eq__"
            options["repr"] = name == "__repr__"
            options["unsafe_hash"] = name == "__hash__"  # the same function as for frozen classes
        twin: type = standard(**options)(_again(self.slotted, {**self._body}))
        return vars(twin)[name]

    def _fields(self) -> Iterator[Field[Any]]:
        kinds = get_annotations(self.slotted)
        for name in self._own:
            value = self._body.get(name, MISSING)
            part: Field[Any] = value if isinstance(value, Field) else field(default=value)
            part.name, part.type = name, kinds[name]
            yield part


class _Later:
    """Attribute of a class that is computed at its first read."""

    __slots__ = ("_name", "_source")
    _name: str

    def __init__(self, source: _ClassSource) -> None:
        self._source = source

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        value = self._source.attribute(self._name)
        setattr(self._source.slotted, self._name, value)
        return value.__get__(instance, owner) if isinstance(value, FunctionType) else value


def _set_attribute(record: Any, name: str, value: object) -> None:
    if _is_fixed(record, name):
        raise FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(record, name, value)


def _delete_attribute(record: Any, name: str) -> None:
    if _is_fixed(record, name):
        raise FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(record, name)


def _is_fixed(record: Any, name: str) -> bool:
    """True if an attribute is frozen.

    All attributes of a dataclass are frozen; in a plain subclass of a dataclass, only the fields.
    """
    return "__dataclass_fields__" in vars(type(record)) or name in record.__dataclass_fields__


def _get_state(record: Any) -> list[Any]:
    return [getattr(record, part.name) for part in fields(record)]


def _set_state(record: Any, state: Iterable[Any]) -> None:
    for part, value in zip(fields(record), state, strict=True):
        object.__setattr__(record, part.name, value)


_FROZEN: Final = {
    "__setattr__": _set_attribute,
    "__delattr__": _delete_attribute,
    "__getstate__": _get_state,
    "__setstate__": _set_state,
}


class _Absent:
    """Default of a parameter whose value comes from a factory."""

    def __repr__(self) -> str:
        return "<factory>"


def _init(cls: type, own: Iterable[Field[Any]], options: dict[str, bool]) -> FunctionType:
    """Generate the `__init__` of a class.

    Args:
        own: fields that the class adds to those of its bases.
        options: options of the dataclass.
    """
    frozen, kw_only = options["frozen"], options["kw_only"]
    bases = [base for base in cls.__mro__[:0:-1] if is_dataclass(base)]
    parts = {part.name: part for base in bases for part in fields(base)}
    parts |= {part.name: part for part in own}
    by_name = {  # True for keyword-only parameters, which come last
        name: kw_only if part.kw_only is MISSING else part.kw_only for name, part in parts.items()
    }
    constants: dict[str, Any] = {"_absent": _Absent()}
    parameters, lines, kinds = ["self"], [], {}
    for name in sorted(parts, key=by_name.__getitem__):
        part = parts[name]
        parameter = value = name
        if part.default is not MISSING:
            constants[default := f"_default_{name}"] = part.default
            parameter, value = f"{name}={default}", name if part.init else default
        elif part.default_factory is not MISSING:
            constants[make := f"_make_{name}"] = part.default_factory
            parameter = f"{name}=_absent"
            value = f"{make}() if {name} is _absent else {name}" if part.init else f"{make}()"
        if part.init:
            if by_name[name] and "*" not in parameters:
                parameters.append("*")
            parameters.append(parameter)
            kinds[name] = part.type
        elif value == name:  # a field without a value until the class sets one
            continue
        if frozen:  # a third faster than `object.__setattr__`
            constants[setter := f"_set_{name}"] = getattr(cls, name).__set__
        lines.append(f"{setter}(self, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    code = f"def __init__({', '.join(parameters)}):\n  " + "\n  ".join(lines or ["pass"])
    source = f"def within({', '.join(constants)}):\n {code}\n return __init__"
    module, local = sys.modules.get(cls.__module__), dict[str, Any]()
    exec(source, vars(module) if module else {}, local)
    method: FunctionType = local["within"](**constants)
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__annotations__ = {**kinds, "return": None}
    return method

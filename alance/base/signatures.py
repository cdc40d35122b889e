"""Signatures that show the keyword arguments behind `**options: Unpack[ScanArguments]`.

`help`, notebooks and `alance/sync.pyi` see each argument with its type and its default. A signature
is made when it is first read: most programs read none.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import MISSING, fields, is_dataclass
from functools import cached_property
from importlib import import_module
from inspect import Parameter, Signature
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

T = TypeVar("T")

_UNPACKED: Final = re.compile(r"Unpack\[(\w+)\]")
_WITH_NONE: Final = re.compile(r"\b(None|Columns|Params)\b")  # types that include None

# Sources of the defaults for each TypedDict of `alance.types`: dataclasses, mappings or functions.
# An argument without a default there has None, or `...` if its type does not include None.
_DEFAULTS: Final[Mapping[str, Sequence[str]]] = {
    "CommitArguments": ("alance.ops.version.options:CommitOptions",),
    "CompactionArguments": ("alance.ops.upkeep.compact_plan:CompactionOptions",),
    "FollowArguments": ("alance.ops.changes.follow:FollowOptions",),
    "FragmentArguments": ("alance.writing:write_fragments",),
    "FragmentScanArguments": ("alance.ops.read.options:ScanOptions",),
    "FragmentPandasArguments": (
        "alance.ops.read.options:ScanOptions",
        "pyarrow:Table.to_pandas",
    ),
    "FrameArguments": ("pyarrow:Table.to_pandas",),
    "HybridArguments": ("alance.ops.search.options:SEARCH_DEFAULTS",),
    "IndexArguments": (
        "alance.ops.index.vectors.new:VectorIndexOptions",
        "alance.ops.index.texts.new:TEXT_INDEX_DEFAULTS",
        "alance.format.index.text.params:TextParams",
    ),
    "PandasArguments": ("alance.ops.read.options:ScanOptions", "pyarrow:Table.to_pandas"),
    "PolicyArguments": ("alance.ops.cleanup.policy:CleanupPolicy",),
    "ScalarIndexArguments": (
        "alance.ops.version.options:CommitOptions",
        "alance.ops.index.values.options:VALUE_INDEX_DEFAULTS",
        "alance.ops.index.texts.new:TEXT_INDEX_DEFAULTS",
        "alance.format.index.text.params:TextParams",
    ),
    "ScanArguments": ("alance.ops.read.options:ScanOptions",),
    "SearchArguments": ("alance.ops.search.options:SEARCH_DEFAULTS",),
    "TextSearchArguments": ("alance.ops.search.options:SEARCH_DEFAULTS",),
    "TokenArguments": ("alance.format.index.text.params:TextParams",),
}


class ExpandedSignature(Signature):
    """Signature of a function with the keyword arguments behind its `**options`.

    Attributes:
        written: signature as the code has it.
    """

    def __init__(self, function: FunctionType) -> None:
        self._function = function

    @cached_property
    def written(self) -> Signature:
        copy = FunctionType(self._function.__code__, {}, closure=self._function.__closure__)
        for name in ("__annotations__", "__defaults__", "__kwdefaults__"):
            setattr(copy, name, getattr(self._function, name))
        return inspect.signature(copy)

    @cached_property
    def _expanded(self) -> Signature:
        parameters = dict(self.written.parameters)
        for parameter in self.written.parameters.values():
            typed = _UNPACKED.fullmatch(str(parameter.annotation))
            if parameter.kind is Parameter.VAR_KEYWORD and typed is not None:
                del parameters[parameter.name]
                parameters = {**_keywords(typed[1]), **parameters}
                # Arguments of the function itself come first.
                own = [name for name in self.written.parameters if name in parameters]
                parameters = {name: parameters[name] for name in dict.fromkeys([*own, *parameters])}
        return self.written.replace(parameters=[*parameters.values()])

    @property
    def parameters(self) -> Any:
        return self._expanded.parameters

    @property
    def return_annotation(self) -> Any:
        return self._expanded.return_annotation

    def replace(self, **changes: Any) -> Signature:  # type: ignore[override]  # a plain one
        return self._expanded.replace(**changes)


def _keywords(name: str) -> dict[str, Parameter]:
    """Return the keyword arguments of a TypedDict of `alance.types`, by name."""
    accepted = getattr(import_module("alance.types"), name).__annotations__
    defaults: dict[str, Any] = {}
    for place in _DEFAULTS.get(name, ()):
        defaults = {**_defaults_of(place), **defaults}
    return {
        argument: Parameter(
            argument,
            Parameter.KEYWORD_ONLY,
            default=defaults.get(argument, None if _WITH_NONE.search(text) else ...),
            annotation=text,
        )
        for argument, text in ((key, _text(kind)) for key, kind in accepted.items())
    }


def _text(kind: Any) -> str:
    return str(getattr(kind, "__forward_arg__", kind))


def _defaults_of(place: str) -> dict[str, Any]:
    module, _, path = place.partition(":")
    value: Any = import_module(module)
    for name in path.split("."):
        value = getattr(value, name)
    if is_dataclass(value):
        return {field.name: _default(field) for field in fields(value)}
    if isinstance(value, dict):
        return value
    parameters = inspect.signature(value).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not Parameter.empty}


def _default(field: Any) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return ... if field.default is MISSING else field.default

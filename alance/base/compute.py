"""Functions of Arrow by name, like `pyarrow.compute`, but quick to import.

Importing `pyarrow.compute` takes 30 ms of processor time, because it generates the
documentation of three hundred functions. In this module a function is bound at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import _compute
from pyarrow._compute import CastOptions, Expression, call_function, get_function

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CastOptions", "Expression", "call_function", "cast", "fill_null"]

_KEYWORD_NAMES: Final = {"and_": "and", "or_": "or"}  # Arrow's names that are keywords in Python


def __getattr__(name: str) -> Any:
    if name.startswith("__"):  # read by `from alance.base.compute import ...` and by inspection
        raise AttributeError(name)
    try:
        function = _bound(_KEYWORD_NAMES.get(name, name))
    except KeyError:
        raise AttributeError(f"Arrow has no function {name!r}") from None
    globals()[name] = function
    return function


def _bound(name: str) -> Callable[..., Any]:
    """Bind a function of Arrow; it takes its arguments, then options by position or by name."""
    function = get_function(name)
    arity = function.arity  # `...` for any number; then options are only passed by name
    class_name = function._doc.options_class
    options_class = getattr(_compute, class_name) if class_name else None

    def call(*args: Any, options: Any = None, **named: Any) -> Any:
        placed: tuple[Any, ...] = ()
        if arity is not ...:
            if len(args) < arity or (options_class is None and len(args) > arity):
                raise TypeError(f"{name} takes {arity} arguments, got {len(args)}")
            args, placed = args[:arity], args[arity:]
        if placed or named:
            if options_class is None or options is not None:
                raise TypeError(f"{name} takes options once, as `options` or each by itself")
            options = options_class(*placed, **named)
        if args and isinstance(args[0], Expression):
            return Expression._call(name, list(args), options)
        return function.call(args, options)

    call.__name__ = call.__qualname__ = name
    return call


def cast(
    values: Any, target_type: Any = None, safe: bool | None = None, options: Any = None
) -> Any:
    """Cast values, by `options` or by `target_type` and `safe`."""
    if options is None:
        kind = CastOptions.unsafe if safe is False else CastOptions.safe
        options = kind(pa.lib.ensure_type(target_type))
    elif target_type is not None or safe is not None:
        raise ValueError("cast takes either `options` or `target_type` and `safe`")
    return call_function("cast", [values], options)


def fill_null(values: Any, fill_value: Any) -> Any:
    """Replace nulls by a value."""
    if not isinstance(fill_value, pa.Array | pa.ChunkedArray | pa.Scalar):
        fill_value = pa.scalar(fill_value, type=values.type)
    elif values.type != fill_value.type:
        fill_value = pa.scalar(fill_value.as_py(), type=values.type)
    return call_function("coalesce", [values, fill_value])

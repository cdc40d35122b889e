"""Errors of calls whose arguments do not fit: they name the public call and its arguments.

Python's own messages name neither similar arguments (before 3.13) nor those of other libraries.
"""

from __future__ import annotations

import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from alance.base.checks import some_columns, unexpected
from alance.base.signatures import ExpandedSignature
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")

# Code of wrappers that answer wrong calls: here, and of `public_arguments`.
_ANSWERING: Final = ("_call", "_awaited", "checked")
# Attributes of a function that its wrapper has, too.
_SHOWN: Final = ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__")

# Calls that return objects of the classes that callers do not construct.
_CONSTRUCTED_BY: Final = {
    "Dataset": "alance.dataset(uri)",
    "Catalog": "alance.connect(uri)",
    "FileReader": "FileReader.open(uri)",
    "FileWriter": "FileWriter.open(uri)",
    "FileSession": "FileSession.open(uri)",
    "Sink": "alance.ingest(uri)",
}


def public(thing: T) -> T:
    """Decorator of public functions and classes: a wrong call is answered by `wrong_call`.

    Signatures show the arguments of each `Unpack[...]`. Methods are wrapped where they are defined,
    also those of base classes.
    """
    if isinstance(thing, FunctionType):
        answering: T = _answering(thing)
        return answering
    for base, name, member in _methods(thing):
        if type(member) is classmethod:
            setattr(base, name, classmethod(_answering(member.__func__)))
        elif type(member) is FunctionType:  # few calls: a class has a hundred members
            setattr(base, name, _answering(member))
    return thing


def _methods(kind: Any) -> Iterator[tuple[type, str, Any]]:
    """List the public methods; of constructors those that the class documents for callers."""
    is_constructed = "Args:" in (kind.__doc__ or "")
    for base in kind.__mro__:
        if base.__module__.startswith("alance."):
            for name, member in [*vars(base).items()]:
                if name[0] != "_" or (name == "__init__" and is_constructed):
                    yield base, name, member


def _answering(function: Any) -> Any:
    """Wrap a function, which another decorator may have wrapped already.

    The wrapper of a coroutine function is also a coroutine function: frameworks test for that.
    """
    if function.__code__.co_name in _ANSWERING:
        return function
    inner: FunctionType = inspect.unwrap(function)

    def _call(*values: Any, **arguments: Any) -> Any:
        try:
            return function(*values, **arguments)
        except TypeError as error:
            if _is_inside(error, inner):
                raise
            raise wrong_call(error, inner, arguments) from None

    async def _awaited(*values: Any, **arguments: Any) -> Any:
        return await _call(*values, **arguments)

    is_async = function.__code__.co_flags & inspect.CO_COROUTINE
    wrapper: Any = _awaited if is_async else _call
    for name in _SHOWN:
        setattr(wrapper, name, getattr(function, name))
    if inner.__code__.co_flags & inspect.CO_VARKEYWORDS:
        wrapper.__signature__ = ExpandedSignature(inner)
    wrapper.__wrapped__ = function
    return wrapper


def _is_inside(error: TypeError, function: FunctionType) -> bool:
    """True if an error was raised in a function's body, not by the binding of its arguments."""
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is function.__code__:
            return True
        trace = trace.tb_next
    return not str(error).startswith(f"{function.__qualname__}()")


def wrong_call(error: TypeError, function: FunctionType, named: Iterable[str]) -> TypeError:
    """Return the error for arguments that do not fit a signature, with the signature's names."""
    has_more = function.__code__.co_flags & inspect.CO_VARKEYWORDS
    signature = ExpandedSignature(function) if has_more else inspect.signature(function)
    names = [name for name in signature.parameters if name not in ("self", "cls")]
    place = function.__qualname__.removesuffix(".__init__")
    if unknown := [name for name in named if name not in names]:
        if not names:
            return TypeError(f"{place}(): unexpected keyword argument {unknown[0]!r}; it has none")
        return unexpected(unknown, names, f"{place}(): ")
    return TypeError(f"{error}; its arguments are {some_columns(names)}")


def not_constructed(kind: type) -> InvalidInputError:
    """Return the error for a call of a class that callers do not construct."""
    way = _CONSTRUCTED_BY.get(kind.__name__, "a method that returns it")
    return InvalidInputError(f"{kind.__name__}(): not called by users; write {way}")

"""Checks of arguments: numbers, texts, choices, callbacks, and names of arguments."""

from __future__ import annotations

import inspect
import reprlib
import sys
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from types import UnionType

T = TypeVar("T")

# Names of arguments in pandas, SQL and other stores, with the names that alance uses instead.
SYNONYMS: Final = {
    "where": ("filter",),
    "predicate": ("filter",),
    "select": ("columns",),
    "n": ("limit", "k"),
    "limit": ("k",),
    "top_k": ("k",),
    "batch_rows": ("batch_size",),
    "sort_by": ("order_by",),
    "key": ("on",),
    "keys": ("on",),
    "values": ("updates",),
    "random_state": ("seed",),
    "tag": ("version",),
}
# Maximum number of values that a message lists; there may be tens of thousands.
SHOWN_VALUES: Final = 8
INT64_MAX: Final = (1 << 63) - 1  # largest integer in the kernels and in Arrow


def check_count(name: str, value: object, least: int = 1, most: float = float("inf")) -> None:
    """Check that a value is an integer within bounds; booleans are refused.

    Raises:
        InvalidInputError: the value is not an integer, or is out of bounds.
    """
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if is_integer and least <= value <= most:  # type: ignore[operator]  # it is an integer
        return
    if most != float("inf") and (most != INT64_MAX or (is_integer and value > most)):  # type: ignore[operator]
        expected = f"an integer from {least} to {most}"
    else:
        expected = "a positive integer" if least == 1 else f"an integer of at least {least}"
    raise InvalidInputError(f"{name}={value!r}: expected {expected}")


def check_counts(options: object, *names: str, least: int = 1) -> None:
    """Check that attributes are None or integers of at least `least`.

    Raises:
        InvalidInputError: an attribute has another type, or is too small.
    """
    for name in names:
        if (value := getattr(options, name)) is not None:
            check_count(name, value, least)


def check_text(what: str, value: object) -> None:
    """Check that a value is a text that UTF-8 can encode.

    Raises:
        InvalidInputError: the value is not text, or has a lone surrogate.
    """
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} {reprlib.repr(value)}: expected text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(f"{what} {value!r}: half of a surrogate pair is no text") from None


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Check that a value is one of the allowed words.

    Raises:
        InvalidInputError: the value is not in `choices`.
    """
    if value not in choices:
        hint = did_you_mean(value, choices) if isinstance(value, str) else ""
        raise InvalidInputError(
            f"{name}={reprlib.repr(value)}: expected one of {', '.join(choices)}{hint}"
        )


def check_type(
    name: str, value: object, kind: type | UnionType | tuple[type, ...], expected: str
) -> None:
    """Check that a value is of a type; the message has the value's type, never its contents.

    Raises:
        InvalidInputError: the value is not an instance of `kind`.
    """
    if not isinstance(value, kind):
        raise InvalidInputError(f"{name}: got {type(value).__name__}, expected {expected}")


def check_callback(name: str, value: object, expected: str = "a function") -> None:
    """Check that a value is None or a function that is not async.

    Raises:
        InvalidInputError: the value is not callable, or is async, so that nothing would await it.
    """
    if value is None:
        return
    if not callable(value):
        raise InvalidInputError(f"{name}={value!r}: expected {expected}")
    if inspect.iscoroutinefunction(value) or inspect.iscoroutinefunction(type(value).__call__):
        raise InvalidInputError(
            f"{name}={value!r}: expected {expected}, not async, as nothing would await it"
        )


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return ", did you mean ...?" with names similar to a wrong one; empty if there are none."""
    from difflib import get_close_matches

    by_lower: dict[str, list[str]] = {}
    for candidate in dict.fromkeys(names):
        by_lower.setdefault(candidate.lower(), []).append(candidate)
    close = get_close_matches(name.lower(), by_lower, n=3)
    alike = [repr(candidate) for lower in close for candidate in by_lower[lower]]
    return f", did you mean {' or '.join(alike)}?" if alike else ""


def unexpected(
    names: Iterable[str], choices: Iterable[str], what: str = "", owner: str = ""
) -> TypeError:
    """Return the error for unknown arguments, which suggests names similar to the first of them.

    Args:
        names: the unknown arguments.
        choices: arguments that are accepted, in addition to those of the verb that was called.
        what: prefix of the message; by default the call of the verb.
        owner: class to name if no verb was called.
    """
    first, *others = sorted(names)
    call, own = _call_with(first)
    choices = [*own, *choices]
    synonym = next((name for name in SYNONYMS.get(first, ()) if name in choices), None)
    hint = did_you_mean(first, choices)
    if synonym is not None:
        hint = f", did you mean {synonym!r}?"
    what = what or call or (f"{owner}(): " if owner else "")
    more = f" (nor are there {', '.join(map(repr, others))})" if others else ""
    return TypeError(f"{what}unexpected keyword argument {first!r}{hint}{more}")


def _call_with(name: str) -> tuple[str, Sequence[str]]:
    """Find the public call that got a keyword through its `**options`, for error messages.

    The verb passes its `**options` on to a dataclass, which knows neither the verb nor the verb's
    own arguments. Both are read from the verb's frame.

    Returns:
        The call as a prefix, such as `Dataset.scanner(): `, and the other arguments of its
        signature. Both are empty if there is no such call.
    """
    call = ""
    own: Sequence[str] = ()
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        is_verb = frame.f_globals.get("__name__", "").startswith("alance.")
        is_verb &= code.co_name[0] != "_" and code.co_name != "checked"
        if code.co_flags & inspect.CO_VARKEYWORDS and is_verb:
            count = code.co_argcount + code.co_kwonlyargcount
            keywords = code.co_varnames[count + bool(code.co_flags & inspect.CO_VARARGS)]
            if name in frame.f_locals.get(keywords, ()):
                own = code.co_varnames[:count]
                owner = frame.f_locals[own[0]] if own and own[0] in ("self", "cls") else None
                kind = owner if isinstance(owner, type) else type(owner)
                prefix = "" if owner is None else f"{kind.__name__}."
                call, own = f"{prefix}{code.co_name}(): ", own[owner is not None :]
        frame = frame.f_back
    return call, own


# Public names that users of other libraries look for, with their names here.
_COUNTERPARTS: Final = {
    "LanceDataset": "dataset",
    "LanceFragment": "DatasetFragment",
    "LanceFileReader": "FileReader",
    "Table": "dataset",
    "open": "dataset",
    "open_table": "dataset",
    "read": "dataset",
    "load": "dataset",
    "write": "write_dataset",
    "write_table": "write_dataset",
    "create_table": "write_dataset",
    "delete": "drop",
}


def no_name(module: str, name: str) -> AttributeError:
    """Return the error for a name that a module lacks, with its counterpart here.

    Python itself suggests similar names when it prints the error. They are not searched here,
    because every import of a submodule first asks for a missing name, and importing `difflib` takes
    a millisecond.
    """
    counterpart = _COUNTERPARTS.get(name) if module in ("alance", "alance.sync") else None
    hint = "" if counterpart is None else f", did you mean {counterpart!r}?"
    message = f"module {module!r} has no attribute {name!r}{hint}"
    return AttributeError(message, name=name, obj=sys.modules.get(module))


# Attributes that users of other libraries look for, with what to write here.
_MEMBERS: Final = {
    ("Catalog", "delete_table"): "drop_table",
    ("Catalog", "drop"): "drop_table",
    ("Catalog", "sql"): "(await catalog.open_table(name)).sql(query)",
    ("Catalog", "get_table"): "open_table",
    ("Catalog", "items"): "list_tables",
    ("Catalog", "keys"): "list_tables",
    ("Catalog", "open"): "open_table",
    ("Catalog", "table_names"): "list_tables",
    ("Catalog", "tables"): "list_tables",
    ("MergeInsert", "when_matched_update"): "when_matched_update_all",
    ("MergeInsert", "when_not_matched_insert"): "when_not_matched_insert_all",
    ("Scanner", "filter"): "scanner(filter=)",
    ("Scanner", "limit"): "scanner(limit=)",
    ("Scanner", "nearest"): "scanner(nearest=)",
    ("Scanner", "select"): "scanner(columns=)",
    ("Scanner", "to_list"): "to_table().to_pylist()",
    ("Scanner", "where"): "scanner(filter=)",
}


class Hinted:
    """Base class whose error for a missing attribute suggests another one."""

    __slots__ = ()

    if not TYPE_CHECKING:  # a type checker finds missing attributes by itself

        def __getattr__(self, name: str) -> Any:
            kind = type(self)
            public = [member for member in dir(kind) if member[0] != "_"]
            hint = "" if name.startswith("_") else did_you_mean(name, public)
            if (kind.__name__, name) in _MEMBERS:
                hint = f"; write `{_MEMBERS[kind.__name__, name]}`"
            raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}{hint}")


def list_hint(name: str, value: object) -> str:
    """Return "; write name=['value']" for a text in the place of a list of texts, else ""."""
    return f"; write {name}=[{value!r}]" if isinstance(value, str) else ""


def public_arguments(options: type[T]) -> type[T]:
    """Decorate a dataclass of a method's keywords to report a wrong keyword by `unexpected`.

    Python's own message names the class, which callers do not know, and suggests no similar names.
    """
    accepted = frozenset(field.name for field in fields(options))  # type: ignore[arg-type]
    init = options.__init__

    @wraps(init)
    def checked(self: T, *values: Any, **arguments: Any) -> None:
        if not arguments.keys() <= accepted:
            raise unexpected(arguments.keys() - accepted, accepted, owner=options.__name__)
        init(self, *values, **arguments)

    options.__init__ = checked  # type: ignore[assignment, method-assign]  # with its arguments
    return options


def some_of(values: Sequence[object]) -> str:
    """Format values for a message: the first `SHOWN_VALUES`, and the number of further ones."""
    more = len(values) - SHOWN_VALUES
    return f"{list(values[:SHOWN_VALUES])} and {more:,} more" if more > 0 else f"{list(values)}"


def some_columns(names: Sequence[str]) -> str:
    """Format the names of columns for a message: the first `SHOWN_VALUES`, and how many more."""
    more = f" and {len(names) - SHOWN_VALUES:,} more" * (len(names) > SHOWN_VALUES)
    return ", ".join(names[:SHOWN_VALUES]) + more

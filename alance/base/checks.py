"""Checks of arguments: numbers, texts, choices, callbacks, and names of arguments."""

from __future__ import annotations

import inspect
import reprlib
from dataclasses import fields
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from types import UnionType

T = TypeVar("T")

# Names of arguments in other libraries, with the names that alance uses instead.
SYNONYMS: Final = {
    "anon": ("storage_options",),
    "axis": ("columns",),
    "batch_rows": ("batch_size",),
    "by": ("group_by", "order_by"),
    "chunk_size": ("batch_size",),
    "chunksize": ("batch_size",),
    "col": ("column",),
    "cols": ("columns",),
    "condition": ("filter", "predicate", "where"),
    "credentials": ("storage_options",),
    "days": ("older_than",),
    "descending": ("order_by",),
    "df": ("data",),
    "dir": ("uri",),
    "distance_type": ("metric",),
    "documents": ("data",),
    "endpoint": ("storage_options",),
    "endpoint_url": ("storage_options",),
    "embedding": ("query", "vector"),
    "expr": ("filter", "predicate", "where"),
    "field": ("column",),
    "fields": ("columns",),
    "filter": ("predicate", "where"),
    "filters": ("filter", "predicate", "where"),
    "frac": ("num_rows",),
    "groupby": ("group_by",),
    "id": ("key", "fragment_id"),
    "if_exists": ("mode",),
    "if_not_exists": ("exist_ok",),
    "indexes": ("indices",),
    "key": ("on", "column"),
    "key_column": ("on", "column"),
    "keys": ("on", "column"),
    "kind": ("index_type",),
    "limit": ("k", "num_rows"),
    "location": ("uri",),
    "max_rows": ("limit", "num_rows"),
    "metric_type": ("metric",),
    "n": ("limit", "k", "num_rows"),
    "nrows": ("limit", "num_rows"),
    "num": ("num_rows", "limit", "k"),
    "on": ("left_on", "column"),
    "orderby": ("order_by",),
    "overwrite": ("mode",),
    "path": ("uri",),
    "positions": ("indices",),
    "predicate": ("filter", "where"),
    "primary_key": ("on", "column"),
    "projection": ("columns",),
    "query": ("filter", "text", "key"),
    "query_vector": ("query", "vector"),
    "q": ("query", "text"),
    "random_state": ("seed",),
    "region": ("storage_options",),
    "records": ("data",),
    "row": ("data",),
    "rows": ("data", "indices", "num_rows"),
    "secret": ("storage_options",),
    "select": ("columns",),
    "set": ("updates",),
    "size": ("num_rows", "k"),
    "skip": ("offset",),
    "snapshot_id": ("version",),
    "sort": ("order_by",),
    "sort_by": ("order_by",),
    "start": ("offset",),
    "table": ("data", "uri"),
    "tag": ("version",),
    "timestamp": ("asof",),
    "top_k": ("k",),
    "url": ("uri",),
    "usecols": ("columns",),
    "values": ("updates",),
    "vector": ("query",),
    "vector_column": ("column",),
    "vector_column_name": ("column",),
    "where": ("filter", "predicate"),
}
# Names of arguments without a counterpart, with what to do instead.
_ANSWERS: Final = {
    "compression": "compression is metadata of a field in `schema`: lance-encoding:compression",
    "embedding_functions": "embeddings are computed before rows are written",
    "fill_value": "fill the values before rows are written",
    "having": "filter the table that is returned",
    "ignore_missing": "check by `table_exists`",
    "index": "an index of pandas is a column: `reset_index()` makes it one",
    "lazy": "lazy frames are `to_polars_lazy()`",
    "timeout": "timeouts are of a session: alance.Session(timeout=)",
    "workers": "numbers of threads are of a session: alance.Session(decode_threads=)",
    "inplace": "a call returns the new dataset",
    "on_bad_vectors": "fill or drop the rows before they are written",
    "partition_by": "tables have no partitions; filters skip files by statistics and indices",
    "partition_cols": "tables have no partitions; filters skip files by statistics and indices",
    "partitioning": "tables have no partitions; filters skip files by statistics and indices",
}
# Words of other libraries for choices, with those of alance.
_WORDS: Final = {
    "a": "append",
    "add": "append",
    "create_if_missing": "append",
    "error": "create",
    "euclidean": "l2",
    "fail": "create",
    "ip": "dot",
    "replace": "overwrite",
    "w": "overwrite",
    "write": "overwrite",
    "x": "create",
}
# Maximum number of values that a message lists; there may be tens of thousands.
NAMES_TO_COMPARE: Final = 1000  # with a wrong name, which takes 4 ms on the loop
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
    raise InvalidInputError(f"{name}={value!r}: expected {expected}{await_hint(value)}")


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
        if isinstance(value, str) and (word := _WORDS.get(value.lower())) in choices:
            hint = f", did you mean {word!r}?"
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
        actual = f"got {type(value).__name__}{await_hint(value)}"
        raise InvalidInputError(f"{name}: {actual}, expected {expected}")


def await_hint(value: object) -> str:
    """Return "; write `await` before it" for a coroutine that nobody has awaited, else ""."""
    return "; write `await` before it" if inspect.iscoroutine(value) else ""


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
    """Return ", did you mean ...?" with names similar to a wrong one; empty if there are none.

    Of more than `NAMES_TO_COMPARE` names, those that begin otherwise are not compared.
    """
    from difflib import get_close_matches

    by_lower: dict[str, list[str]] = {}
    for candidate in dict.fromkeys(names):
        by_lower.setdefault(candidate.lower(), []).append(candidate)
    wrong = name.lower()
    candidates = [*by_lower]
    if len(candidates) > NAMES_TO_COMPARE:
        candidates = [lower for lower in by_lower if lower[:1] == wrong[:1]][:NAMES_TO_COMPARE]
    close = get_close_matches(wrong, candidates, n=3)
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
    choices = list(dict.fromkeys([*own, *choices]))
    synonym = next((name for name in SYNONYMS.get(first, ()) if name in choices), None)
    hint = did_you_mean(first, choices)
    if synonym is not None:
        hint = f", did you mean {synonym!r}?"
    elif first in _ANSWERS:
        hint = f"; {_ANSWERS[first]}"
    elif not hint and choices:
        hint = f"; its arguments are {some_columns(choices)}"
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


def list_hint(name: str, value: object) -> str:
    """Return "; write name=['value']" for a text in the place of a list of texts, else ""."""
    return f"; write {name}=[{value!r}]" if isinstance(value, str) else ""


def public_arguments(options: type[T]) -> type[T]:
    """Decorate a dataclass of a method's keywords to report a wrong keyword by `unexpected`.

    Python's own message names the class, which callers do not know, and suggests no similar names.
    """
    accepted = dict.fromkeys(field.name for field in fields(options))  # type: ignore[arg-type]
    init = options.__init__

    @wraps(init)
    def checked(self: T, *values: Any, **arguments: Any) -> None:
        if not arguments.keys() <= accepted.keys():
            raise unexpected(arguments.keys() - accepted.keys(), accepted, owner=options.__name__)
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

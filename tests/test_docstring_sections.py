"""Docstrings of public functions: arguments, errors and costs are those of the functions."""

from __future__ import annotations

import builtins
import inspect
import re
from typing import Any, Final

import pytest

import alance
from alance import errors
from tests.docstrings import Documented, documented

FUNCTIONS: Final = {function.name: function for function in documented()}


def arguments(function: Documented) -> dict[str, set[str]]:
    """Return the parameters of a function; for `**options` also the keys that it accepts."""
    parameters: dict[str, set[str]] = {}
    signature = inspect.signature(function.function)
    written = getattr(signature, "written", signature)  # with `**options` instead of its keys
    for name, parameter in written.parameters.items():
        if name in ("self", "cls"):
            continue
        parameters[name] = set()
        if parameter.kind is parameter.VAR_KEYWORD:
            typed = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            assert typed is not None, function.name
            accepted: Any = getattr(alance.types, typed[1])
            parameters[name] = {*accepted.__annotations__}
    return parameters


def undocumented(function: Documented) -> set[str]:
    """Return parameters that `Args` lacks; `**options` may be there by all of its keys instead."""
    names = set(function.names("Args"))
    return {
        name
        for name, keys in arguments(function).items()
        if name not in names and not (keys and keys <= names)
    }


def unknown(function: Documented) -> set[str]:
    """Return names in `Args` that the function does not accept."""
    accepted = {name for pair in arguments(function).items() for name in (pair[0], *pair[1])}
    return set(function.names("Args")) - accepted


def undefined(function: Documented) -> set[str]:
    """Return names in `Raises` that are not exceptions of `alance.errors` or of Python."""
    places = [vars(errors), vars(builtins)]
    return {
        name
        for name in function.names("Raises")
        if not any(
            inspect.isclass(place.get(name)) and issubclass(place[name], Exception)
            for place in places
        )
    }


def may_fail(function: Documented) -> bool:
    """True unless a docstring excludes errors: it sends no request at all, or "raises no error"."""
    sends_none = re.search(r"Cost: no request( before [\w ]+)?[.;]", function.text)
    return not sends_none and "Raises no error." not in function.text


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documented_arguments_and_errors_exist(name: str) -> None:
    assert unknown(FUNCTIONS[name]) == set()
    assert undefined(FUNCTIONS[name]) == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_arguments_are_documented(name: str) -> None:
    assert undocumented(FUNCTIONS[name]) == set()


@pytest.mark.parametrize("name", [name for name in FUNCTIONS if FUNCTIONS[name].is_async])
def test_calls_that_wait_document_their_cost_and_errors(name: str) -> None:
    function = FUNCTIONS[name]
    assert "Cost:" in function.text
    assert function.names("Raises") or not may_fail(function)


def test_missing_and_unknown_names_are_noticed() -> None:
    async def call(first: int, second: int) -> None:
        """Do nothing.

        Args:
            first, third: numbers,
                of: two lines.

        Raises:
            InvalidInputError, ValueError: always.
            NoSuchError, CommitOptions: never.
        """

    function = Documented("call", call, inspect.getdoc(call) or "")
    assert function.names("Args") == ["first", "third"]
    assert undocumented(function) == {"second"}
    assert unknown(function) == {"third"}
    assert undefined(function) == {"NoSuchError", "CommitOptions"}
    assert may_fail(function)

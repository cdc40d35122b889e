"""Conditions as callers give them: SQL text, with values for its parameters, or an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    import pyarrow.compute as pc

# Values for `?` in their order, or for `:name`; None: there are none.
Params: TypeAlias = Sequence[object] | Mapping[str, object] | None


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """SQL text, and values for its parameters."""

    text: str
    params: Sequence[object] | Mapping[str, object]


Condition: TypeAlias = "str | pc.Expression | Bound"


def bound(
    condition: str | pc.Expression | None, params: Params, what: str = "filter"
) -> Condition | None:
    """A condition with the values of its parameters.

    Args:
        what: the name of the condition's argument.

    Raises:
        InvalidInputError: values that are no list or mapping, or without a text to stand in.
    """
    if params is None:
        return condition
    is_list = isinstance(params, Sequence) and not isinstance(params, str | bytes)
    if not is_list and not isinstance(params, Mapping):
        raise InvalidInputError(
            f"params: expected a list, or a mapping of names, found {type(params).__name__}"
        )
    if not isinstance(condition, str):
        raise InvalidInputError(f"params: {what} is no SQL text that could have parameters")
    return Bound(condition, params)

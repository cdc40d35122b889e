"""Conditions as callers give them: SQL text, with values for its parameters, or an expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from alance.errors import InvalidInputError
from alance.io.reading.engine import DECODED_INLINE_BYTES
from alance.records import dataclass

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

# The work of a character of a filter, to parse it or to make checks of it, as bytes to decode:
# 500 characters take about 2 ms on the loop, on a busy machine 5.
CHARACTER_BYTES: Final = 128
KEY_BYTES: Final = 64  # of a key, or of a value of a list: 2 us
# Values for `?` in their order, or for `:name`; None: there are none.
Params: TypeAlias = Sequence[object] | Mapping[str, object] | None


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """SQL text, and values for its parameters."""

    text: str
    params: Sequence[object] | Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """That the value of each of some columns is one of a list.

    Attributes:
        names: of each column, as `Schema.names_of` gives them.
        values: of each column, in its type, without nulls.
        text: the same as SQL, for messages.
    """

    names: Sequence[Sequence[str]]
    values: Sequence[pa.Array]
    text: str

    def __str__(self) -> str:
        return self.text


Condition: TypeAlias = "str | pc.Expression | Bound | Among"


def bound(
    condition: str | pc.Expression | Among | None, params: Params, what: str = "filter"
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


def expression_work(text: str) -> int:
    """Bytes to decode that a pyarrow expression is worth; its text shows few values of a list."""
    return DECODED_INLINE_BYTES + 1 if "is_in(" in text else 0

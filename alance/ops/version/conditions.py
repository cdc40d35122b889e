"""Conditions as callers pass them: SQL text, possibly with parameters, or a pyarrow expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.io.reading.engine import DECODED_INLINE_BYTES

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

# Work per character of a filter that is parsed or checked, in units of decoding a byte: 500
# characters take about 2 ms on the event loop, 5 ms on a busy machine.
CHARACTER_BYTES: Final = 128
KEY_BYTES: Final = 64  # work per key or list value, in units of decoding a byte: 2 us
# values of `?` in order, or of `:name` by name; None: no parameters
Params: TypeAlias = Sequence[object] | Mapping[str, object] | None


@dataclass(frozen=True, slots=True, eq=False)
class Bound:
    """SQL text with the values of its parameters."""

    text: str
    params: Sequence[object] | Mapping[str, object]


@dataclass(frozen=True, slots=True, eq=False)
class Among:
    """The condition that each of some columns has one of the values in the column's list.

    Attributes:
        names: path of each column, as returned by `Schema.names_of`.
        values: list of each column, in the column's type, without nulls.
        text: the condition as SQL, for messages.
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
    """Bind values to the parameters of a condition; return it unchanged if `params` is None.

    Args:
        what: name of the condition's argument, for messages.

    Raises:
        InvalidInputError: the values are not a list or mapping, or the condition is not text.
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
    """Return the work of a pyarrow expression, in units of decoding a byte.

    The text shows only a few values of the list of `is_in`, so its length says nothing of the work.
    """
    return DECODED_INLINE_BYTES + 1 if "is_in(" in text else 0

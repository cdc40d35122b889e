"""Aggregates as SQL text: `sum(price * 2)`, `count(*)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from alance.base.records import dataclass
from alance.errors import InvalidInputError, UnsupportedError

if TYPE_CHECKING:
    from alance.expr.sql.syntax import SyntaxTree

Aggregator: TypeAlias = Literal["count", "min", "max", "sum", "avg"]

AGGREGATORS: Final[tuple[Aggregator, ...]] = get_args(Aggregator)
_AGGREGATOR_BY_NAME: Final[dict[str, Aggregator]] = {
    **{name: name for name in AGGREGATORS},
    "mean": "avg",
}
_CALL: Final = re.compile(r"\s*\w+\s*\((.*)\)\s*", re.DOTALL)
_EXPECTED: Final = f"expected {', '.join(AGGREGATORS)} of one expression, or count(*)"


@dataclass(frozen=True, slots=True)
class AggregateCall:
    """Call of an aggregate function on one expression.

    Attributes:
        text: the call as the caller wrote it, without parentheses around it.
        argument: SQL text of the aggregated expression; None in `count(*)`, which counts rows.
    """

    text: str
    function: Aggregator
    argument: str | None


def parse_aggregate(text: str) -> AggregateCall:
    """Parse the SQL text of an aggregate. Names of columns in the expression are not checked.

    Raises:
        InvalidInputError: the text is not the call of a function of one expression.
        UnsupportedError: `count(distinct x)`, or a function that is not in `AGGREGATORS`.
    """
    from alance.expr.sql.lexical import SqlText

    tree: SyntaxTree = SqlText(text, "aggregate").parse()
    while tree.kind == "Paren":
        tree, text = tree.first, text.strip()[1:-1]
    inside = _CALL.fullmatch(text)
    if tree.kind != "Anonymous" or inside is None:
        example = f"; write '{text}(column)'" if text.lower() in _AGGREGATOR_BY_NAME else ""
        raise InvalidInputError(f"aggregate {text!r}: {_EXPECTED}{example}")
    function = _AGGREGATOR_BY_NAME.get(str(tree.first).lower())
    if function is None:
        raise UnsupportedError(f"aggregate {text!r}: {_EXPECTED}; `Dataset.sql` has others")
    if any(argument.kind == "Distinct" for argument in tree.expressions):
        raise UnsupportedError(f"aggregate {text!r}: DISTINCT; `Dataset.sql` has it")
    if len(tree.expressions) != 1:
        raise InvalidInputError(f"aggregate {text!r}: {_EXPECTED}")
    is_star = tree.expressions[0].kind == "Star"
    if is_star and function != "count":
        raise InvalidInputError(f"aggregate {text!r}: {_EXPECTED}")
    return AggregateCall(text, function, None if is_star else inside[1].strip())

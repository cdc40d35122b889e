"""Whether a computed column can hold nulls: what its type in a table's schema says.

The answer is that of DataFusion, in which a table's other writers compute columns: operators give
a null only for a null, functions may give one always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.expr.arrow import ArrowCondition
from alance.expr.logic import Case, Junction
from alance.expr.tree import Call, Column, Literal, Node

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.expr.predicate import Computed

OPERATORS: Final = frozenset(
    ["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">=", "minus", "not", "in", "between"]
)
CONVERSIONS: Final = ("cast to ", "conversion to ")
ANSWERS: Final = ("is ",)  # IS NULL, IS TRUE, IS DISTINCT FROM


def is_nullable(computed: Computed, schema: pa.Schema) -> bool:
    """Whether a column computed from those of a schema can hold nulls."""
    value = computed.value
    if isinstance(value, ArrowCondition):
        return True
    return _nullable(value, schema)  # type: ignore[arg-type]  # all others are nodes


def _nullable(node: Node, schema: pa.Schema) -> bool:
    if isinstance(node, Literal):
        return not node.value.is_valid
    if isinstance(node, Column):
        return _column(node, schema)
    parts = [_nullable(one, schema) for one in node.args]
    if isinstance(node, Junction):
        return any(parts)
    if isinstance(node, Case):
        values = parts[len(node.conditions) :]
        return any(values)
    if not isinstance(node, Call):
        return True
    if node.name.startswith(ANSWERS):
        return False
    if node.name == "coalesce":
        return all(parts)
    if node.name in OPERATORS or node.name.startswith(CONVERSIONS):
        return any(parts)
    return True


def _column(node: Column, schema: pa.Schema) -> bool:
    field = schema.field(node.path[0])
    nullable = field.nullable
    for name in node.path[1:]:
        field = field.type.field(name)
        nullable = nullable or field.nullable
    return bool(nullable)

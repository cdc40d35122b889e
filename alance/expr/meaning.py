"""What calls say of the order of values, for those who know bounds and no rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from alance.expr.tree import Call

if TYPE_CHECKING:
    import pyarrow as pa

    from alance.expr.tree import Literal, Node


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One of = != < <= > >= of two nodes."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """Whether a node is one of some literals, or of the values of an array, none of them null."""

    node: Node
    items: tuple[Literal, ...] | pa.Array


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """True at most for text that begins so; null where the text is null."""

    node: Node
    prefix: str


Meaning: TypeAlias = Comparison | Membership | Prefix


def meaning(node: Node, what: Meaning) -> Node:
    """The node, with what it means where it is a call."""
    if type(node) is not Call:
        return node
    return Call(node.name, node.function, node.args, node.type, what)

"""What calls say of the order of values, for those who know bounds and no rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

from alance.expr.tree import Call

if TYPE_CHECKING:
    from alance.expr.tree import Literal, Node


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """One of = != < <= > >= of two nodes."""

    op: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """Whether a node is one of some literals, none of them null."""

    node: Node
    items: tuple[Literal, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """True at most for text that begins so; null where the text is null."""

    node: Node
    prefix: str


Meaning: TypeAlias = Comparison | Membership | Prefix


def meaning(node: Node, what: Meaning) -> Node:
    """The node, with what it means where it is a call."""
    return replace(node, meaning=what) if type(node) is Call else node

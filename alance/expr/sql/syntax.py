"""Syntax tree of SQL text, common to both parsers.

Kinds (`EQ`, `And`, `Column`, ...) and names of parts are those of `sqlglot`. Absent, false and
empty parts are omitted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS_OF_NAMES: Final = ("catalog", "db", "table", "this")


class SyntaxTree:
    """A node of a syntax tree.

    Attributes:
        kind: the name of the node's kind.
        args: the node's parts by name: trees, lists of trees, texts, or True.
        start: offset in the text of a name, literal or parameter; None for other kinds.
        number: position of a parameter among the text's parameters; set later, and ignored by `==`.
    """

    __slots__ = ("args", "kind", "number", "start")

    def __init__(self, kind: str, start: int | None = None, **args: Any) -> None:
        self.kind = kind
        self.args = args
        self.start = start
        self.number = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SyntaxTree):
            return NotImplemented
        return (self.kind, self.start, self.args) == (other.kind, other.start, other.args)

    __hash__ = None  # type: ignore[assignment]  # parts may be lists

    def __repr__(self) -> str:
        parts = [f"{name}={part!r}" for name, part in self.args.items()]
        return f"{self.kind}({', '.join(parts)})@{self.start}"

    @property
    def first(self) -> Any:
        """First part of the node; None if it has none."""
        return self.args.get("this")

    @property
    def expression(self) -> Any:
        """Second part of the node; None if it has none."""
        return self.args.get("expression")

    @property
    def expressions(self) -> list[Any]:
        """Parts of a node with any number of parts, such as arguments."""
        parts: list[Any] = self.args.get("expressions", [])
        return parts

    @property
    def name(self) -> str:
        """Text of a name or a literal; empty for other kinds of nodes."""
        part = self.first
        while isinstance(part, SyntaxTree):
            part = part.first
        return part if isinstance(part, str) else ""

    @property
    def parts(self) -> list[SyntaxTree]:
        """Names in a column's path, from the outermost on."""
        return [self.args[part] for part in _PARTS_OF_NAMES if part in self.args]

    def walk(self) -> Iterator[SyntaxTree]:
        """Yield the tree and all trees below it, parents before their parts."""
        trees = [self]
        while trees:
            tree = trees.pop()
            yield tree
            for part in tree.args.values():
                parts = part if isinstance(part, list) else [part]
                trees.extend(below for below in parts if isinstance(below, SyntaxTree))


def is_kind(tree: object, *kinds: str) -> bool:
    """True if a part is a tree of one of the kinds."""
    return isinstance(tree, SyntaxTree) and tree.kind in kinds

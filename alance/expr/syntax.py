"""The syntax tree of SQL text: what both parsers give, and all that nodes are built from.

A tree has the name of its kind (`EQ`, `And`, `Column`, ...) and its parts by name, as `sqlglot` has
them; parts that are absent, false or empty are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

_PARTS_OF_NAMES: Final = ("catalog", "db", "table", "this")


class Tree:
    """A part of an expression.

    Attributes:
        kind: the name of its kind.
        args: its parts by name: trees, lists of them, texts, True.
        start: where in the text it begins, of names, literals and parameters.
        number: of a parameter, among those of the text.
    """

    __slots__ = ("args", "kind", "number", "start")

    def __init__(self, kind: str, start: int | None = None, **args: Any) -> None:
        self.kind = kind
        self.args = args
        self.start = start
        self.number = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tree):
            return NotImplemented
        own = self.kind, self.start, self.number, self.args
        return own == (other.kind, other.start, other.number, other.args)

    __hash__ = None  # type: ignore[assignment]  # parts may be lists

    def __repr__(self) -> str:
        parts = [f"{name}={part!r}" for name, part in self.args.items()]
        return f"{self.kind}({', '.join(parts)})@{self.start}"

    @property
    def first(self) -> Any:
        """The first part."""
        return self.args.get("this")

    @property
    def expression(self) -> Any:
        """The second part."""
        return self.args.get("expression")

    @property
    def expressions(self) -> list[Any]:
        """Parts of which there may be any number."""
        parts: list[Any] = self.args.get("expressions", [])
        return parts

    @property
    def name(self) -> str:
        """The text of a name or a literal; empty of others."""
        part = self.first
        while isinstance(part, Tree):
            part = part.first
        return part if isinstance(part, str) else ""

    @property
    def parts(self) -> list[Tree]:
        """The names of a column, from the outer to the inner one."""
        return [self.args[part] for part in _PARTS_OF_NAMES if part in self.args]

    def walk(self) -> Iterator[Tree]:
        """It and all trees below."""
        trees = [self]
        while trees:
            tree = trees.pop()
            yield tree
            for part in tree.args.values():
                parts = part if isinstance(part, list) else [part]
                trees.extend(below for below in parts if isinstance(below, Tree))


def is_kind(tree: object, *kinds: str) -> bool:
    """Whether a part is a tree of one of some kinds."""
    return isinstance(tree, Tree) and tree.kind in kinds

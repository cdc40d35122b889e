"""Compile a syntax tree to nodes: one small builder for each kind of syntax."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base.deferred import Deferred
from alance.expr import logic
from alance.expr.arithmetic import arithmetic, fitted, negative, number_literal
from alance.expr.builders import nested, text
from alance.expr.builders.nested import member
from alance.expr.casts import cast
from alance.expr.compare import compare, distinct
from alance.expr.exact import Digits
from alance.expr.sql.parameters import NULL_LITERAL, Parameters
from alance.expr.sql.syntax import SyntaxTree, is_kind
from alance.expr.tree import Column, Literal, Node, Problem, plain_type, unknown
from alance.format.numbers import as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.expr import type_names
    from alance.expr.sql.lexical import SqlText
else:
    type_names = Deferred("alance.expr.type_names")

MAX_TREE_DEPTH: Final = 200  # nested trees; deeper ones would exhaust Python's stack

_COMPARED: Final = {
    "EQ": "=",
    "NEQ": "!=",
    "LT": "<",
    "LTE": "<=",
    "GT": ">",
    "GTE": ">=",
}
_COMPUTED: Final = {"Add": "+", "Sub": "-", "Mul": "*", "Div": "/", "Mod": "%"}


def _apply(name: str, args: list[Node]) -> Node:
    # Imported late: the modules of all functions take 50 ms, and most filters call none.
    from alance.expr.functions import apply

    return apply(name, args)


# Hints on what to write instead, by the kind of an expression that alance does not evaluate.
_INSTEAD: Final = {
    "BitwiseAnd": "; write AND",
    "BitwiseOr": "; write OR",
    "Interval": "; compute the time in Python, and pass it by `params`",
    "Star": "; `aggregate` and `Dataset.sql` count rows",
    "Subquery": "; `Dataset.sql` runs whole queries",
}


class Builder:
    """Builder of the nodes of one text for one schema, with the values of its parameters."""

    def __init__(self, source: SqlText, schema: pa.Schema, parameters: Parameters) -> None:
        self._source = source
        self._schema = schema
        self._parameters = parameters
        self._depth = 0

    def build(self, tree: SyntaxTree, around: SyntaxTree | None = None) -> Node:
        """Compile a tree.

        Args:
            around: tree whose position is used in error messages if `tree` has none.

        Raises:
            InvalidInputError: the text has a mistake; the message has its position.
            UnsupportedError: the text is valid SQL that alance does not evaluate.
        """
        while tree.kind == "Paren":
            tree = tree.first
        self._depth += 1
        try:
            if self._depth > MAX_TREE_DEPTH:
                raise self._source.too_deep()
            builder = _BUILDERS.get(tree.kind)
            if builder is None:
                from alance.expr.sql.habits import habit_hint

                raise Problem(
                    f"{tree.kind} is not supported in a {self._source.what}"
                    f"{habit_hint(self._source.text) or _INSTEAD.get(tree.kind, '')}",
                    unsupported=True,
                )
            return builder(self, tree)
        except Problem as problem:
            raise self._source.locate(problem, tree, around) from None
        finally:
            self._depth -= 1

    def _all(self, trees: Sequence[SyntaxTree]) -> list[Node]:
        return [self.build(tree) for tree in trees]

    def column(self, tree: SyntaxTree) -> Node:
        """Compile a column or a nested field; a name in double quotes is text."""
        parts = tree.parts
        if any(part.kind != "Identifier" for part in parts):
            raise Problem(f"* is not supported in a {self._source.what}", unsupported=True)
        names = [part.name for part in parts]
        if self._is_double_quoted(parts[0]):
            if len(parts) > 1:
                raise Problem("text has no fields; names take backticks, not double quotes")
            return Literal(as_scalar(names[0]), name=names[0])
        whole = ".".join(names)
        if self._schema.get_field_index(names[0]) < 0:
            if self._schema.get_field_index(whole) >= 0:
                names = [whole]
            elif whole.lower() in ("current_date", "current_timestamp"):
                return _apply(whole, [])
            else:
                names[0] = self._in_another_case(parts[0])
        column: Node = Column((names[0],), plain_type(self._schema.field(names[0]).type))
        for name in names[1:]:
            column = member(column, name)
        return column

    def _in_another_case(self, identifier: SyntaxTree) -> str:
        """Return the only column whose name differs in case alone.

        Raises:
            Problem: no column or several columns match, or the name is in backticks and so exact.
        """
        name = str(identifier.name)
        alike: list[str] = [other for other in self._schema.names if other.lower() == name.lower()]
        if identifier.args.get("quoted") or not alike:
            raise unknown("column", name, self._schema.names)
        if len(alike) > 1:
            raise Problem(f"column {name!r}: there are {' and '.join(map(repr, alike))}")
        return alike[0]

    def _is_double_quoted(self, identifier: SyntaxTree) -> bool:
        start = identifier.start
        return bool(
            identifier.args.get("quoted")
            and start is not None
            and self._source.text[start : start + 1] == '"'
        )

    def dot(self, tree: SyntaxTree) -> Node:
        """Compile a field of the expression before a dot."""
        return member(self.build(tree.first), tree.expression.name)

    def bracket(self, tree: SyntaxTree) -> Node:
        """Compile `s['a']`, a field by name, or `l[1]`, an item of a list by number."""
        if len(tree.expressions) != 1:
            raise Problem("[]: expected one name or number")
        key = tree.expressions[0]
        if is_kind(key, "Slice"):
            raise Problem("parts of lists", unsupported=True)
        node = self.build(tree.first)
        if key.args.get("is_string"):
            return member(node, key.first)
        return nested.item("[]", [node, self.build(key)])

    def array(self, tree: SyntaxTree) -> Node:
        """Compile a list in brackets: `[1, 2]`."""
        return nested.list_of("[]", self._all(tree.expressions))

    def literal(self, tree: SyntaxTree) -> Node:
        """Compile a text or a number."""
        return (
            Literal(as_scalar(tree.first))
            if tree.args.get("is_string")
            else number_literal(tree.first)
        )

    def chain(self, tree: SyntaxTree) -> Node:
        """Compile a chain of AND or OR by a loop, because recursion would overflow the stack."""
        operands, rest = [], tree
        while rest.kind == tree.kind:
            operands.append(rest.expression)
            rest = rest.first
        operands.append(rest)
        return logic.junction(tree.kind == "And", self._all(operands[::-1]))

    def negation(self, tree: SyntaxTree) -> Node:
        """Compile NOT."""
        return logic.negation(self.build(tree.first))

    def test(self, tree: SyntaxTree) -> Node:
        """Compile IS NULL, IS TRUE or IS FALSE."""
        node, answer = self.build(tree.first), tree.expression
        if is_kind(answer, "Null"):
            return logic.is_null(node)
        if is_kind(answer, "Boolean"):
            return logic.is_answer(node, bool(answer.first))
        raise Problem("IS: expected NULL, TRUE or FALSE")

    def comparison(self, tree: SyntaxTree) -> Node:
        """Compile = != < <= > or >=."""
        return compare(_COMPARED[tree.kind], self.build(tree.first), self.build(tree.expression))

    def sameness(self, tree: SyntaxTree) -> Node:
        """Compile IS [NOT] DISTINCT FROM."""
        node = distinct(self.build(tree.first), self.build(tree.expression))
        return logic.negation(node) if tree.kind == "NullSafeEQ" else node

    def membership(self, tree: SyntaxTree) -> Node:
        """Compile IN. The list, and each of its items, may be a parameter."""
        field = tree.args.get("field")
        items: list[SyntaxTree] = tree.expressions
        if isinstance(field, SyntaxTree) and field.kind == "Placeholder":
            items = [field]
        if tree.args.get("query") or tree.args.get("unnest") or not items:
            raise Problem("IN: expected a list of values", unsupported=bool(tree.args.get("query")))
        node = self.build(tree.first)
        values = self._source.long_list(items[0])
        if values is not None:
            return logic.is_among(node, values)
        lists = [item for item in items if item is field or self._is_list(item)]
        parts = [self._within(node, item) for item in lists]
        singles = [item for item in items if item not in lists] if lists else items
        if singles:
            parts.append(logic.is_in(node, self._all(singles)))
        return parts[0] if len(parts) == 1 else logic.junction(False, parts)

    def _is_list(self, tree: SyntaxTree) -> bool:
        return tree.kind == "Placeholder" and self._parameters.is_list(tree)

    def _within(self, node: Node, tree: SyntaxTree) -> Node:
        """Compile the membership of a node's value in a list parameter."""
        items, has_nulls = self._parameters.items(tree)
        if not isinstance(items, pa.Array | Digits):
            return logic.is_in(node, [*items, NULL_LITERAL] if has_nulls else items)
        within = logic.is_among(node, items)
        return logic.junction(False, [within, NULL_LITERAL]) if has_nulls else within

    def placeholder(self, tree: SyntaxTree) -> Node:
        """Compile a parameter."""
        return self._parameters.literal(tree)

    def between(self, tree: SyntaxTree) -> Node:
        """Compile BETWEEN."""
        node, low, high = self._all([tree.first, tree.args["low"], tree.args["high"]])
        return logic.between(node, low, high)

    def like(self, tree: SyntaxTree, escape: str | None = None) -> Node:
        """Compile LIKE or ILIKE."""
        node = text.like(
            self.build(tree.first),
            self.build(tree.expression),
            escape,
            ignore_case=tree.kind == "ILike",
        )
        return logic.negation(node) if tree.args.get("negate") else node

    def escape(self, tree: SyntaxTree) -> Node:
        """Compile LIKE ... ESCAPE."""
        inner = tree.first
        mark = text.literal_text("escape", self.build(tree.expression))
        if inner.kind == "Not":
            return logic.negation(self.like(inner.first, mark))
        return self.like(inner, mark)

    def sum(self, tree: SyntaxTree) -> Node:
        """Compile + - * / %.

        If the whole text is one operator between a column and a literal, the literal takes the
        column's type.
        """
        is_whole = self._depth == 1
        left, right = self.build(tree.first), self.build(tree.expression)
        if is_whole and isinstance(left, Literal) and isinstance(right, Column):
            left = fitted(left, right.type)
        elif is_whole and isinstance(right, Literal) and isinstance(left, Column):
            right = fitted(right, left.type)
        return arithmetic(_COMPUTED[tree.kind], left, right)

    def cast(self, tree: SyntaxTree) -> Node:
        """Compile CAST, `::`, or a typed literal such as date '2020-01-01'."""
        strict = tree.kind != "TryCast"
        return cast(self.build(tree.first), type_names.named_type(tree.args["to"]), strict=strict)

    def case(self, tree: SyntaxTree) -> Node:
        """Compile CASE WHEN condition, or CASE value WHEN value."""
        default = tree.args.get("default")
        whens = [branch.first for branch in tree.args["ifs"]]
        values = self._all([branch.args["true"] for branch in tree.args["ifs"]])
        conditions = self._all(whens)
        if tree.first is not None:
            subject = self.build(tree.first)
            conditions = [compare("=", subject, condition) for condition in conditions]
        return logic.case(conditions, values, self.build(default) if default is not None else None)

    def function(self, tree: SyntaxTree) -> Node:
        """Compile the call of a function."""
        return _apply(str(tree.first), self._all(tree.expressions))

    def substring(self, tree: SyntaxTree) -> Node:
        """Compile SUBSTRING(text FROM first FOR count)."""
        operands = [tree.first, tree.args.get("start"), tree.args.get("length")]
        return _apply("substring", self._all([arg for arg in operands if arg is not None]))

    def trim(self, tree: SyntaxTree) -> Node:
        """Compile TRIM(BOTH 'x' FROM text)."""
        names = {"LEADING": "ltrim", "TRAILING": "rtrim"}
        name = names.get(str(tree.args.get("position") or "").upper(), "trim")
        operands = [tree.first, tree.expression]
        return _apply(name, self._all([arg for arg in operands if arg is not None and arg != ""]))

    def position(self, tree: SyntaxTree) -> Node:
        """Compile POSITION(part IN text), or position(text, part)."""
        operands = [tree.first, tree.args.get("substr"), tree.args.get("position")]
        return _apply("position", self._all([arg for arg in operands if arg is not None]))

    def extract(self, tree: SyntaxTree) -> Node:
        """Compile EXTRACT(part FROM moment)."""
        part = Literal(as_scalar(tree.first.name.lower()))
        return _apply("date_part", [part, self.build(tree.expression)])

    def hexadecimal(self, tree: SyntaxTree) -> Node:
        """Compile X'00ff'."""
        try:
            return Literal(as_scalar(bytes.fromhex(tree.first), pa.binary()))
        except ValueError:
            raise Problem(f"X'{tree.first}': expected pairs of hexadecimal digits") from None


_BUILDERS: Final[dict[str, Callable[[Builder, SyntaxTree], Node]]] = {
    **dict.fromkeys(_COMPARED, Builder.comparison),
    **dict.fromkeys(_COMPUTED, Builder.sum),
    "And": Builder.chain,
    "Or": Builder.chain,
    "Not": Builder.negation,
    "Is": Builder.test,
    "In": Builder.membership,
    "Between": Builder.between,
    "Like": Builder.like,
    "ILike": Builder.like,
    "Escape": Builder.escape,
    "NullSafeEQ": Builder.sameness,
    "NullSafeNEQ": Builder.sameness,
    "Column": Builder.column,
    "Dot": Builder.dot,
    "Bracket": Builder.bracket,
    "Array": Builder.array,
    "Literal": Builder.literal,
    "Placeholder": Builder.placeholder,
    "HexString": Builder.hexadecimal,
    "Boolean": lambda _, tree: logic.TRUE_LITERAL if tree.first else logic.FALSE_LITERAL,
    "Null": lambda *_: NULL_LITERAL,
    "Neg": lambda builder, tree: negative(builder.build(tree.first)),
    "DPipe": lambda builder, tree: text.appended(
        builder.build(tree.first), builder.build(tree.expression)
    ),
    "Cast": Builder.cast,
    "TryCast": Builder.cast,
    "Case": Builder.case,
    "Anonymous": Builder.function,
    "Substring": Builder.substring,
    "Trim": Builder.trim,
    "StrPosition": Builder.position,
    "Extract": Builder.extract,
}

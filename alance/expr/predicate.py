"""Filters and computed columns, ready to be evaluated batch by batch.

The parser of SQL is imported with the first text, which takes a tenth of a second: who must not
wait for that imports `alance.expr.build` elsewhere before.

Whether a computed column can hold nulls is answered as DataFusion does, in which a table's other
writers compute columns: operators give a null only for a null, functions may give one always.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from alance import compute as pc
from alance.errors import AlanceError, InvalidInputError
from alance.expr import logic, value_budget
from alance.expr.arrow import ArrowCondition
from alance.expr.logic import Case, Coalesce, Junction
from alance.expr.tree import (
    FAILURES,
    Call,
    Column,
    Literal,
    Node,
    Problem,
    broadcast,
    column_paths,
    is_fixed,
    one_line,
    whole_paths,
)
from alance.format.paths import join_path
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.expr.lexical import Source
    from alance.expr.syntax import Tree

    Params = Sequence[object] | Mapping[str, object] | None

OPERATORS: Final = frozenset(
    ["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">=", "minus", "not", "in", "between"]
)
CONVERSIONS: Final = ("cast to ", "conversion to ")
QUICK: Final = OPERATORS.union(
    ["is null", "is true", "is false", "is distinct from", "like", "starts_with"]
)
ANSWERS: Final = ("is ",)  # IS NULL, IS TRUE, IS DISTINCT FROM


class Evaluated(Protocol):
    """Something that gives an array for a batch."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        """Its values for the rows of a batch."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on rows.

    Attributes:
        text: as the caller wrote it.
        columns: names, or dotted paths of nested fields, that it needs.
        documents: of these, columns of JSON of which nothing is asked but values inside, so that
            JSONB will do for text.
        has_params: it has values besides the text; there may be many such filters of one text.
    """

    text: str
    columns: tuple[str, ...]
    condition: Evaluated
    has_params: bool = False
    documents: frozenset[str] = frozenset()

    @property
    def is_quick(self) -> bool:
        """True if evaluation costs no more than comparisons of the columns' values. A small batch
        is then filtered without a thread.
        """
        return not isinstance(self.condition, ArrowCondition) and _is_quick(self.condition)

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Where the condition is true; null where it is neither true nor false.

        Args:
            batch: has the columns needed, perhaps with fewer nested fields, and any others.

        Raises:
            InvalidInputError: values that the condition cannot take: a division by zero, text
                that is no number.
        """
        return _evaluated(self.condition, batch, f"filter {self.text!r}")


@dataclass(frozen=True, slots=True)
class Computed:
    """A column computed from others.

    Attributes:
        text: as the caller wrote it.
        columns: names, or dotted paths of nested fields, that it needs.
    """

    text: str
    columns: tuple[str, ...]
    value: Evaluated

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """The values for the rows of a batch.

        Raises:
            InvalidInputError: values that the expression cannot take.
        """
        return _evaluated(self.value, batch, f"expression {self.text!r}")


@dataclass(frozen=True, slots=True)
class ParsedFilter:
    """The text of a filter, parsed: for any schema, and any values of its parameters."""

    source: Source
    tree: Tree

    @classmethod
    def of(cls, sql: str) -> ParsedFilter:
        """
        Raises:
            InvalidInputError: no expression; says where.
        """
        from alance.expr.lexical import Source

        source = Source(sql, "filter")
        return cls(source, source.parse())

    def predicate(self, schema: pa.Schema, params: Params = None) -> Predicate:
        """The filter over a schema.

        Raises:
            InvalidInputError: no condition, an unknown column, types that do not compare, or
                parameters without values; says where.
            UnsupportedError: valid SQL that is not evaluated here.
        """
        node = _build(self.source, self.tree, schema, params)
        try:
            condition = logic.boolean(node)
        except Problem as problem:
            raise self.source.locate(problem, self.tree) from None
        columns, has_params = _columns(condition), bool(self.source.placeholders)
        documents = frozenset(columns).difference(map(join_path, whole_paths(condition)))
        return Predicate(self.source.text, columns, condition, has_params, documents)


def parse_filter(sql: str, schema: pa.Schema, params: Params = None) -> Predicate:
    """A filter from SQL text; see `ParsedFilter`."""
    return ParsedFilter.of(sql).predicate(schema, params)


def parse_projection(sql: str, schema: pa.Schema, params: Params = None) -> Computed:
    """A computed column from SQL text.

    Raises:
        InvalidInputError: no expression, an unknown column, types that do not fit; says where.
        UnsupportedError: valid SQL that is not evaluated here.
    """
    from alance.expr.lexical import Source

    source = Source(sql, "expression")
    node = _build(source, source.parse(), schema, params)
    return Computed(sql, _columns(node), node)


def predicate_from_arrow(expression: pc.Expression, schema: pa.Schema) -> Predicate:
    """A filter from a pyarrow expression.

    Raises:
        InvalidInputError: no expression, an unknown column, a column by position, or no boolean.
    """
    if not isinstance(expression, pc.Expression):
        raise InvalidInputError(
            f"filter: expected SQL text or a pyarrow expression, found {type(expression).__name__}"
        )
    text = str(expression)
    condition = ArrowCondition(expression)
    try:
        columns = condition.columns(schema)
    except Problem as problem:
        raise problem.public(f"filter {text}: {problem}") from problem.__cause__
    return Predicate(text, columns, condition.with_float_order(schema))


def computed_from_arrow(expression: pc.Expression, schema: pa.Schema) -> Computed:
    """A computed column from a pyarrow expression.

    Raises:
        InvalidInputError: no expression, an unknown column, or a column by position.
    """
    if not isinstance(expression, pc.Expression):
        raise InvalidInputError(
            f"expected SQL text or a pyarrow expression, found {type(expression).__name__}; "
            'a constant is SQL text, too: "1", "\'a text\'"'
        )
    value = ArrowCondition(expression)
    try:
        columns = value.columns(schema, is_value=True)
    except Problem as problem:
        raise problem.public(f"expression {expression}: {problem}") from problem.__cause__
    return Computed(str(expression), columns, value.with_float_order(schema))


def _build(source: Source, tree: Tree, schema: pa.Schema, params: Params) -> Node:
    from alance.expr.build import Builder
    from alance.expr.parameters import Parameters

    try:
        with value_budget.limited_to(value_budget.folding_budget()):
            return Builder(source, schema, Parameters(source, params)).build(tree)
    except AlanceError:
        raise
    except RecursionError:
        raise source.too_deep() from None
    except FAILURES as error:
        raise InvalidInputError(f"{source.what} {source.text!r}: {one_line(error)}") from error


def _columns(node: Node) -> tuple[str, ...]:
    """The paths that a node needs; or the whole column where that is needed."""
    paths = dict.fromkeys(column_paths(node))
    whole = {path[0] for path in paths if len(path) == 1}
    names = [path[0] if path[0] in whole else join_path(path) for path in paths]
    return tuple(dict.fromkeys(names))


def _evaluated(what: Evaluated, batch: pa.RecordBatch, where: str) -> pa.Array:
    """Evaluate an expression for the rows of a batch.

    Large values are computed in parts of the batch. If a memory budget is set already, the batch is
    such a part and is evaluated as a whole.
    """
    budget = value_budget.current()
    if budget is not None:
        values = _part(what, batch, where)
        budget.charge(0 if is_fixed(values.type) else values.nbytes)
        return values
    parts = list(value_budget.in_parts(batch, lambda part: _part(what, part, where), where))
    return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)


def _part(what: Evaluated, batch: pa.RecordBatch, where: str) -> pa.Array:
    try:
        value = broadcast(what.evaluate(batch), batch.num_rows)
    except AlanceError:
        raise
    except Problem as problem:
        raise problem.public(f"{where}: {problem}") from None
    except FAILURES as error:
        raise InvalidInputError(f"{where}: {one_line(error)}") from error
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    return value


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
    parts = [_nullable(arg, schema) for arg in node.args]
    if isinstance(node, Junction):
        return any(parts)
    if isinstance(node, Case):
        values = parts[len(node.conditions) :]
        return any(values)
    if isinstance(node, Coalesce):
        return all(parts)
    if not isinstance(node, Call):
        return True
    if node.name.startswith(ANSWERS):
        return False
    if node.name == "coalesce":
        return all(parts)
    if node.name in OPERATORS or node.name.startswith(CONVERSIONS):
        return any(parts)
    return True


def _is_quick(condition: object) -> bool:
    if isinstance(condition, Literal | Column):
        return True
    is_simple = isinstance(condition, Junction) or (
        isinstance(condition, Call) and condition.name in QUICK
    )
    return is_simple and all(map(_is_quick, condition.args))  # type: ignore[attr-defined]


def _column(node: Column, schema: pa.Schema) -> bool:
    field = schema.field(node.path[0])
    nullable = field.nullable
    for name in node.path[1:]:
        field = field.type.field(name)
        nullable = nullable or field.nullable
    return bool(nullable)

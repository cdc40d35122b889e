"""Compiled filters and computed columns, which are evaluated batch by batch.

The SQL parser is imported when the first text is parsed, which takes 0.1 s. A caller on an event
loop first imports `alance.expr.build` in another thread.

`is_nullable` follows DataFusion, because other writers compute columns with it: operators return
null only if an operand is null, and functions may return null for any arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import AlanceError, InvalidInputError
from alance.expr import logic, value_budget
from alance.expr.arrow import ArrowCondition
from alance.expr.logic import CaseWhen, Coalesce, Junction, literal_bytes
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
    single_line,
    whole_paths,
)
from alance.format.paths import join_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.expr.sql.lexical import SqlText
    from alance.expr.sql.syntax import SyntaxTree

    Params = Sequence[object] | Mapping[str, object] | None

OPERATORS: Final = frozenset(
    ["+", "-", "*", "/", "%", "=", "!=", "<", "<=", ">", ">=", "minus", "not", "in", "between"]
)
CONVERSIONS: Final = ("cast to ", "conversion to ")
QUICK: Final = OPERATORS.union(
    ["is null", "is true", "is false", "is distinct from", "like", "starts_with"]
)
QUICK_LITERAL_BYTES: Final = 64 << 10  # of a text; kernels copy it, at 1 GB/s
ANSWERS: Final = ("is ",)  # names of calls that are never null: IS NULL, IS TRUE, IS DISTINCT FROM


class Evaluated(Protocol):
    """Protocol of an expression that computes an array for a batch."""

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array | pa.Scalar:
        """Return the values of the rows of a batch."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on rows.

    Attributes:
        text: the SQL text or pyarrow expression that the caller wrote.
        columns: names, or dotted paths of nested fields, that the condition reads.
        documents: the `columns` that only JSON functions read; these functions take JSONB and text.
        has_params: True if the text has parameters: the same text may then be different filters.
    """

    text: str
    columns: tuple[str, ...]
    condition: Evaluated
    has_params: bool = False
    documents: frozenset[str] = frozenset()

    @property
    def is_quick(self) -> bool:
        """True if evaluation costs no more than a comparison of the columns' values.

        A small batch is then filtered on the calling thread.
        """
        if isinstance(self.condition, ArrowCondition):
            return False
        return _is_quick(self.condition) and literal_bytes(self.condition) <= QUICK_LITERAL_BYTES

    def mask(self, batch: pa.RecordBatch) -> pa.BooleanArray:
        """Return the condition's value for each row: true, false or null.

        Args:
            batch: contains at least `columns`; structs may lack nested fields that are not read.

        Raises:
            InvalidInputError: the condition cannot be evaluated for a value: division by zero, or
                a text that is not a number.
        """
        return _evaluated(self.condition, batch, f"filter {self.text!r}")


@dataclass(frozen=True, slots=True)
class Computed:
    """A column that is computed from other columns.

    Attributes:
        text: the SQL text or pyarrow expression that the caller wrote.
        columns: names, or dotted paths of nested fields, that the expression reads.
    """

    text: str
    columns: tuple[str, ...]
    value: Evaluated

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the values of the rows of a batch.

        Raises:
            InvalidInputError: the expression cannot be evaluated for a value.
        """
        return _evaluated(self.value, batch, f"expression {self.text!r}")


@dataclass(frozen=True, slots=True)
class ParsedFilter:
    """A parsed filter, independent of the schema and of the values of its parameters."""

    source: SqlText
    tree: SyntaxTree

    @classmethod
    def of(cls, sql: str) -> ParsedFilter:
        """Parse the SQL text of a filter.

        Raises:
            InvalidInputError: the text is not an expression; the message has the position.
        """
        from alance.expr.sql.lexical import SqlText

        source = SqlText(sql, "filter")
        return cls(source, source.parse())

    def predicate(self, schema: pa.Schema, params: Params = None) -> Predicate:
        """Compile the filter for a schema.

        Raises:
            InvalidInputError: the expression is not a condition, a column is unknown, types do not
                compare, or a parameter has no value; the message has the position.
            UnsupportedError: the text is valid SQL that alance does not evaluate.
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
    """Parse and compile the SQL text of a filter; errors as in `ParsedFilter`."""
    return ParsedFilter.of(sql).predicate(schema, params)


def parse_projection(sql: str, schema: pa.Schema, params: Params = None) -> Computed:
    """Parse and compile the SQL text of a computed column.

    Raises:
        InvalidInputError: the text is not an expression, a column is unknown, or types do not fit;
            the message has the position.
        UnsupportedError: the text is valid SQL that alance does not evaluate.
    """
    from alance.expr.sql.lexical import SqlText

    source = SqlText(sql, "expression")
    node = _build(source, source.parse(), schema, params)
    return Computed(sql, _columns(node), node)


def predicate_from_arrow(expression: pc.Expression, schema: pa.Schema) -> Predicate:
    """Compile a filter from a pyarrow expression.

    Raises:
        InvalidInputError: `expression` is not a pyarrow expression or not a condition, fails for
            the types of the columns, or has a column that is unknown or named by position.
    """
    if not isinstance(expression, pc.Expression):
        raise InvalidInputError(
            f"filter: expected SQL text or a pyarrow expression, found {type(expression).__name__}"
            f"{_condition_hint(expression)}"
        )
    text = str(expression)
    condition = ArrowCondition(expression)
    try:
        columns = condition.columns(schema)
    except Problem as problem:
        raise problem.public(f"filter {text}: {problem}") from problem.__cause__
    return Predicate(text, columns, condition.with_float_order(schema))


def _condition_hint(condition: object) -> str:
    """Return the counterpart of another library's condition as a hint; empty if there is none."""
    if isinstance(condition, Mapping) and condition:
        return f"; write '{next(iter(condition))} = :value', with `params`"
    if isinstance(condition, bool):
        return f"; write '{str(condition).lower()}'"
    if inspect.iscoroutine(condition):
        return "; write `await` before it"
    if callable(condition):
        return "; a function is not called for rows: write SQL, such as 'price > 5'"
    if type(condition).__module__.startswith("polars"):
        return "; write SQL, or `to_polars_lazy` and its `filter`"
    if hasattr(condition, "__array__"):
        return "; positions of a mask are `take(numpy.flatnonzero(mask))`"
    return ""


def _value_hint(value: object) -> str:
    """Return a hint for a value that is no SQL text."""
    if callable(value):
        return "; a function stands alone: add_columns(function, read_columns=[...])"
    if isinstance(value, list | tuple) or hasattr(value, "__array__"):
        return "; values of all rows are a table: add_columns(pa.table({'name': values}))"
    return '; a constant is SQL text, too: "1", "\'a text\'"'


def computed_from_arrow(expression: pc.Expression, schema: pa.Schema) -> Computed:
    """Compile a computed column from a pyarrow expression.

    Raises:
        InvalidInputError: `expression` is not a pyarrow expression, fails for the types of the
            columns, or has a column that is unknown or named by position.
    """
    if not isinstance(expression, pc.Expression):
        raise InvalidInputError(
            f"expected SQL text or a pyarrow expression, found {type(expression).__name__}"
            f"{_value_hint(expression)}"
        )
    value = ArrowCondition(expression)
    try:
        columns = value.columns(schema, is_value=True)
    except Problem as problem:
        raise problem.public(f"expression {expression}: {problem}") from problem.__cause__
    return Computed(str(expression), columns, value.with_float_order(schema))


def _build(source: SqlText, tree: SyntaxTree, schema: pa.Schema, params: Params) -> Node:
    from alance.expr.build import Builder
    from alance.expr.sql.parameters import Parameters

    try:
        with value_budget.folding_budget():
            return Builder(source, schema, Parameters(source, params)).build(tree)
    except AlanceError:
        raise
    except RecursionError:
        raise source.too_deep() from None
    except FAILURES as error:
        raise InvalidInputError(f"{source.what} {source.text!r}: {single_line(error)}") from error


def _columns(node: Node) -> tuple[str, ...]:
    """Return the paths that a node reads, except those below a column that is read whole."""
    paths = dict.fromkeys(column_paths(node))
    whole = {path[0] for path in paths if len(path) == 1}
    names = [path[0] if path[0] in whole else join_path(path) for path in paths]
    return tuple(dict.fromkeys(names))


def _evaluated(what: Evaluated, batch: pa.RecordBatch, where: str) -> pa.Array:
    """Evaluate an expression for the rows of a batch.

    Large values are computed in parts of the batch. If a memory budget is already set, the batch is
    itself such a part, and is evaluated whole.
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
        raise InvalidInputError(f"{where}: {single_line(error)}") from error
    if isinstance(value, pa.ChunkedArray):
        value = value.combine_chunks()
    return value


def is_nullable(computed: Computed, schema: pa.Schema) -> bool:
    """True if a computed column may contain nulls."""
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
    if isinstance(node, CaseWhen):
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

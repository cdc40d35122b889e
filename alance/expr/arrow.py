"""Conditions written as pyarrow expressions, which Arrow's engine evaluates.

pyarrow shows the columns of an expression only in the expression's text, where names are not
quoted. So each column whose name occurs in the text is tried: it is needed if the expression fails
on a schema without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.base.deferred import Deferred
from alance.base.records import dataclass
from alance.expr.tree import FAILURES, Problem, single_line, unknown
from alance.format.paths import join_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.compute as pc

    from alance.expr import arrow_tokens
else:
    arrow_tokens = Deferred("alance.expr.arrow_tokens")

_QUOTED: Final = r'"[^"]*"'
_NESTED: Final = r"FieldRef\.Nested\(((?:FieldRef\.Name\([^()]*\) ?)+)\)"
_FIELD_NAME: Final = r"FieldRef\.Name\(([^()]*)\)"
_ABSENT: Final = r"No match for (FieldRef\..*?\)+) in "


@dataclass(frozen=True, slots=True)
class ArrowCondition:
    """A pyarrow expression; its evaluation costs about 100 microseconds a batch.

    Attributes:
        expression: the expression as the caller wrote it.
        ordered: the expression to evaluate instead, which compares floats in the order of SQL text;
            None to evaluate `expression` itself.
    """

    expression: pc.Expression
    ordered: pc.Expression | None = None

    def with_float_order(self, schema: pa.Schema) -> ArrowCondition:
        """Return a condition that compares floats in the order of SQL text: see `arrow_tokens`.

        Args:
            schema: schema of the rows, with the types for which the expression was written.
        """
        schema = self._named(schema)
        empty = _empty(schema)

        def type_of(part: pc.Expression) -> pa.DataType:
            return ArrowCondition(part).evaluate(empty).type

        ordered = arrow_tokens.with_float_order(self.expression, schema, type_of)
        return ArrowCondition(self.expression, ordered)

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Evaluate the expression for the rows of a batch."""
        from pyarrow import acero  # imported late, because it imports pandas, which takes 0.2 s

        table = pa.Table.from_batches([batch])
        if not batch.num_columns:
            table = table.append_column("", pa.nulls(batch.num_rows))
        expression = self.expression if self.ordered is None else self.ordered
        plan = acero.Declaration.from_sequence(
            [
                acero.Declaration("table_source", acero.TableSourceNodeOptions(table)),
                acero.Declaration("project", acero.ProjectNodeOptions([expression], ["value"])),
            ]
        )
        column = plan.to_table(use_threads=False).column(0)
        return column.combine_chunks()

    def columns(self, schema: pa.Schema, *, is_value: bool = False) -> tuple[str, ...]:
        """Return the columns, or dotted paths of nested fields, that the expression reads.

        Args:
            is_value: True to allow values of any type instead of only booleans.

        Raises:
            Problem: the expression fails for the types of the schema, is not a condition, or names
                columns by position.
        """
        text = str(self.expression)
        if "FieldPath(" in re.sub(_QUOTED, "", text):
            raise Problem("columns by position; name them: pc.field('name')")
        try:
            values = self.evaluate(_empty(self._named(schema)))
        except FAILURES as error:
            absent = re.match(_ABSENT, str(error))
            if absent is not None:
                path = join_path(re.findall(_FIELD_NAME, absent[1]))
                raise unknown("column", path, schema.names) from error
            raise Problem(single_line(error)) from error
        if not is_value and not pa.types.is_boolean(values.type):
            raise Problem(f"expected a condition, found {values.type}")
        needed = [*self._named(schema)]
        for field in tuple(needed):
            others = [other for other in needed if other is not field]
            if self._runs_on(others):
                needed = others
        return tuple(path for field in needed for path in self._paths(field, needed, text))

    def _named(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema of the columns whose name occurs in the expression's text."""
        text = str(self.expression)
        places = [place for place, name in enumerate(schema.names) if name in text]
        return pa.schema([schema.field(place) for place in places])

    def _paths(self, field: pa.Field, needed: Sequence[pa.Field], text: str) -> list[str]:
        """Return the paths of the fields that the expression reads of a column.

        Returns the column's name if the expression reads all of the column.
        """
        if not pa.types.is_struct(field.type):
            return [field.name]
        references = [re.findall(_FIELD_NAME, nested) for nested in re.findall(_NESTED, text)]
        paths = [names for names in references if names[0] == field.name]
        is_whole = field.name in re.sub(_NESTED, "", text)
        if is_whole or not paths:
            return [field.name]
        only = pa.field(field.name, _only(field.type, [path[1:] for path in paths]))
        if not self._runs_on([only if other is field else other for other in needed]):
            return [field.name]
        return list(dict.fromkeys(join_path(path) for path in paths))

    def _runs_on(self, fields: Sequence[pa.Field]) -> bool:
        try:
            self.evaluate(_empty(pa.schema(fields)))
        except FAILURES:
            return False
        return True


def _only(type_: pa.DataType, paths: Sequence[Sequence[str]]) -> pa.DataType:
    """Return a struct type with only the fields on the paths."""
    if not pa.types.is_struct(type_) or not all(paths):
        return type_
    firsts = dict.fromkeys(path[0] for path in paths)
    fields = [type_.field(index) for index in map(type_.get_field_index, firsts) if index >= 0]
    return pa.struct(
        [
            pa.field(field.name, _only(field.type, [p[1:] for p in paths if p[0] == field.name]))
            for field in fields
        ]
    )


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)

"""Parsed filters of scans, memoized by their text and the schema that they see."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sized
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.io.caches.cache import Memo
from alance.ops.version.conditions import (
    CHARACTER_BYTES,
    KEY_BYTES,
    Among,
    Bound,
    expression_work,
)
from alance.ops.version.first_use import parsed
from alance.ops.version.projection import with_meta_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.expr import ParsedFilter, Predicate
    from alance.format.schema import Schema
    from alance.ops.version.conditions import Condition, Params
    from alance.ops.version.snapshot import Snapshot

T = TypeVar("T")

FILTER_TEXT_BYTES: Final = 16 << 20  # bytes of the process's memo of parsed texts
PARSED_BYTES: Final = 1 << 10  # minimum bytes of memory of a parsed text
# Bytes of memory per character; measured: 3 in long lists, 60 to 140 elsewhere.
NODE_BYTES: Final = 100
MAX_TEXT: Final = 16 << 10  # characters; longer texts are not memoized
VALUE_BYTES: Final = 1 << 10  # work per parameter, as bytes to decode; a tenth of it per list item
# Functions whose values change with time.
TIME_FUNCTIONS: Final = re.compile(r"\b(now|today|current_)", re.IGNORECASE)


class VisibleSchema:
    """Schema that filters see: the table's columns and the meta columns. A cheap key of a memo.

    Args:
        measure: distance or score column of a search, if the filter runs on its results.
    """

    __slots__ = ("_hash", "arrow")

    def __init__(self, schema: Schema, measure: str | None = None) -> None:
        self.arrow = with_meta_fields(schema)
        if measure is not None:
            others = [field for field in self.arrow if field.name != measure]
            self.arrow = pa.schema([*others, pa.field(measure, pa.float32())])
        self._hash = hash(tuple(self.arrow.names))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, VisibleSchema) and bool(self.arrow.equals(other.arrow, True))


_filters: Final = Memo[tuple[str, VisibleSchema | None], Any](FILTER_TEXT_BYTES)


async def _memoized(
    snapshot: Snapshot, text: str, schema: VisibleSchema | None, make: Callable[[], T]
) -> T:
    """Return the memoized result of `make` for a text and schema.

    Slow texts are parsed in a thread.
    """
    result: T | None = _filters.peek((text, schema))
    if result is not None:
        return result
    from alance.expr.sql.simple import is_simple

    # A simple text is quick to parse, and has no constants that are slow to compute.
    work = CHARACTER_BYTES * len(text) if is_simple(text) else math.inf
    result = await snapshot.engine.decode(make, work)
    if len(text) <= MAX_TEXT and (schema is None or not TIME_FUNCTIONS.search(text)):
        _filters.put((text, schema), result, PARSED_BYTES + NODE_BYTES * len(text))
    return result


def visible_schema(snapshot: Snapshot, measure: str | None = None) -> VisibleSchema:
    """Return the schema that the filters of a version see; memoized."""
    schema = snapshot.schema
    return schema.remember((VisibleSchema, measure), lambda: VisibleSchema(schema, measure))


def parse_predicate(schema: Schema, condition: Condition | None) -> Predicate | None:
    """Parse a filter; None if `condition` is None.

    Raises:
        InvalidInputError: the SQL is invalid (the message has the position), a column is unknown,
            the condition is not boolean, or a parameter has no value.
    """
    return None if condition is None else parse_over(with_meta_fields(schema), condition)


async def parsed_predicate(
    snapshot: Snapshot, condition: Condition | None, measure: str | None = None
) -> Predicate | None:
    """Parse a filter as `parse_predicate` does, slow ones in a thread; None without a filter.

    CPU: 2 to 10 us per character when a text is parsed for the first time. For a text with
    parameters, only the syntax tree is memoized, not the filter with its values.

    Args:
        measure: see `VisibleSchema`.
    """
    if condition is None:
        return None
    schema = await parsed(snapshot, None, partial(visible_schema, snapshot, measure))
    if isinstance(condition, str):
        return await _memoized(
            snapshot, condition, schema, lambda: parse_over(schema.arrow, condition)
        )
    if isinstance(condition, Bound):
        text, params = condition.text, condition.params
        tree: ParsedFilter = await _memoized(snapshot, text, None, lambda: _parse_text(text))
        return await snapshot.engine.decode(
            lambda: tree.predicate(schema.arrow, params), VALUE_BYTES * _count(params) // 10
        )
    if isinstance(condition, Among):
        work = KEY_BYTES * sum(map(len, condition.values))
    else:
        text = str(condition)
        work = expression_work(text) + CHARACTER_BYTES * len(text)
    return await snapshot.engine.decode(lambda: parse_over(schema.arrow, condition), work)


def _count(params: Sequence[object] | Mapping[str, object]) -> int:
    """Estimate the work of parameters: 10 per value, 1 per item of a list or 100 characters."""
    values = params.values() if isinstance(params, Mapping) else params
    work = 0
    for value in values:
        if isinstance(value, str):
            work += 10 + len(value) // 100
        else:
            work += len(value) if isinstance(value, Sized) else 10
    return work


def parse_over(schema: pa.Schema, condition: Condition) -> Predicate:
    """Parse a filter over the columns of an Arrow schema; see `parse_predicate`."""
    if isinstance(condition, Among):
        from alance.expr.keys import predicate_among

        return predicate_among(schema, condition.names, condition.values, condition.text)
    from alance.expr import predicate_from_arrow

    if isinstance(condition, Bound):
        return _parse_text(condition.text).predicate(schema, condition.params)
    if isinstance(condition, str):
        return _parse_text(condition).predicate(schema)
    return predicate_from_arrow(condition, schema)


def _parse_text(text: str) -> ParsedFilter:
    from alance.expr import ParsedFilter

    return ParsedFilter.of(text)


def shared_out(texts: Sequence[object], params: Params) -> list[Params]:
    """Distribute parameter values to the texts that use them; None for a text without parameters.

    The texts consume positional values in order. Each text gets the named values that it uses.

    Args:
        texts: SQL texts; other objects have no parameters.

    Raises:
        InvalidInputError: a name in `params` is in no text, the number of positional values is
            wrong, or SQL is invalid.
    """
    if params is None:
        return [None] * len(texts)
    names = [_parameters(text) for text in texts]
    if isinstance(params, Mapping):
        used = {name for own in names for name in own}
        if unknown := [name for name in params if name not in used]:
            raise InvalidInputError(f"params: {unknown[0]!r}, no text has such a name")
        return [{name: params[name] for name in own if name in params} or None for own in names]
    ends = np.cumsum([len(own) for own in names]).tolist()
    if len(params) != ends[-1]:
        raise InvalidInputError(f"params: {len(params)} values, the texts have {ends[-1]} ?")
    values = list(params)
    return [values[end - len(own) : end] or None for own, end in zip(names, ends, strict=True)]


def _parameters(text: object) -> list[str]:
    """Return the names of a text's parameters; an empty name for each positional parameter."""
    if not isinstance(text, str):
        return []
    return [tree.name for tree in _parse_text(text).source.placeholders]

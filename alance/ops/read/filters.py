"""Filters of scans: parsed once, and remembered by their text and the schema that they see."""

from __future__ import annotations

import re
from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from alance.ops.version.projection import META

if TYPE_CHECKING:
    import pyarrow.compute as pc

    from alance.expr import Predicate
    from alance.format.schema import Schema
    from alance.ops.version.snapshot import Snapshot

# The work of a character of a filter, to parse it or to make checks of it, as bytes to decode:
# 500 characters take about 2 ms on the loop, on a busy machine 5.
CHARACTER_BYTES: Final = 128
# What is remembered of texts, in this process: nodes take some hundred bytes for a character.
MAX_CHARACTERS: Final = 256 << 10
MAX_TEXT: Final = 16 << 10
MAX_TEXTS: Final = 1024
MOMENTS: Final = re.compile(r"\b(now|today|current_)", re.IGNORECASE)  # mean another one each time


class VisibleSchema:
    """The schema that filters see: the table's and the meta columns. A cheap key of caches."""

    __slots__ = ("_hash", "arrow")

    def __init__(self, schema: Schema) -> None:
        self.arrow = with_meta_fields(schema)
        self._hash = hash(tuple(self.arrow.names))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, VisibleSchema):
            return NotImplemented
        return self is other or bool(self.arrow.equals(other.arrow, check_metadata=True))


class _Remembered:
    """Parsed filters, those that were used longest ago dropped first. For all threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._filters: OrderedDict[tuple[str, VisibleSchema], Predicate] = OrderedDict()
        self._num_characters = 0

    def get(self, text: str, schema: VisibleSchema) -> Predicate | None:
        with self._lock:
            predicate = self._filters.get((text, schema))
            if predicate is not None:
                self._filters.move_to_end((text, schema))
            return predicate

    def put(self, text: str, schema: VisibleSchema, predicate: Predicate) -> None:
        if len(text) > MAX_TEXT or MOMENTS.search(text):
            return
        with self._lock:
            if (text, schema) not in self._filters:
                self._num_characters += len(text)
            self._filters[text, schema] = predicate
            while self._num_characters > MAX_CHARACTERS or len(self._filters) > MAX_TEXTS:
                (dropped, _), _ = self._filters.popitem(last=False)
                self._num_characters -= len(dropped)


_remembered: Final = _Remembered()


def with_meta_fields(schema: Schema) -> pa.Schema:
    """The Arrow schema that filters and expressions see: the table's and the meta columns."""
    arrow = schema.to_arrow()
    for name in META:
        if arrow.get_field_index(name) < 0:
            arrow = arrow.append(pa.field(name, pa.uint64()))
    return arrow


def visible_schema(snapshot: Snapshot) -> VisibleSchema:
    """The schema that filters of a version see."""
    return snapshot.remember(VisibleSchema, lambda: VisibleSchema(snapshot.schema))


def parse_predicate(schema: Schema, condition: str | pc.Expression | None) -> Predicate | None:
    """A filter, from SQL text or a pyarrow expression.

    Raises:
        InvalidInputError: bad SQL (with its position), an unknown column, no boolean.
    """
    return None if condition is None else _parse(with_meta_fields(schema), condition)


async def parsed_predicate(
    snapshot: Snapshot, condition: str | pc.Expression | None
) -> Predicate | None:
    """`parse_predicate`, elsewhere where it takes long: 2 to 10 us a character, the first time.

    Raises:
        InvalidInputError: bad SQL (with its position), an unknown column, no boolean.
    """
    if condition is None:
        return None
    schema = visible_schema(snapshot)
    if not isinstance(condition, str):
        return _parse(schema.arrow, condition)
    predicate = _remembered.get(condition, schema)
    if predicate is None:
        work = CHARACTER_BYTES * len(condition)
        predicate = await snapshot.engine.decode(lambda: _parse(schema.arrow, condition), work)
        _remembered.put(condition, schema, predicate)
    return predicate


def _parse(schema: pa.Schema, condition: str | pc.Expression) -> Predicate:
    from alance.expr import parse_filter, predicate_from_arrow

    if isinstance(condition, str):
        return parse_filter(condition, schema)
    return predicate_from_arrow(condition, schema)

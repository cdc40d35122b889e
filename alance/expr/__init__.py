"""Filters and projections: SQL text or pyarrow expressions to evaluators of record batches."""

from alance.expr.predicate import (
    Computed,
    ParsedFilter,
    Predicate,
    computed_from_arrow,
    is_nullable,
    parse_filter,
    parse_projection,
    predicate_from_arrow,
)

__all__ = [
    "Computed",
    "ParsedFilter",
    "Predicate",
    "computed_from_arrow",
    "is_nullable",
    "parse_filter",
    "parse_projection",
    "predicate_from_arrow",
]

"""Filters and projections: compile SQL text or pyarrow expressions to evaluators of record batches.

Here belong the parser, the SQL functions, and the rules that prune by bounds or query indices. All
is pure: nothing here waits or reads a store. Modules may import `format`, `alance.base`,
`alance.errors` and the kernels, and nothing of `io` and above.
"""

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

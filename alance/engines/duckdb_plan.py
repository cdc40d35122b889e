"""Limits and counts of queries that DuckDB does not push down to the scan.

DuckDB 2.0 passes only columns and a filter to an Arrow dataset. It passes no limit, and for
`count(*)` it requests the first column. Its own plan of the query shows both. If the plan begins
with a single scan whose rows reach a limit or a count unchanged, the scan stops at the limit or
counts the rows.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import duckdb

from alance.base.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.version.conditions import Params

SCAN: Final = "PYTHON_ARROW_SCAN"
LIMITS: Final = ("LIMIT", "STREAMING_LIMIT")
COUNT_OPERATOR: Final = "UNGROUPED_AGGREGATE"
MAX_LIMIT_ROWS: Final = 1 << 60  # `LIMIT NULL` is 2 ** 63 - 1 in a plan
# Queries with one of these words are planned twice.
LIMIT_WORDS: Final = re.compile(r"\b(limit|count|fetch)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Pushed:
    """Limit or count that a query needs from its scan, in addition to columns and a filter.

    Attributes:
        limit: number of rows after which the scan may stop; None for all rows.
        counts: True if only the number of rows is needed.
    """

    limit: int | None = None
    counts: bool = False


def pushed(
    connection: duckdb.DuckDBPyConnection, statements: Sequence[duckdb.Statement], params: Params
) -> Pushed:
    """Return the limit or count of a query with a single scan; neither for other queries.

    Cost: DuckDB plans the query once more if the text has one of `LIMIT_WORDS`. No rows are read.
    """
    if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
        return Pushed()
    query = statements[0].query
    if not LIMIT_WORDS.search(query):
        return Pushed()
    try:
        rows = connection.execute(f"explain (format json) {query}", params).fetchall()
        roots = json.loads(rows[0][1])
    except (duckdb.Error, ValueError):
        return Pushed()  # running the query raises the error again
    return _of_chain(_chain(roots))


def _chain(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the operators of a plan, from the scan upwards; empty if the plan branches."""
    chain: list[dict[str, Any]] = []
    while nodes:
        if len(nodes) != 1:
            return []
        chain.append(nodes[0])
        nodes = nodes[0].get("children", [])
    return chain[::-1]


def _of_chain(chain: list[dict[str, Any]]) -> Pushed:
    if not chain or chain[0]["name"] != SCAN:
        return Pushed()
    for node in chain[1:]:
        name, info = node["name"], node.get("extra_info", {})
        if name in LIMITS:
            limit, offset = info.get("Limit", ""), info.get("Offset", "0")
            if not (limit.isdigit() and offset.isdigit()) or int(limit) > MAX_LIMIT_ROWS:
                return Pushed()
            return Pushed(limit=int(limit) + int(offset))
        if name == COUNT_OPERATOR:
            aggregates = info.get("Aggregates")
            aggregates = [aggregates] if isinstance(aggregates, str) else aggregates
            return Pushed(counts=bool(aggregates) and {*aggregates} == {"count_star()"})
        if name != "PROJECTION":
            return Pushed()
    return Pushed()

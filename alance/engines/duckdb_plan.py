"""What DuckDB could hand to the scan below a query, and does not: limits and counts.

DuckDB 2.0 asks an Arrow dataset for columns and a filter, in so many words: no limit, and for
`count(*)` the first column. Its own plan of the query tells both. Where one scan is all that a plan
begins with, and its rows reach a limit or a count as they are, the scan gives no more of them, or
counts them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import duckdb

from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.version.conditions import Params

SCAN: Final = "PYTHON_ARROW_SCAN"
LIMITS: Final = ("LIMIT", "STREAMING_LIMIT")
COUNT: Final = "UNGROUPED_AGGREGATE"
MOST_ROWS: Final = 1 << 60  # `LIMIT NULL` is 2 ** 63 - 1 there
WORDS: Final = re.compile(r"\b(limit|count|fetch)\b", re.IGNORECASE)  # of queries worth a look


@dataclass(frozen=True, slots=True)
class Pushed:
    """What one scan of a query is told besides columns and a filter.

    Attributes:
        limit: rows that are needed at most; None: all.
        counts: only the number of rows matters.
    """

    limit: int | None = None
    counts: bool = False


def pushed(
    connection: duckdb.DuckDBPyConnection, statements: Sequence[duckdb.Statement], params: Params
) -> Pushed:
    """What the scan of a query may be told; nothing where the query has several.

    Cost: DuckDB plans the query once more, if it has a word for it. Nothing is read.
    """
    if len(statements) != 1 or statements[0].type is not duckdb.StatementType.SELECT:
        return Pushed()
    query = statements[0].query
    if not WORDS.search(query):
        return Pushed()
    try:
        rows = connection.execute(f"explain (format json) {query}", params).fetchall()
        roots = json.loads(rows[0][1])
    except (duckdb.Error, ValueError):
        return Pushed()  # the query itself tells what is wrong
    return _of_chain(_chain(roots))


def _chain(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The operators of a plan from the scan up; none where it branches."""
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
        name, told = node["name"], node.get("extra_info", {})
        if name in LIMITS:
            limit, offset = told.get("Limit", ""), told.get("Offset", "0")
            if not (limit.isdigit() and offset.isdigit()) or int(limit) > MOST_ROWS:
                return Pushed()
            return Pushed(limit=int(limit) + int(offset))
        if name == COUNT:
            aggregates = told.get("Aggregates")
            aggregates = [aggregates] if isinstance(aggregates, str) else aggregates
            return Pushed(counts=bool(aggregates) and {*aggregates} == {"count_star()"})
        if name != "PROJECTION":
            return Pushed()
    return Pushed()

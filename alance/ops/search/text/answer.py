"""The rows that match text queries: from indices, and from texts that no index covers.

All parts of all queries are answered together: their columns are opened concurrently, their posting
lists are read in one round, and texts without an index are read once for all parts of a column.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from alance.io.events import trace
from alance.io.loop.tasks import all_of
from alance.ops.search.text.column import LONG_WORK, ColumnSearch
from alance.ops.search.text.fields import FieldsSearch
from alance.ops.search.text.files import read_lists
from alance.ops.search.text.query import CombinedFieldsQuery, of_elements, ranked_leaves
from alance.ops.search.text.ranked import Ranked
from alance.ops.search.text.segments import text_way
from alance.ops.search.text.several import Searches

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance._kernels import PostingList
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.snapshot import Snapshot

SKIPPED: Final = 4  # share of postings that a search for the best rows examines: 1/4
QUERIES_AT_ONCE: Final = 16  # queries ranked per job; also maximum number of joined local searches


async def ranked_rows(
    snapshot: Snapshot,
    queries: Sequence[TextQuery],
    options: ScanOptions,
    count: int | None,
    *,
    use_index: bool = True,
) -> list[Ranked]:
    """Find the rows that match each query, best first.

    Cost for all queries together: with an index, a read of its head, once, and a round for
    uncached posting lists; a scan of the texts that no index covers. Memory: 8 bytes for each row
    that matches any part of a query, and the posting lists.

    Args:
        count: maximum number of rows per query; None for all rows.

    Raises:
        InvalidInputError: a phrase query on a column whose index has no positions; an invalid
            filter.
        CorruptFileError: files contradict the format.
    """
    singles, groups = await _opened(snapshot, queries, options, use_index=use_index)
    searches = [*singles, *(search for group in groups for search in group.searches)]
    await _read(snapshot, searches)
    parts = Searches(
        {search.way.column: search for search in singles}, {group.query: group for group in groups}
    )

    def rank(queries: Sequence[TextQuery]) -> list[Ranked]:
        return [parts.best(query, count).best(count) for query in queries]

    trace.compare(sum(search.num_postings for search in singles))
    work = sum(search.work() for search in singles) + LONG_WORK * len(groups)
    if count:
        work //= SKIPPED
    batches = await all_of(
        snapshot.engine.decode(partial(rank, queries[start : start + QUERIES_AT_ONCE]), work)
        for start in range(0, len(queries), QUERIES_AT_ONCE)
    )
    ranked = [rows for batch in batches for rows in batch]
    for search in searches:
        search.check(Ranked.joined(ranked))
    return ranked


async def _opened(
    snapshot: Snapshot, queries: Sequence[TextQuery], options: ScanOptions, *, use_index: bool
) -> tuple[list[ColumnSearch], list[FieldsSearch]]:
    """Open the searches of all parts of queries: single columns, and several columns as one."""
    leaves = list(dict.fromkeys(leaf for query in queries for leaf in ranked_leaves(query)))
    has_elements = any(map(of_elements, queries))  # then all queries search elements of one column
    columns = dict.fromkeys(str(leaf.column) for leaf in leaves if leaf.column is not None)
    singles = [
        ColumnSearch(
            snapshot,
            options,
            text_way(snapshot, column, options, of_elements=has_elements, use_index=use_index),
            [leaf for leaf in leaves if leaf.column == column],
        )
        for column in columns
    ]
    groups = [
        FieldsSearch(snapshot, options, leaf, use_index=use_index)
        for leaf in leaves
        if isinstance(leaf, CombinedFieldsQuery)
    ]
    await all_of([*(search.open() for search in singles), *(group.open() for group in groups)])
    return singles, groups


async def _read(snapshot: Snapshot, searches: Sequence[ColumnSearch]) -> None:
    """Read the posting lists of searches, and the texts that no index covers."""
    needed = [part for search in searches for part in search.needed()]
    flat = [search.read_flat() for search in searches if search.way.uncovered]
    works = cast("list[Awaitable[Any]]", [read_lists(snapshot, needed), *flat])
    lists: list[dict[str, PostingList]]
    lists, *_ = await all_of(works)
    remaining = iter(lists)
    for search in searches:
        search.lists = [next(remaining) for _ in search.partitions]

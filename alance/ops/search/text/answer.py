"""The rows that match a query, by an index and by reading what it does not cover.

All parts of a query are answered together: their columns are opened at once, their posting lists
are read at once, and texts without an index are read once for all parts of a column.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from alance.io.tasks import all_of
from alance.ops.search.text.column import LONG_WORK, ColumnSearch
from alance.ops.search.text.fields import FieldsSearch
from alance.ops.search.text.files import read_lists
from alance.ops.search.text.query import (
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    ranked_leaves,
)
from alance.ops.search.text.ranked import Ranked, combined
from alance.ops.search.text.segments import text_way

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from alance._kernels import PostingList
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.snapshot import Snapshot

SKIPPED: Final = 4  # of so many postings about one is looked at where the best are asked for


async def ranked_rows(
    snapshot: Snapshot,
    query: TextQuery,
    options: ScanOptions,
    count: int | None,
    *,
    use_index: bool = True,
) -> Ranked:
    """The rows that match a query, best first.

    Cost: with an index its heads, once (two rounds), and a round for the posting lists that are
    not in memory; a scan of the texts that no index covers. Memory: 8 bytes a row that matches
    any part of the query, beside the posting lists.

    Args:
        count: rows at most; None: all.

    Raises:
        InvalidInputError: a phrase of a column whose index has no positions; a bad filter.
        CorruptFileError: files that contradict the format.
    """
    leaves = list(ranked_leaves(query))
    columns = dict.fromkeys(str(leaf.column) for leaf in leaves if leaf.column is not None)
    singles = [
        ColumnSearch(
            snapshot,
            options,
            text_way(snapshot, column, options, use_index=use_index),
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
    searches = [*singles, *(search for group in groups for search in group.searches)]
    needed = [part for search in searches for part in search.needed()]
    flat = [search.read_flat() for search in searches if search.way.uncovered]
    works = cast("list[Awaitable[Any]]", [read_lists(snapshot, needed), *flat])
    lists: list[dict[str, PostingList]]
    lists, *_ = await all_of(works)
    # Of other queries the best rows are not those that are best in a part.
    of_parts = count if isinstance(query, MatchQuery | MultiMatchQuery) else None

    def rank() -> Ranked:
        answers: dict[TextQuery, Ranked] = {}
        left = iter(lists)
        for search in singles:
            own = [next(left) for _ in search.partitions]
            answers |= search.answers(own, of_parts or None)
        for group in groups:
            of_columns = [[next(left) for _ in search.partitions] for search in group.searches]
            answers[group.query] = group.answer(of_columns)
        return combined(query, answers).best(count)

    left = iter(lists)
    work = sum(search.work([next(left) for _ in search.partitions]) for search in singles)
    if of_parts:
        work //= SKIPPED
    work += LONG_WORK * len(groups)
    ranked = await snapshot.engine.decode(rank, work)
    for search in searches:
        search.check(ranked)
    return ranked

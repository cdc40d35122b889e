"""Text search as a kind of search: see `alance.ops.search.table`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np

from alance.errors import InvalidInputError
from alance.io.loop.tasks import all_of
from alance.ops.search.answer import Hits, open_ahead
from alance.ops.search.joined import MAX_JOINED_ROWS
from alance.ops.search.options import SCORE
from alance.ops.search.table import Search
from alance.ops.search.text.answer import QUERIES_AT_ONCE, ranked_rows
from alance.ops.search.text.granularity import with_granularity
from alance.ops.search.text.query import has_phrases, of_elements, query_of
from alance.ops.search.text.ranked import Ranked
from alance.ops.search.text.segments import indexed_columns

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance.ops.read.options import ScanOptions
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


class TextSearch(Search):
    """Search of the rows whose texts match a query best. Cost of `hits`: see `ranked_rows`."""

    measure: ClassVar[str] = SCORE
    queries: tuple[TextQuery]

    def __init__(self, snapshot: Snapshot, options: ScanOptions) -> None:
        query = checked_query(snapshot, options)
        self._snapshot, self._options = snapshot, options
        self._use_index = uses_index(options)
        self._count = None if options.limit is None else (options.offset or 0) + options.limit
        self.queries, self.of_elements = (query,), of_elements(query)
        # Phrases join only with phrases, because either all or none of the joined searches read
        # positions.
        self.question = (SCORE, self._use_index, has_phrases(query), self.of_elements)
        self.num_rows = self._count or MAX_JOINED_ROWS
        self.max_joined = MAX_JOINED_ROWS if snapshot.is_remote else QUERIES_AT_ONCE

    async def hits(self, queries: Sequence[tuple[TextQuery]], columns: Columns) -> Hits:
        snapshot, options = self._snapshot, self._options
        texts = [query for (query,) in queries]
        works: list[Awaitable[Any]] = [
            ranked_rows(snapshot, texts, options, self._count, use_index=self._use_index)
        ]
        if snapshot.is_remote:
            works.append(open_ahead(snapshot, options, columns))
        ranked: list[Ranked]
        ranked, *_ = await all_of(works)
        sizes = [len(own.ids) for own in ranked]
        numbers = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        rows = Ranked.joined(ranked)
        elements = rows.elements
        if self.of_elements and elements is None:  # nothing matches
            elements = np.empty(0, np.uint32)
        return Hits(numbers, rows.scores, rows.ids, elements)


TEXT_SEARCH: Final = TextSearch


def uses_index(options: ScanOptions) -> bool:
    """True if the search may use indices."""
    query = options.full_text_query
    return not isinstance(query, Mapping) or bool(query.get("use_index", True))


def checked_query(snapshot: Snapshot, options: ScanOptions) -> TextQuery:
    """Check the query in a scan's options and return it.

    Raises:
        InvalidInputError: see `query_of` and `with_granularity`; or the scan has an option that
            searches do not have.
        UnsupportedError: see `with_granularity`.
    """
    if options.nearest is not None:
        raise InvalidInputError("nearest beside full_text_query: expected one of them")
    if options.include_deleted_rows:
        raise InvalidInputError("include_deleted_rows: a search returns live rows only")
    text: Any = options.full_text_query
    if isinstance(text, Mapping):
        text = {name: value for name, value in text.items() if name != "use_index"}
    query = query_of(snapshot.schema, text, indexed_columns(snapshot))
    return with_granularity(snapshot, query, use_index=uses_index(options))

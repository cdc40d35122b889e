"""Vector search as a kind of search: see `alance.ops.search.table`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np

from alance.errors import InvalidInputError
from alance.format.index.values import VectorType
from alance.ops.search.answer import check_queries, find_hits
from alance.ops.search.options import DISTANCE, QUERY_INDEX, search_of, vector_type
from alance.ops.search.segments import way_of
from alance.ops.search.table import Search

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Float64s
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.answer import Hits
    from alance.ops.search.options import VectorSearch
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


class NearestSearch(Search):
    """Search of the rows nearest to vectors.

    Cost of `hits`: with an index its partitions; else a scan of the column.
    """

    measure: ClassVar[str] = DISTANCE
    queries: Float64s

    def __init__(self, snapshot: Snapshot, options: ScanOptions) -> None:
        search = checked_search(snapshot, options)
        self._snapshot, self._options, self._search = snapshot, options, search
        self.queries, self.is_batch = search.queries, search.is_batch
        self.num_rows = search.k * search.width
        self.question = (
            search.path, search.k, search.metric, search.lower, search.upper, search.probing,
            search.fast_search, search.width,
        )  # fmt: skip

    def check(self) -> None:
        search = self._search
        check_queries(search, way_of(self._snapshot, search, self._options))

    async def hits(self, queries: Sequence[Float64s], columns: Columns) -> Hits:
        search = self._search
        if len(queries) > 1 or queries[0] is not search.queries:
            search = replace(search, queries=np.concatenate(queries))
        return await find_hits(self._snapshot, search, self._options, columns)


NEAREST_SEARCH: Final = NearestSearch


def checked_search(snapshot: Snapshot, options: ScanOptions) -> VectorSearch:
    """Check the search in a scan's options and return it.

    Raises:
        InvalidInputError: see `search_of`; or the scan has an option that searches do not have, or
            the table a column `query_index` and there are several queries.
    """
    assert options.nearest is not None
    if options.include_deleted_rows:
        raise InvalidInputError("include_deleted_rows: a search returns live rows only")
    types = snapshot.remember(vector_type, dict[str, VectorType])
    arguments = options.nearest
    if options.limit is not None and arguments.get("k") is None:
        arguments = {**arguments, "k": max(1, options.limit + (options.offset or 0))}
    search = search_of(snapshot.schema, arguments, options.fast_search, types)
    if search.is_batch and any(field.name == QUERY_INDEX for field in snapshot.schema.fields):
        raise InvalidInputError(f"queries in number: the table has a column {QUERY_INDEX!r}")
    return search

"""Verbs that search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.deferred import Deferred
from alance.errors import InvalidInputError
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import pyarrow as pa

    from alance.ops.search import nearest as search
    from alance.ops.search import options as search_options
    from alance.ops.search.options import SearchArguments
    from alance.ops.search.text import results as text_search
    from alance.ops.search.text import search_options as text_options
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.search_options import TextSearchArguments
else:
    search = Deferred("alance.ops.search.nearest")
    search_options = Deferred("alance.ops.search.options")
    text_options = Deferred("alance.ops.search.text.search_options")
    text_search = Deferred("alance.ops.search.text.results")


class SearchVerbs(Handle):
    """The rows nearest to a vector, or that match words; see docs/search.md."""

    __slots__ = ()

    async def nearest(
        self,
        column: str,
        query: object,
        k: int = 10,
        **options: Unpack[SearchArguments],
    ) -> pa.Table:
        """The k rows whose vectors are nearest to a query, nearest first.

        The output has the columns asked for and `_distance` (float32), in the order of distance,
        then row id. Null vectors, and those with NaN, are never found; nor are deleted rows.

        Cost: with an index its heads, once (two rounds), then a round for the partitions searched
        that are not in memory, and a take of the k rows. Without one a scan of the column: every
        vector is compared; memory is that of a scan and of k rows.

        Args:
            column: name or dotted path of a column of fixed-size lists of float16, bfloat16,
                float32, float64 or uint8.
            query: as many numbers as the vectors have. Of two dimensions it is a batch: the first
                column of the output is then `query_index` (int32), with k rows for each.
            options: see `alance.types.SearchArguments`.

        Raises:
            InvalidInputError: no column of vectors; a query of another dimension or with NaN;
                numbers out of range; a bad filter or column.
            CorruptFileError: files that contradict the format, or an index.
        """
        await self._load(search)
        columns, asked = search_options.asked_by(column, query, k, options)
        return await search.search_table(self._snapshot, columns, asked)

    async def nearest_many(
        self,
        column: str,
        queries: Sequence[object] | object,
        k: int = 10,
        **options: Unpack[SearchArguments],
    ) -> pa.Table:
        """The k nearest rows of each of some queries, found in one go.

        As `nearest` of a matrix: the first column is `query_index` (int32). Vectors and partitions
        are read once for all queries.

        Raises:
            InvalidInputError: as `nearest`; queries that are no matrix.
        """
        await self._load(search)
        columns, asked = search_options.asked_by(column, queries, k, options)
        if not search_options.search_of(self._snapshot.schema, asked.nearest or {}).is_batch:
            raise InvalidInputError("queries: expected a matrix, a query a row")
        return await search.search_table(self._snapshot, columns, asked)

    async def search_text(
        self,
        query: str | TextQuery,
        k: int = 10,
        **options: Unpack[TextSearchArguments],
    ) -> pa.Table:
        """The k rows whose texts match a query best, by BM25.

        The output has the columns asked for and `_score` (float32), in the order of score, then
        row id. Deleted rows are never given, but count in scores until the index is made anew.

        Cost: with an inverted index its heads, once (two rounds), then a round for the posting
        lists that are not in memory, and a take of the k rows. Rows without an index are read.
        Memory: the tokens and 12 bytes a document of the index, as far as the search cache keeps
        them; 12 bytes a row that matches.

        Args:
            query: a text, of which any word will do; or a `MatchQuery`, `PhraseQuery`,
                `MultiMatchQuery`, `BoostQuery` or `BooleanQuery`.
            options: see `alance.types.TextSearchArguments`.

        Raises:
            InvalidInputError: no column to search; a phrase where the index has no positions; a
                bad filter or column.
            CorruptFileError: files that contradict the format, or an index.
        """
        await self._load(text_search)
        columns, asked = text_options.asked_by(query, k, options)
        return await text_search.text_table(self._snapshot, columns, asked)

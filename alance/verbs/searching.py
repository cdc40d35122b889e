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

    from alance.ops.read.explain import Explanation
    from alance.ops.search import nearest as search
    from alance.ops.search import options as search_options
    from alance.ops.search.options import SearchArguments
    from alance.ops.search.text import hybrid
    from alance.ops.search.text import results as text_search
    from alance.ops.search.text import search_options as text_options
    from alance.ops.search.text.fusion import Combine
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.search_options import HybridArguments, TextSearchArguments
else:
    hybrid = Deferred("alance.ops.search.text.hybrid")
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
                float32, float64 or uint8, or of lists of such vectors.
            query: as many numbers as the vectors have. Of two dimensions it is a batch: the first
                column of the output is then `query_index` (int32), with k rows for each. Where
                rows are lists of vectors, two dimensions are one query of several vectors, whose
                distance from a row is the sum of those of each from the nearest of the row; and
                three are a batch.
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
            raise InvalidInputError(
                "queries: expected a matrix, a query a row; of lists of vectors one of matrices"
            )
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
        them; 8 bytes a row that matches, where not the best alone are asked for.

        Args:
            query: a text, of which any word will do; a text in double quotes, a phrase; or a
                `MatchQuery`, `PhraseQuery`, `MultiMatchQuery`, `CombinedFieldsQuery`, `BoostQuery`
                or `BooleanQuery`.
            options: see `alance.types.TextSearchArguments`.

        Raises:
            InvalidInputError: no column to search; a phrase where the index has no positions; a
                bad filter or column.
            UnsupportedError: the index has a tokenizer or a format that is not known here.
            CorruptFileError: files that contradict the format, or an index.
        """
        await self._load(text_search)
        columns, asked = text_options.asked_by(query, k, options)
        return await text_search.text_table(self._snapshot, columns, asked)

    async def search(
        self,
        *,
        text: str | TextQuery,
        vector: object,
        k: int = 10,
        combine: Combine = "rrf",
        **options: Unpack[HybridArguments],
    ) -> pa.Table:
        """The k most relevant rows of two searches at once: by words, and by a vector.

        Each search gives its best `candidates`; `combine` makes one ranking of them. The output has
        the columns asked for, `_relevance_score`, `_score` and `_distance` (float32; the last two
        null where a search did not give the row), in the order of relevance, then row id.

        Cost: the requests of `search_text` and `nearest` side by side, in as many rounds as the
        longer of the two needs; a filter is asked once. The columns of the k rows are taken once.

        Args:
            text: as for `search_text`; vector: a query, as for `nearest`.
            combine: "rrf": the sum of 1 / (60 + rank) over the searches that gave the row;
                `{"text": w, "vector": v}`: weighted scores, in each search 1 for its first
                candidate, 0 for its last and for rows that it did not give; or a function of a
                table with a row for each candidate, `_rowid`, `_score`, `_distance`, `_score_rank`
                and `_distance_rank` (from 1), which gives as many numbers, more being better. It
                runs in a thread, or as a coroutine.
            options: see `alance.types.HybridArguments`.

        Raises:
            InvalidInputError: as from `search_text` and `nearest`; several columns of vectors and
                none named; fewer candidates than k; bad weights; what a function gave.
            CorruptFileError: files that contradict the format, or an index.
        """
        await self._load(hybrid)
        asked = hybrid.Hybrid(self._snapshot, text, vector, k, combine, options)
        return await hybrid.hybrid_table(self._snapshot, asked)

    async def explain_search(
        self,
        *,
        text: str | TextQuery,
        vector: object,
        k: int = 10,
        combine: Combine = "rrf",
        **options: Unpack[HybridArguments],
    ) -> Explanation:
        """What `search` asks of indices and of the store, before the columns of the rows.

        Cost: that of `Scanner.explain`, for both searches.
        """
        await self._load(hybrid)
        asked = hybrid.Hybrid(self._snapshot, text, vector, k, combine, options)
        return await hybrid.explain_hybrid(self._snapshot, asked)

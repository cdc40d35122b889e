"""Methods that search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.base.deferred import Deferred
from alance.errors import InvalidInputError
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import pyarrow as pa

    from alance.ops.read.explain import Explanation
    from alance.ops.search import nearest
    from alance.ops.search import options as search_options
    from alance.ops.search.options import SearchArguments
    from alance.ops.search.text import hybrid
    from alance.ops.search.text import search as text_search
    from alance.ops.search.text import search_options as text_options
    from alance.ops.search.text.fusion import Combine
    from alance.ops.search.text.query import TextQuery
    from alance.ops.search.text.search_options import HybridArguments, TextSearchArguments
else:
    hybrid = Deferred("alance.ops.search.text.hybrid")
    nearest = Deferred("alance.ops.search.nearest")
    search_options = Deferred("alance.ops.search.options")
    text_options = Deferred("alance.ops.search.text.search_options")
    text_search = Deferred("alance.ops.search.text.search")


class SearchVerbs(Handle):
    """Find the rows nearest to a vector, or the best matches of words; see docs/search.md."""

    __slots__ = ()

    async def nearest(
        self,
        column: str,
        query: object,
        k: int = 10,
        **options: Unpack[SearchArguments],
    ) -> pa.Table:
        """Find the k rows whose vectors are nearest to a query, nearest first.

        The output has the requested columns and `_distance` (float32), ordered by distance, then
        row id. Deleted rows, null vectors and vectors with NaN are never found.

        Cost: with an index, a read of its headers once (one or two rounds), then a round for the
        searched partitions that are not cached, and a take of the k rows. Without an index, a scan
        of the column, in which every vector is compared; memory is that of a scan and of k rows.

        Example:

            nearest = await dataset.nearest("vector", [7.2] * 8, k=3, columns=["id"])
            assert nearest["id"].to_pylist() == [7, 8, 6]

        Args:
            column: name or dotted path of a column of fixed-size lists of float16, bfloat16,
                float32, float64 or uint8, or of lists of such vectors.
            k: maximum number of rows for each query.
            query: a vector. A matrix is a batch of queries: the first column of the output is then
                `query_index` (int32), with k rows for each query. If rows are lists of vectors, a
                matrix is one query of several vectors, whose distance from a row is the sum over
                these vectors of the distance to the row's nearest vector; a batch has three
                dimensions.
            metric: None: the metric of the index; without an index "l2", or "hamming" for uint8.
            columns, filter, params, fragments, use_scalar_index: as for `to_table`.
            prefilter: True applies the filter before the search, False to its result.
            distance_range: smallest distance, and upper bound (exclusive); either may be None.
            use_index: False to compare all rows instead of searching the index.
            fast_search: True to omit rows that no index covers.
            nprobes, minimum_nprobes, maximum_nprobes: partitions of the index to search.
            refine_factor: candidates to compare exactly, in multiples of k, for more recall.
            ef: candidates in the graphs of HNSW indices, for more recall.
            options: all of these; `alance.types.SearchArguments` has the details.

        Raises:
            InvalidInputError: the column does not have vectors; a query has another dimension or a
                NaN; a number is out of range; or a bad filter or column.
            CorruptFileError: a file contradicts the format.
        """
        await self._load(nearest)
        columns, scan = search_options.scan_options(column, query, k, options)
        return await nearest.NEAREST_SEARCH.table(self._snapshot, columns, scan)

    async def nearest_many(
        self,
        column: str,
        queries: Sequence[object] | object,
        k: int = 10,
        **options: Unpack[SearchArguments],
    ) -> pa.Table:
        """Find the k nearest rows of each of several queries, in one search.

        The output is as from `nearest` with a matrix: the first column is `query_index` (int32).

        Cost: as `nearest`; vectors and partitions are read once for all queries.

        Args:
            column, k, options: as for `nearest`.
            queries: a matrix with a query per row; for lists of vectors a list of matrices.

        Raises:
            InvalidInputError: `queries` is not a matrix; or as from `nearest`.
        """
        await self._load(nearest)
        columns, scan = search_options.scan_options(column, queries, k, options)
        if not search_options.search_of(self._snapshot.schema, scan.nearest or {}).is_batch:
            raise InvalidInputError(
                "queries: expected a matrix, a query a row; of lists of vectors one of matrices"
            )
        return await nearest.NEAREST_SEARCH.table(self._snapshot, columns, scan)

    async def search_text(
        self,
        query: str | TextQuery,
        k: int = 10,
        **options: Unpack[TextSearchArguments],
    ) -> pa.Table:
        """Find the k rows whose texts match a query best, by BM25.

        The output has the requested columns and `_score` (float32), ordered by score, then row id.
        Deleted rows are never found, but count in scores until the index is rebuilt.

        Cost: with an inverted index, a read of its tokens and documents once (one or two rounds),
        then a round for the posting lists that are not cached, and a take of the k rows. Rows that
        the index does not cover are scanned. Memory: the index's tokens and 12 bytes per document
        in the search cache; up to 8 bytes per matching row.

        Example:

            dataset = await dataset.create_index("text", "INVERTED")
            best = await dataset.search_text("fox 42", k=3, columns=["id"])
            assert best["id"][0].as_py() == 42

        Args:
            query: a text, any word of which may match; a text in double quotes, which is a phrase;
                or a `MatchQuery`, `PhraseQuery`, `MultiMatchQuery`, `CombinedFieldsQuery`,
                `BoostQuery` or `BooleanQuery`.
            k: maximum number of rows.
            options: see `alance.types.TextSearchArguments`.

        Raises:
            InvalidInputError: there is no column to search, a phrase needs positions that the index
                lacks, or a bad filter or column.
            UnsupportedError: the index has an unknown tokenizer or format.
            CorruptFileError: a file contradicts the format.
        """
        await self._load(text_search)
        columns, scan = text_options.scan_options(query, k, options)
        return await text_search.TEXT_SEARCH.table(self._snapshot, columns, scan)

    async def search(
        self,
        text: str | TextQuery,
        vector: object,
        k: int = 10,
        *,
        combine: Combine = "rrf",
        **options: Unpack[HybridArguments],
    ) -> pa.Table:
        """Find the k most relevant rows of two searches at once: by words, and by a vector.

        Each search returns its best `candidates`; `combine` merges them into one ranking. The
        output has the requested columns, `_relevance_score`, `_score` and `_distance` (float32; the
        last two are null if their search did not return the row), ordered by relevance, then row
        id.

        Cost: the requests of `search_text` and `nearest` concurrently, in as many rounds as the
        longer of the two; a filter is evaluated once. The columns of the k rows are taken once.

        Example:

            dataset = await dataset.create_index("text", "INVERTED")
            best = await dataset.search(text="fox 42", vector=[42.0] * 8, k=3, columns=["id"])
            assert best["id"][0].as_py() == 42

        Args:
            text: as for `search_text`.
            vector: a query, as for `nearest`.
            k: maximum number of rows.
            combine: "rrf": the sum of 1 / (60 + rank) over the searches that returned the row;
                `{"text": w, "vector": v}`: the weighted sum of scores, which are scaled in each
                search from 1 for its first candidate to 0 for its last and for rows that it did not
                return; or a function, run in a thread or as a coroutine, that gets a table with a
                row per candidate (`_rowid`, `_score`, `_distance`, and the ranks `_score_rank` and
                `_distance_rank` from 1) and returns a number per candidate; higher is better.
            options: see `alance.types.HybridArguments`.

        Raises:
            InvalidInputError: there are several columns of vectors and none is chosen, `candidates`
                is less than k, weights are bad, or the function has a bad result; or as from
                `search_text` and `nearest`.
            CorruptFileError: a file contradicts the format.
        """
        await self._load(hybrid)
        pair = hybrid.Hybrid(self._snapshot, text, vector, k, combine, options)
        return await hybrid.hybrid_table(self._snapshot, pair)

    async def explain_search(
        self,
        text: str | TextQuery,
        vector: object,
        k: int = 10,
        *,
        combine: Combine = "rrf",
        **options: Unpack[HybridArguments],
    ) -> Explanation:
        """Return the requests that `search` would send before the take of its rows.

        Cost: as `Scanner.explain`, for both searches.

        Args:
            text, vector, k, combine, options: as for `search`.

        Raises:
            InvalidInputError: as from `search`.
        """
        await self._load(hybrid)
        pair = hybrid.Hybrid(self._snapshot, text, vector, k, combine, options)
        return await hybrid.explain_hybrid(self._snapshot, pair)

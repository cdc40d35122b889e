"""Keyword arguments of text and hybrid searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from alance.base.checks import INT64_MAX, check_count, unexpected
from alance.ops.read.options import ScanOptions
from alance.ops.search.options import OF_SCANS, SEARCH_DEFAULTS, SearchArguments, scan_arguments

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow.compute as pc

    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns

SHARED_OPTIONS: Final = (*OF_SCANS, "prefilter", "use_index")  # of text and vector searches
OF_TEXTS: Final = ("on",)  # of text searches only


class TextSearchArguments(TypedDict, total=False):
    """Keyword arguments of `Dataset.search_text`.

    Attributes:
        on: column or columns to search; with several, the best column's score counts. None for all
            columns with an inverted index.
        columns: output columns, as for `to_table`; `_score` is added if it is missing.
        filter: SQL text or a pyarrow expression.
        params: values for the parameters of the SQL text.
        prefilter: True to search only the rows that pass the filter; False to apply the filter to
            the k best rows.
        use_index: False to read all texts, without an index and its settings of words.
        fast_search: True to omit rows that no index covers.
        fragments: ids of the fragments to search; None for all.
        use_scalar_index: True to use indices to find the rows that may pass the filter.
    """

    on: str | Sequence[str] | None
    columns: Columns
    filter: str | pc.Expression | None
    params: Params
    prefilter: bool
    use_index: bool
    fast_search: bool
    fragments: Collection[int] | None
    use_scalar_index: bool


class HybridArguments(SearchArguments, total=False):
    """Keyword arguments of `Dataset.search`.

    The arguments of `nearest` are accepted, too. Those that `search_text` also has apply to both
    searches.

    Attributes:
        on: text column or columns to search; None for those with an inverted index.
        vector_column: vector column to search; None for the only one.
        candidates: number of rows of each search to fuse; None for 4 k, but at least 50.
    """

    on: str | Sequence[str] | None
    vector_column: str | None
    candidates: int | None


def scan_options(
    query: str | TextQuery, k: int, arguments: TextSearchArguments
) -> tuple[Columns, ScanOptions]:
    """Return the columns and scan options for a call of `Dataset.search_text`.

    Raises:
        TypeError: an argument is unknown.
        InvalidInputError: k is not an integer of at least 1.
    """
    check_count("k", k, most=INT64_MAX)
    columns, options, others = scan_arguments(arguments)
    full_text_query = {
        "query": query,
        "columns": others.pop("on", None),
        "use_index": others.pop("use_index", SEARCH_DEFAULTS["use_index"]),
    }
    if others:
        raise unexpected(others, TextSearchArguments.__annotations__, "search_text: ")
    return columns, ScanOptions(full_text_query=full_text_query, limit=k, **options)

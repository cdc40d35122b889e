"""Keyword arguments of text and hybrid searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypedDict

from alance.checks import MOST, check_count, unexpected
from alance.ops.read.options import ScanOptions
from alance.ops.search.options import OF_SCANS, SearchArguments, scan_arguments

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import pyarrow.compute as pc

    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.conditions import Params
    from alance.ops.version.projection import Columns

OF_BOTH: Final = (*OF_SCANS, "prefilter", "use_index")  # of text and vector searches
OF_TEXTS: Final = ("on",)  # of text searches only


class TextSearchArguments(TypedDict, total=False):
    """Keyword arguments of `Dataset.search_text`.

    Attributes:
        on: column to search, or several, of which the best score counts; None: those with an
            inverted index.
        columns: of the output, as for `to_table`; `_score` is added if it is not among them.
        filter: SQL text or a pyarrow expression.
        params: values for the parameters of that text.
        prefilter: True: the best among the rows that the filter keeps; False: those of the k best
            rows that the filter keeps.
        use_index: False reads every text, and takes its words as they are.
        fast_search: leave out rows that no index covers.
        fragments: ids of the fragments to search; None: all.
        use_scalar_index: use indices to find the rows that the filter may keep.
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
    """Keyword arguments of `Dataset.search`: those of `nearest`, which apply to both searches as
    far as they make sense, and

    Attributes:
        on: column of texts to search, or several; None: those with an inverted index.
        vector_column: None: the only column of vectors.
        candidates: rows of each search that are ranked together; None: 4 k, and at least 50.
    """

    on: str | Sequence[str] | None
    vector_column: str | None
    candidates: int | None


def asked_by(
    query: str | TextQuery, k: int, arguments: TextSearchArguments
) -> tuple[Columns, ScanOptions]:
    """Return the columns and options of the scan of a call of `Dataset.search_text`.

    Raises:
        TypeError: an argument is unknown.
        InvalidInputError: k is less than 1.
    """
    check_count("k", k, most=MOST)
    columns, options, others = scan_arguments(arguments)
    full_text_query = {
        "query": query,
        "columns": others.pop("on", None),
        "use_index": others.pop("use_index", True),
    }
    if others:
        raise unexpected(others, TextSearchArguments.__annotations__, "search_text: ")
    return columns, ScanOptions(full_text_query=full_text_query, limit=k, **options)

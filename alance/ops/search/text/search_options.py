"""The keyword arguments of a search by words."""

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

OF_BOTH: Final = (*OF_SCANS, "prefilter", "use_index")  # searches, by words and by vectors
OF_TEXTS: Final = ("on",)


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
    """The columns and options of a scan that does what `Dataset.search_text` is asked.

    Raises:
        TypeError: an unknown argument.
        InvalidInputError: a k below 1.
    """
    check_count("k", k, most=MOST)
    columns, options, left = scan_arguments(arguments)
    asked = {"query": query, "columns": left.pop("on", None)}
    asked["use_index"] = left.pop("use_index", True)
    if left:
        raise unexpected(left, TextSearchArguments.__annotations__, "search_text: ")
    return columns, ScanOptions(full_text_query=asked, limit=k, **options)

"""Queries of a text search, named as in pylance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias, get_args

import numpy as np

from alance.base.checks import INT64_MAX, check_choice, check_count, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.index.text.params import (
    ELEMENT_GRANULARITY,
    GRANULARITIES,
    ROW_GRANULARITY,
    Granularity,
)
from alance.format.index.text.source import TextSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alance.format.schema import Schema

Operator: TypeAlias = Literal["OR", "AND"]
Occur: TypeAlias = Literal["MUST", "SHOULD", "MUST_NOT"]
MAX_EXPANSIONS: Final = 50  # default for fuzzy queries
MAX_BOOST: Final = 1 << 20  # largest column weight in `CombinedFieldsQuery`


class TextQuery:
    """A text query; `a & b` requires both, `a | b` either."""

    __slots__ = ()

    def __and__(self, other: TextQuery) -> BooleanQuery:
        return BooleanQuery([("MUST", self), ("MUST", other)])

    def __or__(self, other: TextQuery) -> BooleanQuery:
        return BooleanQuery([("SHOULD", self), ("SHOULD", other)])

    def parts(self) -> tuple[TextQuery, ...]:
        """Return the direct parts of the query; empty if it has none."""
        return ()


@public_arguments
@dataclass(frozen=True, slots=True)
class MatchQuery(TextQuery):
    """Matches rows that contain words of a text.

    Attributes:
        column: name or dotted path; members of structs in lists are named without the list items.
            None for the only column of the search, or the only one with an index.
        boost: factor of the score.
        fuzziness: maximum edit distance of matching words; None means 0, as in pylance. If it is
            above 0, words are compared in lower case and without stemming, and rows that no index
            covers are still matched by equal words.
        max_expansions: maximum number of words that a fuzzy query looks up, in byte order.
        operator: `OR` for any of the words, `AND` for all.
        prefix_length: number of leading characters that must be equal in a fuzzy query.
        document_granularity: `list_element`: each element of the column's lists is a document; a
            row is returned once for each matching element, with its position in `_doc_index`.
            `row`: all elements form one document. None for the granularity of the column's index,
            or `row` without an index.
    """

    query: str
    column: str | None = None
    boost: float = field(default=1.0, kw_only=True)
    fuzziness: int | None = field(default=0, kw_only=True)
    max_expansions: int = field(default=MAX_EXPANSIONS, kw_only=True)
    operator: Operator = field(default="OR", kw_only=True)
    prefix_length: int = field(default=0, kw_only=True)
    document_granularity: Granularity | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.query)
        _check_number("boost", self.boost)
        _use_value(self, "operator")
        check_choice("operator", self.operator, get_args(Operator))
        if self.fuzziness is not None:
            check_count("fuzziness", self.fuzziness, 0, INT64_MAX)
        check_count("max_expansions", self.max_expansions, 0, INT64_MAX)
        check_count("prefix_length", self.prefix_length, 0, INT64_MAX)
        _check_granularity(self)


@public_arguments
@dataclass(frozen=True, slots=True)
class PhraseQuery(TextQuery):
    """Matches rows that contain the words of a text one after the other.

    Attributes:
        column: as for `MatchQuery`; if it has an index, that must have positions.
        slop: maximum number of positions to skip between two words.
        document_granularity: as for `MatchQuery`.
    """

    query: str
    column: str | None = None
    slop: int = field(default=0, kw_only=True)
    document_granularity: Granularity | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _check_text(self.query)
        check_count("slop", self.slop, 0, (1 << 31) - 1)
        _check_granularity(self)


@public_arguments
@dataclass(frozen=True, slots=True)
class MultiMatchQuery(TextQuery):
    """Matches rows with words of a text in any of several columns; the best column's score counts.

    Attributes:
        boosts: factor of each column's score; None for 1.
    """

    query: str
    columns: Sequence[str]
    boosts: Sequence[float] | None = field(default=None, kw_only=True)
    operator: Operator = field(default="OR", kw_only=True)

    def __post_init__(self) -> None:
        _check_columns(self)

    def parts(self) -> tuple[MatchQuery, ...]:
        return _matches(self)


@public_arguments
@dataclass(frozen=True, slots=True)
class CombinedFieldsQuery(TextQuery):
    """Matches rows with words of a text in several columns, which are scored as one column (BM25F).

    All columns must have the same token settings, and at least one must have an index.

    Attributes:
        boosts: weight of each column's words, 1 to 2^20; None for 1.
        operator: `OR` for any of the words, `AND` for all, each in any column.
    """

    query: str
    columns: Sequence[str]
    boosts: Sequence[float] | None = field(default=None, kw_only=True)
    operator: Operator = field(default="OR", kw_only=True)
    column: ClassVar[None] = None

    def __post_init__(self) -> None:
        _check_columns(self)
        boosts = [1.0] * len(self.columns) if self.boosts is None else self.boosts
        for boost in boosts:
            _check_number("boosts", boost)
            if not 1 <= boost <= MAX_BOOST:
                raise InvalidInputError(f"boosts: {boost!r}: expected a number of 1 to {MAX_BOOST}")
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "boosts", tuple(boosts))

    def parts(self) -> tuple[MatchQuery, ...]:
        return _matches(self)


@public_arguments
@dataclass(frozen=True, slots=True)
class BoostQuery(TextQuery):
    """Matches the rows of `positive`, with a lower score if `negative` matches them, too.

    Attributes:
        negative_boost: factor of the score of `negative`, which is subtracted.
    """

    positive: TextQuery
    negative: TextQuery
    negative_boost: float = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        _check_number("negative_boost", self.negative_boost)
        _check_queries((self.positive, self.negative))

    def parts(self) -> tuple[TextQuery, ...]:
        return self.positive, self.negative


@public_arguments
@dataclass(frozen=True, slots=True)
class BooleanQuery(TextQuery):
    """Matches rows by a boolean combination of queries.

    All `MUST` queries must match. If there are none, at least one `SHOULD` query must match. No
    `MUST_NOT` query may match. The scores of all matching `MUST` and `SHOULD` queries are added.
    """

    queries: Sequence[tuple[Occur, TextQuery]]

    def __post_init__(self) -> None:
        try:
            pairs = tuple(
                (occur.value if isinstance(occur, Enum) else occur, query)
                for occur, query in self.queries
            )
        except (TypeError, ValueError):
            raise InvalidInputError("BooleanQuery: expected pairs of occur and query") from None
        occurs: list[Any] = [occur for occur, _ in pairs]
        if not set(occurs) <= set(get_args(Occur)):
            raise InvalidInputError(f"{occurs}: expected {', '.join(get_args(Occur))}")
        if not {"MUST", "SHOULD"} & set(occurs):
            raise InvalidInputError("BooleanQuery: expected a query of MUST or SHOULD")
        object.__setattr__(self, "queries", pairs)
        _check_queries(self.parts())

    def parts(self) -> tuple[TextQuery, ...]:
        return tuple(query for _, query in self.queries)

    def of(self, occur: Occur) -> list[TextQuery]:
        """Return the queries with one `occur`.

        Args:
            occur: `MUST`, `SHOULD` or `MUST_NOT`.
        """
        return [query for kind, query in self.queries if kind == occur]


def leaves_of(query: TextQuery) -> Iterator[MatchQuery | PhraseQuery]:
    """Yield all match and phrase queries in a query."""
    if isinstance(query, MatchQuery | PhraseQuery):
        yield query
    for part in query.parts():
        yield from leaves_of(part)


def of_elements(query: TextQuery) -> bool:
    """True if a part of the query searches list elements. Only explicit granularities count."""
    return any(leaf.document_granularity == ELEMENT_GRANULARITY for leaf in leaves_of(query))


def has_phrases(query: TextQuery) -> bool:
    """True if the query needs positions of words."""
    return any(isinstance(leaf, PhraseQuery) for leaf in leaves_of(query))


def column_of(query: TextQuery) -> str | None:
    """Return the column of a query if all its parts are on one column; otherwise None.

    All parts of such a query are searched together.
    """
    if isinstance(query, MatchQuery | PhraseQuery):
        return query.column
    if not isinstance(query, BooleanQuery | BoostQuery):
        return None
    columns = {column_of(part) for part in query.parts()}
    return columns.pop() if len(columns) == 1 else None


def ranked_leaves(query: TextQuery) -> Iterator[MatchQuery | PhraseQuery | CombinedFieldsQuery]:
    """Yield the parts of a query that are searched separately."""
    if isinstance(query, MatchQuery | PhraseQuery | CombinedFieldsQuery):
        yield query
        return
    for part in query.parts():
        yield from ranked_leaves(part)


def query_of(schema: Schema, query: object, indexed: Sequence[str]) -> TextQuery:
    """Check a caller's query and return it with a column in every part.

    Args:
        query: text, a query, or a mapping with `query` and `columns`, as in pylance.
        indexed: columns with an inverted index of rows.

    Raises:
        InvalidInputError: the query has another type, no column, or a column that does not exist or
            has no texts.
    """
    columns = indexed
    if isinstance(query, Mapping):
        if not {"query"} <= set(query) <= {"query", "columns"}:
            raise InvalidInputError(
                f"full_text_query: {', '.join(map(repr, query))}: expected query and columns"
            )
        chosen = query.get("columns")
        if chosen:
            columns = [chosen] if isinstance(chosen, str) else list(chosen)
        query = query["query"]
    if isinstance(query, str):
        query = _query_of_text(query, columns, ROW_GRANULARITY if columns is indexed else None)
    if not isinstance(query, TextQuery):
        if type(query).__module__ == "lance.query":
            name = type(query).__name__
            raise InvalidInputError(
                f"{name} of pylance, whose arguments cannot be read: expected alance.{name}, "
                "which takes the same arguments"
            )
        raise InvalidInputError(
            f"query of texts: got {type(query).__name__}, expected a text, or a query such as "
            "alance.MatchQuery(text, column)"
        )
    whole = changed(query, lambda part: _placed(part, columns))
    for leaf in leaves_of(whole):
        check_text_column(schema, leaf.column)
    return whole


def _query_of_text(text: str, columns: Sequence[str], kind: Granularity | None) -> TextQuery:
    """Return the query for a text: a match, or a phrase if the text is in double quotes.

    Raises:
        InvalidInputError: there is no column, or there are several for a phrase.
    """
    if not columns:
        raise InvalidInputError(
            f"{text!r}: no column has an inverted index; make one by "
            "`create_index('title', 'INVERTED')`, or name a column of text, which is then scanned"
        )
    is_phrase = len(text) > 1 and text[0] == text[-1] == '"'
    if len(columns) == 1:
        if is_phrase:
            return PhraseQuery(text[1:-1], columns[0], document_granularity=kind)
        return MatchQuery(text, columns[0], document_granularity=kind)
    if is_phrase:
        raise InvalidInputError(
            f"{text!r}: a text in double quotes is a phrase, and there are columns "
            f"{', '.join(map(repr, columns))}: expected one column"
        )
    return MultiMatchQuery(text, columns)


def changed(query: TextQuery, change: Callable[[TextQuery], TextQuery]) -> TextQuery:
    """Apply a function to the leaves of a query, also inside boost and boolean queries."""
    if isinstance(query, BoostQuery):
        positive, negative = (changed(part, change) for part in query.parts())
        return replace(query, positive=positive, negative=negative)
    if isinstance(query, BooleanQuery):
        parts = [(occur, changed(part, change)) for occur, part in query.queries]
        return replace(query, queries=parts)
    return change(query)


def _placed(query: TextQuery, columns: Sequence[str]) -> TextQuery:
    """Return a query; a match or phrase without a column gets the only item of `columns`.

    Raises:
        InvalidInputError: the query needs a column, and `columns` does not have exactly one item.
    """
    if not isinstance(query, MatchQuery | PhraseQuery) or query.column is not None:
        return query
    if len(columns) == 1:
        return replace(query, column=columns[0])
    raise InvalidInputError(
        f"{query}: expected a column, because {len(columns)} columns have an index"
    )


def check_text_column(schema: Schema, column: object) -> None:
    """Check that a column holds texts or lists of texts, possibly in structs or lists of structs.

    Raises:
        InvalidInputError: the column holds other values, or does not exist.
    """
    if not isinstance(column, str):
        raise InvalidInputError(f"column {column!r}: expected a name")
    TextSource.of(schema, column)


def _check_columns(query: MultiMatchQuery | CombinedFieldsQuery) -> None:
    _check_text(query.query)
    _use_value(query, "operator")
    check_choice("operator", query.operator, get_args(Operator))
    if isinstance(query.columns, str) or not query.columns:
        raise InvalidInputError(f"columns={query.columns!r}: expected names of columns")
    if query.boosts is not None and len(query.boosts) != len(query.columns):
        raise InvalidInputError(f"boosts={query.boosts!r}: expected one for each column")


def _matches(query: MultiMatchQuery | CombinedFieldsQuery) -> tuple[MatchQuery, ...]:
    boosts = query.boosts or [1.0] * len(query.columns)
    return tuple(
        MatchQuery(query.query, column, boost=boost, operator=query.operator)
        for column, boost in zip(query.columns, boosts, strict=True)
    )


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise InvalidInputError(f"query {text!r}: expected a text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"query {text!r}: expected a text ({error})") from None


def _check_granularity(query: MatchQuery | PhraseQuery) -> None:
    _use_value(query, "document_granularity")
    if query.document_granularity is not None:
        check_choice("document_granularity", query.document_granularity, GRANULARITIES)


def _use_value(query: TextQuery, name: str) -> None:
    """Replace an attribute that is an enum member, as in pylance, by its value."""
    chosen = getattr(query, name)
    if isinstance(chosen, Enum):
        object.__setattr__(query, name, chosen.value)


def _check_number(name: str, value: object) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):  # type: ignore[arg-type]
        raise InvalidInputError(f"{name}={value!r}: expected a number")


def _check_queries(queries: Sequence[object]) -> None:
    for query in queries:
        if not isinstance(query, TextQuery):
            raise InvalidInputError(f"{query!r}: expected a query of texts")

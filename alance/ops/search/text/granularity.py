"""Granularity of a text search: documents are rows or list elements; see `MatchQuery`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.index.text.params import ELEMENT_GRANULARITY, ROW_GRANULARITY
from alance.format.index.text.source import TextSource
from alance.ops.search.text.query import (
    CombinedFieldsQuery,
    MatchQuery,
    MultiMatchQuery,
    PhraseQuery,
    changed,
)
from alance.ops.search.text.segments import indexed_granularities

if TYPE_CHECKING:
    from alance.ops.search.text.query import TextQuery
    from alance.ops.version.snapshot import Snapshot

_GRANULARITY_NAMES = {False: ROW_GRANULARITY, True: ELEMENT_GRANULARITY}


def with_granularity(snapshot: Snapshot, query: TextQuery, *, use_index: bool) -> TextQuery:
    """Return the query with an explicit granularity in each part that searches list elements.

    Raises:
        InvalidInputError: the only index has the other granularity; or indices of both exist and
            the query names neither; or the parts differ in granularity, or search elements of
            several columns.
        UnsupportedError: a query of several columns searches list elements, or elements of lists in
            structs in lists.
    """
    documents: set[str | None] = set()  # columns of the elements; None for rows

    def settled(part: TextQuery) -> TextQuery:
        if isinstance(part, MatchQuery | PhraseQuery):
            is_element = _of_elements(snapshot, part, use_index)
            documents.add(part.column if is_element else None)
            return replace(part, document_granularity=ELEMENT_GRANULARITY) if is_element else part
        documents.add(None)
        for match in part.parts():
            assert isinstance(match, MatchQuery)
            if isinstance(part, CombinedFieldsQuery):
                indexed = indexed_granularities(snapshot).get(str(match.column))
                is_element = use_index and indexed == {True}
            else:
                assert isinstance(part, MultiMatchQuery)
                is_element = _of_elements(snapshot, match, use_index)
            if is_element:
                raise UnsupportedError(
                    f"{type(part).__name__} of column {match.column!r}, whose index has the "
                    "elements of lists: it asks for rows"
                )
        return part

    whole = changed(query, settled)
    if len(documents) > 1:
        names = ", ".join(sorted(name for name in documents if name is not None))
        raise InvalidInputError(
            f"elements of the lists of {names} beside rows, or of several columns: expected rows, "
            "or the elements of one column, in all parts"
        )
    return whole


def _of_elements(snapshot: Snapshot, leaf: MatchQuery | PhraseQuery, use_index: bool) -> bool:
    column = str(leaf.column)
    indexed = indexed_granularities(snapshot).get(column, set())
    granularity = leaf.document_granularity
    if granularity is None:
        if len(indexed) > 1:
            raise InvalidInputError(
                f"column {column!r} has indices of rows and of the elements of its lists: "
                "expected document_granularity"
            )
        if indexed == {True}:
            TextSource.of(snapshot.schema, column).check_elements(column)
        return indexed == {True}
    is_element = granularity == ELEMENT_GRANULARITY
    if use_index and indexed and is_element not in indexed:
        raise InvalidInputError(
            f"document_granularity={granularity!r}: the index of column {column!r} has "
            f"{_GRANULARITY_NAMES[not is_element]!r}"
        )
    if is_element:
        TextSource.of(snapshot.schema, column).check_elements(column)
    return is_element

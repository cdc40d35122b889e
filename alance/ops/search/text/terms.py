"""Words that a query requests from a column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from alance.base.records import dataclass
from alance.format.index.text.analyzer import Analyzer
from alance.format.index.text.params import TextParams
from alance.ops.search.text.query import MatchQuery, PhraseQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.index.text.dictionary import TokenDictionary

Q = TypeVar("Q", MatchQuery, PhraseQuery, MatchQuery | PhraseQuery)

# Without an index, texts are only split into words, as in pylance.
UNINDEXED: Final = TextParams(
    max_token_length=None,
    lower_case=False,
    stem=False,
    remove_stop_words=False,
    ascii_folding=False,
)
# Fuzzy queries compare words in lower case, without stemming.
_FUZZY: Final = TextParams(
    max_token_length=None, stem=False, remove_stop_words=False, ascii_folding=False
)


@dataclass(frozen=True, slots=True)
class Terms:
    """Words that a match or phrase query requests from a column.

    Attributes:
        groups: for each word of the query, its matching words.
        needs_all: True if a match needs a word of each group; False if any word is enough.
        boost: factor of the score.
        places: positions of the words of a phrase, from 0; None for a match query.
        slop: maximum number of positions to skip between two words of a phrase.
    """

    groups: tuple[tuple[str, ...], ...]
    needs_all: bool
    boost: float = 1.0
    places: tuple[int, ...] | None = None
    slop: int = 0

    @property
    def words(self) -> list[str]:
        """All distinct words."""
        return list(dict.fromkeys(word for group in self.groups for word in group))


def terms_of(
    queries: Sequence[Q], params: TextParams, dictionaries: Sequence[TokenDictionary]
) -> dict[Q, tuple[Terms, Terms]]:
    """Return the terms of queries, for an index and for unindexed texts.

    Fuzzy words are only matched in an index.

    Args:
        dictionaries: dictionaries of all partitions of the index.
    """
    all_words = Analyzer(params).words_of([query.query for query in queries])
    return {
        query: _terms_of(query, words, dictionaries)
        for query, words in zip(queries, all_words, strict=True)
    }


def _terms_of(
    query: MatchQuery | PhraseQuery,
    words: Sequence[tuple[str, int]],
    dictionaries: Sequence[TokenDictionary],
) -> tuple[Terms, Terms]:
    if isinstance(query, PhraseQuery):
        first = words[0][1] if words else 0
        places = tuple(place - first for _, place in words)
        terms = Terms(tuple((word,) for word, _ in words), True, places=places, slop=query.slop)
        return terms, terms
    # Words at the same position, such as n-grams, are alternatives. A repeated word counts once in
    # an index, but each time in unindexed texts.
    at_place: dict[int, list[str]] = {}
    for word, place in words:
        at_place.setdefault(place, []).append(word)
    needs_all, boost = query.operator == "AND", query.boost
    flat = Terms(tuple(map(tuple, at_place.values())), needs_all, boost)
    if not query.fuzziness:
        groups = tuple(tuple(dict.fromkeys(group)) for group in flat.groups)
        return Terms(groups, needs_all, boost), flat
    fuzzy = []
    limit = query.max_expansions
    for word, _ in Analyzer(_FUZZY).words_of([query.query])[0]:
        near = {
            other: None
            for dictionary in dictionaries
            for other in dictionary.tokens.near(word, query.fuzziness, query.prefix_length, limit)
        }
        expansions = sorted(near, key=str.encode)[:limit]
        limit -= len(expansions)
        fuzzy.append(tuple(expansions))
    return Terms(tuple(fuzzy), needs_all, boost), flat

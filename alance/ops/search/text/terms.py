"""The words that a query of a column asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from alance.format.index.text.analyzer import Analyzer
from alance.format.index.text.params import TextParams
from alance.ops.search.text.query import MatchQuery, PhraseQuery
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.index.text.dictionary import Dictionary

Q = TypeVar("Q", MatchQuery, PhraseQuery, MatchQuery | PhraseQuery)

# Where no index says how, texts are split and no more: as pylance does.
UNINDEXED: Final = TextParams(
    max_token_length=None,
    lower_case=False,
    stem=False,
    remove_stop_words=False,
    ascii_folding=False,
)
# Of fuzzy queries: the words as they are, in lower case.
_FUZZY: Final = TextParams(
    max_token_length=None, stem=False, remove_stop_words=False, ascii_folding=False
)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a match or phrase asks of a column.

    Attributes:
        groups: of each word of the query the words that will do for it.
        places: of the words of a phrase; None: no phrase.
        needs_all: a document has a word of each group; else of any.
        slop: places between words of a phrase.
    """

    groups: tuple[tuple[str, ...], ...]
    needs_all: bool
    boost: float = 1.0
    places: tuple[int, ...] | None = None
    slop: int = 0

    @property
    def words(self) -> list[str]:
        """All of them, each once."""
        return list(dict.fromkeys(word for group in self.groups for word in group))


def terms_of(
    queries: Sequence[Q], params: TextParams, dictionaries: Sequence[Dictionary]
) -> dict[Q, tuple[Terms, Terms]]:
    """What queries ask of an index, and of texts without one, which know no fuzzy words.

    Args:
        dictionaries: of all partitions of the index.
    """
    all_words = Analyzer(params).words_of([query.query for query in queries])
    return {
        query: _terms_of(query, words, dictionaries)
        for query, words in zip(queries, all_words, strict=True)
    }


def _terms_of(
    query: MatchQuery | PhraseQuery,
    words: Sequence[tuple[str, int]],
    dictionaries: Sequence[Dictionary],
) -> tuple[Terms, Terms]:
    if isinstance(query, PhraseQuery):
        first = words[0][1] if words else 0
        places = tuple(place - first for _, place in words)
        terms = Terms(tuple((word,) for word, _ in words), True, places=places, slop=query.slop)
        return terms, terms
    # Words at one place, as sequences of characters are, do for each other. One that is there
    # several times counts once in an index, and each time without.
    at_place: dict[int, list[str]] = {}
    for word, place in words:
        at_place.setdefault(place, []).append(word)
    needs_all, boost = query.operator == "AND", query.boost
    flat = Terms(tuple(map(tuple, at_place.values())), needs_all, boost)
    if not query.fuzziness:
        groups = tuple(tuple(dict.fromkeys(group)) for group in flat.groups)
        return Terms(groups, needs_all, boost), flat
    fuzzy = []
    left = query.max_expansions
    for word, _ in Analyzer(_FUZZY).words_of([query.query])[0]:
        near = {
            other: None
            for dictionary in dictionaries
            for other in dictionary.near(word, query.fuzziness, query.prefix_length, left)
        }
        first_ones = sorted(near, key=str.encode)[:left]
        left -= len(first_ones)
        fuzzy.append(tuple(first_ones))
    return Terms(tuple(fuzzy), needs_all, boost), flat

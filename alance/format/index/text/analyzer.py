"""Text analysis: a kernel splits texts, and each distinct word is normalized once."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

import numpy as np
import Stemmer

from alance import _kernels
from alance.base.calls import public
from alance.base.checks import unexpected
from alance.errors import InvalidInputError
from alance.format.index.text.folding import folded
from alance.format.index.text.params import TOKENIZERS, TextParams, TokenArguments
from alance.format.index.text.stop_words import STOP_WORDS
from alance.format.index.values import NO_MASK
from alance.format.numbers import (
    as_numbers,
    contents_of,
    is_variable_list,
    mask_bytes,
    offsets_of,
    packed,
    validity_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from alance.base.arrays import Bytes, Int32s, Int64s, UInt32s

_EMPTY: Final = np.empty(0, np.int32)


class Elements(NamedTuple):
    """Elements of lists, concatenated.

    Attributes:
        values: all elements; shape (n,).
        rows: number of the list that contains each element, int64.
        numbers: position of each element in its list, uint32.
    """

    values: pa.Array
    rows: Int64s
    numbers: UInt32s

    @classmethod
    def of(cls, lists: pa.Array) -> Elements:
        """Return the elements of an array of list or large_list; null lists have no elements."""
        sizes = as_numbers(lists.value_lengths().fill_null(0)).astype(np.int64)
        rows = np.repeat(np.arange(len(lists)), sizes)
        numbers = np.arange(len(rows)) - offsets_of(sizes)[rows]
        return cls(lists.flatten(), rows, numbers.astype(np.uint32))


class TokenNumbers(NamedTuple):
    """Tokens of consecutive texts.

    Attributes:
        counts: number of tokens of each text; shape (texts,).
        numbers: the analyzer's number of each token; uint32, shape (n,).
        places: position of each token in its text, counting omitted tokens; uint32.
    """

    counts: Int64s
    numbers: UInt32s
    places: UInt32s


class Analyzer:
    """Splitter of texts into tokens. Not thread-safe.

    Attributes:
        words: distinct tokens so far, by number.
    """

    def __init__(self, params: TextParams) -> None:
        self.params = params
        self.words: list[str] = []
        self._numbers: dict[str, int] = {}
        # Token number of each distinct word of the splitter; -1 for an omitted word.
        self._becomes: Int32s = _EMPTY
        self._splitter = _kernels.TextSplitter(
            TOKENIZERS.index(params.base_tokenizer),
            params.max_token_length or 0,
            params.min_ngram_length,
            params.max_ngram_length,
            params.prefix_only,
        )
        self._stemmer = Stemmer.Stemmer(params.language.lower(), 0) if params.stem else None
        self._stop = frozenset[str]()
        if params.remove_stop_words:
            stop = params.custom_stop_words
            self._stop = _stop_words(params.language) if stop is None else frozenset(stop)

    @property
    def num_bytes(self) -> int:
        return self._splitter.num_bytes() + 200 * len(self.words) + int(self._becomes.nbytes)

    def number(self, word: str) -> int:
        """Return the number of a normalized token; a new token gets the next number."""
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
        return number

    def tokens(self, texts: pa.Array) -> TokenNumbers:
        """Split texts into tokens; a null has none.

        Args:
            texts: string or large_string, or lists of these. The texts of a list are one document,
                with consecutive token positions.
        """
        rows = np.arange(len(texts) + 1)
        if is_variable_list(texts.type):
            sizes = as_numbers(texts.value_lengths().fill_null(0))
            rows, texts = offsets_of(sizes), texts.flatten()
        valid = mask_bytes(validity_of(texts))
        return self._tokens(rows, *contents_of(texts), valid)

    def _tokens(self, rows: Int64s, starts: Int64s, content: Bytes, valid: Bytes) -> TokenNumbers:
        counts, numbers, places = self._splitter.split(rows, starts, content, valid)
        self._decide()
        final = self._becomes[numbers]
        if final.size and final.min() < 0:
            is_token = final >= 0
            before = offsets_of(counts)
            sums = offsets_of(is_token)
            counts = np.diff(sums[before])
            final, places = final[is_token], places[is_token]
        return TokenNumbers(counts, final.astype(np.uint32), places)

    def words_of(self, texts: Sequence[str]) -> list[list[tuple[str, int]]]:
        """Return the tokens of each text with their positions."""
        rows = np.arange(len(texts) + 1)
        counts, numbers, places = self._tokens(rows, *packed(texts), NO_MASK)
        words = [self.words[number] for number in numbers.tolist()]
        pairs = list(zip(words, places.tolist(), strict=True))
        return [pairs[start:stop] for start, stop in pairwise(offsets_of(counts).tolist())]

    def _decide(self) -> None:
        """Normalize the splitter's new words and number their tokens."""
        words = self._splitter.fresh()
        if not words:
            return
        if self.params.lower_case:
            # Lower each character by itself, so that a final sigma becomes the same letter as other
            # sigmas.
            words = [
                word.lower() if word.isascii() else "".join(map(str.lower, word)) for word in words
            ]
        if self._stemmer is not None:
            words = self._stemmer.stemWords(words)
        is_folded, stop = self.params.ascii_folding, self._stop
        becomes = [
            -1 if word in stop else self.number(folded(word) if is_folded else word)
            for word in words
        ]
        self._becomes = np.concatenate((self._becomes, np.array(becomes, np.int32)))


@cache
def _stop_words(language: str) -> frozenset[str]:
    return frozenset(STOP_WORDS[language].split())


class Token(NamedTuple):
    """A token of a text.

    Attributes:
        text: normalized text of the token: lower case, stemmed, and so on.
        position: number among the tokens of the text, from 0; omitted tokens count, except before
            the first token.
    """

    text: str
    position: int


@public
def tokenize(text: str, **options: Unpack[TokenArguments]) -> Sequence[Token]:
    """Split a text or query into tokens, like an index with these token settings.

    Cost: no request; some microseconds.

    Args:
        text: the text or query.
        options: see `alance.types.TokenArguments`.

    Raises:
        TypeError: an unknown option.
        InvalidInputError: `text` is not a string, or an option is out of range.
    """
    if not isinstance(text, str):
        raise InvalidInputError(f"text={text!r}: expected a text")
    unknown = set(options) - set(TokenArguments.__annotations__)
    if unknown:
        raise unexpected(unknown, TokenArguments.__annotations__, "tokenize: ")
    words = Analyzer(TextParams.of(options)).words_of([text])[0]
    return [Token(word, place - words[0][1]) for word, place in words]

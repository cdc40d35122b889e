"""Tokens of a text, as used by inverted indices and their queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Unpack

from alance.base.calls import public
from alance.base.checks import unexpected
from alance.errors import InvalidInputError
from alance.format.index.text.analyzer import Analyzer
from alance.format.index.text.params import TextParams, TokenArguments

if TYPE_CHECKING:
    from collections.abc import Sequence


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

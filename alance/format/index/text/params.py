"""How the texts of an inverted index become tokens: what its metadata and its record say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict

from google.protobuf.message import DecodeError

from alance.checks import check_choice, check_counts
from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.format.index.text.stop_words import STOP_WORDS
from alance.format.proto import text_index_pb2
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOKENIZERS: Final = ("simple", "whitespace", "raw", "ngram")  # by their numbers in the kernels
LANGUAGES: Final = tuple(STOP_WORDS)
ROW: Final[Literal["row"]] = "row"
LIST_ELEMENT: Final[Literal["list_element"]] = "list_element"
GRANULARITIES: Final = (ROW, LIST_ELEMENT)  # what a document is
# Of analysis of source code, which is not done here.
_OF_CODE: Final = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")


class TokenArguments(TypedDict, total=False):
    """Keyword arguments of `create_index` and `tokenize` for cutting texts into tokens.

    Attributes:
        base_tokenizer: `simple` splits at characters that are neither letters nor digits,
            `whitespace` at white space, `raw` nowhere, `ngram` takes sequences of characters.
        language: for stems and stop words: "English", "German", ...
        max_token_length: leave out words of so many bytes or more; None: keep all.
        lower_case: convert to lower case.
        stem: reduce words to stems; default False for `ngram`.
        remove_stop_words: leave out stop words; default False for `ngram`.
        custom_stop_words: stop words to use instead of the language's.
        ascii_folding: replace letters with accents by letters without.
        min_ngram_length, max_ngram_length, prefix_only: for `ngram`; `prefix_only` takes sequences
            at the beginning only.
    """

    base_tokenizer: str
    language: str
    max_token_length: int | None
    lower_case: bool
    stem: bool
    remove_stop_words: bool
    custom_stop_words: Sequence[str] | None
    ascii_folding: bool
    min_ngram_length: int
    max_ngram_length: int
    prefix_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TextParams:
    """How texts become tokens; in this order.

    Attributes:
        base_tokenizer: `simple` splits at what is neither letter nor digit, `whitespace` at ASCII
            white space, `raw` nowhere, `ngram` takes all sequences of characters.
        max_token_length: tokens of so many bytes and more are left out; None: none are.
        lower_case: to lower case.
        stem: to the stem of a word of the language (Snowball).
        remove_stop_words: leave out words of the language that say little.
        custom_stop_words: leave out these instead.
        ascii_folding: letters with accents to those without, and the like.
        min_ngram_length, max_ngram_length, prefix_only: of `ngram`; of the beginning alone.
        with_position: the index has the places of tokens, which phrases need.
    """

    base_tokenizer: str = "simple"
    language: str = "English"
    with_position: bool = False
    max_token_length: int | None = 40
    lower_case: bool = True
    stem: bool = True
    remove_stop_words: bool = True
    custom_stop_words: tuple[str, ...] | None = None
    ascii_folding: bool = True
    min_ngram_length: int = 3
    max_ngram_length: int = 3
    prefix_only: bool = False

    def __post_init__(self) -> None:
        check_choice("base_tokenizer", self.base_tokenizer, TOKENIZERS)
        check_choice("language", self.language, LANGUAGES)
        check_counts(self, "max_token_length")
        least, most = self.min_ngram_length, self.max_ngram_length
        if type(least) is not int or type(most) is not int or not 1 <= least <= most <= 1 << 16:
            raise InvalidInputError(
                f"min_ngram_length={least!r}, max_ngram_length={most!r}: expected 1 or more, the "
                "smaller first"
            )
        words = self.custom_stop_words
        if words is not None and not all(isinstance(word, str) for word in words):
            raise InvalidInputError(f"custom_stop_words={words!r}: expected texts")

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> TextParams:
        """From arguments of users: `TokenArguments`, and `with_position`.

        Raises:
            InvalidInputError: values that make no sense.
        """
        told = dict(arguments)
        words = told.get("custom_stop_words")
        if words is not None:
            told["custom_stop_words"] = (words,) if isinstance(words, str) else tuple(words)
        if told.get("base_tokenizer") == "ngram":
            told = {"stem": False, "remove_stop_words": False, **told}
        return cls(**told)

    @classmethod
    def parse(cls, text: str) -> TextParams:
        """From the metadata of an index.

        Raises:
            CorruptFileError: no such JSON.
            UnsupportedError: a way of making tokens that is not known here.
        """
        try:
            told = json.loads(text)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise CorruptFileError(f"text index: params {text[:200]!r}")
        if told.get("lance_tokenizer") not in (None, "text"):
            raise UnsupportedError(f"text index of {told['lance_tokenizer']!r}, not of text")
        if any(told.get(name) for name in _OF_CODE):
            raise UnsupportedError("text index of source code")
        names = cls.__dataclass_fields__.keys() & told.keys()
        values: dict[str, Any] = {name: told[name] for name in names}
        if values.get("base_tokenizer", "simple") not in TOKENIZERS:
            raise UnsupportedError(f"text index by tokenizer {values['base_tokenizer']!r}")
        if values.get("language", "English") not in LANGUAGES:
            raise UnsupportedError(f"text index of language {values['language']!r}")
        words = values.get("custom_stop_words")
        try:
            values["custom_stop_words"] = None if words is None else tuple(words)
            return cls(**values)
        except (TypeError, InvalidInputError) as error:
            raise CorruptFileError(f"text index: params: {error}") from error

    def as_json(self) -> str:
        """The inverse of `parse`."""
        values: dict[str, Any] = {"lance_tokenizer": "text"}
        values |= {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["block_size"] = 128
        values |= dict.fromkeys(_OF_CODE, False)
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    def details(self, *, of_elements: bool = False, version: int = 2) -> bytes:
        """Serialize the details for the index's record, which has no place for custom stop words.

        Args:
            of_elements: documents are the elements of lists, not rows.
            version: format version of the posting lists.
        """
        return text_index_pb2.InvertedIndexDetails(
            base_tokenizer=self.base_tokenizer,
            language=json.dumps(self.language),
            with_position=self.with_position,
            max_token_length=self.max_token_length,
            lower_case=self.lower_case,
            stem=self.stem,
            remove_stop_words=self.remove_stop_words,
            ascii_folding=self.ascii_folding,
            min_ngram_length=self.min_ngram_length,
            max_ngram_length=self.max_ngram_length,
            prefix_only=self.prefix_only,
            block_size=128,
            document_granularity=int(of_elements),
            posting_format_version=version,
        ).SerializeToString(deterministic=True)


def is_of_elements(details: bytes) -> bool:
    """Whether the documents of an index are the elements of lists, not rows.

    Raises:
        CorruptFileError: no such details.
    """
    return _details(details).document_granularity != 0


def lacks_positions(details: bytes) -> bool:
    """Whether details say that phrases cannot be asked; those of older writers say nothing.

    Raises:
        CorruptFileError: no such details.
    """
    return bool(details) and not _details(details).with_position


def is_written_here(details: bytes) -> bool:
    """Whether an index is of the kind that is written here: blocks of 128, tokens as above.

    Raises:
        CorruptFileError: no such details.
    """
    message = _details(details)
    return (
        message.document_granularity in (0, 1)
        and message.block_size in (0, 128)
        and (message.base_tokenizer or "simple") in TOKENIZERS
        and message.language.strip('"') in ("", *LANGUAGES)
    )


def as_written_here(details: bytes) -> bytes:
    """Details for posting lists that are written again: in blocks of 128, of format 2 or later."""
    message = _details(details)
    message.block_size = 128
    message.posting_format_version = max(2, message.posting_format_version)
    return message.SerializeToString(deterministic=True)


def _details(details: bytes) -> text_index_pb2.InvertedIndexDetails:
    try:
        return text_index_pb2.InvertedIndexDetails.FromString(details)
    except DecodeError as error:
        raise CorruptFileError(f"text index: details: {error}") from error

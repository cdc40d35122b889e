"""Token settings of an inverted index, as stored in its metadata and in its manifest record."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, get_args

from alance.base.checks import check_choice, check_counts
from alance.base.records import dataclass
from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.format.index.text.stop_words import STOP_WORDS
from alance.format.proto import parsed, text_index_pb2

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Tokenizer: TypeAlias = Literal["simple", "whitespace", "raw", "ngram"]
Language: TypeAlias = Literal[
    "Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek", "Hungarian",
    "Italian", "Norwegian", "Portuguese", "Romanian", "Russian", "Spanish", "Swedish", "Tamil",
    "Turkish",
]  # fmt: skip
Granularity: TypeAlias = Literal["row", "list_element"]
TOKENIZERS: Final = get_args(Tokenizer)  # in the order of kernel numbers
LANGUAGES: Final = tuple(STOP_WORDS)
ROW_GRANULARITY: Final[Literal["row"]] = "row"
ELEMENT_GRANULARITY: Final[Literal["list_element"]] = "list_element"
GRANULARITIES: Final = (ROW_GRANULARITY, ELEMENT_GRANULARITY)  # what a document is
# Settings for source code, which is not supported.
_OF_CODE: Final = ("split_identifiers", "split_on_numerics", "preserve_original", "index_operators")


class TokenArguments(TypedDict, total=False):
    """Keyword arguments of `create_index` and `tokenize` for splitting texts into tokens.

    Attributes:
        base_tokenizer: `simple` splits at characters that are neither letters nor digits,
            `whitespace` at white space, `raw` nowhere; `ngram` takes sequences of characters.
        language: language of stems and stop words: "English", "German", ...
        max_token_length: omit words of at least this many bytes; None omits none.
        lower_case: convert to lower case.
        stem: reduce words to stems; default False for `ngram`.
        remove_stop_words: omit stop words; default False for `ngram`.
        custom_stop_words: stop words to use instead of the language's.
        ascii_folding: replace accented letters by ASCII letters.
        min_ngram_length, max_ngram_length: length of `ngram` sequences in characters.
        prefix_only: for `ngram`, take only the sequences at the start of a word.
    """

    base_tokenizer: Tokenizer
    language: Language
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
    """Token settings, as in `TokenArguments`; the steps are applied in the order of the attributes.

    Attributes:
        with_position: True if the index has token positions, which phrase queries need.
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
        """Check a caller's `TokenArguments` and `with_position`."""
        values = dict(arguments)
        words = values.get("custom_stop_words")
        if words is not None:
            values["custom_stop_words"] = (words,) if isinstance(words, str) else tuple(words)
        if values.get("base_tokenizer") == "ngram":
            values = {"stem": False, "remove_stop_words": False, **values}
        return cls(**values)

    @classmethod
    def parse(cls, text: str) -> TextParams:
        """Parse the settings in the metadata of an index."""
        try:
            parsed = json.loads(text)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise CorruptFileError(f"text index: params {text[:200]!r}")
        if parsed.get("lance_tokenizer") not in (None, "text"):
            raise UnsupportedError(f"text index of {parsed['lance_tokenizer']!r}, not of text")
        if any(parsed.get(name) for name in _OF_CODE):
            raise UnsupportedError("text index of source code")
        names = cls.__dataclass_fields__.keys() & parsed.keys()
        values: dict[str, Any] = {name: parsed[name] for name in names}
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
        """Return the JSON for the metadata of an index: the inverse of `parse`."""
        values: dict[str, Any] = {"lance_tokenizer": "text"}
        values |= {name: getattr(self, name) for name in self.__dataclass_fields__}
        values["block_size"] = 128
        values |= dict.fromkeys(_OF_CODE, False)
        return json.dumps(values, ensure_ascii=False, separators=(",", ":"))

    def details(self, *, of_elements: bool = False, version: int = 2) -> bytes:
        """Serialize the details message of the index's record, without custom stop words.

        Args:
            version: format version of the posting lists.
        """
        names = self.__dataclass_fields__.keys() - {"custom_stop_words"}
        settings: dict[str, Any] = {name: getattr(self, name) for name in names}
        settings["language"] = json.dumps(self.language)
        return text_index_pb2.InvertedIndexDetails(
            **settings,
            block_size=128,
            document_granularity=int(of_elements),
            posting_format_version=version,
        ).SerializeToString(deterministic=True)


def is_of_elements(details: bytes) -> bool:
    """True if the documents of an index are list elements, not rows."""
    return _details(details).document_granularity != 0


def lacks_positions(details: bytes) -> bool:
    """True if an index lacks token positions, which phrase queries need. False without details."""
    return bool(details) and not _details(details).with_position


def is_written_here(details: bytes) -> bool:
    """True if alance can write the index: blocks of 128 documents, known tokenizer and language."""
    message = _details(details)
    return (
        message.document_granularity in (0, 1)
        and message.block_size in (0, 128)
        and (message.base_tokenizer or "simple") in TOKENIZERS
        and message.language.strip('"') in ("", *LANGUAGES)
    )


def as_written_here(details: bytes) -> bytes:
    """Return the details message for rewritten posting lists: blocks of 128, at least format 2."""
    message = _details(details)
    message.block_size = 128
    message.posting_format_version = max(2, message.posting_format_version)
    return message.SerializeToString(deterministic=True)


def _details(details: bytes) -> text_index_pb2.InvertedIndexDetails:
    return parsed(text_index_pb2.InvertedIndexDetails, details, "text index: details")

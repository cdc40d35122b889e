"""Texts become the tokens that pylance makes of them."""

from __future__ import annotations

import re
import unicodedata
from itertools import product
from typing import Any

import lance
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import alance
import alance.sync
from alance.errors import InvalidInputError
from alance.format.index.text.analyzer import Analyzer
from alance.format.index.text.dictionary import TokenDictionary, token_rows
from alance.format.index.text.folding import folded
from alance.format.index.text.params import LANGUAGES, TOKENIZERS, TextParams, is_of_elements
from alance.format.index.text.stop_words import STOP_WORDS

# Scripts with and without cases, with marks of their own, and forms that are folded; marks that are
# put on letters, emoji with what varies and joins them, characters of four bytes.
SCRIPTS = (
    (0x20, 0x7F), (0xA0, 0x250), (0x250, 0x370), (0x370, 0x530),
    (0x530, 0x700), (0x900, 0xD80), (0xE00, 0x1000),
    (0x1100, 0x1200), (0x1E00, 0x2100), (0x2150, 0x2190), (0x3040, 0x3100), (0x3200, 0x3400),
    (0x4E00, 0x4F00), (0xAC00, 0xAD00), (0xFB00, 0xFE00), (0xFE00, 0xFE30), (0xFF00, 0xFFEF),
    (0x10400, 0x10500), (0x1D400, 0x1D500), (0x1F300, 0x1F700), (0x20000, 0x20100),
)  # fmt: skip
characters = st.one_of(
    st.sampled_from(" \t\n-'."),
    *(st.characters(min_codepoint=low, max_codepoint=high - 1) for low, high in SCRIPTS),
    # Characters that are newer than Python's tables are known to pylance alone.
).filter(lambda character: unicodedata.category(character) != "Cn")
words = st.sampled_from([word for text in STOP_WORDS.values() for word in text.split()])
texts = st.one_of(
    st.text(characters, max_size=60),
    st.lists(words | st.text(characters), max_size=9).map(" ".join),
)
params = st.fixed_dictionaries(
    {
        "base_tokenizer": st.sampled_from(TOKENIZERS),
        "language": st.sampled_from(LANGUAGES),
        "max_token_length": st.sampled_from([40, None, 5]),
        "lower_case": st.booleans(),
        "stem": st.booleans(),
        "remove_stop_words": st.booleans(),
        "custom_stop_words": st.none() | st.lists(words, max_size=3),
        "ascii_folding": st.booleans(),
        "min_ngram_length": st.integers(1, 3),
        "max_ngram_length": st.integers(3, 4),
        "prefix_only": st.booleans(),
    }
)


def tokens(text: str, **options: Any) -> list[tuple[str, int]]:
    """The tokens of a text, the first one at place 0."""
    result = Analyzer(TextParams(**options)).words_of([text])[0]
    return [(word, place - result[0][1]) for word, place in result]


@settings(max_examples=400, deadline=None)
@given(texts, params)
def test_the_tokens_of_texts_are_those_of_pylance(text: str, options: dict[str, Any]) -> None:
    right = [(token.text, token.position) for token in lance.tokenize(text, **options)]
    custom_words = options.pop("custom_stop_words")
    custom_tuple = None if custom_words is None else tuple(custom_words)
    assert tokens(text, **options, custom_stop_words=custom_tuple) == right


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_of_each_language_have_the_stems_of_pylance(language: str) -> None:
    text = " ".join(
        first + second[:4]
        for first in STOP_WORDS[language].split()[::3]
        for second in STOP_WORDS[language].split()[::17]
    )
    for options in ({}, {"remove_stop_words": False, "ascii_folding": False}):
        right = lance.tokenize(text, language=language, **options)
        ours = tokens(text, language=language, **options)
        assert ours == [(token.text, token.position) for token in right]


def test_all_languages_of_pylance_are_known() -> None:
    with pytest.raises(ValueError, match="unknown variant") as refused:
        lance.tokenize("text", language="Klingon")
    recognized = re.findall("`([A-Z][a-z]+)`", str(refused.value))
    assert sorted(set(recognized) - {"Klingon"}) == sorted(LANGUAGES)


def test_texts_are_tokenised_many_at_once() -> None:
    analyzer = Analyzer(TextParams())
    first = analyzer.tokens(pa.array(["the quick fox", None, "", "Foxes, foxes"]))
    assert first.counts.tolist() == [2, 0, 0, 2]
    assert first.numbers.tolist() == [0, 1, 1, 1]
    assert first.places.tolist() == [1, 2, 0, 1]
    sliced = pa.array(["left out", "a dog", "fox", "left out"]).slice(1, 2)
    second = analyzer.tokens(sliced)
    assert [analyzer.words[number] for number in second.numbers] == ["dog", "fox"]
    assert second.counts.tolist() == [1, 1]


def test_lists_of_texts_are_one_document() -> None:
    lists = pa.array([["left out"], ["the fox", None, "a dog"], [], None, ["fox"]]).slice(1)
    rows = Analyzer(TextParams()).tokens(lists)
    assert rows.counts.tolist() == [2, 0, 0, 1]
    assert rows.numbers.tolist() == [0, 1, 0]
    assert rows.places.tolist() == [1, 3, 0]


def test_many_distinct_tokens_keep_their_numbers() -> None:
    analyzer = Analyzer(TextParams(stem=False))
    text = " ".join(f"w{number}" for number in range(30_000))
    for _ in range(2):
        result = analyzer.tokens(pa.array([text], pa.large_string()))
        assert result.numbers.tolist() == list(range(30_000))
    assert analyzer.words[29_999] == "w29999"


def test_tokens_are_as_many_as_their_transducer_has() -> None:
    """`_token_next_id` of old releases may be greater, after rows were deleted."""
    rows = token_rows(["river", "apple"])
    fields = dict(zip(rows.schema.names, rows.columns, strict=True))
    fields["_token_next_id"] = pa.array([9], pa.uint32())
    stale = pa.RecordBatch.from_arrays(list(fields.values()), list(fields))
    assert TokenDictionary.parse(stale, 2).find(["apple", "pear", "river"]).tolist() == [1, -1, 0]
    with pytest.raises(alance.CorruptFileError, match="2 tokens, 3 posting lists"):
        TokenDictionary.parse(stale, 3)
    fields["_token_fst_bytes"] = pa.array([b"short"], pa.large_binary())
    short = pa.RecordBatch.from_arrays(list(fields.values()), list(fields))
    with pytest.raises(alance.CorruptFileError, match="no dictionary"):
        TokenDictionary.parse(short, 2)


def test_characters_are_folded_to_ascii() -> None:
    text = "Æther straße naïve ½ ﬁn ﾊ Ｗｉｄｅ Łódź ẞ 日本"
    assert folded(text) == "AEther strasse naive 12 fin ﾊ Wide Lodz SS 日本"


@pytest.mark.parametrize(
    "options",
    [
        {"base_tokenizer": "jieba/default"},
        {"language": "Klingon"},
        {"max_token_length": 0},
        {"min_ngram_length": 4},
        {"custom_stop_words": (7,)},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(alance.InvalidInputError):
        TextParams(**options)


def test_parameters_go_through_json_and_are_checked() -> None:
    chosen = TextParams(base_tokenizer="ngram", custom_stop_words=("a", "ü"), max_token_length=None)
    assert TextParams.parse(chosen.as_json()) == chosen
    assert not is_of_elements(chosen.details())
    for bad in ("", "[", "7", '{"stem": 1, "max_token_length": "x"}', '{"custom_stop_words": 7}'):
        with pytest.raises(alance.CorruptFileError):
            TextParams.parse(bad)
    for unknown in (
        '{"lance_tokenizer": "json"}',
        '{"base_tokenizer": "icu"}',
        '{"language": "Polish"}',
        '{"split_identifiers": true}',
    ):
        with pytest.raises(alance.UnsupportedError):
            TextParams.parse(unknown)
    with pytest.raises(alance.CorruptFileError):
        is_of_elements(b"\xff\xff")


def test_the_details_are_those_that_pylance_writes() -> None:
    """The vector of the specification."""
    assert TextParams().details().hex() == (
        "0a0673696d706c65120922456e676c6973682220282801300138014001480350036080017802"
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stem": False, "remove_stop_words": False},
        {"lower_case": False, "ascii_folding": False, "max_token_length": None},
        {"language": "German", "custom_stop_words": ["und"]},
        {"base_tokenizer": "whitespace", "max_token_length": 5},
        {"base_tokenizer": "raw", "lower_case": False},
        {"base_tokenizer": "ngram", "min_ngram_length": 2, "max_ngram_length": 3},
        {"base_tokenizer": "ngram", "prefix_only": True},
    ],
)
def test_tokenize_gives_the_tokens_of_pylance(options: dict[str, Any]) -> None:
    for text in ("the Cats and Dogs", "", "the", "Die Katzen UND das Größte, 42", "a-b c_d " * 9):
        expected = [(token.text, token.position) for token in lance.tokenize(text, **options)]
        assert alance.tokenize(text, **options) == expected
        assert alance.sync.tokenize(text, **options) == expected


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("Tamil", "அது என்று கூறினார் மற்றும் பல மக்கள் என மேலும் உள்ள நான் புத்தகங்கள்"),
        ("Arabic", "أبو حقا كثيرا خلف كتاب دواليك نيف حجا طرا صراحة"),
        ("Dutch", "gij zijt een boek dat geweest is"),
        ("Greek", "είμαι είναι το βιβλίο και ειναι"),
    ],
    ids=["Tamil", "Arabic", "Dutch", "Greek"],
)
@pytest.mark.parametrize("base_tokenizer", ["simple", "whitespace"])
def test_words_that_say_little_are_those_of_pylance(
    language: str, text: str, base_tokenizer: str
) -> None:
    for stem, folding in product((False, True), repeat=2):
        options: dict[str, Any] = {"language": language, "base_tokenizer": base_tokenizer}
        options |= {"stem": stem, "ascii_folding": folding}
        expected = [(token.text, token.position) for token in lance.tokenize(text, **options)]
        assert alance.tokenize(text, **options) == expected
        bare = lance.tokenize(text, **options, remove_stop_words=False)
        assert len(expected) < len(bare)


def test_tokenize_says_what_it_does_not_take() -> None:
    with pytest.raises(InvalidInputError, match="expected a text"):
        alance.tokenize(5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="split_identifiers"):
        alance.tokenize("a", split_identifiers=True)  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError, match="language"):
        alance.tokenize("a", language="Klingon")

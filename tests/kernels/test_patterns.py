"""LIKE over many texts at once, against regular expressions; offsets are checked."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alance import _kernels
from alance.expr.builders.text_parts import ANY_CHARACTER, ANY_TEXT, like_bytes, like_regex

# Few letters, so that they match often; of one to four bytes, some of which have bytes in common.
LETTERS = "ab\n\u00e9\u00e8\u20ac\U0001d11e"
texts = st.lists(st.text(LETTERS, max_size=12), max_size=40)
patterns = st.lists(st.sampled_from([*LETTERS[:5], ANY_TEXT, ANY_CHARACTER]), max_size=8)


def check(values: list[str], pieces: list[str], before: bytes = b"", behind: bytes = b"") -> None:
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([len(before), *map(len, encoded)], dtype=np.int64)
    content = np.frombuffer(before + b"".join(encoded) + behind, np.uint8)
    expression = re.compile(f"(?s:{like_regex(pieces)})")
    expected = [expression.fullmatch(value) is not None for value in values]
    for baseline in (False, True):
        answers = _kernels.like(offsets, content, like_bytes(pieces), baseline)
        assert answers.view(np.bool_).tolist() == expected, (pieces, baseline)


@given(texts, patterns)
def test_patterns_match_as_regular_expressions_do(values: list[str], pieces: list[str]) -> None:
    check(values, pieces)
    check(values, pieces, b"ab", b"ab" * 20)


@given(st.lists(st.text("ab", max_size=90), max_size=9), st.text("ab", min_size=1, max_size=40))
def test_long_texts_and_parts(values: list[str], part: str) -> None:
    middle = len(part) // 2
    for pieces in (
        [ANY_TEXT, *part, ANY_TEXT],
        [ANY_TEXT, *part],
        [*part, ANY_TEXT],
        list(part),
        [ANY_TEXT, *part[:middle], ANY_TEXT, *part[middle:], ANY_TEXT],
        [ANY_TEXT, *part[:middle], ANY_CHARACTER, *part[middle:], ANY_TEXT],
    ):
        check([*values, part, f"b{part}", f"{part}a"], pieces, b"a", part.encode())


def test_a_match_across_two_texts_is_none() -> None:
    check(["xa", "bx", "ab", "a", "b", "", "ab"] * 9, [ANY_TEXT, "a", "b", ANY_TEXT])


def test_no_text_and_no_pattern() -> None:
    check([], [ANY_TEXT])
    check(["", "a"], [])
    check(["", "a"], [ANY_TEXT])
    check(["", "a", "ab"], [ANY_CHARACTER, ANY_TEXT, ANY_TEXT])


def test_texts_that_are_no_utf8_are_matched_within_their_bytes() -> None:
    content = np.frombuffer(b"\x80\xffab\xe9", np.uint8)
    offsets = np.array([0, 1, 3, 5, 5])
    wild = like_bytes([ANY_CHARACTER])
    assert _kernels.like(offsets, content, wild).tolist() == [1, 0, 0, 0]


def test_wrong_offsets_are_refused() -> None:
    content, pattern = np.zeros(4, np.uint8), like_bytes([ANY_TEXT])
    for offsets in ([0, 5], [3, 2], [-1, 2]):
        with pytest.raises(ValueError, match="text: bytes"):
            _kernels.like(np.array(offsets), content, pattern)
    with pytest.raises(ValueError, match="no offsets"):
        _kernels.like(np.zeros(0, np.int64), content, pattern)

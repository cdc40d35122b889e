"""The kernel of n-grams against plain Python, and with bytes that contradict themselves."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alance import _kernels

TEXTS = st.lists(st.text("abZ09 é\0ß漢😀-", max_size=12), max_size=9)
PIECES = st.dictionaries(st.sampled_from("éß漢😀ü"), st.text("aZ0 é", max_size=4))
NOTHING = np.empty(0, np.uint8)


def digit(character: str) -> int:
    if character.isdigit():
        return ord(character) - ord("0") + 1
    return (ord(character) - ord("a") + 11) % 256


@settings(deadline=None, max_examples=200)
@given(TEXTS, PIECES)
def test_ngrams_are_those_of_plain_python(texts: list[str], pieces: dict[str, str]) -> None:
    expected = set()
    for row, text in enumerate(texts):
        lower = re.sub("[A-Z]", lambda letter: letter[0].lower(), text)
        plain = "".join(pieces.get(character, character) for character in lower)
        for word in re.findall("[a-zA-Z0-9]+", plain):
            for start in range(len(word) - 2):
                first, second, third = map(digit, word[start : start + 3])
                expected.add((first * 37**2 + second * 37 + third, row + 100))
    contents = [text.encode() for text in texts]
    offsets = np.cumsum([0, *map(len, contents)])
    data = np.frombuffer(b"".join(contents), np.uint8)
    letters = sorted(map(ord, pieces))
    plain_bytes = [pieces[chr(letter)].encode() for letter in letters]
    tokens, rows = _kernels.ngrams(
        offsets,
        data,
        np.arange(len(texts), dtype=np.uint64) + np.uint64(100),
        np.array(letters, np.uint32),
        np.cumsum([0, *map(len, plain_bytes)]),
        np.frombuffer(b"".join(plain_bytes), np.uint8),
    )
    pairs = list(zip(tokens.tolist(), rows.tolist(), strict=True))
    assert set(pairs) == expected
    assert len(pairs) == len(expected)
    assert _kernels.letters_of(data).tolist() == sorted(
        {ord(character) for character in "".join(texts) if not character.isascii()}
    )


def test_what_contradicts_itself_is_refused() -> None:
    data = np.frombuffer("abcé\xff".encode("latin-1"), np.uint8)  # the last character has no end
    rows, letters = np.zeros(1, np.uint64), np.array([233], np.uint32)
    assert len(_kernels.letters_of(data)) == 1
    whole, starts = np.array([0, 5]), np.array([0, 1])
    tokens, _ = _kernels.ngrams(whole, data, rows, letters, starts, data[:1])
    assert len(tokens) == 1
    for offsets in ([0], [0, 6], [-1, 5], [4, 2]):
        with pytest.raises(ValueError, match=r"n-grams: (offsets|bytes)"):
            _kernels.ngrams(np.array(offsets), data, rows, letters, starts, data[:1])
    for sample, begins in (([233], [0]), ([233], [0, 2]), ([233], [1, 1])):
        with pytest.raises(ValueError, match="n-grams: pieces"):
            _kernels.ngrams(
                whole, data, rows, np.array(sample, np.uint32), np.array(begins), data[:1]
            )
    for candidate in ([9, 9], [0x110000]):
        begins = [0, *[1] * len(candidate)]
        with pytest.raises(ValueError, match="n-grams: letters"):
            _kernels.ngrams(
                whole, data, rows, np.array(candidate, np.uint32), np.array(begins), data[:1]
            )

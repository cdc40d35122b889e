"""Necessary conditions of patterns: the prefix of matching texts, and parts that they contain."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from alance.base.arrays import Bytes

# Lone surrogates encode wildcards for kernels, because their bytes occur in no UTF-8 text.
ANY_TEXT: Final = "\udcfe"
ANY_CHARACTER: Final = "\udcff"
WILDCARDS: Final = {"%": ANY_TEXT, "_": ANY_CHARACTER}
CLASSES: Final = frozenset("dDwWsSbB")  # after a backslash: a class or a word boundary
OPTIONAL: Final = frozenset("*?{")  # the character before them may be absent
NO_PARTS: Final = ((),)  # one alternative without a known part


def like_pieces(pattern: str, escape: str) -> Iterator[str]:
    """Yield the wildcards of a LIKE pattern, and its other characters one by one."""
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            yield next(characters, escape)
        else:
            yield WILDCARDS.get(character, character)


def like_prefix(pieces: Iterable[str]) -> str:
    """Return the plain text at the start of a LIKE pattern."""
    return "".join(takewhile(lambda piece: piece not in WILDCARDS.values(), pieces))


def like_parts(pieces: Iterable[str]) -> tuple[str, ...]:
    """Return the plain texts between the wildcards of a LIKE pattern, without empty ones."""
    parts = [""]
    for piece in pieces:
        if piece in WILDCARDS.values():
            parts.append("")
        else:
            parts[-1] += piece
    return tuple(part for part in parts if part)


def like_regex(pieces: Iterable[str]) -> str:
    """Return the regular expression of a LIKE pattern, without anchors."""
    wild = {ANY_TEXT: ".*", ANY_CHARACTER: "."}
    return "".join(wild.get(piece) or re.escape(piece) for piece in pieces)


def like_bytes(pieces: Iterable[str]) -> Bytes:
    """Encode a LIKE pattern for the kernel."""
    content = "".join(pieces).encode("utf-8", "surrogateescape")
    return np.frombuffer(content, np.uint8)


def regex_parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """Return texts that all matches contain, for each alternative of a regular expression.

    Returns `NO_PARTS` for patterns with groups, or with syntax other than classes, anchors and
    repetitions.
    """
    alternatives: list[tuple[str, ...]] = []
    parts, at = [""], 0
    while at < len(pattern):
        character, width = pattern[at], 1
        if character == "|":
            alternatives.append(tuple(part for part in parts if part))
            parts = [""]
        elif character in "()":
            return NO_PARTS
        elif character == "\\":
            width, character = 2, pattern[at + 1 : at + 2]
            if character.isalnum() and character not in CLASSES:
                return NO_PARTS
            if character in CLASSES:
                parts.append("")
            else:
                parts[-1] += character
        elif character == "[":
            end = _end_of_class(pattern, at)
            if not end:
                return NO_PARTS
            width = end - at
            parts.append("")
        elif character in "*?{+":
            if character in OPTIONAL:
                parts[-1] = parts[-1][:-1]
            if character == "{":
                width = pattern.find("}", at) + 1 - at
                if width <= 0:
                    return NO_PARTS
            parts.append("")
        elif character in ".^$":
            parts.append("")
        else:
            parts[-1] += character
        at += width
    alternatives.append(tuple(part for part in parts if part))
    return tuple(alternatives)


def _end_of_class(pattern: str, start: int) -> int:
    """Return the offset after the class that begins at `[`; 0 if the class is not simple."""
    at = start + 1
    if pattern[at : at + 1] == "^":
        at += 1
    if pattern[at : at + 1] == "]":
        return 0
    while at < len(pattern) and pattern[at] != "]":
        if pattern[at] == "[":
            return 0
        at += 2 if pattern[at] == "\\" else 1
    return at + 1 if at < len(pattern) else 0

"""What a pattern says of texts that match it: how they begin, and parts that they have."""

from __future__ import annotations

from typing import Final

CLASSES: Final = frozenset("dDwWsSbB")  # behind a backslash: no text, but what follows is plain
MANY: Final = frozenset("*?{")  # what is before them may not be there
NO_PARTS: Final = ((),)  # a way to match of which nothing is known


def like_prefix(pattern: str, escape: str) -> str:
    """The plain text that a LIKE pattern begins with."""
    prefix, characters = [], iter(pattern)
    for character in characters:
        following = next(characters, None) if character == escape else character
        if following is None or (character != escape and character in "%_"):
            break
        prefix.append(following)
    return "".join(prefix)


def like_parts(pattern: str, escape: str) -> tuple[str, ...]:
    """The plain texts between the wildcards of a LIKE pattern."""
    parts, characters = [""], iter(pattern)
    for character in characters:
        following = next(characters, None) if character == escape else character
        if character != escape and character in "%_":
            parts.append("")
        else:
            parts[-1] += escape if following is None else following
    return tuple(part for part in parts if part)


def regex_parts(pattern: str) -> tuple[tuple[str, ...], ...]:
    """The plain texts of each alternative of a regular expression; one that has none: nothing.

    Groups and what is rarer than classes, anchors and repetitions are not looked into.
    """
    ways: list[tuple[str, ...]] = []
    parts, at = [""], 0
    while at < len(pattern):
        character, width = pattern[at], 1
        if character == "|":
            ways.append(tuple(part for part in parts if part))
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
            if character in MANY:
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
    ways.append(tuple(part for part in parts if part))
    return tuple(ways)


def _end_of_class(pattern: str, start: int) -> int:
    """Behind the class that begins at `[`; 0: it is not a plain one."""
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

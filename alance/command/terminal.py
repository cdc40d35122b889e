"""Escaping of text for terminals, because names and values of tables come from other users."""

from __future__ import annotations

import logging
import sys
import unicodedata
from typing import BinaryIO, Final

# Unicode categories: control characters; format characters, such as those that change the direction
# of text; surrogates; line and paragraph separators.
CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
FILLERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # invisible letters


def is_terminal() -> bool:
    """True if the error output is a terminal: long work shows bars there, and a log gets none."""
    return sys.stderr.isatty()


def escaped(text: str, allowed: str = "") -> str:
    r"""Replace control and invisible characters by escapes such as `\x1b` and `\u202e`.

    Args:
        allowed: control characters that are not escaped, such as line ends of messages.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in allowed or not _is_hidden(character) else _escape(character)
        for character in text
    )


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in CONTROLS or character in FILLERS


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class EscapedFile:
    """Binary file of UTF-8 text, whose control characters other than line ends are escaped."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        """Write UTF-8 text, which must not end within a character."""
        text = bytes(content).decode("utf-8", "surrogateescape")
        self._file.write(escaped(text, allowed="\n").encode())
        return len(content)

    def flush(self) -> None:
        self._file.flush()


class EscapedFormatter(logging.Formatter):
    """Formatter that escapes log records: they quote paths and names chosen by callers."""

    def format(self, record: logging.LogRecord) -> str:
        """Format and escape a record; line ends remain, because a traceback has several lines."""
        return escaped(super().format(record), allowed="\n\t")

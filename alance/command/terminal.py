"""Text as a terminal may have it: names and values of tables are written by others."""

from __future__ import annotations

import logging
import unicodedata
from typing import BinaryIO, Final

# Categories of Unicode: controls; formats, such as those that change the direction of text; halves
# of surrogate pairs; ends of lines and paragraphs.
CONTROLS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
FILLERS: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0")  # letters without a shape


def escaped(text: str, kept: str = "") -> str:
    r"""Text with controls and all that cannot be seen as escapes such as `\x1b` and `\u202e`.

    Args:
        kept: characters that stay as they are, as the ends of lines of messages.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        character if character in kept or not _is_hidden(character) else _escape(character)
        for character in text
    )


def _is_hidden(character: str) -> bool:
    return unicodedata.category(character) in CONTROLS or character in FILLERS


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


class EscapedFile:
    """A file of bytes that is a terminal: what is written is UTF-8 text, and stays on its lines."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def write(self, content: bytes) -> int:
        """Write text of whole characters."""
        text = bytes(content).decode("utf-8", "surrogateescape")
        self._file.write(escaped(text, kept="\n").encode())
        return len(content)

    def flush(self) -> None:
        """Flush the terminal."""
        self._file.flush()


class EscapedFormatter(logging.Formatter):
    """Lines of a log, whose paths and names callers have chosen."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line, and a traceback below it."""
        return escaped(super().format(record), kept="\n\t")

"""Conversion of characters to ASCII: accents, ligatures, fractions, full-width and circled forms.

A character becomes the ASCII characters of its decomposition (NFKD), or stays unchanged if it has
none.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import Final

# Letters that do not decompose.
_LETTERS: Final = {
    "Æ": "AE", "Ð": "D", "Ø": "O", "Þ": "TH", "ß": "ss", "æ": "ae", "ð": "d", "ø": "o",
    "þ": "th", "Đ": "D", "đ": "d", "Ħ": "H", "ħ": "h", "ı": "i", "ĸ": "k", "Ł": "L", "ł": "l",
    "Ŋ": "N", "ŋ": "n", "Œ": "OE", "œ": "oe", "Ŧ": "T", "ŧ": "t", "ẞ": "SS",
}  # fmt: skip


def folded(text: str) -> str:
    """Replace characters by their ASCII forms; a character without an ASCII form stays."""
    return text if text.isascii() else "".join(map(_folded, text))


@lru_cache(maxsize=1 << 14)
def _folded(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character)
    ascii_form = "".join(part if part.isascii() else _LETTERS.get(part, "") for part in parts)
    return ascii_form or character

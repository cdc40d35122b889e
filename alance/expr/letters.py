"""Upper and lower case with all of Unicode's mappings: `ß` becomes `SS`.

Arrow maps each character to one; texts with a character that becomes several, or whose case depends
on its place in the word, are mapped by Python.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from alance.expr.tree import truly

if TYPE_CHECKING:
    from collections.abc import Callable

_LOWER_SPECIAL: Final = "[\u0130\u03a3]"  # a dotted I, and the sigma that differs at a word's end


def upper(values: pa.Array) -> pa.Array:
    """Texts in upper case."""
    return _mapped(values, pc.utf8_upper, str.upper, _upper_special())


def lower(values: pa.Array) -> pa.Array:
    """Texts in lower case."""
    return _mapped(values, pc.utf8_lower, str.lower, _LOWER_SPECIAL)


def initcap(values: pa.Array) -> pa.Array:
    """Texts with each word's first letter in upper case, the others in lower case."""
    special = rf"\p{{N}}|{_LOWER_SPECIAL}|{_upper_special()}"
    return _mapped(values, pc.utf8_title, _capitalized, special, has_ascii=True)


def _mapped(
    values: pa.Array,
    kernel: Callable[[pa.Array], pa.Array],
    method: Callable[[str], str],
    special: str,
    *,
    has_ascii: bool = False,
) -> pa.Array:
    found = kernel(values)
    if not has_ascii and pc.all(pc.string_is_ascii(values), min_count=0).as_py():
        return found
    odd = truly(pc.match_substring_regex(values, special))
    if not odd.true_count:
        return found
    texts = pa.array([method(text) for text in values.filter(odd).to_pylist()], values.type)
    return pc.replace_with_mask(found, odd, texts)


def _capitalized(text: str) -> str:
    """Digits belong to words: `1a` stays."""
    found, inside = [], False
    for character in text:
        found.append(character.lower() if inside else character.upper())
        inside = character.isalnum()
    return "".join(found)


@cache
def _upper_special() -> str:
    """The class of the characters that become several; they are all below U+FB18."""
    found = [chr(code) for code in range(0x80, 0xFB18) if len(chr(code).upper()) > 1]
    return f"[{re.escape(''.join(found))}]"

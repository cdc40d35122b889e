"""LIKE and the SQL functions on text.

Upper and lower case follow all of Unicode's mappings: `ß` becomes `SS`. Arrow maps each character
to one character. A text with a character that becomes several, or whose case depends on its place
in the word, is mapped by Python.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.expr.arithmetic import whole_argument
from alance.expr.builders.text_parts import (
    ANY_TEXT,
    like_bytes,
    like_parts,
    like_pieces,
    like_prefix,
    like_regex,
)
from alance.expr.casts import convert, is_bytes, is_text, text_of
from alance.expr.compare import NULL_BOOLEAN, is_nothing
from alance.expr.tree import Literal, Node, Pattern, Problem, Value, broadcast, call, meaning, truly
from alance.expr.value_budget import reserve
from alance.format.numbers import as_scalar, contents_of, to_arrow, validity_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LOWER_SPECIAL: Final = "[\u0130\u03a3]"  # dotted I; sigma differs at a word's end
MAX_REPEATS: Final = 1 << 20  # copies of a text, or characters of padding
UNRESERVED_BYTES: Final = 1 << 20  # bytes; for smaller results, counting costs more than the memory


def like(node: Node, pattern: Node, escape: str | None, *, ignore_case: bool) -> Node:
    r"""Build LIKE or ILIKE: `%` matches any text, `_` any character; `\` escapes them.

    Args:
        escape: escape character; None for `\`, an empty text for no escape.

    Raises:
        Problem: the pattern is not a literal, or a side is not text.
    """
    if is_nothing(node) or is_nothing(pattern):
        return NULL_BOOLEAN
    text = literal_text("like", pattern)
    escape = "\\" if escape is None else escape
    if len(escape) > 1:
        raise Problem(f"like: escape {escape!r}, expected one character")
    pieces = list(like_pieces(text, escape))
    node = as_text("like", node)
    if not ignore_case:
        return _matching("like", node, pieces)
    regex = f"(?si)^{like_regex(pieces)}$"
    matches = call("like", lambda values: pc.match_substring_regex(values, regex), node)
    return meaning(matches, Pattern(node, "", (like_parts(pieces),)))


def _matching(name: str, node: Node, pieces: Sequence[str]) -> Node:
    """Build the test that a text matches the pieces of a LIKE pattern."""
    pattern = like_bytes(pieces)

    def match(values: pa.Array) -> pa.Array:
        answers = _kernels.like(*contents_of(values), pattern)
        return to_arrow(answers.view(np.bool_), validity_of(values))

    parts = like_parts(pieces)
    meant = Pattern(
        node,
        like_prefix(pieces),
        (parts,),
        is_cased=True,
        is_contains=[*pieces] == [ANY_TEXT, *"".join(parts), ANY_TEXT],
    )
    return meaning(call(name, match, node), meant)


def as_text(name: str, node: Node) -> Node:
    """Return a node of strings or large strings; string views are converted.

    Raises:
        Problem: the node is not text.
    """
    if is_text(node.type):
        return convert(node, pa.large_string()) if pa.types.is_string_view(node.type) else node
    if is_nothing(node):
        return Literal(as_scalar(None, pa.string()))
    if pa.types.is_null(node.type):
        return convert(node, pa.string())
    raise Problem(f"{name}: expected text, found {node.type}")


def literal_text(name: str, node: Node) -> str:
    """Return the text of a literal argument.

    Raises:
        Problem: the argument is not a literal, or not text.
    """
    if not isinstance(node, Literal):
        raise Problem(f"{name}: expected a literal text, found an expression", unsupported=True)
    if not is_text(node.type) or not node.value.is_valid:
        raise Problem(f"{name}: expected text, found {node.type}")
    return str(node.value.as_py())


def plain_text(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    """Return the builder of a function that takes one text."""
    return lambda name, args: call(name, kernel, as_text(name, args[0]))


def with_pattern(before: str, behind: str) -> Callable[[str, list[Node]], Node]:
    """Return the builder of the test that a text contains a literal text.

    Args:
        before, behind: `ANY_TEXT` if other text may precede, or follow, the literal; else empty.
    """

    def build(name: str, args: list[Node]) -> Node:
        if is_nothing(args[1]):
            return NULL_BOOLEAN
        pattern = literal_text(name, args[1])
        return _matching(name, as_text(name, args[0]), [before, *pattern, behind])

    return build


def trimming(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    """Return the builder of trim, ltrim or rtrim, which remove spaces or the given characters."""

    def build(name: str, args: list[Node]) -> Node:
        characters = literal_text(name, args[1]) if len(args) > 1 else " "
        if not characters:
            return as_text(name, args[0])
        return call(name, lambda values: kernel(values, characters), as_text(name, args[0]))

    return build


def octet_length(name: str, args: list[Node]) -> Node:
    """octet_length(x): the number of bytes of a text or a byte string."""
    if not is_bytes(args[0].type):
        args = [as_text(name, args[0])]
    return call(name, pc.binary_length, args[0])


def substring(name: str, args: list[Node]) -> Node:
    """substr(text, first[, count]): characters count from 1; `first` may lie before the text."""
    first = whole_argument(name, args[1], -(1 << 31), 1 << 31) - 1
    stop = None
    if len(args) > 2:
        count = whole_argument(name, args[2], 0, 1 << 31)
        stop = max(0, first + count)
    start = max(0, first)
    return call(
        name,
        lambda values: pc.utf8_slice_codeunits(values, start, stop),
        as_text(name, args[0]),
    )


def left(name: str, args: list[Node]) -> Node:
    """left(text, n): the first n characters; if n is negative, all but the last -n."""
    count = whole_argument(name, args[1], -(1 << 31), 1 << 31)
    return call(
        name, lambda values: pc.utf8_slice_codeunits(values, 0, count), as_text(name, args[0])
    )


def right(name: str, args: list[Node]) -> Node:
    """right(text, n): the last n characters; if n is negative, all but the first -n."""
    count = whole_argument(name, args[1], -(1 << 31), 1 << 31)
    if count == 0:
        return left(name, args)
    return call(
        name, lambda values: pc.utf8_slice_codeunits(values, -count), as_text(name, args[0])
    )


def replace(name: str, args: list[Node]) -> Node:
    """replace(text, from, to)."""
    old, new = literal_text(name, args[1]), literal_text(name, args[2])
    if not old:
        return as_text(name, args[0])

    def put(values: pa.Array) -> pa.Array:
        reserve_growth(values, new, lambda: pc.count_substring(values, old))
        return pc.replace_substring(values, pattern=old, replacement=new)

    return call(name, put, as_text(name, args[0]))


def reserve_growth(
    values: pa.Array, new: str, counts: Callable[[], pa.Array], num_copies: int = 0
) -> None:
    """Reserve memory for the results of a replacement.

    Args:
        new: the text that replaces parts.
        counts: returns the number of replacements in each text; called only if the result may have
            more than `UNRESERVED_BYTES`.
        num_copies: upper bound on the copies of matched text in one replacement.

    Raises:
        BudgetExceeded: the texts do not fit.
    """
    added, copied = len(new.encode()), values.nbytes * (1 + num_copies)
    if copied * (1 + added) > UNRESERVED_BYTES:
        reserve(copied + added * (pc.sum(counts()).as_py() or 0))


def repeat(name: str, args: list[Node]) -> Node:
    """repeat(text, count)."""
    count = max(0, whole_argument(name, args[1], -(1 << 31), MAX_REPEATS))

    def write(values: pa.Array) -> pa.Array:
        reserve(values.nbytes * count)
        return pc.binary_repeat(values, count)

    return call(name, write, as_text(name, args[0]))


def position(name: str, args: list[Node]) -> Node:
    """strpos(text, part): position of a literal text in characters, counted from 1; 0 if absent."""
    sought = literal_text(name, args[1])

    def find(values: pa.Array) -> pa.Array:
        if not sought:
            return pc.if_else(pc.is_valid(values), as_scalar(1, pa.int32()), as_scalar(None))
        zero, first = as_scalar(0, pa.int32()), pc.find_substring(values, sought)
        parts = pc.split_pattern(values, sought, max_splits=1)
        before = pc.list_element(parts, as_scalar(0))
        place = pc.add(pc.cast(pc.utf8_length(before), pa.int32()), as_scalar(1, pa.int32()))
        return pc.if_else(pc.less(first, zero), zero, place)

    return call(name, find, as_text(name, args[0]))


def split_part(name: str, args: list[Node]) -> Node:
    """split_part(text, separator, n): the n-th part, from the end if n is negative.

    Empty if there is no such part.
    """
    separator = literal_text(name, args[1])
    number = whole_argument(name, args[2], -(1 << 31), (1 << 31) - 1)
    if number == 0:
        raise Problem(f"{name}: part 0, but parts count from 1")

    def pick(values: pa.Array) -> pa.Array:
        if not separator:
            return values if number in (1, -1) else emptied(values)
        parts = pc.split_pattern(values, separator)
        sizes = pc.list_value_length(parts)
        place = as_scalar(number - 1) if number > 0 else pc.add(sizes, as_scalar(number))
        starts = parts.offsets.slice(0, len(parts))
        inside = pc.and_(pc.less(place, sizes), pc.greater_equal(place, as_scalar(0)))
        picked = parts.values.take(pc.if_else(inside, pc.add(starts, place), as_scalar(None)))
        return pc.if_else(inside, picked, emptied(values))

    return call(name, pick, as_text(name, args[0]))


def emptied(values: pa.Array) -> pa.Array:
    """Return empty texts that are null where `values` is null."""
    return pc.if_else(pc.is_valid(values), as_scalar("", values.type), values)


def padding(kernel: Callable[..., pa.Array]) -> Callable[[str, list[Node]], Node]:
    """Return the builder of lpad or rpad, which pad or cut texts to a number of characters."""

    def build(name: str, args: list[Node]) -> Node:
        width = whole_argument(name, args[1], 0, MAX_REPEATS)
        fill = literal_text(name, args[2]) if len(args) > 2 else " "
        if len(fill) > 1:
            raise Problem(f"{name}: filled with more than one character", unsupported=True)

        def pad(values: pa.Array) -> pa.Array:
            reserve(values.nbytes + width * len(fill.encode()) * len(values))
            padded = kernel(values, width=width, padding=fill) if fill else values
            return pc.utf8_slice_codeunits(padded, 0, width)

        return call(name, pad, as_text(name, args[0]))

    return build


def bit_length(name: str, args: list[Node]) -> Node:
    """bit_length(text): the number of bits of a text in UTF-8."""
    eight = as_scalar(8, pa.int32())
    return call(
        name,
        lambda values: pc.cast(pc.multiply(pc.binary_length(values), eight), pa.int32()),
        as_text(name, args[0]),
    )


def concat_ws(name: str, args: list[Node]) -> Node:
    """concat_ws(separator, ...): joins texts; nulls are skipped, with their separator."""
    separator = literal_text(name, args[0])
    return _joined(name, args[1:], null_handling="skip", separator=separator)


def concat(name: str, args: list[Node]) -> Node:
    """concat(...): joins texts; nulls are skipped."""
    return _joined(name, args, null_handling="replace")


def appended(left_side: Node, right_side: Node) -> Node:
    """Build `||`, which is null if a side is null."""
    return _joined("||", [left_side, right_side], null_handling="emit_null")


def _joined(name: str, args: list[Node], null_handling: str, separator: str = "") -> Node:
    if any(pa.types.is_nested(arg.type) or is_bytes(arg.type) for arg in args):
        raise Problem(f"{name}: expected text, found {', '.join(str(arg.type) for arg in args)}")

    between = as_scalar(separator)

    def join(*values: Value) -> pa.Array:
        rows = next((len(value) for value in values if isinstance(value, pa.Array)), 1)
        texts = [_text(broadcast(value, rows)) for value in values]
        reserve(sum(own.nbytes for own in texts) + len(separator.encode()) * rows * len(texts))
        if null_handling == "skip":
            # The kernel drops rows that have only nulls, so each row begins with an empty text.
            texts.insert(0, pa.repeat(as_scalar(""), rows))
            joined = pc.binary_join_element_wise(*texts, between, null_handling=null_handling)
            return pc.utf8_slice_codeunits(joined, len(separator))
        return pc.binary_join_element_wise(*texts, between, null_handling=null_handling)

    return call(name, join, *args)


def _text(values: pa.Array) -> pa.Array:
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), pa.string())
    return pc.cast(text_of(values), pa.string())


def upper(values: pa.Array) -> pa.Array:
    """Convert texts to upper case."""
    return _mapped(values, pc.utf8_upper, str.upper, _upper_special())


def lower(values: pa.Array) -> pa.Array:
    """Convert texts to lower case."""
    return _mapped(values, pc.utf8_lower, str.lower, _LOWER_SPECIAL)


def initcap(values: pa.Array) -> pa.Array:
    """Convert the first letter of each word to upper case, all others to lower case."""
    uncased = r"\p{N}|\p{Lo}|\p{Lm}"  # the kernel begins a new word after these
    special = f"{uncased}|{_LOWER_SPECIAL}|{_upper_special()}"
    return _mapped(values, pc.utf8_title, _capitalized, special, has_ascii=True)


def _mapped(
    values: pa.Array,
    kernel: Callable[[pa.Array], pa.Array],
    method: Callable[[str], str],
    special: str,
    *,
    has_ascii: bool = False,
) -> pa.Array:
    mapped = kernel(values)
    if not has_ascii and pc.all(pc.string_is_ascii(values), min_count=0).as_py():
        return mapped
    odd = truly(pc.match_substring_regex(values, special))
    if not odd.true_count:
        return mapped
    texts = pa.array([method(text) for text in values.filter(odd).to_pylist()], values.type)
    return pc.replace_with_mask(mapped, odd, texts)


def _capitalized(text: str) -> str:
    """Capitalize words. A digit belongs to a word, so `1a` is unchanged."""
    letters, inside = [], False
    for character in text:
        letters.append(character.lower() if inside else character.upper())
        inside = character.isalnum()
    return "".join(letters)


@cache
def _upper_special() -> str:
    """Return the regex class of characters with a longer upper case; all are below U+FB18."""
    letters = [chr(code) for code in range(0x80, 0xFB18) if len(chr(code).upper()) > 1]
    return f"[{re.escape(''.join(letters))}]"

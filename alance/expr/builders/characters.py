"""SQL functions on the characters and parts of texts, vectorized over all rows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.cancellation import check_cancelled
from alance.expr.arithmetic import whole, whole_argument
from alance.expr.builders.digests import like_strings
from alance.expr.builders.nested import first_true
from alance.expr.builders.regex import located, reserve_search, translated
from alance.expr.builders.text import as_text, emptied, literal_text
from alance.expr.compare import is_nothing
from alance.expr.tree import Literal, Node, Problem, broadcast, call
from alance.expr.value_budget import reserve, reserve_work
from alance.format.numbers import (
    as_mask,
    as_numbers,
    as_scalar,
    contents_of,
    distinct,
    mask_bytes,
    offsets_of,
    packed,
    strings_array,
    to_arrow,
    validity_of,
)

if TYPE_CHECKING:
    from alance.base.arrays import Int64s, UInt32s
    from alance.expr.tree import Value

LAST_CODE: Final = 0x10FFFF
SURROGATES: Final = (0xD800, 0xDFFF)
HEX_DIGITS: Final = 16  # digits of a 64-bit integer
CODE_BYTES: Final = 12  # bytes of code points and temporary copies per byte of text
STEP_CELLS: Final = 1 << 26  # pairs of characters between two cancellation checks: 0.1 s
MOST_MATCHES: Final = 100  # largest n of regexp_instr, whose expression repeats the pattern n times
NO_TEXT_MASK: Final = mask_bytes(None)


def translate(name: str, args: list[Node]) -> Node:
    """translate(text, from, to): replace each character of `from` by its counterpart in `to`.

    The counterpart is the character at the same position. A character of `from` without a
    counterpart is removed.
    """
    if any(is_nothing(arg) for arg in args):
        return _no_text()
    characters, target = literal_text(name, args[1]), literal_text(name, args[2])
    table: dict[int, int] = {}
    for place, character in enumerate(characters):  # of equal characters, the first one counts
        table.setdefault(ord(character), ord(target[place]) if place < len(target) else -1)
    if not table:
        return as_text(name, args[0])
    top = max(table) + 1  # this code point and all larger ones are unchanged
    mapping = np.arange(top + 1, dtype=np.int32)
    mapping[list(table)] = list(table.values())

    def map_all(values: pa.Array) -> pa.Array:
        codes, sizes = _codes(values)
        mapped = mapping[np.minimum(codes, top)]
        mapped = np.where(codes < top, mapped, codes.view(np.int32))
        ends = offsets_of(mapped >= 0)[offsets_of(sizes)]
        return _texts(mapped[mapped >= 0].astype(np.uint32), np.diff(ends), values)

    return call(name, map_all, as_text(name, args[0]))


def ascii_code(name: str, args: list[Node]) -> Node:
    """ascii(text): the code point of the first character; 0 for an empty text."""

    def first(values: pa.Array) -> pa.Array:
        codes, sizes = _codes(pc.utf8_slice_codeunits(values, 0, 1))
        numbers = np.zeros(len(values), np.int32)
        numbers[sizes > 0] = codes
        return pc.if_else(pc.is_valid(values), to_arrow(numbers), as_scalar(None, pa.int32()))

    return call(name, first, as_text(name, args[0]))


def character(name: str, args: list[Node]) -> Node:
    """chr(n): the character of a code point."""

    def write(numbers: pa.Array) -> pa.Array:
        codes = as_numbers(pc.fill_null(numbers, as_scalar(0, numbers.type)))
        wrong = (codes < 0) | (codes > LAST_CODE)
        wrong |= (codes >= SURROGATES[0]) & (codes <= SURROGATES[1])
        if wrong.any():
            raise pa.ArrowInvalid(f"{codes[wrong][0]} is no character")
        texts = pa.nulls(len(codes), pa.string()) if not len(codes) else numbers
        return _texts(codes.astype(np.uint32), np.ones(len(codes), np.int64), texts, pa.string())

    return call(name, write, whole(name, args[0]))


def to_hex(name: str, args: list[Node]) -> Node:
    """to_hex(n): hexadecimal digits; a negative integer is written as 64 bits, two's complement."""
    node = args[0]
    if is_nothing(node):
        return _no_text()
    if not pa.types.is_uint64(node.type):
        node = whole(name, node)

    def digits(numbers: pa.Array) -> pa.Array:
        zero = as_scalar(0, numbers.type)
        whole = as_numbers(pc.fill_null(numbers, zero)).view(np.uint64)
        content = np.frombuffer(whole.astype(">u8").tobytes().hex().encode(), np.uint8)
        ends = np.arange(len(whole) + 1, dtype=np.int64) * HEX_DIGITS
        texts = pc.utf8_ltrim(like_strings(numbers, pa.large_string(), ends, content), "0")
        empty = pc.equal(texts, as_scalar("", texts.type))
        return pc.cast(pc.if_else(empty, as_scalar("0", texts.type), texts), pa.string())

    return call(name, digits, node)


def find_in_set(name: str, args: list[Node]) -> Node:
    """find_in_set(text, list): position of the text among the comma-separated parts of `list`.

    Positions count from 1. Returns 0 if no part equals the text.
    """
    if any(is_nothing(arg) for arg in args):
        return Literal(as_scalar(None, pa.int32()))

    def find(texts: Value, lists: Value) -> pa.Array:
        rows = next((len(value) for value in (texts, lists) if isinstance(value, pa.Array)), 1)
        texts, lists = (pc.cast(broadcast(v, rows), pa.string()) for v in (texts, lists))
        parts = pc.split_pattern(pc.fill_null(lists, ""), ",")
        parents = pc.list_parent_indices(parts)
        equal = pc.fill_null(pc.equal(parts.flatten(), texts.take(parents)), False)
        places = pc.fill_null(first_true(equal, as_numbers(parents), rows), as_scalar(0))
        valid = pc.and_(pc.is_valid(texts), pc.is_valid(lists))
        return pc.if_else(valid, pc.cast(places, pa.int32()), as_scalar(None, pa.int32()))

    return call(name, find, *[as_text(name, arg) for arg in args])


def substring_index(name: str, args: list[Node]) -> Node:
    """substr_index(text, mark, n): the text before the n-th mark.

    If n is negative, returns the text after the n-th mark from the end. Returns the whole text if
    it has fewer marks, and an empty text if the mark is empty or n is 0.
    """
    if any(is_nothing(arg) for arg in args):
        return _no_text()
    mark = literal_text(name, args[1])
    number = whole_argument(name, args[2], -(1 << 31), (1 << 31) - 1)

    def cut(values: pa.Array) -> pa.Array:
        if not mark or not number:
            return emptied(values)
        count = abs(number)
        values = pc.cast(values, pa.string())
        parts = pc.split_pattern(values, mark, max_splits=count, reverse=number < 0)
        if number > 0:
            return pc.binary_join(pc.list_slice(parts, 0, count), mark)
        has_all = pc.greater(pc.list_value_length(parts), as_scalar(count))
        behind = pc.binary_join(pc.list_slice(parts, 1), mark)
        return pc.if_else(has_all, behind, values)

    return call(name, cut, as_text(name, args[0]))


def string_to_array(name: str, args: list[Node]) -> Node:
    """string_to_array(text, mark[, null]): the parts between marks.

    Parts that equal `null` become null. If the mark is NULL, the parts are single characters; if it
    is empty, the only part is the whole text.
    """
    mark = None if is_nothing(args[1]) else literal_text(name, args[1])
    absent = None if len(args) < 3 or is_nothing(args[2]) else literal_text(name, args[2])

    def split(values: pa.Array) -> pa.Array:
        kind = values.type
        items, sizes = _characters(values) if mark is None else _parts(values, mark)
        if absent is not None:
            items = pc.if_else(pc.equal(items, absent), as_scalar(None, items.type), items)
        ends = to_arrow(offsets_of(sizes).astype(np.int32))
        return pa.ListArray.from_arrays(ends, pc.cast(items, kind), mask=pc.is_null(values))

    return call(name, split, as_text(name, args[0]))


def _parts(values: pa.Array, mark: str) -> tuple[pa.Array, Int64s]:
    """Return the parts of all texts, and the number of parts of each text: 0 for an empty text."""
    if mark:
        parts = pc.split_pattern(values, mark)
        items = parts.flatten()
        sizes = as_numbers(pc.fill_null(pc.list_value_length(parts), as_scalar(0, pa.int32())))
    else:
        items = values.drop_null()
        sizes = as_numbers(pc.cast(pc.is_valid(values), pa.int32()))
    is_full = as_mask(pc.fill_null(pc.not_equal(values, as_scalar("", values.type)), False))
    return items.filter(to_arrow(np.repeat(is_full, sizes))), np.where(is_full, sizes, 0)


def _characters(values: pa.Array) -> tuple[pa.Array, Int64s]:
    """Return the characters of all texts, and the number of characters of each text."""
    offsets, data = contents_of(pc.fill_null(values, as_scalar("", values.type)))
    reserve(CODE_BYTES * len(data))
    data = data[int(offsets[0]) : int(offsets[-1])]
    is_first = (data & 0xC0) != 0x80
    ends = np.append(np.flatnonzero(is_first), len(data)).astype(np.int64)
    return strings_array(pa.large_string(), ends, data), np.diff(
        offsets_of(is_first)[offsets - offsets[0]]
    )


def regexp_instr(name: str, args: list[Node]) -> Node:
    """regexp_instr(text, pattern[, start[, n[, flags[, group]]]]): position of the n-th match.

    Positions are in characters and count from 1. Returns 0 if there is no such match. The search
    ignores all text before `start`, so `^` matches at `start`. With a group, returns the group's
    position in the first match, whatever n is.
    """
    if any(is_nothing(arg) for arg in args[:2]):
        return Literal(as_scalar(None, pa.int64()))
    pattern = literal_text(name, args[1])
    if not pattern:
        raise Problem(f"{name}: an empty pattern", unsupported=True)
    start = whole_argument(name, args[2], 1, (1 << 31) - 1) if len(args) > 2 else 1
    number = whole_argument(name, args[3], 1, MOST_MATCHES) if len(args) > 3 else 1
    flags = literal_text(name, args[4]) if len(args) > 4 else ""
    group = whole_argument(name, args[5], 0, (1 << 31) - 1) if len(args) > 5 else 0
    regex = located(name, translated(name, pattern, flags), number, group)

    def find(values: pa.Array) -> pa.Array:
        reserve_search(values)
        behind = pc.utf8_slice_codeunits(values, start - 1) if start > 1 else values
        offsets, data = contents_of(pc.fill_null(behind, as_scalar("", behind.type)))
        firsts = regex(behind)
        begun = offsets_of((data & 0xC0) != 0x80)  # characters that begin before each byte
        places = begun[offsets[:-1] + np.maximum(firsts, 0)] - begun[offsets[:-1]] + start
        places[(firsts < 0) | (np.diff(offsets) == 0)] = 0
        return pc.if_else(pc.is_valid(values), to_arrow(places), as_scalar(None, pa.int64()))

    return call(name, find, as_text(name, args[0]))


def contains_tokens(name: str, args: list[Node]) -> Node:
    """contains_tokens(text, 'words'): true if the text contains all the words.

    Words consist of letters and digits of any script. Upper and lower case differ.
    """
    words = "" if is_nothing(args[1]) else literal_text(name, args[1])

    def look(values: pa.Array) -> pa.Array:
        splitter = _kernels.TextSplitter(0, 0, 1, 1, False)
        splitter.split(np.arange(2), *packed([words]), NO_TEXT_MASK)
        num_words = len(splitter.fresh())
        rows = np.arange(len(values) + 1)
        valid = mask_bytes(validity_of(values))
        counts, numbers, _ = splitter.split(rows, *contents_of(values), valid)
        hits = numbers < num_words
        pairs = np.repeat(rows[:-1], counts)[hits] * max(num_words, 1) + numbers[hits]
        num_hits = np.bincount(distinct(pairs)[0] // max(num_words, 1), minlength=len(values))
        return pc.if_else(
            pc.is_valid(values), to_arrow(num_hits == num_words), as_scalar(None, pa.bool_())
        )

    return call(name, look, as_text(name, args[0]))


def overlay(name: str, args: list[Node]) -> Node:
    """overlay(text, new, first[, n]): the text with n characters from `first` on replaced by `new`.

    `first` counts from 1; n is the length of `new` by default.
    """
    if any(is_nothing(arg) for arg in args):
        return _no_text()
    new = literal_text(name, args[1])
    first = whole_argument(name, args[2], 1, (1 << 31) - 1)
    count = whole_argument(name, args[3], -(1 << 31), 1 << 31) if len(args) > 3 else len(new)

    def place(values: pa.Array) -> pa.Array:
        reserve(values.nbytes + len(new.encode()) * len(values))
        before = pc.utf8_slice_codeunits(values, 0, first - 1)
        behind = pc.utf8_slice_codeunits(values, max(first - 1 + count, 0))
        written = as_scalar(new, values.type)
        joined = pc.binary_join_element_wise(before, written, behind, as_scalar("", values.type))
        return pc.cast(joined, pa.string())

    return call(name, place, as_text(name, args[0]))


def levenshtein(name: str, args: list[Node]) -> Node:
    """levenshtein(s, t): the edit distance, in changed, added and removed characters."""
    nodes = [as_text(name, arg) for arg in args]
    kind = pa.int64() if any(pa.types.is_large_string(node.type) for node in nodes) else pa.int32()

    def measure(left: Value, right: Value) -> pa.Array:
        rows = next((len(value) for value in (left, right) if isinstance(value, pa.Array)), 1)
        texts = [broadcast(value, rows) for value in (left, right)]
        (codes, sizes), (others, widths) = map(_codes, texts)
        distances = _distances(offsets_of(sizes), codes, offsets_of(widths), others)
        valid = pc.and_(*map(pc.is_valid, texts))
        return pc.if_else(valid, pc.cast(to_arrow(distances), kind), as_scalar(None, kind))

    return call(name, measure, *nodes)


def _distances(ends: Int64s, codes: UInt32s, other_ends: Int64s, others: UInt32s) -> Int64s:
    """Compute the edit distance of each pair of texts. Checks for cancellation every 0.1 s.

    Short pairs are computed together; a long pair is computed in parts.
    """
    works = np.diff(ends) * np.diff(other_ends)
    reserve_work(works.sum(dtype=np.float64))
    distances = np.empty(len(works), np.int64)
    is_long = works > STEP_CELLS
    for row in np.flatnonzero(is_long).tolist():
        text, other = (
            codes[ends[row] : ends[row + 1]],
            others[other_ends[row] : other_ends[row + 1]],
        )
        distances[row] = _long_distance(text, other)
    steps = np.cumsum(np.where(is_long, 0, works)) // STEP_CELLS
    cuts = [0, *(np.flatnonzero(np.diff(steps) | np.diff(is_long)) + 1).tolist(), len(works)]
    for first, last in pairwise(cuts):
        if first < last and not is_long[first]:
            check_cancelled()
            own = ends[first : last + 1], codes, other_ends[first : last + 1], others
            distances[first:last] = _kernels.edit_distances(*own)
    return distances


def _long_distance(text: UInt32s, other: UInt32s) -> int:
    row = np.arange(len(text) + 1)
    characters = max(1, STEP_CELLS // len(text))
    for first in range(0, len(other), characters):
        check_cancelled()
        row = _kernels.edit_row(row, text, other[first : first + characters])
    return int(row[-1])


def _no_text() -> Node:
    return Literal(as_scalar(None, pa.string()))


def _codes(values: pa.Array) -> tuple[UInt32s, Int64s]:
    """Return the code points of all texts, and the number of code points of each text."""
    values = pc.fill_null(values, as_scalar("", values.type))
    reserve(CODE_BYTES * values.nbytes)
    offsets, data = contents_of(values)
    text = data[int(offsets[0]) : int(offsets[-1])].tobytes().decode()
    codes = np.frombuffer(text.encode("utf-32-le"), np.uint32)
    return codes, as_numbers(pc.utf8_length(values)).astype(np.int64)


def _texts(
    codes: UInt32s, sizes: Int64s, values: pa.Array, type_: pa.DataType | None = None
) -> pa.Array:
    """Encode code points as texts that are null where `values` is null.

    Args:
        sizes: number of code points of each text.
        type_: type of the texts; None for the type of `values`.
    """
    data = np.frombuffer(codes.tobytes().decode("utf-32-le").encode(), np.uint8)
    widths = 1 + (codes >= 0x80).astype(np.int64) + (codes >= 0x800) + (codes >= 0x10000)
    ends = offsets_of(widths)[offsets_of(sizes)]
    texts = like_strings(values, pa.large_string(), ends, data)
    return pc.cast(texts, type_ or values.type)

"""Regular expressions: filters use the syntax of Rust, which is translated to RE2's for Arrow.

The two differ only in `\\w`, `\\d` and `\\s`, which match characters of all scripts in Rust, but
only ASCII in RE2: they are replaced by Unicode classes. `\\b` still finds only ASCII words.
Patterns with set operations on classes are refused, because RE2 has none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.expr.builders.text import as_text, literal_text, reserve_growth
from alance.expr.builders.text_parts import regex_parts
from alance.expr.compare import NULL_BOOLEAN, is_nothing
from alance.expr.tree import (
    FAILURES,
    Node,
    Pattern,
    Problem,
    broadcast,
    call,
    meaning,
    single_line,
    truly,
)
from alance.expr.value_budget import reserve, reserve_work
from alance.format.numbers import as_mask, as_numbers, as_scalar

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.base.arrays import Int64s

_CLASS_MEMBERS: Final = {
    "w": r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}",
    "d": r"\p{Nd}",
    "s": r"\t\n\v\f\r\x{85}\p{Z}",
}
SEARCH_WORK: Final = 16  # bytes reserved per byte of text that a pattern searches
_GROUP: Final = re.compile(r"(?<!\\)(?:\\\\)*\((?!\?[^P<])")
_FLAGS: Final = frozenset("ims")
_NAMED_GROUP: Final = re.compile(r"\(\?P?<[^>=!]+>")
_EDGES: Final = "a b\n1_,"  # a text with all kinds of boundaries: of words, lines, the text


def regexp_like(name: str, args: list[Node]) -> Node:
    """regexp_like(text, pattern[, flags]): true if the pattern matches anywhere.

    Flags are `i`, `m` and `s`.
    """
    if any(is_nothing(arg) for arg in args):
        return NULL_BOOLEAN
    regex, node = _pattern(name, args), as_text(name, args[0])

    def match(values: pa.Array) -> pa.Array:
        reserve_search(values)
        return pc.match_substring_regex(values, regex)

    matches = call(name, match, node)
    parts = regex_parts(literal_text(name, args[1]))
    is_cased = len(args) < 3 or "i" not in literal_text(name, args[2])
    return meaning(matches, Pattern(node, parts=parts, is_cased=is_cased))


def regexp_match(name: str, args: list[Node]) -> Node:
    """regexp_match(text, pattern[, flags]): a list of the first match; null if there is none.

    As a condition, it is true if there is a match, and never null.
    """
    if any(is_nothing(arg) for arg in args):
        return NULL_BOOLEAN
    return Match(name, as_text(name, args[0]), _pattern(name, args))


def regexp_count(name: str, args: list[Node]) -> Node:
    """regexp_count(text, pattern): the number of matches; 0 for a null text."""
    regex = _pattern(name, args)

    def count(values: pa.Array) -> pa.Array:
        reserve_search(values)
        counts = pc.cast(pc.count_substring_regex(values, regex), pa.int64())
        return pc.fill_null(counts, as_scalar(0))

    return call(name, count, as_text(name, args[0]))


def regexp_replace(name: str, args: list[Node]) -> Node:
    r"""regexp_replace(text, pattern, new[, flags]): the first match replaced; with flag `g`, all.

    In the new text, `$1` and `\1` stand for groups.
    """
    flags = literal_text(name, args[3]) if len(args) > 3 else ""
    regex = translated(name, literal_text(name, args[1]), flags.replace("g", ""))
    new = re.sub(r"\$\{?(\d)\}?", r"\\\1", literal_text(name, args[2]))
    most = None if "g" in flags else 1
    count = pc.match_substring_regex if most else pc.count_substring_regex

    def replace(values: pa.Array) -> pa.Array:
        reserve_search(values)
        reserve_growth(values, new, lambda: count(values, regex), new.count("\\"))
        return pc.replace_substring_regex(values, regex, new, max_replacements=most)

    return call(name, replace, as_text(name, args[0]))


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """Node of `regexp_match`.

    Attributes:
        text: node of the texts to search.
        regex: pattern in RE2's syntax.
    """

    name: str
    text: Node
    regex: str

    @property
    def type(self) -> pa.DataType:
        return pa.list_(self.text.type)

    @property
    def args(self) -> tuple[Node, ...]:
        return (self.text,)

    def has_match(self) -> Node:
        """Return the node that tests for a match; it is false for a null text."""

        def test(values: pa.Array) -> pa.Array:
            reserve_search(values)
            return truly(pc.match_substring_regex(values, self.regex))

        return call(self.name, test, self.text)

    def evaluate(self, batch: pa.RecordBatch) -> pa.Array:
        """Return lists whose only item is the whole match.

        Raises:
            Problem: the pattern has groups, whose texts would have to be the items.
        """
        if _GROUP.search(self.regex):
            raise Problem(f"{self.name}: the texts of groups", unsupported=True)
        values = broadcast(self.text.evaluate(batch), batch.num_rows)
        reserve_search(values)
        groups = pc.extract_regex(values, f"(?P<m>{self.regex})")
        texts = pc.struct_field(groups, [0])
        hit = pc.is_valid(groups)
        offsets = pc.cumulative_sum(pc.cast(hit, pa.int32()))
        first = pa.repeat(as_scalar(0, pa.int32()), 1)
        offsets = pa.concat_arrays([first, offsets])
        misses = pc.invert(hit)
        return pa.ListArray.from_arrays(offsets, texts.filter(hit), mask=misses)


def reserve_search(values: pa.Array) -> None:
    """Reserve memory in proportion to the text that one call of Arrow searches.

    A search takes a hundred times as long as a copy, and a call of Arrow cannot be cancelled. The
    reservation makes a large batch be evaluated in small parts, so that each call is short.

    Raises:
        BudgetExceeded: the texts are too large for one call.
    """
    if len(values) > 1:
        reserve(SEARCH_WORK * values.nbytes)
    else:
        reserve_work(SEARCH_WORK * values.nbytes)


def translated(name: str, pattern: str, flags: str = "") -> str:
    """Translate a pattern to RE2's syntax.

    Raises:
        Problem: a flag is unknown, or the pattern has a mistake or set operations on classes.
    """
    if set(flags) - _FLAGS:
        raise Problem(f"{name}: flags {flags!r}, expected some of 'i', 'm' and 's'")
    parts, at = [], 0
    while at < len(pattern):
        if pattern[at] == "[":
            part, at = _class(name, pattern, at)
        elif pattern[at] == "\\":
            part, at = _escape(pattern, at)
        else:
            part, at = pattern[at], at + 1
        parts.append(part)
    regex = f"(?{flags}){''.join(parts)}" if flags else "".join(parts)
    try:
        pc.match_substring_regex(pa.repeat(as_scalar(""), 1), regex)
    except FAILURES as error:
        raise Problem(f"{name}: {single_line(error)}") from None
    return regex


def located(name: str, regex: str, number: int, group: int) -> Callable[[pa.Array], Int64s]:
    """Return the function that finds the byte offset of a match; -1 if there is none.

    Args:
        regex: pattern in RE2's syntax.
        number: n for the n-th match, counted from 1.
        group: number of a group to find in the first match instead; 0 for whole matches.

    Raises:
        Problem: `number` is above 1 and the pattern may match an empty text; or pyarrow is older
            than 21, without `extract_regex_span`.
    """
    if number == 1 and not group:

        def first(values: pa.Array) -> Int64s:
            return as_numbers(pc.fill_null(pc.find_substring_regex(values, regex), -1))

        return first
    if not hasattr(pc, "extract_regex_span"):
        raise Problem(f"{name}: later matches and groups need pyarrow 21", unsupported=True)
    inner, num_groups = _regrouped(regex, group)
    whole = inner
    if not group:
        if _may_be_empty(inner):
            message = f"{name}: later matches of a pattern that may match an empty text"
            raise Problem(message, unsupported=True)
        before = rf"(?s:.*?)(?:{inner})" * (number - 1)
        whole = rf"\A{before}(?s:.*?)(?P<m>{inner})"

    def later(values: pa.Array) -> Int64s:
        if group > num_groups:
            return np.full(len(values), -1, np.int64)
        spans = pc.struct_field(pc.extract_regex_span(values, whole), [0])
        firsts = as_numbers(pc.fill_null(pc.list_element(spans, 0), -1)).astype(np.int64)
        if not group:
            counts = as_numbers(pc.fill_null(pc.count_substring_regex(values, regex), 0))
            return np.where(counts < number, -1, firsts)
        return np.where(as_numbers(pc.fill_null(pc.list_element(spans, 1), -1)) < 0, -1, firsts)

    return later


def _may_be_empty(regex: str) -> bool:
    """True if a pattern matches an empty text at any position of `_EDGES`."""
    edges, length = pa.repeat(as_scalar(_EDGES), 1), len(_EDGES)
    at_each_place = (
        rf"\A(?s:.{{{at}}})(?:{regex})(?s:.{{{length - at}}})\z" for at in range(length + 1)
    )
    return any(as_mask(pc.match_substring_regex(edges, place))[0] for place in at_each_place)


def _regrouped(regex: str, group: int) -> tuple[str, int]:
    """Name one group of a pattern `m`, and make all other groups non-capturing.

    Args:
        regex: pattern in RE2's syntax.
        group: number of the group, from 1; 0 for a pattern without capturing groups.

    Returns:
        The new pattern, and the number of capturing groups of `regex`.
    """
    parts, at, count, in_class = [], 0, 0, False
    while at < len(regex):
        width = 2 if regex[at] == "\\" else 1
        part = regex[at : at + width]
        if part == "[":
            in_class, width = True, 2 if regex[at + 1 : at + 2] == "]" else 1
            width = 3 if regex[at + 1 : at + 3] == "^]" else width
            part = regex[at : at + width]
        elif part == "]":
            in_class = False
        elif part == "(" and not in_class:
            named = _NAMED_GROUP.match(regex, at)
            if named is not None or regex[at + 1 : at + 2] != "?":
                count += 1
                width = 1 if named is None else len(named.group())
                part = "(?P<m>" if count == group else "(?:"
        parts.append(part)
        at += width
    return "".join(parts), count


def _pattern(name: str, args: list[Node]) -> str:
    flags = literal_text(name, args[2]) if len(args) > 2 else ""
    return translated(name, literal_text(name, args[1]), flags)


def _escape(pattern: str, at: int) -> tuple[str, int]:
    letter = pattern[at + 1 : at + 2]
    if letter in _CLASS_MEMBERS:
        return f"[{_CLASS_MEMBERS[letter]}]", at + 2
    if letter and letter.lower() in _CLASS_MEMBERS:
        return f"[^{_CLASS_MEMBERS[letter.lower()]}]", at + 2
    return pattern[at : at + 2], at + 2


def _class(name: str, pattern: str, at: int) -> tuple[str, int]:
    """Translate the class that begins at `[`; also return the offset after the class.

    A class with `\\W`, `\\D` or `\\S` becomes an alternative.
    """
    start = at
    at += 1
    negated = pattern[at : at + 1] == "^"
    at += negated
    members: list[str] = []
    outside: list[str] = []
    while at < len(pattern) and (pattern[at] != "]" or not (members or outside)):
        two = pattern[at : at + 2]
        if two == "[:" and (end := pattern.find(":]", at)) > 0:
            members.append(pattern[at : end + 2])
            at = end + 2
        elif two in ("&&", "~~") or (two == "--" and members) or pattern[at] == "[":
            raise Problem(f"{name}: operations on classes of characters", unsupported=True)
        elif two[0] == "\\" and two[1:] in _CLASS_MEMBERS:
            members.append(_CLASS_MEMBERS[two[1:]])
            at += 2
        elif two[0] == "\\" and two[1:].lower() in _CLASS_MEMBERS:
            outside.append(f"[^{_CLASS_MEMBERS[two[1:].lower()]}]")
            at += 2
        else:
            width = 2 if two[0] == "\\" else 1
            members.append(pattern[at : at + width])
            at += width
    if at >= len(pattern):
        return pattern[start:], at
    if not outside:
        return f"[{'^' if negated else ''}{''.join(members)}]", at + 1
    if negated and (members or len(outside) > 1):
        raise Problem(f"{name}: \\W, \\D or \\S among others in [^...]", unsupported=True)
    if negated:
        return "[" + outside[0].removeprefix("[^"), at + 1
    return f"(?:{'|'.join([*outside, *_bracketed(members)])})", at + 1


def _bracketed(members: list[str]) -> list[str]:
    return [f"[{''.join(members)}]"] if members else []

"""to_char: format dates and times by the directives of Rust's chrono, vectorized over all rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.expr.builders.text import literal_text
from alance.expr.exact import PER_SECOND
from alance.expr.tree import Literal, Node, Problem, call
from alance.expr.value_budget import reserve
from alance.format.numbers import as_numbers, as_scalar, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alance.base.arrays import Int64s

    _Piece = Callable[[pa.Array, Int64s], pa.Array]

DIRECTIVE_GROWTH: Final = 12  # bytes of output and temporary copies per byte of pattern
# Directives that are short for several others.
_ABBREVIATIONS: Final = {
    "D": "%m/%d/%y",
    "x": "%m/%d/%y",
    "F": "%Y-%m-%d",
    "v": "%e-%b-%Y",
    "R": "%H:%M",
    "T": "%H:%M:%S",
    "X": "%H:%M:%S",
    "r": "%I:%M:%S %p",
    "c": "%a %b %e %H:%M:%S %Y",
    "h": "%b",
    "k": "%_H",
    "l": "%_I",
}
# Directives of dates and of times of day. Arrow formats all except `s`, `P` and `f` as chrono does.
_OF_DATES: Final = frozenset("CYymbBdeaAwuUWGgVjs")
_OF_CLOCKS: Final = frozenset("HIMSpPf")
# Directives whose padding may be changed.
_PADDED_DIRECTIVES: Final = frozenset("CYymdewuUWGgVjHIMS")
_DIRECTIVE_TEXTS: Final = {"%": "%%", "t": "\t", "n": "\n"}
_DIRECTIVE: Final = re.compile(r"%([-_0]?)(\.?[369]?)(.)", re.DOTALL)
_YEARS: Final = (-62_167_219_200, 253_402_300_800)  # seconds from 1970 to the years 0 and 10000


def to_char(name: str, args: list[Node]) -> Node:
    """to_char(moment, '%Y-%m-%d'): a date, a time of day or a timestamp as text."""
    node, pattern = args[0], literal_text(name, args[1])
    is_clock = pa.types.is_time(node.type)
    if not is_clock and not pa.types.is_timestamp(node.type) and not pa.types.is_date(node.type):
        is_valid = pa.types.is_duration(node.type) or isinstance(node, Literal)
        raise Problem(f"{name}: expected a date or time, found {node.type}", unsupported=is_valid)
    allowed = _OF_CLOCKS if is_clock else _OF_CLOCKS | _OF_DATES
    pieces: list[_Piece | str] = []
    for piece in _pieces(name, pattern, allowed):
        if pieces and isinstance(piece, str) and isinstance(last := pieces[-1], str):
            pieces[-1] = last + piece
        else:
            pieces.append(piece)

    def write(values: pa.Array) -> pa.Array:
        reserve(DIRECTIVE_GROWTH * len(pattern.encode()) * len(values))
        seconds, fractions = _split(values)
        texts = [
            pc.strftime(seconds, piece, "C")
            if isinstance(piece, str)
            else piece(seconds, fractions)
            for piece in pieces
        ]
        written = pc.binary_join_element_wise(*texts, as_scalar(""), as_scalar(""))
        return pc.if_else(pc.is_valid(values), written, as_scalar(None, pa.string()))

    return call(name, write, node)


def _split(values: pa.Array) -> tuple[pa.Array, Int64s]:
    """Split timestamps into whole seconds since 1970 and nanoseconds after them; nulls become 0."""
    type_ = values.type
    if pa.types.is_date32(type_):
        values, type_ = pc.cast(values, pa.timestamp("s")), pa.timestamp("s")
    elif pa.types.is_date64(type_):
        type_ = pa.timestamp("ms")
    per_second = PER_SECOND[type_.unit]
    whole = pa.int32() if type_.bit_width == 32 else pa.int64()
    numbers = as_numbers(pc.fill_null(values.view(whole), as_scalar(0, whole))).astype(np.int64)
    seconds, parts = np.divmod(numbers, per_second)
    if ((seconds < _YEARS[0]) | (seconds >= _YEARS[1])).any():
        raise pa.ArrowInvalid("a year before 0 or after 9999")
    kind = pa.timestamp("s", getattr(type_, "tz", None))
    return to_arrow(seconds).view(kind), parts * (10**9 // per_second)


def _pieces(name: str, pattern: str, allowed: frozenset[str]) -> Iterator[_Piece | str]:
    """Yield the pieces of a pattern: formats for `strftime`, functions for what Arrow lacks.

    Raises:
        Problem: a directive is unknown or not for the type of the values.
    """
    at = 0
    for match in _DIRECTIVE.finditer(pattern):
        if match.start() > at:
            yield _text(name, pattern[at : match.start()])
        at = match.end()
        padding, digits, letter = match.groups()
        if letter in _DIRECTIVE_TEXTS and not padding and not digits:
            yield _DIRECTIVE_TEXTS[letter]
        elif letter in _ABBREVIATIONS and not digits and (not padding or letter in "kl"):
            yield from _pieces(name, _padded(_ABBREVIATIONS[letter], padding), allowed)
        elif letter not in allowed or bool(digits) > (letter == "f"):
            raise Problem(f"{name}: directive {match.group()!r}")
        elif letter == "f":
            yield _fraction(digits)
        elif letter == "s":
            yield lambda seconds, _: pc.cast(pc.cast(seconds, pa.int64()), pa.string())
        elif letter == "P":
            yield lambda seconds, _: pc.ascii_lower(pc.strftime(seconds, "%p", "C"))
        elif padding and letter not in _PADDED_DIRECTIVES:
            raise Problem(f"{name}: directive {match.group()!r}")
        else:
            yield _number(letter, padding) if padding else f"%{letter}"
    if at < len(pattern):
        yield _text(name, pattern[at:])


def _text(name: str, text: str) -> str:
    if "%" in text:
        raise Problem(f"{name}: a directive without an end in {text!r}")
    return text


def _padded(directive: str, padding: str) -> str:
    return f"%{padding}{directive[-1]}" if padding else directive


def _number(letter: str, padding: str) -> _Piece:
    """Return the function that formats a numeric directive, padded or not.

    Args:
        padding: `-` for no padding, `0` for zeros, anything else for spaces.
    """

    def write(seconds: pa.Array, _: Int64s) -> pa.Array:
        texts = pc.strftime(seconds, f"%{letter}", "C")
        width = {"Y": 4, "G": 4, "j": 3, "w": 1, "u": 1}.get(letter, 2)
        texts = pc.utf8_ltrim(texts, " 0")
        texts = pc.if_else(pc.equal(texts, ""), as_scalar("0"), texts)
        return texts if padding == "-" else pc.utf8_lpad(texts, width, " 0"[padding == "0"])

    return write


def _fraction(digits: str) -> _Piece:
    """Return the function that formats the fraction of a second.

    `%f` has nine digits, `%3f` and `%.3f` that number of digits, `%.f` as many as are needed: 0, 3,
    6 or 9.
    """
    point, width = digits.startswith("."), digits.lstrip(".")

    def write(_: pa.Array, fractions: Int64s) -> pa.Array:
        texts = pc.utf8_lpad(pc.cast(to_arrow(fractions), pa.string()), 9, "0")
        if width:
            texts = pc.utf8_slice_codeunits(texts, 0, int(width))
        if not point:
            return texts
        dotted = pc.binary_join_element_wise(as_scalar("."), texts, as_scalar(""))
        if width:
            return dotted
        sizes = (fractions % 10**6 > 0) + 1 + (fractions % 10**3 > 0)
        for size in (1, 2):
            short = pc.utf8_slice_codeunits(dotted, 0, 1 + 3 * size)
            dotted = pc.if_else(to_arrow(sizes == size), short, dotted)
        return pc.if_else(to_arrow(fractions == 0), as_scalar(""), dotted)

    return write

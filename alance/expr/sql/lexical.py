"""Parsing of SQL text into a syntax tree, and errors that give the position in the text.

`alance.expr.sql.simple` parses simple filters, `alance.expr.sql.grammar` (by `sqlglot`) all others.
This module has the limit of the length, parses long lists, which neither parser sees, and converts
offsets in the text to lines and columns.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.expr.arithmetic import number_literal
from alance.expr.exact import Digits
from alance.expr.sql.parameters import LONG_LIST
from alance.expr.sql.simple import simple_tree
from alance.expr.sql.syntax import SyntaxTree
from alance.format.numbers import text_array, to_arrow

if TYPE_CHECKING:
    from alance.expr.tree import Problem

# Parsing costs about 2 microseconds a character. A longer filter is a list of values, which fits
# better into a pyarrow expression: pc.field(name).isin(values).
MAX_SQL_CHARACTERS: Final = 4 << 20

# A list after IN of at least LONG_LIST texts, numbers or bytes is parsed by regular expressions,
# which take 0.1 to 1 microsecond for an item. The parser takes 10 to 50 for an item, and 150 for a
# term of OR.
_TEXT: Final = "'(?:[^']|'')*+'"
_INTEGER_ITEM: Final = "-?[0-9]{1,18}+"
WHOLE_LENGTH: Final = 18  # characters; every integer of at most this length fits int64
_FRACTION_MARKS: Final = "[.eE]"  # characters of numbers with a fraction or an exponent
_NUMBER_ITEM: Final = r"-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_BYTES: Final = "[xX]'(?:[0-9a-fA-F]{2})*+'"
_LONG_LISTS: Final = "|".join(
    rf"{item}(?:\s*+,\s*+{item}){{{LONG_LIST - 1},}}+(?=\s*+\))"
    for item in (_TEXT, _NUMBER_ITEM, _BYTES)
)
# A chain of at least LONG_LIST terms `name = item` of one column, joined by OR, is a list, too.
# A term next to an operator other than OR is not part of the list, because that operator may bind
# it.
_COLUMN_NAME: Final = r"(?!\d)\w++|`[^`]++`"
_OR: Final = r"(?:\s++|(?<=[`')]))[oO][rR]\b\s*+"
_CHAIN: Final = "|".join(
    rf"(?:=\s*+{item}(?:{_OR}(?P=name)\s*+=\s*+{item}){{{LONG_LIST - 1},}})"
    for item in (_TEXT, rf"{_INTEGER_ITEM}(?![\w.])")
)
# Also matches texts, quoted names and comments, so that no list is found inside them. Compiled when
# the first long text is parsed, which takes a millisecond.
_LIST_PATTERN: Final = rf"""(?sx){_TEXT} | "[^"]*+" | --[^\n]*+ | /\*.*?\*/
      | \b[iI][nN]\s*+\(\s*+(?P<items>{_LONG_LISTS})
      | (?:\A|\(|\b[oO][rR]\b)\s*+(?P<name>{_COLUMN_NAME})\s*+(?P<terms>{_CHAIN})
        (?={_OR}|\s*+(?:\)|\Z)) | `[^`]*+`"""


@dataclass(frozen=True, slots=True)
class SqlText:
    """A SQL text and, once parsed, its parameters and its long lists (IN, or equal columns in OR).

    Attributes:
        text: the SQL.
        what: kind of the text: "filter", "expression" or "aggregate"; error messages begin with it.
        placeholders: parameters in the order of the text; empty before `parse`.
    """

    text: str
    what: str
    placeholders: list[SyntaxTree] = field(default_factory=list, compare=False, repr=False)
    _lists: dict[int, str] = field(default_factory=dict, compare=False, repr=False)  # by start

    def parse(self) -> SyntaxTree:
        """Parse the text as one expression.

        Raises:
            InvalidInputError: the text is not an expression, is too long, or is nested too deeply.
        """
        if not isinstance(self.text, str):
            raise InvalidInputError(f"{self.what}: expected SQL text, found {type(self.text)}")
        if len(self.text) > MAX_SQL_CHARACTERS:
            raise InvalidInputError(
                f"{self.what}: {len(self.text)} characters, expected at most "
                f"{MAX_SQL_CHARACTERS}; long lists of values fit better into a pyarrow expression "
                "(`isin`)"
            )
        tree = simple_tree(self.text)
        if tree is None:
            from alance.expr.sql.grammar import read

            tree = read(self, self._without_lists())
        self._find_placeholders(tree)
        return tree

    def _find_placeholders(self, tree: SyntaxTree) -> None:
        if "?" in self.text or ":" in self.text:
            nodes = [node for node in tree.walk() if node.kind == "Placeholder"]
            self.placeholders[:] = sorted(nodes, key=lambda node: node.start or 0)
            for number, node in enumerate(self.placeholders):
                node.number = number

    def _without_lists(self) -> str:
        """Replace each long list by an empty literal, padded with spaces to the same length."""
        parts, end = [], 0
        for match in (
            re.finditer(_LIST_PATTERN, self.text) if len(self.text) > 2 * LONG_LIST else ()
        ):
            kind = match.lastgroup
            if kind is None:
                continue
            start, stop = match.span(kind)
            stand_in = "''" if kind == "items" else " in ('')"
            self._lists[start + stand_in.index("'")] = _items_of(match)
            parts += [self.text[end:start], stand_in.ljust(stop - start)]
            end = stop
        return "".join(parts) + self.text[end:]

    def long_list(self, tree: SyntaxTree) -> pa.Array | Digits | None:
        """Return the items of the long list that a literal has replaced in the parsed text.

        Returns:
            Large strings, large binaries, int64, or the digits of other numbers. None if `tree`
            replaced no list.
        """
        items = self._lists.get(-1 if tree.start is None else tree.start)
        if items is None:
            return None
        if items[0] in "xX":
            contents = [bytes.fromhex(item) for item in items.split("'")[1::2]]
            return text_array(contents, pa.large_binary())
        if items[0] != "'":
            numbers = [item.strip() for item in items.split(",")]
            if max(map(len, numbers)) > WHOLE_LENGTH or re.search(_FRACTION_MARKS, items):
                return Digits(numbers, number_literal)
            return to_arrow(np.array(list(map(int, numbers)), np.int64))
        texts = [item[1:-1] for item in re.findall(_TEXT, items)]
        if "''" in items:
            texts = [text.replace("''", "'") for text in texts]
        return text_array([text.encode() for text in texts], pa.large_string())

    def locate(
        self, problem: Problem, tree: SyntaxTree, around: SyntaxTree | None = None
    ) -> Exception:
        """Return the public error for a problem, with the position of `tree` in the text.

        Args:
            around: tree whose position is used if `tree` has none.
        """
        start = first_offset(tree)
        if start is None and around is not None:
            start = first_offset(around)
        place = "" if start is None else f", {self.place(start)}"
        return problem.public(f"{self.what}{place}: {problem}")

    def place(self, offset: int) -> str:
        """Return the position of an offset as `line 1, column 5`; both count from 1."""
        before = self.text[:offset]
        return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"

    def too_deep(self) -> InvalidInputError:
        """Return the error for a text that is nested too deeply for Python's stack."""
        return InvalidInputError(f"{self.what}: nested too deeply")


def _items_of(match: re.Match[str]) -> str:
    """Return the items of `IN (...)`, or of `x = 1 OR x = 2 OR ...`, separated by commas."""
    if match.lastgroup == "items":
        return match["items"]
    term = rf"(?:{re.escape(match['name'])}\s*+)?=\s*+({_TEXT}|{_INTEGER_ITEM})"
    return ",".join(re.findall(term, match["terms"]))


def first_offset(tree: object) -> int | None:
    """Return the offset in the text of the first name or literal under a node, or None."""
    if not isinstance(tree, SyntaxTree):
        return None
    return min((node.start for node in tree.walk() if node.start is not None), default=None)

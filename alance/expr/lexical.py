"""Parsing of SQL text into a syntax tree, and errors that name the place in the text.

`alance.expr.simple` parses simple filters, `alance.expr.grammar` (by `sqlglot`) all others. This
module has the limits, the parsing of long lists, which neither parser sees, and places in the text.
"""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import InvalidInputError
from alance.expr.arithmetic import number_literal
from alance.expr.exact import Digits
from alance.expr.parameters import LONG_LIST
from alance.expr.simple import simple_tree
from alance.expr.syntax import Tree
from alance.format.numbers import text_array, to_arrow
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.expr.tree import Problem

# Parsing costs about 2 microseconds a character; above this a filter is a list of values, which
# belongs into a pyarrow expression: pc.field(name).isin(values).
MAX_CHARACTERS: Final = 4 << 20

# Lists after IN of so many texts, numbers or bytes are read apart: the parser takes 10 to 50
# microseconds for an item, and 150 for a term of OR; this a tenth of one to one.
_TEXT: Final = "'(?:[^']|'')*+'"
_WHOLE: Final = "-?[0-9]{1,18}+"
WHOLE_LENGTH: Final = 18  # characters of a number that fits int64 for sure
_PARTS: Final = "[.eE]"  # of numbers that are not whole
_NUMBER: Final = r"-?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_BYTES: Final = "[xX]'(?:[0-9a-fA-F]{2})*+'"
_LONG: Final = "|".join(
    rf"{item}(?:\s*+,\s*+{item}){{{LONG_LIST - 1},}}+(?=\s*+\))"
    for item in (_TEXT, _NUMBER, _BYTES)
)
# As many terms of OR that compare one column, which are a list as well: all but those at the ends
# of the chain, unless the text or a parenthesis ends there. What is around might bind one of them.
_NAME: Final = r"(?!\d)\w++|`[^`]++`"
_OR: Final = r"(?:\s++|(?<=[`')]))[oO][rR]\b\s*+"
_CHAIN: Final = "|".join(
    rf"(?:=\s*+{item}(?:{_OR}(?P=name)\s*+=\s*+{item}){{{LONG_LIST - 1},}})"
    for item in (_TEXT, rf"{_WHOLE}(?![\w.])")
)
# Or what may hold the same characters and is no list: texts, names, comments. Compiled by the
# first long text, which takes a millisecond.
_LISTS: Final = rf"""(?sx){_TEXT} | "[^"]*+" | --[^\n]*+ | /\*.*?\*/
      | \b[iI][nN]\s*+\(\s*+(?P<items>{_LONG})
      | (?:\A|\(|\b[oO][rR]\b)\s*+(?P<name>{_NAME})\s*+(?P<terms>{_CHAIN})
        (?={_OR}|\s*+(?:\)|\Z)) | `[^`]*+`"""


@dataclass(frozen=True, slots=True)
class Source:
    """A piece of SQL text and what it is for.

    Attributes:
        text: the SQL.
        what: "filter" or "expression", the first word of its error messages.
        placeholders: its parameters, in their order, once it is parsed.
    """

    text: str
    what: str
    placeholders: list[Tree] = field(default_factory=list, compare=False, repr=False)
    _lists: dict[int, str] = field(default_factory=dict, compare=False, repr=False)  # by start

    def parse(self) -> Tree:
        """The syntax tree of one expression.

        Raises:
            InvalidInputError: the text is no expression, is too long, or is nested too deeply.
        """
        if not isinstance(self.text, str):
            raise InvalidInputError(f"{self.what}: expected SQL text, found {type(self.text)}")
        if len(self.text) > MAX_CHARACTERS:
            raise InvalidInputError(
                f"{self.what}: {len(self.text)} characters, at most {MAX_CHARACTERS} are parsed; "
                "long lists of values fit better into a pyarrow expression (`isin`)"
            )
        tree = simple_tree(self.text)
        if tree is None:
            from alance.expr.grammar import read

            tree = read(self, self._without_lists())
        self._find_placeholders(tree)
        return tree

    def _find_placeholders(self, tree: Tree) -> None:
        if "?" in self.text or ":" in self.text:
            nodes = [node for node in tree.walk() if node.kind == "Placeholder"]
            self.placeholders[:] = sorted(nodes, key=lambda node: node.start or 0)
            for number, node in enumerate(self.placeholders):
                node.number = number

    def _without_lists(self) -> str:
        """Replace each long list by one empty text, padded with spaces to the same length."""
        parts, end = [], 0
        for match in re.finditer(_LISTS, self.text) if len(self.text) > 2 * LONG_LIST else ():
            kind = match.lastgroup
            if kind is None:
                continue
            start, stop = match.span(kind)
            stand_in = "''" if kind == "items" else " in ('')"
            self._lists[start + stand_in.index("'")] = _items_of(match)
            parts += [self.text[end:start], stand_in.ljust(stop - start)]
            end = stop
        return "".join(parts) + self.text[end:]

    def long_list(self, tree: Tree) -> pa.Array | Digits | None:
        """The items of the long list in whose place a literal was read, as texts, bytes, int64,
        or numbers as they are written.
        """
        items = self._lists.get(-1 if tree.start is None else tree.start)
        if items is None:
            return None
        if items[0] in "xX":
            contents = [bytes.fromhex(item) for item in items.split("'")[1::2]]
            return text_array(contents, pa.large_binary())
        if items[0] != "'":
            numbers = [item.strip() for item in items.split(",")]
            if max(map(len, numbers)) > WHOLE_LENGTH or re.search(_PARTS, items):
                return Digits(numbers, number_literal)
            return to_arrow(np.array(list(map(int, numbers)), np.int64))
        texts = [item[1:-1] for item in re.findall(_TEXT, items)]
        if "''" in items:
            texts = [text.replace("''", "'") for text in texts]
        return text_array([text.encode() for text in texts], pa.large_string())

    def locate(self, problem: Problem, tree: Tree, around: Tree | None = None) -> Exception:
        """The public error for a problem at a node (or, where that has no place, around it)."""
        start = first_offset(tree)
        if start is None and around is not None:
            start = first_offset(around)
        place = "" if start is None else f", {self.place(start)}"
        return problem.public(f"{self.what}{place}: {problem}")

    def place(self, offset: int) -> str:
        """`line 1, column 5`; both count from one."""
        before = self.text[:offset]
        return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"

    def too_deep(self) -> InvalidInputError:
        """The error for text that nests deeper than Python's stack."""
        return InvalidInputError(f"{self.what}: nested too deeply")


def _items_of(match: re.Match[str]) -> str:
    """The items of a list or a chain, parted by commas."""
    if match.lastgroup == "items":
        return match["items"]
    term = rf"(?:{re.escape(match['name'])}\s*+)?=\s*+({_TEXT}|{_WHOLE})"
    return ",".join(re.findall(term, match["terms"]))


def first_offset(tree: object) -> int | None:
    """Return the offset in the text of the first name or literal under a node, or None."""
    if not isinstance(tree, Tree):
        return None
    return min((node.start for node in tree.walk() if node.start is not None), default=None)

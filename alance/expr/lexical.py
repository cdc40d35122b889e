"""SQL text to a `sqlglot` tree, and errors that name the place in the text.

`sqlglot` parses; here are the words of the dialect (text in single or double quotes, names bare or
in backticks, X'..' for bytes), the limits, and the translation of its errors. No function is known
to the parser but those with a syntax of their own, so that all others arrive by name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias

import numpy as np
import pyarrow as pa
import sqlglot.parser
import sqlglot.tokens
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from alance.errors import InvalidInputError
from alance.expr.arithmetic import number_literal
from alance.expr.exact import Digits
from alance.expr.parameters import LONG_LIST
from alance.format.numbers import text_array, to_arrow

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.expr.tree import Problem

# Parsing costs about 2 microseconds a character; above this a filter is a list of values, which
# belongs into a pyarrow expression: pc.field(name).isin(values).
MAX_CHARACTERS: Final = 4 << 20

Tree: TypeAlias = Any  # sqlglot's node; its base class has had several names

# Lists after IN of so many texts, numbers or bytes are read apart: the parser takes 10 to 50
# microseconds for an item, and 150 for a term of OR; this a tenth of one to one.
_TEXT: Final = "'(?:[^']|'')*+'"
_WHOLE: Final = "-?[0-9]{1,18}+"
WHOLE_LENGTH: Final = 18  # characters of a number that fits int64 for sure
_PARTS: Final = re.compile("[.eE]")  # of numbers that are not whole
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
# Or what may hold the same characters and is no list: texts, names, comments.
_LISTS: Final = re.compile(
    rf"""{_TEXT} | "[^"]*+" | --[^\n]*+ | /\*.*?\*/
      | \b[iI][nN]\s*+\(\s*+(?P<items>{_LONG})
      | (?:\A|\(|\b[oO][rR]\b)\s*+(?P<name>{_NAME})\s*+(?P<terms>{_CHAIN})
        (?={_OR}|\s*+(?:\)|\Z)) | `[^`]*+`""",
    re.DOTALL | re.VERBOSE,
)

_SYNTAX_OF_THEIR_OWN: Final = ("CAST", "EXTRACT", "SUBSTRING", "TRIM", "TRY_CAST")
_TYPES_OF_TEXT: Final = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME")
_PRECEDENCE: Final = getattr(sqlglot.parser, "IsPredicatePrecedence", None)


class _Words(sqlglot.tokens.Tokenizer):
    IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
    HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
    COMMENTS: ClassVar[list[Any]] = ["--", ("/*", "*/")]


def _placeholder(parser: Any, *, is_named: bool) -> Tree:
    """`?` or `:name`, with its place; a name may be a word of SQL."""
    start = parser._prev.start
    name = None
    if is_named:
        token = parser._curr
        if token is None or token.start != start + 1 or not token.text.isidentifier():
            return None
        name = token.text
        parser._advance()
    placeholder = exp.Placeholder(this=name) if is_named else exp.Placeholder()
    placeholder.meta["start"] = start
    return placeholder


class _Grammar(sqlglot.parser.Parser):
    FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
    NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "CASE": lambda self: self._parse_case()
    }
    FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
        **{name: sqlglot.parser.Parser.FUNCTION_PARSERS[name] for name in _SYNTAX_OF_THEIR_OWN},
        "POSITION": lambda self: self._parse_position(haystack_first=True),
    }
    COLUMN_OPERATORS: ClassVar[dict[Any, Any]] = {
        token: meaning
        for token, meaning in sqlglot.parser.Parser.COLUMN_OPERATORS.items()
        if token.name in ("DOT", "DCOLON")
    }
    PLACEHOLDER_PARSERS: ClassVar[dict[Any, Any]] = {
        TokenType.PLACEHOLDER: lambda self: _placeholder(self, is_named=False),
        TokenType.COLON: lambda self: _placeholder(self, is_named=True),
    }
    if _PRECEDENCE is not None:
        # `a = 1 is true` is `(a = 1) is true`, as DataFusion has it.
        IS_PREDICATE_PRECEDENCE = _PRECEDENCE.LOW


class AlanceDialect(Dialect):
    """The SQL of filters: what `sqlglot` needs to read it."""

    Tokenizer = _Words
    Parser = _Grammar


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
        dialect = AlanceDialect()
        try:
            text = self._without_lists()
            tokens = self._with_typed_texts(dialect.tokenize(text))
            parser = dialect.parser(error_message_context=len(text))
            trees = parser.parse_into(exp.Condition, tokens, text)
        except ParseError as error:
            raise self._syntax_error(error) from None
        except TokenError as error:
            raise self._unterminated(error) from None
        except RecursionError:
            raise self.too_deep() from None
        except Exception as error:
            # A parser of a hundred dialects meets odd input in odd ways; the text is at fault.
            raise InvalidInputError(f"{self.what}: cannot be parsed ({error})") from error
        trees = [tree for tree in trees if tree is not None]
        if not trees:
            raise InvalidInputError(f"{self.what}: expected an expression, found nothing")
        if len(trees) > 1:
            raise InvalidInputError(
                f"{self.what}: expected one expression, found {len(trees)} separated by ';'"
            )
        self._find_placeholders(trees[0])
        return trees[0]

    def _find_placeholders(self, tree: Tree) -> None:
        if "?" in self.text or ":" in self.text:
            nodes = sorted(tree.find_all(exp.Placeholder), key=lambda node: node.meta["start"])
            self.placeholders[:] = nodes
            for number, node in enumerate(nodes):
                node.meta["number"] = number

    def _without_lists(self) -> str:
        """The text with IN, an empty text and spaces in the place of each long list."""
        parts, end = [], 0
        for match in _LISTS.finditer(self.text) if len(self.text) > 2 * LONG_LIST else ():
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
        start = tree.meta.get("start", -1) if isinstance(tree, exp.Literal) else -1
        items = self._lists.get(start)
        if items is None:
            return None
        if items[0] in "xX":
            contents = [bytes.fromhex(item) for item in items.split("'")[1::2]]
            return text_array(contents, pa.large_binary())
        if items[0] != "'":
            numbers = [item.strip() for item in items.split(",")]
            if max(map(len, numbers)) > WHOLE_LENGTH or _PARTS.search(items):
                return Digits(numbers, number_literal)
            return to_arrow(np.array(list(map(int, numbers)), np.int64))
        texts = [item[1:-1] for item in re.findall(_TEXT, items)]
        if "''" in items:
            texts = [text.replace("''", "'") for text in texts]
        return text_array([text.encode() for text in texts], pa.large_string())

    def locate(self, problem: Problem, tree: Tree, around: Tree = None) -> Exception:
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

    def _with_typed_texts(self, tokens: list[Tree]) -> list[Tree]:
        """The tokens, with text in double quotes after a type as text: `timestamp "2020-01-01"`."""
        for before, token in pairwise(tokens):
            is_name = token.token_type == TokenType.IDENTIFIER and self.text[token.start] == '"'
            if is_name and before.token_type.name in _TYPES_OF_TEXT:
                token.token_type = TokenType.STRING
        return tokens

    def _syntax_error(self, error: ParseError) -> InvalidInputError:
        first = error.errors[0] if error.errors else {}
        highlight = first.get("highlight") or ""
        offset = len(first.get("start_context") or "")
        reason = str(first.get("description") or "not understood")
        if reason.startswith("Invalid expression"):
            reason = "expected an operator or the end"
        elif reason.startswith("Required keyword"):
            reason = "an operand is missing"
        seen = f"near {highlight[:60]!r}" if highlight else "at the end"
        return InvalidInputError(
            f"{self.what}, {self.place(offset)}: syntax error {seen}: {reason}"
        )

    def _unterminated(self, error: TokenError) -> InvalidInputError:
        match = re.search(r"Missing (\S+) from (\d+):(\d+)", str(error.__cause__))
        if match is None:
            return InvalidInputError(
                f"{self.what}: text, name or comment not closed before {self.place(len(self.text))}"
            )
        closing, line, column = match.groups()
        return InvalidInputError(
            f"{self.what}: opened at line {line}, column {column} and not closed: "
            f"expected {closing} before the end"
        )


def _items_of(match: re.Match[str]) -> str:
    """The items of a list or a chain, parted by commas."""
    if match.lastgroup == "items":
        return match["items"]
    term = rf"(?:{re.escape(match['name'])}\s*+)?=\s*+({_TEXT}|{_WHOLE})"
    return ",".join(re.findall(term, match["terms"]))


def first_offset(tree: Tree) -> int | None:
    """Where in the text a node begins, as far as its names and literals tell."""
    if not isinstance(tree, exp.Expression):
        return None
    best: int | None = None
    for node in tree.walk():
        start = node.meta.get("start") if node.meta else None
        if isinstance(start, int) and (best is None or start < best):
            best = start
    return best

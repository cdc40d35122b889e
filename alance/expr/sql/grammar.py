"""Parser of SQL text by `sqlglot`: the dialect, and the translation of its trees and errors.

Text is in single or double quotes, names are bare or in backticks, bytes are X'..'. The parser
knows only functions with special syntax; a call of any other function keeps its name. Importing
this module takes 0.1 s.
"""

from __future__ import annotations

import re
from enum import Enum
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Final

import sqlglot.parser
import sqlglot.tokens
from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, TokenError

from alance.base.cancellation import check_cancelled
from alance.errors import InvalidInputError
from alance.expr.sql.syntax import SyntaxTree

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.expr.sql.lexical import SqlText

_SYNTAX_OF_THEIR_OWN: Final = ("CAST", "EXTRACT", "SUBSTRING", "TRIM", "TRY_CAST")
_TYPES_OF_TEXT: Final = ("DATE", "TIME", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPNTZ", "DATETIME")
_PRECEDENCE: Final = getattr(sqlglot.parser, "IsPredicatePrecedence", None)


class _Words(sqlglot.tokens.Tokenizer):
    IDENTIFIERS: ClassVar[list[Any]] = ['"', "`"]
    HEX_STRINGS: ClassVar[list[Any]] = [("x'", "'"), ("X'", "'")]
    COMMENTS: ClassVar[list[Any]] = ["--", ("/*", "*/")]


def _placeholder(parser: Any, *, is_named: bool) -> Any:
    """Parse `?` or `:name` and store its offset in the text. The name may be a keyword of SQL."""
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
    """The SQL dialect of filters, for `sqlglot`."""

    Tokenizer = _Words
    Parser = _Grammar


def read(source: SqlText, text: str) -> SyntaxTree:
    """Parse one expression.

    Args:
        text: the text of the source; or a text of the same length in which each long list is
            replaced by a short literal and spaces.

    Raises:
        InvalidInputError: the text is not an expression, or is nested too deeply.
    """
    dialect = AlanceDialect()
    try:
        tokens = _with_typed_texts(source, dialect.tokenize(text))
        parser = dialect.parser(error_message_context=len(text))
        nodes = parser.parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise _syntax_error(source, error) from None
    except TokenError as error:
        raise _unterminated(source, error) from None
    except RecursionError:
        raise source.too_deep() from None
    except Exception as error:
        # `sqlglot` raises errors of other classes, too, for some texts that are not SQL.
        raise InvalidInputError(f"{source.what}: cannot be parsed ({error})") from error
    nodes = [node for node in nodes if node is not None]
    if not nodes:
        raise InvalidInputError(f"{source.what}: expected an expression, found nothing")
    if len(nodes) > 1:
        raise InvalidInputError(
            f"{source.what}: expected one expression, found {len(nodes)} separated by ';'"
        )
    return _translated(nodes[0])


def _translated(root: Any) -> SyntaxTree:
    """Translate a tree of `sqlglot`, bottom-up without recursion: long chains are deep trees."""
    trees: dict[int, SyntaxTree] = {}

    def part(value: Any) -> Any:
        if isinstance(value, list):
            return [part(item) for item in value]
        if isinstance(value, Enum):
            return value.value
        return trees[id(value)] if isinstance(value, exp.Expression) else value

    nodes = list(root.walk(bfs=True))
    for node in reversed(nodes):
        check_cancelled()
        start = node.meta.get("start") if node.meta else None
        tree = SyntaxTree(type(node).__name__, start if isinstance(start, int) else None)
        for name, value in node.args.items():
            if value is not None and value is not False and value != []:
                tree.args[name] = part(value)
        if isinstance(node, exp.DataType):
            tree.args["sql"] = node.sql().lower()
        trees[id(node)] = tree
    return trees[id(root)]


def _with_typed_texts(source: SqlText, tokens: list[Any]) -> list[Any]:
    """Turn double-quoted tokens after the name of a type into text: `timestamp "2020-01-01"`."""
    for before, token in pairwise(tokens):
        is_name = token.token_type == TokenType.IDENTIFIER and source.text[token.start] == '"'
        if is_name and before.token_type.name in _TYPES_OF_TEXT:
            token.token_type = TokenType.STRING
    return tokens


_ALONE: Final = "; the text is an expression alone, without SELECT, FROM and WHERE"
# Hints on what to write instead, by the token at a syntax error.
_SYNTAX_HINTS: Final = {
    "&&": "; write AND",
    "!": "; write NOT",
    "~": "; write regexp_like(column, 'pattern')",
    "contains": "; write contains(column, 'text')",
    "select": _ALONE,
    "from": _ALONE,
    "where": _ALONE,
    "order by": "; rows are sorted by the argument order_by",
    "group by": "; groups are an argument of `aggregate`",
    "limit": "; the number of rows is the argument limit",
}


def _syntax_error(source: SqlText, error: ParseError) -> InvalidInputError:
    from alance.expr.sql.habits import habit_hint

    first = error.errors[0] if error.errors else {}
    highlight = first.get("highlight") or ""
    offset = len(first.get("start_context") or "")
    reason = str(first.get("description") or "not understood")
    if reason.startswith("Invalid expression"):
        reason = "expected an operator or the end"
    elif reason.startswith("Required keyword"):
        reason = "an operand is missing"
    seen = f"near {highlight[:60]!r}" if highlight else "at the end"
    hint = habit_hint(source.text) or _SYNTAX_HINTS.get(highlight.strip().lower(), "")
    return InvalidInputError(
        f"{source.what}, {source.place(offset)}: syntax error {seen}: {reason}{hint}"
    )


def _unterminated(source: SqlText, error: TokenError) -> InvalidInputError:
    match = re.search(r"Missing (\S+) from (\d+):(\d+)", str(error.__cause__))
    if match is None:
        return InvalidInputError(
            f"{source.what}: text, name or comment not closed before "
            f"{source.place(len(source.text))}"
        )
    closing, line, column = match.groups()
    return InvalidInputError(
        f"{source.what}: opened at line {line}, column {column} and not closed: "
        f"expected {closing} before the end"
    )

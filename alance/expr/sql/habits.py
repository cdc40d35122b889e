"""Hints for filters in the style of other tools: parameters, names, methods, bare dates."""

from __future__ import annotations

import re
from typing import Final

_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`")
# Markers of psycopg, DuckDB, BigQuery, SQLite, f-strings and others.
_MARKER: Final = re.compile(r"%s|%\(\w+\)s|(?<!\w)[$@#]\w+|\{[^{}]*\}|(?<![\w:]):\d+|\?\d+")
_DATE: Final = re.compile(r"\b\d{4}-\d\d-\d\d(T[\d:.]+)?")
_METHOD: Final = re.compile(r"\.(?:str\.)?(\w+)\(")
# Methods that are written as functions, too.
_OF_FUNCTIONS: Final = {
    "endswith": "ends_with(column, 'text')",
    "is_not_null": "column IS NOT NULL",
    "is_null": "column IS NULL",
    "isna": "column IS NULL",
    "isnull": "column IS NULL",
    "notna": "column IS NOT NULL",
    "notnull": "column IS NOT NULL",
    "startswith": "starts_with(column, 'text')",
}
_OF_METHODS: Final = _OF_FUNCTIONS | {
    "between": "column BETWEEN 1 AND 2",
    "contains": "contains(column, 'text')",
    "is_in": "column IN (1, 2)",
    "isin": "column IN (1, 2)",
    "lower": "lower(column)",
    "match": "regexp_like(column, 'pattern')",
    "upper": "upper(column)",
}
_OF_NAMES: Final = _OF_FUNCTIONS | {
    "NaN": "isnan(column) to find values that are no numbers",
    "None": "NULL for a null value, and `column IS NULL` to find null values",
    "len": "length(column)",
    "nan": "isnan(column) to find values that are no numbers",
    "nil": "NULL for a null value, and `column IS NULL` to find null values",
}


def name_hint(name: str) -> str:
    """Return the counterpart of a name of other languages as a hint; empty if there is none."""
    return f"; write {_OF_NAMES[name]}" if name in _OF_NAMES else ""


def habit_hint(text: str) -> str:
    """Return the counterpart of another library's syntax as a hint; empty if there is none.

    Args:
        text: the SQL text, which has a mistake.
    """
    bare = _QUOTED.sub("''", text)
    if marker := _MARKER.search(bare):
        return f"; {marker[0][:20]} is no parameter here: write ? or :name, with `params`"
    if date := _DATE.search(bare):
        return f"; write a time as text: '{date[0]}'"
    if (method := _METHOD.search(bare)) and method[1] in _OF_METHODS:
        return f"; write {_OF_METHODS[method[1]]}"
    return ""

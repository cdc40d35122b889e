"""Field paths as text: names separated by dots, such as `s.a`.

A name may be quoted in backticks. In quotes, dots are literal and a backtick is doubled.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterable

_PATH_NAME: Final = re.compile(r"`((?:[^`]|``)*)`|([^`.]*)")


def split_path(path: str) -> tuple[str, ...]:
    """Split a path into its names, outermost first."""
    if "`" not in path:
        return tuple(path.split("."))
    names, start = [], 0
    while True:
        match = _PATH_NAME.match(path, start)
        assert match is not None  # the pattern matches the empty text
        quoted, bare = match.groups()
        names.append(bare if quoted is None else quoted.replace("``", "`"))
        if match.end() == len(path):
            return tuple(names)
        if path[match.end()] != ".":
            raise InvalidInputError(
                f"column {path!r}: at character {match.end() + 1} expected a dot or the end; "
                "a name in backticks is closed by a backtick, and one of its own is doubled"
            )
        start = match.end() + 1


def join_path(names: Iterable[str]) -> str:
    """Join names to a path; quote names with dots or backticks."""
    return ".".join(quoted((name,)) if "." in name or "`" in name else name for name in names)


def quoted(names: Iterable[str]) -> str:
    """Join names to a path for SQL, with each name in backticks."""
    return ".".join(f"`{name.replace('`', '``')}`" for name in names)

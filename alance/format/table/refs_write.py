"""Serialize tags and branches: JSON indented by two spaces, with members in other writers' order.

Source: docs/format/table.md, "Tags and branches".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from alance.errors import CorruptFileError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SECOND_NS: Final = 1_000_000_000
_ID: Final = re.compile(r"[0-9a-f]{32}")


def time_text(ns: int) -> str:
    """Format a time as RFC 3339 in UTC, to the nanosecond.

    Args:
        ns: nanoseconds since 1970.
    """
    seconds, rest = divmod(ns, SECOND_NS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def tag_bytes(
    version: int,
    branch: str | None,
    *,
    ns: int,
    manifest_bytes: int,
    metadata: Mapping[str, str],
) -> bytes:
    """Serialize a new tag.

    Args:
        branch: branch of the version; None for main.
        ns: creation time, nanoseconds since 1970.
        manifest_bytes: size of the version's manifest.
    """
    now = time_text(ns)
    return _text(
        {
            "branch": branch,
            "version": version,
            "createdAt": now,
            "updatedAt": now,
            "manifestSize": manifest_bytes,
            "metadata": dict(metadata),
        }
    )


def branch_bytes(
    parent_branch: str | None,
    parent_version: int,
    *,
    identifier: Sequence[tuple[int, str]],
    ns: int,
    manifest_bytes: int,
    metadata: Mapping[str, str],
) -> bytes:
    """Serialize a new branch.

    Args:
        identifier: the parent's identifier plus one pair; see `BranchContents`.
        ns: creation time, nanoseconds since 1970; stored in whole seconds.
        manifest_bytes: size of the manifest of the branch's first version.
    """
    return _text(
        {
            "parentBranch": parent_branch,
            "identifier": {"version_mapping": [list(pair) for pair in identifier]},
            "parentVersion": parent_version,
            "createAt": ns // SECOND_NS,
            "manifestSize": manifest_bytes,
            "metadata": dict(metadata),
        }
    )


def with_members(content: bytes | memoryview, where: str, changes: Mapping[str, object]) -> bytes:
    """Replace members of a tag or branch; the other members stay as they are.

    Raises:
        CorruptFileError: not a JSON object.
    """
    return _text({**members_of(content, where), **changes})


def members_of(content: bytes | memoryview, where: str) -> dict[str, Any]:
    """Parse a JSON object without validating its values.

    Raises:
        CorruptFileError: not a JSON object.
    """
    import json

    try:
        members: Any = json.loads(bytes(content))
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{where}: no JSON: {error}") from error
    if not isinstance(members, dict):
        raise CorruptFileError(f"{where}: expected a JSON object")
    return members


def parse_identifier(value: object, where: str) -> tuple[tuple[int, str], ...]:
    """Parse a branch's identifier: a version and an id for each branch from main down to it.

    Returns an empty tuple if `value` is None.

    Raises:
        CorruptFileError: the value is not a list of such pairs.
    """
    if value is None:
        return ()
    pairs = value.get("version_mapping") if isinstance(value, dict) else None
    identifier = []
    for pair in pairs if isinstance(pairs, list) else [None]:
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or type(pair[0]) is not int
            or not isinstance(pair[1], str)
            or not _ID.fullmatch(pair[1])
        ):
            raise CorruptFileError(f"{where}: 'identifier' is {value!r:.80}, expected pairs")
        identifier.append((pair[0], pair[1]))
    return tuple(identifier)


def _text(members: Mapping[str, object]) -> bytes:
    import json

    return json.dumps(members, indent=2, ensure_ascii=False).encode()

"""Tags and branches: small JSON files of a dataset, and the rules for their names.

  _refs/tags/{name}.json        version, branch (null: main), createdAt, updatedAt, manifestSize,
                                metadata
  _refs/branches/{name}.json    parentBranch (null: main), parentVersion, createAt (unix seconds),
                                manifestSize, metadata, identifier; `/` in the name is `%2F`

Source: docs/format/table.md, "Tags and branches".
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from alance.base.records import dataclass
from alance.errors import CorruptFileError, InvalidInputError
from alance.format.table.naming import TREE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAIN: Final = "main"
# Key in a tag's metadata; its value is the URI of a shallow clone of the version.
CLONE: Final = "alance.clone"
REF_SUFFIX: Final = ".json"
_SEGMENT: Final = re.compile(r"[\w.-]+")
# RFC 3339 times have up to nanoseconds; datetime only has microseconds.
_FRACTION: Final = re.compile(r"\.(\d{1,6})\d*")
_ID: Final = re.compile(r"[0-9a-f]{32}")
SECOND_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TagContents:
    """Content of a tag.

    Attributes:
        version: number of the version.
        branch: branch of the version; None for main.
        manifest_bytes: size of the version's manifest; 0 if unknown.
    """

    version: int
    branch: str | None
    created_at: datetime | None
    updated_at: datetime | None
    manifest_bytes: int
    metadata: Mapping[str, str]

    @property
    def clone_uri(self) -> str | None:
        """URI of the shallow clone that needs the tag's version; None for tags that users made."""
        return self.metadata.get(CLONE)


@dataclass(frozen=True, slots=True)
class BranchContents:
    """Record of a branch: the version that it starts from.

    Attributes:
        parent_branch: branch that it starts from; None for main.
        parent_version: version of the parent branch that it starts from.
        manifest_bytes: size of that version's manifest; 0 if unknown.
        identifier: first version and unique id of each branch from main down to this branch; empty
            for branches of old writers.
    """

    parent_branch: str | None
    parent_version: int
    created_at: datetime | None
    manifest_bytes: int
    metadata: Mapping[str, str]
    identifier: tuple[tuple[int, str], ...] = ()


def check_tag_name(name: str) -> str:
    """Return the name after checking that it is valid for a tag."""
    if (
        not _SEGMENT.fullmatch(name)
        or name.startswith(".")
        or name.endswith((".", ".lock"))
        or ".." in name
    ):
        raise InvalidInputError(
            f"tag {name!r}: expected letters, digits, '.', '-' and '_', no '.' at either end, "
            f"no '..', not ending in '.lock'"
        )
    return name


def check_branch_name(name: str) -> str:
    """Return the name after checking that it is valid for a branch other than main."""
    if (
        not all(_SEGMENT.fullmatch(part) and part != "." for part in name.split("/"))
        or ".." in name
        or name.endswith(".lock")
        or name == MAIN
    ):
        raise InvalidInputError(
            f"branch {name!r}: expected letters, digits, '.', '-' and '_' in segments between "
            f"'/', no '..', not ending in '.lock', not 'main'"
        )
    return name


def ref_file_name(name: str) -> str:
    """Return the file name of a tag or branch inside its folder."""
    return quote(name, safe="") + REF_SUFFIX


def parse_ref_file_name(file_name: str) -> str | None:
    """Parse the name of a tag or branch from a file name. Returns None for other files."""
    if not file_name.endswith(REF_SUFFIX) or "/" in file_name:
        return None
    return unquote(file_name.removesuffix(REF_SUFFIX)) or None


def branch_folder(name: str) -> str:
    """Return the path of a branch's folder below the dataset's folder."""
    return f"{TREE}/{name}"


def parse_tag(content: bytes | memoryview, where: str) -> TagContents:
    fields = _Fields(content, where)
    return TagContents(
        fields.number("version"),
        _branch(fields),
        fields.time("createdAt"),
        fields.time("updatedAt"),
        fields.number("manifestSize", 0),
        fields.texts("metadata"),
    )


def parse_branch(content: bytes | memoryview, where: str) -> BranchContents:
    fields = _Fields(content, where)
    seconds = fields.number("createAt", 0)
    try:
        created = datetime.fromtimestamp(seconds, UTC) if seconds else None
    except (ValueError, OverflowError, OSError) as error:
        raise CorruptFileError(f"{where}: 'createAt' is {seconds}: {error}") from error
    return BranchContents(
        fields.text("parentBranch"),
        fields.number("parentVersion"),
        created,
        fields.number("manifestSize", 0),
        fields.texts("metadata"),
        parse_identifier(fields.values.get("identifier"), where),
    )


def _branch(fields: _Fields) -> str | None:
    name = fields.text("branch")
    if name is None or name == MAIN:
        return None
    try:
        return check_branch_name(name)
    except InvalidInputError as error:
        raise CorruptFileError(f"{fields.where}: {error}") from error


class _Fields:
    """Members of a JSON object, validated on access."""

    def __init__(self, content: bytes | memoryview, where: str) -> None:
        self.where = where
        self.values = members_of(content, where)

    def _wrong(self, name: str, expected: str) -> CorruptFileError:
        shown = repr(self.values.get(name))[:80]
        return CorruptFileError(f"{self.where}: {name!r} is {shown}, expected {expected}")

    def number(self, name: str, default: int | None = None) -> int:
        """Return an unsigned 64-bit number, or the default if it is absent."""
        value = self.values.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
            raise self._wrong(name, "a number of 64 bits")
        return value

    def text(self, name: str) -> str | None:
        """Return a text; None if it is absent or null."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a text or null")
        return value

    def texts(self, name: str) -> dict[str, str]:
        """Return a JSON object of texts by key; empty if it is absent or null."""
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
            raise self._wrong(name, "an object of texts")
        return value

    def time(self, name: str) -> datetime | None:
        """Return an RFC 3339 time, to the microsecond; None if it is absent or null."""
        value = self.text(name)
        if value is None:
            return None
        try:
            parsed = datetime.fromisoformat(_FRACTION.sub(r".\1", value, count=1))
            return parsed.replace(tzinfo=parsed.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise self._wrong(name, "a time of RFC 3339") from error


def time_text(ns: int) -> str:
    """Format nanoseconds since 1970 as RFC 3339 in UTC."""
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
        ns: creation time, nanoseconds since 1970.
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
    """Replace members of a tag or branch; the other members stay as they are."""
    return _text({**members_of(content, where), **changes})


def members_of(content: bytes | memoryview, where: str) -> dict[str, Any]:
    """Parse a JSON object without validating its values."""
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
    """
    if value is None:
        return ()
    identifier = []
    pairs = value.get("version_mapping") if isinstance(value, dict) else None
    for pair in pairs if isinstance(pairs, list) else [None]:
        match pair:
            case [int(version), str(unique)] if type(version) is int and _ID.fullmatch(unique):
                identifier.append((version, unique))
            case _:
                raise CorruptFileError(f"{where}: 'identifier' is {value!r:.80}, expected pairs")
    return tuple(identifier)


def _text(members: Mapping[str, object]) -> bytes:
    import json

    return json.dumps(members, indent=2, ensure_ascii=False).encode()

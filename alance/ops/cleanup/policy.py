"""Choice of the versions that a cleanup removes, with its counts and explanations. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict, TypeVar

from alance.base.calls import public
from alance.base.checks import check_count, check_counts, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.ops.cleanup.after import AUTO, CLEANUP_INTERVAL

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from alance.format.table.refs import TagContents

T = TypeVar("T")

DEFAULT_AGE: Final = timedelta(days=14)
LONGEST_S: Final = 1e12  # longest duration in seconds; 30,000 years
Kind: TypeAlias = Literal[
    "data", "transaction", "index", "deletion", "manifest", "temporary_manifest", "temporary"
]
_SECONDS_BY_UNIT: Final = {
    **dict.fromkeys(("ms", "msec", "millis"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), 3600),
    **dict.fromkeys(("d", "day", "days"), 86_400),
    **dict.fromkeys(("w", "week", "weeks"), 604_800),
}
_DURATION: Final = re.compile(r"\s*(\d+)\s*([a-z]+)\s*")


@dataclass(frozen=True, slots=True)
class CleanupStats:
    """Counts of the objects that a cleanup removed, or would remove.

    Attributes:
        bytes_removed: bytes of all files, as the store lists them.
        old_versions: number of removed versions.
        failed_deletes: files that the store did not delete; the next cleanup tries again.
    """

    bytes_removed: int = 0
    old_versions: int = 0
    data_files_removed: int = 0
    transaction_files_removed: int = 0
    index_files_removed: int = 0
    deletion_files_removed: int = 0
    failed_deletes: int = 0


@dataclass(frozen=True, slots=True)
class CleanupCandidateFile:
    """A file that a cleanup would remove.

    Attributes:
        path: relative to the folder of the table or branch.
        unverified: True if no version names the file, because a writer failed or is still running.
    """

    path: str
    kind: Kind
    unverified: bool
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleanupReferencedBranch:
    """A branch from a version of the table, which therefore is retained.

    Attributes:
        referenced_version: number of that version.
    """

    name: str
    referenced_version: int


@dataclass(frozen=True, slots=True)
class CleanupExplanation:
    """Versions and files that a cleanup would remove.

    Attributes:
        read_version: the latest version, which is retained.
        versions: versions that would be removed, oldest first.
        candidate_files: the files, or only some of them; `stats` counts all of them.
        candidate_files_truncated: True if `candidate_files` is incomplete.
        referenced_branches: branches that retain a version of the table.
        warnings: versions that are retained although they match, with the reason.
    """

    read_version: int
    versions: tuple[int, ...]
    stats: CleanupStats
    candidate_files: tuple[CleanupCandidateFile, ...] = ()
    candidate_files_truncated: bool = False
    referenced_branches: tuple[CleanupReferencedBranch, ...] = ()
    warnings: tuple[str, ...] = ()


class PolicyArguments(TypedDict, total=False):
    """Keyword arguments of a cleanup, without age and count; see `Dataset.cleanup_old_versions`."""

    older_than_version: int | None
    versions: Collection[int] | None
    delete_unverified: bool
    error_if_tagged_old_versions: bool


class CleanupArguments(PolicyArguments, total=False):
    """Keyword arguments of `Dataset.cleanup_old_versions`."""

    older_than: timedelta | None
    retain_versions: int | None
    delete_rate_limit: int | None
    delete_concurrency: int | None
    dry_run: bool


@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPolicy:
    """Choice of versions to remove: versions that match all criteria that are set.

    Without any criterion, versions older than two weeks are removed.

    Attributes:
        older_than: remove versions older than this, by the time in their manifest.
        older_than_version: remove versions before this one.
        retain_versions: number of the latest versions to retain.
        versions: remove only these versions; detached versions are removed only if listed here.
        delete_unverified: True to remove files of no version even if they are recent.
        error_if_tagged_old_versions: False to retain tagged versions that match, without an error.
        seen_from: the version that counts as the latest; it and later versions are retained. None
            for the table's latest version.
    """

    older_than: timedelta | None = None
    older_than_version: int | None = None
    retain_versions: int | None = None
    versions: Collection[int] | None = None
    delete_unverified: bool = False
    error_if_tagged_old_versions: bool = True
    seen_from: int | None = None

    def __post_init__(self) -> None:
        if self.older_than is not None and not isinstance(self.older_than, timedelta):
            raise InvalidInputError(
                f"older_than={self.older_than!r}: expected a timedelta, such as timedelta(days=7)"
            )
        check_counts(self, "retain_versions")
        check_counts(self, "older_than_version", least=0)
        for version in self.versions or ():
            check_count("version", version)

    def matching(self, times: Mapping[int, datetime | None], now: datetime) -> set[int]:
        """Return the versions that match, except the latest one.

        Args:
            times: time of each attached version; a version without a time counts as old.
            now: the time from which ages are computed.
        """
        last = self.seen_from
        numbers = sorted(version for version in times if last is None or version <= last)
        if not numbers:
            return set()
        versions = set(numbers[:-1])
        age = self.older_than
        if age is None and self.versions is None and self.retain_versions is None:
            age = DEFAULT_AGE if self.older_than_version is None else None
        if age is not None:
            before = _before(now, age)
            versions = {
                version
                for version in versions
                if (times[version] or datetime.min.replace(tzinfo=UTC)) < before
            }
        if self.retain_versions is not None:
            versions -= set(numbers[-self.retain_versions :])
        if self.older_than_version is not None:
            versions = {version for version in versions if version < self.older_than_version}
        if self.versions is not None:
            versions &= set(self.versions)
        return versions


def without_tagged(
    matching: set[int],
    tags: Mapping[str, TagContents],
    branch: str | None,
    *,
    is_error: bool,
) -> tuple[set[int], list[str]]:
    """Return the versions that no tag names, and a warning for each tag that names one.

    Tags of shallow clones retain versions as well, but are never an error.

    Raises:
        InvalidInputError: `is_error` is true, and a tag of a user names one of the versions.
    """
    holding = {
        name: tag for name, tag in tags.items() if tag.branch == branch and tag.version in matching
    }
    users = {name: tag.version for name, tag in holding.items() if tag.clone_uri is None}
    if users and is_error:
        listed = ", ".join(f"{name!r} (version {version})" for name, version in users.items())
        raise InvalidInputError(
            f"cleanup: {len(users)} tags name versions that would be removed: {listed}; delete "
            "them, or let the versions stay by error_if_tagged_old_versions=False"
        )
    warnings = [
        f"version {tag.version} stays: {shown_tag(name, tag)}" for name, tag in holding.items()
    ]
    return matching - {tag.version for tag in holding.values()}, warnings


def shown_tag(name: str, tag: TagContents) -> str:
    """Return the name of a tag for messages, with the shallow clone that the tag is for."""
    if tag.clone_uri is None:
        return f"tag {name!r}"
    return f"shallow clone {tag.clone_uri!r} (tag {name!r}; delete it when the clone is gone)"


def clones_without_version(
    tags: Mapping[str, TagContents], versions: Mapping[str | None, Collection[int]]
) -> list[str]:
    """Return a warning for each shallow clone whose version is gone, so that its files are unknown.

    Args:
        versions: existing versions by branch; tags on other branches are skipped.
    """
    return [
        f"version {tag.version} is gone, no files are removed: {shown_tag(name, tag)}"
        for name, tag in tags.items()
        if tag.clone_uri is not None and tag.version not in versions.get(tag.branch, (tag.version,))
    ]


def _before(now: datetime, age: timedelta) -> datetime:
    """Return the time `age` before `now`, limited to the times that Python can represent."""
    try:
        return now - age
    except OverflowError:
        return (datetime.min if age > timedelta(0) else datetime.max).replace(tzinfo=UTC)


@public
def parse_duration(text: str) -> timedelta:
    """Parse a duration of the table's configuration, such as `14d`, `1h 30m` or `0s`.

    Args:
        text: whole numbers with units, from `ms` to `w`.

    Raises:
        InvalidInputError: the text is not a duration.
    """
    seconds, place = 0.0, 0
    while match := _DURATION.match(text, place):
        if match[2] not in _SECONDS_BY_UNIT:
            break
        seconds += int(match[1]) * _SECONDS_BY_UNIT[match[2]]
        place = match.end()
    if not place or place < len(text):
        raise InvalidInputError(f"duration {text!r}: expected numbers with units, like `14d`")
    return timedelta(seconds=min(seconds, LONGEST_S))


class AutoCleanupConfig(TypedDict, total=False):
    """Settings for cleanups after commits; see `auto_cleanup_options` of `write_dataset`.

    Attributes:
        interval: clean up after each version whose number is a multiple of it; required.
        older_than_seconds: minimum age of a version to remove.
        retain_versions: number of the latest versions to retain. A removed version matches both
            settings.
    """

    interval: int
    older_than_seconds: int
    retain_versions: int


def configured(options: AutoCleanupConfig) -> dict[str, str]:
    """Convert settings for cleanups after commits to entries of the table's configuration.

    Raises:
        InvalidInputError: a key is unknown, the interval is missing, a value is not a count, or age
            and number are both missing, so that all versions except the latest would be removed.
    """
    least = {"interval": 1, "older_than_seconds": 0, "retain_versions": 1}
    if not isinstance(options, Mapping) or not least.keys() >= options.keys() > {"interval"}:
        raise InvalidInputError(
            f"auto_cleanup_options={options!r}: expected 'interval' with 'older_than_seconds', "
            "'retain_versions' or both"
        )
    for name, value in options.items():
        check_count(f"auto_cleanup_options: {name}", value, least[name])
    config = {CLEANUP_INTERVAL: str(options["interval"])}
    if "older_than_seconds" in options:
        config[f"{AUTO}older_than"] = f"{options['older_than_seconds']}s"
    if "retain_versions" in options:
        config[f"{AUTO}retain_versions"] = str(options["retain_versions"])
    return config


@dataclass(frozen=True, slots=True)
class AutoCleanup:
    """Cleanups after commits as the table's configuration requests them.

    Attributes:
        interval: clean up after each version whose number is a multiple of this.
        rate: maximum deletions per second; None for no limit.
    """

    interval: int
    policy: CleanupPolicy = field(default_factory=CleanupPolicy)
    rate: int | None = None

    @classmethod
    def of(cls, config: Mapping[str, str]) -> AutoCleanup | None:
        """Parse the table's configuration; None if it requests no cleanups after commits.

        Raises:
            InvalidInputError: a value is invalid.
        """
        if CLEANUP_INTERVAL not in config:
            return None
        policy = CleanupPolicy(
            older_than=_configured(config, f"{AUTO}older_than", parse_duration),
            retain_versions=_configured(config, f"{AUTO}retain_versions", int),
            error_if_tagged_old_versions=False,
        )
        interval = _configured(config, CLEANUP_INTERVAL, int)
        return cls(interval or 0, policy, _configured(config, f"{AUTO}delete_rate_limit", int))

    def is_due(self, version: int) -> bool:
        """True if a cleanup has to follow a version."""
        return self.interval > 0 and version % self.interval == 0


def counted(files: Sequence[CleanupCandidateFile]) -> CleanupStats:
    """Return the counts of removed files."""
    kinds = [file.kind for file in files]
    return CleanupStats(
        bytes_removed=sum(file.size_bytes for file in files),
        old_versions=kinds.count("manifest"),
        data_files_removed=kinds.count("data"),
        transaction_files_removed=kinds.count("transaction"),
        index_files_removed=kinds.count("index"),
        deletion_files_removed=kinds.count("deletion"),
    )


def _configured(config: Mapping[str, str], key: str, parse: Callable[[str], T]) -> T | None:
    """Parse a value of the configuration. Returns None if the key is missing.

    Raises:
        InvalidInputError: the text cannot be parsed.
    """
    text = config.get(key)
    try:
        return None if text is None else parse(text)
    except ValueError as error:
        cause = str(error) if isinstance(error, InvalidInputError) else "expected an integer"
        raise InvalidInputError(f"config {key}={text!r}: {cause}") from error

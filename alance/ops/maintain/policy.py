"""Rules for the maintenance of a table, which the table's configuration can store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict

from alance.base.calls import public
from alance.base.checks import check_counts, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.ops.cleanup.after import AUTO, CLEANUP_INTERVAL
from alance.ops.cleanup.policy import AutoCleanup, CleanupPolicy, parse_duration
from alance.ops.upkeep.compact_plan import COMPACTION_PREFIX, CompactionOptions

if TYPE_CHECKING:
    from collections.abc import Callable

POLICY_PREFIX: Final = "alance.maintenance."  # prefix of the keys of the configuration
OFF: Final = "off"  # value of a rule that is disabled


class MaintenanceArguments(TypedDict, total=False):
    """Keyword arguments of `MaintenancePolicy`."""

    target_rows_per_fragment: int | None
    target_bytes_per_fragment: int | None
    min_small_fragments: int | None
    max_deleted_share: float | None
    max_unindexed_rows: int | None
    max_unindexed_share: float | None
    max_index_segments: int | None
    older_than: timedelta | None
    retain_versions: int
    min_old_versions: int
    ttl_column: str | None
    ttl: timedelta | None
    min_expired_share: float
    max_bytes: int | None
    max_requests: int | None
    max_seconds: float | None


@public
@public_arguments
@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenancePolicy:
    """Rules for the maintenance of a table: the conditions for each step, and the budget of a run.

    A rule that is None is disabled. The defaults suit tables that grow by small commits.

    Attributes:
        target_rows_per_fragment: number of rows below which a fragment is small; None: the table's
            `lance.compaction.target_rows_per_fragment`, or 1 048 576.
        target_bytes_per_fragment: bytes of files from which a fragment is not small. They are
            converted to a number of rows by the table's mean bytes per row, rounded down to a power
            of two, and the smaller number of rows applies; None: bytes do not count.
        min_small_fragments: minimum number of small fragments to join; 2 or more.
        max_deleted_share: share of deleted rows above which a fragment is rewritten, 0 to 1.
        max_unindexed_rows: rows without an index entry above which an index is extended.
        max_unindexed_share: share of the table's rows without an index entry above which an index
            is extended, 0 to 1.
        max_index_segments: number of segments of an index above which they are merged.
        older_than: minimum age of a version to remove; None: no version is removed.
        retain_versions: number of the latest versions to retain, whatever their age.
        min_old_versions: number of removable versions from which a cleanup runs.
        ttl_column: timestamp or date column by which rows expire; None: rows do not expire.
        ttl: age at which rows expire; required with `ttl_column`.
        min_expired_share: minimum share of expired rows for which they are deleted, 0 to 1.
        max_bytes: maximum estimated bytes that a run reads and writes.
        max_requests: maximum estimated number of requests of a run.
        max_seconds: seconds after which a run begins no further step.

    Example:

        policy = alance.MaintenancePolicy(min_small_fragments=8)
        dataset = await dataset.update_config(policy.to_config())
        assert alance.MaintenancePolicy.from_config(dataset.config) == policy
    """

    target_rows_per_fragment: int | None = None
    target_bytes_per_fragment: int | None = None
    min_small_fragments: int | None = 16
    max_deleted_share: float | None = 0.1
    max_unindexed_rows: int | None = 10_000
    max_unindexed_share: float | None = 0.1
    max_index_segments: int | None = 8
    older_than: timedelta | None = timedelta(days=7)
    retain_versions: int = 10
    min_old_versions: int = 50
    ttl_column: str | None = None
    ttl: timedelta | None = None
    min_expired_share: float = 0.01
    max_bytes: int | None = None
    max_requests: int | None = None
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        check_counts(self, "target_rows_per_fragment", "target_bytes_per_fragment")
        check_counts(self, "max_index_segments", "retain_versions")
        check_counts(self, "min_small_fragments", least=2)
        check_counts(self, "min_old_versions", "max_bytes", "max_requests")
        check_counts(self, "max_unindexed_rows", least=0)
        for name in ("max_deleted_share", "max_unindexed_share", "min_expired_share"):
            share = getattr(self, name)
            if share is not None and not (_is_number(share) and 0 <= share <= 1):
                raise InvalidInputError(f"{name}={share!r}: expected a share from 0 to 1")
        for name in ("older_than", "ttl"):
            age = getattr(self, name)
            if age is not None and not (isinstance(age, timedelta) and age >= timedelta(0)):
                raise InvalidInputError(
                    f"{name}={age!r}: expected a timedelta of 0 or more, such as timedelta(days=7)"
                )
        if self.max_seconds is not None and not (
            _is_number(self.max_seconds) and self.max_seconds > 0
        ):
            raise InvalidInputError(f"max_seconds={self.max_seconds!r}: expected a time above 0 s")
        for name in ("retain_versions", "min_old_versions", "min_expired_share"):
            if getattr(self, name) is None:
                raise InvalidInputError(
                    f"{name}=None: expected a number; older_than=None lets all versions stay"
                )
        if (self.ttl_column is None) != (self.ttl is None):
            raise InvalidInputError(
                f"ttl_column={self.ttl_column!r}, ttl={self.ttl!r}: expected both or neither"
            )
        if self.ttl_column is not None and not isinstance(self.ttl_column, str):
            raise InvalidInputError(f"ttl_column={self.ttl_column!r}: expected a column's name")

    def to_config(self) -> dict[str, str | None]:
        """Return the policy as values for `Dataset.update_config`.

        Rules with their default are None, which removes an older value of the key.
        """
        return {
            f"{POLICY_PREFIX}{field.name}": None
            if (value := getattr(self, field.name)) == field.default
            else _shown(value)
            for field in fields(self)
        }

    @classmethod
    def from_config(
        cls, config: Mapping[str, str], rules: Mapping[str, object] | None = None
    ) -> MaintenancePolicy:
        """Parse the policy in a table's configuration; rules that are missing have defaults.

        Args:
            config: configuration of a table, `Dataset.config`.
            rules: texts or numbers of rules by name, which take precedence over the configuration;
                None: no rules.

        Raises:
            InvalidInputError: an unknown rule, or a value that cannot be parsed.
        """
        defaults = {field.name: field.default for field in fields(cls)}
        values: dict[str, Any] = {}
        own = {f"{POLICY_PREFIX}{name}": str(value) for name, value in (rules or {}).items()}
        for key, text in {**config, **own}.items():
            if not key.startswith(POLICY_PREFIX):
                continue
            name = key.removeprefix(POLICY_PREFIX)
            if name not in defaults:
                raise InvalidInputError(
                    f"config {key}: no such rule; expected one of {', '.join(sorted(defaults))}"
                )
            values[name] = _parsed(key, name, text)
        return cls(**values)


def check_config(config: Mapping[str, str], values: object, *, replace: bool) -> None:
    """Check that maintenance, cleanups and compactions can read a changed configuration.

    Args:
        config: the table's configuration.
        values: new values by key, None for keys to delete; anything that is no mapping is ignored.
        replace: True if all other keys are removed.

    Raises:
        InvalidInputError: a rule or option that a new value belongs to cannot be read.
    """
    if not isinstance(values, Mapping):
        return
    new = {key: value for key, value in values.items() if isinstance(value, str)}
    before = {} if replace else config
    after = {key: value for key, value in {**before, **new}.items() if values.get(key, value)}
    for prefix, parse in _READERS.items():
        if any(isinstance(key, str) and key.startswith(prefix) for key in new):
            parse(after)


def cleanup_of(policy: MaintenancePolicy) -> CleanupPolicy | None:
    """Return the policy of a cleanup; None if no version is removed."""
    if policy.older_than is None:
        return None
    return CleanupPolicy(
        older_than=policy.older_than,
        retain_versions=policy.retain_versions,
        error_if_tagged_old_versions=False,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _shown(value: object) -> str:
    """Format a value as text for the configuration."""
    if value is None:
        return OFF
    if isinstance(value, timedelta):
        milliseconds = round(value / timedelta(milliseconds=1))
        return f"{milliseconds}ms" if milliseconds % 1000 else f"{milliseconds // 1000}s"
    return str(value)


def _parsed(key: str, name: str, text: str) -> Any:
    """Parse a value of the configuration.

    Raises:
        InvalidInputError: the text is not a value of the rule.
    """
    if text == OFF:
        return None
    try:
        if name in ("older_than", "ttl"):
            return parse_duration(text)
        if name == "ttl_column":
            return text
        return float(text) if name.endswith(("_share", "_seconds")) else int(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"config {key}={text!r}: {error}") from error
    except ValueError:
        kind = "a number" if name.endswith(("_share", "_seconds")) else "an integer"
        raise InvalidInputError(f"config {key}={text!r}: expected {kind}, or 'off'") from None


# Readers of the configuration, by the prefix of their keys.
_READERS: Final[dict[str, Callable[[Mapping[str, str]], object]]] = {
    POLICY_PREFIX: MaintenancePolicy.from_config,
    AUTO: lambda config: AutoCleanup.of({CLEANUP_INTERVAL: "1", **config}),
    COMPACTION_PREFIX: lambda config: CompactionOptions().resolved(config, FileVersion.V2_2),
}

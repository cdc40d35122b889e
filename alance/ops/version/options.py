"""Options of methods that change a table: commit options and base paths.

Default numbers for the signatures of other methods are also here, so that signatures need no
further imports.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypedDict

from alance.base.checks import check_count, public_arguments
from alance.base.records import dataclass
from alance.errors import InvalidInputError
from alance.format.table.naming import MESSAGE_PROPERTY
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.table.fragment import DatasetBasePath


class CommitArguments(TypedDict, total=False):
    """Keyword arguments of methods that commit a version.

    `properties` and `message` (a commit message) are recorded in the transaction. `max_retries` is
    the number of further attempts if other commits are first.
    """

    properties: Mapping[str, str] | None
    message: str | None
    max_retries: int


@public_arguments
@dataclass(frozen=True, slots=True)
class CommitOptions:
    """Options of a commit.

    Attributes:
        properties: properties recorded in the transaction.
        message: commit message, recorded in the transaction.
        max_retries: number of further attempts if other commits are first.

    Raises:
        InvalidInputError: a property is not text, or the number of retries is negative.
    """

    properties: Mapping[str, str] | None = None
    message: str | None = None
    max_retries: int = MAX_RETRIES

    def __post_init__(self) -> None:
        check_count("max_retries", self.max_retries, 0)
        for key, value in self.noted().items():
            if not isinstance(key, str) or not isinstance(value, str):
                raise InvalidInputError(f"property {key!r}: {value!r}, expected text for text")

    def noted(self) -> dict[str, str]:
        """Return the properties recorded in the transaction, including the commit message."""
        noted = dict(self.properties or {})
        if self.message is not None:
            noted[MESSAGE_PROPERTY] = self.message
        return noted


DEFAULT_COMMIT: Final = CommitOptions()
UNKNOWN_FILE_BYTES: Final = 64 << 20  # assumed size of a file that the manifest does not record


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """Base paths of a write; see `alance.ops.write.bases`.

    Attributes:
        initial_bases: base paths of a new table.
        target_bases: names or paths of the base paths to which new data files are written in turn;
            the table's own URI stands for its folder. None: only the table's folder.
        target_all_bases: not None to write new data files to all base paths in turn; True to
            include the table's folder, first.
    """

    initial_bases: tuple[DatasetBasePath, ...] = ()
    target_bases: tuple[str, ...] | None = None
    target_all_bases: bool | None = None

    @classmethod
    def of(
        cls,
        initial_bases: Iterable[DatasetBasePath] | None,
        target_bases: Iterable[str] | None,
        target_all_bases: bool | None,
    ) -> BaseOptions:
        """Check the caller's arguments, and return them as options.

        Raises:
            InvalidInputError: an argument is not a list of the right kind, `target_bases` is empty,
                or both ways of choosing base paths are used.
        """
        if isinstance(target_bases, str) or not isinstance(target_bases, Iterable | None):
            raise InvalidInputError(f"target_bases={target_bases!r}: expected a list of names")
        if not isinstance(initial_bases, Iterable | None):
            raise InvalidInputError(f"initial_bases={initial_bases!r}: expected a list")
        targets = None if target_bases is None else tuple(target_bases)
        if targets is not None and not all(isinstance(name, str) for name in targets):
            raise InvalidInputError(f"target_bases={targets!r}: expected names and paths")
        if targets == ():
            raise InvalidInputError("target_bases: empty; expected names, or None for the table's")
        if targets is not None and target_all_bases is not None:
            raise InvalidInputError("target_bases and target_all_bases: expected one of them")
        return cls(tuple(initial_bases or ()), targets, target_all_bases)

    @property
    def has_targets(self) -> bool:
        """True if new data files may be written outside the table's folder."""
        return self.target_bases is not None or self.target_all_bases is not None


MAX_ROWS_PER_FILE: Final = 1 << 20
MAX_BYTES_PER_FILE: Final = 90 << 30
MERGE_BYTES: Final = 256 << 20  # keys and rows that a merge holds in memory
GROUP_BYTES: Final = 256 << 20  # groups that an aggregation holds in memory
BLOB_BYTES: Final = 512 << 10  # minimum size of a fetch when a blob is read
SMALL_FRAGMENT_ROWS: Final = 1024  # `Dataset.stats` counts fragments with fewer rows as small

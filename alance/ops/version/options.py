"""What verbs that change a table take: how the transaction becomes a version, where files go.

The numbers that are in the signatures of other verbs are here, too, without what goes by them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final, TypedDict

from alance.checks import check_count, public_arguments
from alance.errors import InvalidInputError
from alance.format.table.naming import MESSAGE_PROPERTY
from alance.records import dataclass
from alance.versioning.backoff import MAX_RETRIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.format.table.fragment import DatasetBasePath


class CommitArguments(TypedDict, total=False):
    """Keyword arguments of methods that make a version.

    `properties` and `message` (a commit message) are recorded in the transaction. `max_retries` is
    the number of attempts after the first, if others committed first.
    """

    properties: Mapping[str, str] | None
    message: str | None
    max_retries: int


@public_arguments
@dataclass(frozen=True, slots=True)
class CommitOptions:
    """How a transaction becomes a version.

    Attributes:
        properties: noted in the transaction.
        message: a commit message, noted there too.
        max_retries: attempts after the first one, where others were first.

    Raises:
        InvalidInputError: properties that are no text, retries that are no count.
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
        """The properties of the transaction."""
        noted = dict(self.properties or {})
        if self.message is not None:
            noted[MESSAGE_PROPERTY] = self.message
        return noted


DEFAULT_COMMIT: Final = CommitOptions()


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """Base paths that a writer names; see `alance.ops.write.bases`.

    Attributes:
        initial_bases: of a new table.
        target_bases: names or paths of those where new data files go, in turn; the table's own
            URI is its folder. None: there alone.
        target_all_bases: new data files go to all of them, in turn; True: the table's folder first.
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
        """What the caller gave.

        Raises:
            InvalidInputError: no list, an empty one, or both ways to say where files go.
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
        """Whether new data files may go elsewhere."""
        return self.target_bases is not None or self.target_all_bases is not None


MAX_ROWS_PER_FILE: Final = 1 << 20
MAX_BYTES_PER_FILE: Final = 90 << 30
MERGE_BYTES: Final = 256 << 20  # of keys and rows that a merge holds in memory
GROUP_BYTES: Final = 256 << 20  # of groups that an aggregate holds in memory
BLOB_BYTES: Final = 512 << 10  # that a read of a blob fetches at least
SMALL_ROWS: Final = 1024  # fewer are few for a fragment, says `Dataset.stats`

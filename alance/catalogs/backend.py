"""What a catalog needs of what keeps its names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from alance.checks import check_text
from alance.errors import InvalidInputError
from alance.records import dataclass

if TYPE_CHECKING:
    from alance.io.opening.credentials import StorageOptions

Names: TypeAlias = tuple[str, ...]  # a namespace, or a table behind its namespace
TableName: TypeAlias = str | Sequence[str]

DELIMITER: Final = "$"  # between the names of an identifier, on the wire and in `__manifest`


@dataclass(frozen=True, slots=True)
class Place:
    """URI of a table, and the options that open it.

    Attributes:
        uri: of the table.
        storage_options: options, or a provider of options that expire; None: those of the
            environment.
    """

    uri: str
    storage_options: StorageOptions | None = None

    def __repr__(self) -> str:
        return f"Place({self.uri!r})"  # options have secrets


class Backend(Protocol):
    """Keeps the names of tables and namespaces."""

    @property
    def uri(self) -> str:
        """What it was connected to."""
        ...

    async def list_namespaces(self, parent: Names) -> list[str]: ...

    async def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None: ...

    async def drop_namespace(self, names: Names) -> None: ...

    async def list_tables(self, namespace: Names, *, include_declared: bool) -> list[str]: ...

    async def find(self, names: Names) -> Place:
        """Where a table is.

        Raises:
            TableNotFoundError: there is none of that name.
        """
        ...

    async def begin(self, names: Names) -> Place:
        """Where a table that is to be made goes; its name may be taken from then on.

        Raises:
            AlreadyExistsError: there is one of that name.
        """
        ...

    async def finish(self, names: Names, place: Place) -> None:
        """The table that was begun is there."""
        ...

    async def abandon(self, names: Names, place: Place) -> None:
        """The table that was begun is not there, and will not be."""
        ...

    async def drop(self, names: Names) -> None: ...

    async def rename(self, names: Names, new: Names) -> None: ...


def names_of(name: TableName, what: str) -> Names:
    """The names that an identifier consists of.

    Raises:
        InvalidInputError: no text, an empty one, or one that cannot be part of a path.
    """
    if not isinstance(name, Iterable):
        raise InvalidInputError(f"{what} {name!r}: expected a name, or a sequence of names")
    names = (name,) if isinstance(name, str) else tuple(name)
    for part in names:
        if not isinstance(part, str) or not part or part.startswith((".", "__")):
            raise InvalidInputError(f"{what} {name!r}: expected names that begin with no dot")
        if any(sign in part for sign in ("/", "\\", DELIMITER, "\0")):
            raise InvalidInputError(f"{what} {name!r}: expected names without / \\ {DELIMITER}")
        check_text(what, part)
    return names


def table_names(name: TableName) -> Names:
    """The names of a table: that of its namespace first.

    Raises:
        InvalidInputError: none, or bad ones.
    """
    names = names_of(name, "table")
    if not names:
        raise InvalidInputError("table: expected a name")
    return names


def namespace_names(name: TableName) -> Names:
    """The names of a namespace; none is the root.

    Raises:
        InvalidInputError: bad ones.
    """
    return names_of(name, "namespace")


def shown(names: Names) -> str:
    """The names in a message."""
    return ".".join(names) or "the root"


def plain(options: Any) -> dict[str, str]:
    """Storage options as texts."""
    return {str(key): str(value) for key, value in dict(options or {}).items()}

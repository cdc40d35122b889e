"""Interface between a catalog and the backend that stores its names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from alance.base.checks import check_text, check_type
from alance.base.records import dataclass
from alance.errors import InvalidInputError

if TYPE_CHECKING:
    from alance.io.opening.credentials import StorageOptions
    from alance.versioning.external_store import ExternalStore

# names that identify a namespace; or a table: the names of its namespace, then its own
Names: TypeAlias = tuple[str, ...]
TableName: TypeAlias = str | Sequence[str]

DELIMITER: Final = "$"  # between the names of an identifier, in requests and in `__manifest`


@dataclass(frozen=True, slots=True)
class Place:
    """URI of a table, and the arguments that open it.

    Attributes:
        uri: URI of the table.
        storage_options: options, or a provider of options that expire; None: options of the
            environment.
        manifest_store: versions of the table, if the catalog manages them; None if it does not.
    """

    uri: str
    storage_options: StorageOptions | None = None
    manifest_store: ExternalStore | None = None

    def __repr__(self) -> str:
        return f"Place({self.uri!r})"  # options contain secrets


class Backend(Protocol):
    """Protocol of a backend, which stores the names of tables and namespaces."""

    @property
    def uri(self) -> str:
        """URI that the backend is connected to."""
        ...

    async def list_namespaces(self, parent: Names) -> list[str]: ...

    async def create_namespace(self, names: Names, properties: Mapping[str, str]) -> None: ...

    async def describe_namespace(self, names: Names) -> dict[str, str]: ...

    async def update_namespace(
        self, names: Names, properties: Mapping[str, str | None], *, replace: bool
    ) -> dict[str, str]:
        """Set properties of a namespace, and remove those set to None; return all that remain."""
        ...

    async def drop_namespace(self, names: Names) -> None: ...

    async def list_tables(
        self, namespace: Names, *, include_declared: bool, check_hidden: bool = True
    ) -> list[str]:
        """Return names of tables; `check_hidden` False may include tables that are deregistered."""
        ...

    async def find(self, names: Names) -> Place:
        """Return the place of a table.

        Raises:
            TableNotFoundError: there is no table of that name.
        """
        ...

    async def begin(self, names: Names) -> Place:
        """Return the place for a new table, whose name may be reserved from then on.

        Raises:
            AlreadyExistsError: the name is in use.
        """
        ...

    async def finish(self, names: Names, place: Place) -> None:
        """Register a table that was begun by `begin` and has been written."""
        ...

    async def abandon(self, names: Names, place: Place) -> None:
        """Release the name of a table that was begun by `begin` and will not be written."""
        ...

    async def drop(self, names: Names) -> None: ...

    async def rename(self, names: Names, new: Names) -> None: ...

    async def register(self, names: Names, location: str) -> None: ...

    async def deregister(self, names: Names) -> str | None:
        """Forget a name; return the URI of its table, or None if the backend does not say it."""
        ...


def names_of(name: TableName, what: str) -> Names:
    """Check the names in an identifier, and return them.

    Raises:
        InvalidInputError: a name is not text, is empty, or is not valid in a path.
    """
    check_type(what, name, str | list | tuple, "a name, or a sequence of names")
    names = (name,) if isinstance(name, str) else tuple(name)
    for part in names:
        if not isinstance(part, str) or not part or part.startswith((".", "__")):
            raise InvalidInputError(f"{what} {name!r}: expected names that begin with no dot")
        if any(sign in part for sign in ("/", "\\", DELIMITER, "\0")):
            raise InvalidInputError(f"{what} {name!r}: expected names without / \\ {DELIMITER}")
        check_text(what, part)
    return names


def table_names(name: TableName) -> Names:
    """Return the names of a table: its namespace's names, then its own.

    Raises:
        InvalidInputError: there is no name, or a name is invalid.
    """
    names = names_of(name, "table")
    if not names:
        raise InvalidInputError("table: expected a name")
    return names


def namespace_names(name: TableName) -> Names:
    """Return the names of a namespace; empty for the root.

    Raises:
        InvalidInputError: a name is invalid.
    """
    return names_of(name, "namespace")


def properties_of(
    properties: Mapping[str, str | None] | None, *, removes: bool = False
) -> dict[str, str | None]:
    """Check the properties of a namespace, and copy them.

    Args:
        properties: texts by key; None: no properties.
        removes: True to allow None as a value.

    Raises:
        InvalidInputError: not a mapping, or a key or value is not text.
    """
    check_type("properties", properties, Mapping | None, "texts by key")
    for key, value in (properties or {}).items():
        check_text("property", key)
        if value is not None or not removes:
            check_text(f"property {key!r}:", value)
    return dict(properties or {})


def changed(properties: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return properties with changes; a change to None removes the property."""
    return {key: text for key, text in {**properties, **changes}.items() if text is not None}


def shown(names: Names) -> str:
    """Format names for a message."""
    return ".".join(names) or "the root"


def plain(options: Any) -> dict[str, str]:
    """Convert storage options to texts."""
    return {str(key): str(value) for key, value in dict(options or {}).items()}

"""Changes of the configuration, and of the metadata of a table, its schema and its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from alance.errors import InvalidInputError
from alance.format.table.operations import UpdateConfig, UpdateMap
from alance.ops.version.commits import PreparedChange
from alance.ops.version.first_use import of_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Literal, TypeAlias

    from alance.ops.version.options import CommitOptions
    from alance.ops.version.snapshot import Snapshot

    Kind: TypeAlias = Literal["config_updates", "table_metadata_updates", "schema_metadata_updates"]
    Values: TypeAlias = Mapping[str, str | None]


async def update(
    snapshot: Snapshot, kind: Kind, values: Values, options: CommitOptions, *, replace: bool
) -> Snapshot:
    """Change the configuration or metadata of a table. Cost: two rounds if there is no conflict.

    Raises:
        InvalidInputError: keys or values that are not text.
        CommitConflictError: a newer version changes the same keys, or rules this change out.
        CommitStateUnknownError: it is unknown whether the version was committed.
    """
    changes: dict[str, Any] = {kind: _updates(values, replace=replace)}
    return await PreparedChange(snapshot, UpdateConfig(**changes), options).commit()


async def update_field_metadata(
    snapshot: Snapshot, fields: Mapping[str, Values], options: CommitOptions, *, replace: bool
) -> Snapshot:
    """Change the metadata of fields, by path.

    Raises:
        InvalidInputError: no such field, or values that are not text.
    """
    if not hasattr(fields, "items"):
        raise InvalidInputError(f"fields {fields!r}: expected a mapping of path -> values")

    def make() -> dict[int, UpdateMap]:
        return {
            snapshot.schema.field(path).id: _updates(
                values, replace=replace, what=f"field {path!r}"
            )
            for path, values in fields.items()
        }

    updates = await of_fields(snapshot.engine, len(fields), make)
    return await PreparedChange(
        snapshot, UpdateConfig(field_metadata_updates=updates), options
    ).commit()


def deleted(keys: Iterable[str]) -> Values:
    """Return a change that deletes keys.

    Raises:
        InvalidInputError: `keys` is a text instead of a list.
    """
    if isinstance(keys, str):
        raise InvalidInputError(f"keys {keys!r}: expected a list of keys")
    return dict.fromkeys(keys)


def _updates(values: Values, *, replace: bool, what: str = "values") -> UpdateMap:
    """Build the message for a change of a map.

    Raises:
        InvalidInputError: keys or values that are not text.
    """
    if not hasattr(values, "items"):
        raise InvalidInputError(f"{what}: {values!r}, expected a mapping of text to text or None")
    for key, value in values.items():
        if not isinstance(key, str) or not (value is None or isinstance(value, str)):
            raise InvalidInputError(f"{what}: {key!r}: {value!r}, expected text, or None to delete")
    return UpdateMap(dict(values), replace=bool(replace))

"""Verbs that change configuration and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.deferred import Deferred
from alance.ops.version.commit_options import CommitOptions
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Self, Unpack

    from alance.ops.upkeep import config
    from alance.ops.version.commit_options import CommitArguments
else:
    config = Deferred("alance.ops.upkeep.config")


class MetadataVerbs(Handle):
    """Configuration; metadata of the table, of its schema, of fields.

    In all of them a value of None deletes its key, and `replace` empties the map first. Others
    may change other keys at the same time; of two that change one key, and of two that change the
    schema's metadata or that of one field, the later one gets a CommitConflictError. Cost: two
    rounds of requests.
    """

    __slots__ = ()

    async def update_config(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the table's configuration.

        Raises:
            InvalidInputError: keys or values that are no text.
            CommitConflictError: another commit has changed one of the keys.
        """
        await self._load(config)
        options = CommitOptions(**commit)
        made = await config.update_config(self._snapshot, values, options, replace=replace)
        return type(self)(made)

    async def delete_config_keys(self, keys: Sequence[str]) -> Self:
        """Delete keys of the table's configuration; those that are not there are no error."""
        await self._load(config)
        return await self.update_config(config.deleted(keys))

    async def update_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the table's own metadata, which is free for users.

        Raises:
            InvalidInputError: keys or values that are no text.
            CommitConflictError: another commit has changed one of the keys.
        """
        await self._load(config)
        options = CommitOptions(**commit)
        made = await config.update_metadata(self._snapshot, values, options, replace=replace)
        return type(self)(made)

    async def update_schema_metadata(
        self,
        values: Mapping[str, str | None],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the metadata of the schema.

        Raises:
            InvalidInputError: keys or values that are no text.
            CommitConflictError: another commit has changed the schema's metadata.
        """
        await self._load(config)
        options = CommitOptions(**commit)
        made = await config.update_schema_metadata(self._snapshot, values, options, replace=replace)
        return type(self)(made)

    async def update_field_metadata(
        self,
        fields: Mapping[str, Mapping[str, str | None]],
        *,
        replace: bool = False,
        **commit: Unpack[CommitArguments],
    ) -> Self:
        """Change the metadata of fields.

        Args:
            fields: values by the field's name or path (`a.b`).
            replace: of each field named, the metadata is emptied first; others keep theirs.

        Raises:
            InvalidInputError: no such field; keys or values that are no text; a field of a
                primary or clustering key would change its role.
            CommitConflictError: another commit has changed one of the fields' metadata.
        """
        await self._load(config)
        options = CommitOptions(**commit)
        made = await config.update_field_metadata(self._snapshot, fields, options, replace=replace)
        return type(self)(made)

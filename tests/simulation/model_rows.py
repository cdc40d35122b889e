"""An external manifest store that fails as the model's store of objects does."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alance.errors import AlreadyExistsError, NotFoundError

if TYPE_CHECKING:
    from alance.versioning.external_store import Entry
    from tests.simulation.model_store import ModelClient


class ModelRows:
    """Versions beside the objects of a model, as one process sees them."""

    def __init__(self, client: ModelClient) -> None:
        self._client = client
        self._rows = cast("dict[tuple[str, int], Entry]", client.model.rows)

    async def _read(self, what: str) -> None:
        await self._client.travel()
        if self._client.happens(self._client.model.faults.refused):
            raise self._client.failure(what, "refused")

    async def get(self, table: str, version: int) -> Entry | None:
        """A version of a table."""
        await self._read(table)
        row = self._rows.get((table, version))
        await self._client.travel()
        return row

    async def get_latest(self, table: str) -> Entry | None:
        """The version with the highest number."""
        await self._read(table)
        versions = [version for name, version in self._rows if name == table]
        newest = self._rows[table, max(versions)] if versions else None
        await self._client.travel()
        return newest

    async def put_if_not_exists(self, table: str, entry: Entry) -> None:
        """Add a version, perhaps."""

        def add() -> bool:
            if (table, entry.version) in self._rows:
                return False
            self._rows[table, entry.version] = entry
            return True

        await self._client.write(table, add, conditional=True)

    async def put_if_exists(self, table: str, entry: Entry) -> None:
        """Replace a version's entry, perhaps."""

        def replace() -> bool:
            if (table, entry.version) not in self._rows:
                return False
            self._rows[table, entry.version] = entry
            return True

        try:
            await self._client.write(table, replace, conditional=False)
        except AlreadyExistsError as error:
            raise NotFoundError(f"{table}: no version {entry.version}") from error

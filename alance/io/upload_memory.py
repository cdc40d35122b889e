"""Uploads that are one PUT at the end, whatever their size: to memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.io.background import LOCAL_GRACE_S
from alance.io.upload import Upload

if TYPE_CHECKING:
    from alance.io.store import Store


class MemoryUpload(Upload):
    """The pieces, until they are joined."""

    grace_s = LOCAL_GRACE_S

    def __init__(self, store: Store, path: str) -> None:
        super().__init__(store.root + path)
        self._store = store
        self._path = path

    async def _advance(self) -> None:
        """Nothing is under way."""

    async def _publish(self) -> None:
        self._end_block()
        await self._store.put(self._path, b"".join(self._pieces))
        self._pieces.clear()
        self.held_bytes = 0

    async def _drop(self) -> None:
        """The object is there only once nothing can fail any more."""

"""What all groups of verbs stand on: a version of a dataset in hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from alance.ops.version.snapshot import Snapshot


class Handle:
    """One version of a dataset."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    async def _load(self, *modules: str | ModuleType) -> None:
        """Import what a verb needs beyond reading, in the pool; see `DecodePool.load`."""
        await self._snapshot.engine.pool.load(*modules)

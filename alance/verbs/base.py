"""Base class of all groups of verbs: a handle of one version."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING

from alance.base.calls import not_constructed
from alance.base.hints import Hinted

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any, Self

    from alance.ops.version.snapshot import Snapshot


class Handle(Hinted):
    """Handle of one version of a dataset."""

    __slots__ = ("_scan_defaults", "_snapshot")

    def __init_subclass__(cls) -> None:
        """Make Python's messages about wrong arguments name `Dataset`, not a group of verbs."""
        for name, member in vars(cls).items():
            if isinstance(member, FunctionType):
                member.__qualname__ = f"Dataset.{name}"

    def __init__(self, snapshot: Snapshot, scan_defaults: Mapping[str, Any] | None = None) -> None:
        if isinstance(snapshot, str):
            raise not_constructed(type(self))
        self._snapshot = snapshot
        self._scan_defaults = scan_defaults or {}

    def _on(self, snapshot: Snapshot) -> Self:
        """Return a handle of another version with the same scan defaults; `self` if it is the
        same.
        """
        return self if snapshot is self._snapshot else type(self)(snapshot, self._scan_defaults)

    if not TYPE_CHECKING:  # a type checker finds missing attributes by itself

        def __getattr__(self, name: str) -> Any:
            from alance.verbs.peer_names import no_attribute

            raise no_attribute(type(self), name)

    async def _load(self, *modules: str | ModuleType) -> None:
        """Import modules of a verb in the pool; see `DecodePool.load`."""
        await self._snapshot.engine.pool.load(*modules)

"""Verbs that look after a table's files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.optimize import Optimize
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from typing import Self


class UpkeepVerbs(Handle):
    """Compaction, cleanup, validation."""

    __slots__ = ()

    @property
    def optimize(self) -> Optimize[Self]:
        """Compaction: `await dataset.optimize.compact_files()`."""
        return Optimize(self)

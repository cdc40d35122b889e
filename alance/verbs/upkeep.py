"""Verbs that look after a table's files."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from alance.optimize import Optimize
from alance.verbs.base import Handle

if TYPE_CHECKING:
    from alance.datasets import Dataset


class UpkeepVerbs(Handle):
    """Compaction, cleanup, validation."""

    __slots__ = ()

    @property
    def optimize(self) -> Optimize:
        """Compaction: `await dataset.optimize.compact_files()`."""
        return Optimize(cast("Dataset", self))

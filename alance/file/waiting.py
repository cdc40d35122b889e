"""A column of a file that is written, and its rows that wait for a page."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from alance.format.encode.rows import join, split, values_bytes

if TYPE_CHECKING:
    from alance.format.encode.statistics import FileStatistics
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn


@dataclass(slots=True)
class WaitingColumn:
    """A column and the rows that wait for its next page."""

    number: int
    root: Field
    leaf: LeafColumn
    statistics: FileStatistics | None = None
    parts: list[PageValues] = field(default_factory=list)
    num_bytes: int = 0

    def add(self, values: PageValues) -> None:
        """Take rows."""
        if values.num_rows:
            self.parts.append(values)
            self.num_bytes += values_bytes(values)

    def take(self, page_bytes: int) -> list[PageValues]:
        """The waiting rows, in pieces of about a page; they are counted here. CPU work."""
        if not self.parts:
            return []
        joined = join(self.parts)
        self.parts, self.num_bytes = [], 0
        if self.statistics is not None:
            self.statistics.add(self.number, joined)
        return split(joined, page_bytes, multiple=self.leaf.multiplier)

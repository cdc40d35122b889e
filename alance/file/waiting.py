"""A column of a file that is written, and its rows that wait for a page; which of many leave."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeVar

from alance.file.budgets import buffer_bytes_for
from alance.format.encode.rows import join, split, values_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class Waiting(Protocol):
    """Rows that wait, whatever they are of."""

    num_bytes: int


W = TypeVar("W", bound=Waiting)


def largest(waiting: Sequence[W], buffer_bytes: int | None) -> list[W]:
    """The columns to write where more than the budget waits: the largest, until half is free."""
    if buffer_bytes is None:
        buffer_bytes = buffer_bytes_for(len(waiting))
    num_bytes = sum(column.num_bytes for column in waiting)
    if num_bytes <= buffer_bytes:
        return []
    chosen = []
    for column in sorted(waiting, key=lambda column: -column.num_bytes):
        if num_bytes <= buffer_bytes // 2:
            break
        chosen.append(column)
        num_bytes -= column.num_bytes
    return chosen

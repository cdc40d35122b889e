"""Leaves of an open fragment with their columns, and rows of a leaf in several parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance.file.open.files import from_content
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Int64s
    from alance.file.older.v2_0 import FieldColumn
    from alance.file.open.columns import OpenColumn, States
    from alance.file.rows.fragment import Found
    from alance.format.layouts.fields import LeafColumn
    from alance.format.plans import Plan


@dataclass(slots=True)  # not frozen, because that would triple the time to create it
class OpenLeaf:
    """Leaf field with its open column. A row of the table is `multiplier` rows of the column."""

    leaf: LeafColumn
    column: OpenColumn | FieldColumn
    is_top: bool  # True for a top-level field of the schema

    def rows(self, rows: Int64s) -> Int64s:
        """Convert row numbers of the table to row numbers of the column."""
        if (dimension := self.leaf.multiplier) == 1:
            return rows
        return (rows[:, None] * dimension + np.arange(dimension)).reshape(-1)

    def read(self, start: int, stop: int, states: States) -> Plan[Found]:
        """Plan the rows of the table from `start` to `stop`."""
        times = self.leaf.multiplier
        reading: Plan[Found] = self.column.read(start * times, stop * times, states)
        return from_content(reading, self.column.container)

    def load(self, start: int, stop: int, states: States) -> Plan[None]:
        """Plan the page states that a range of rows needs, in at most one round."""
        times = self.leaf.multiplier
        loading = self.column.load(start * times, stop * times, states)
        return from_content(loading, self.column.container)


class Parts(NamedTuple):
    """Rows of a leaf in several consecutive parts, each decoded in its own way."""

    parts: Sequence[Found]

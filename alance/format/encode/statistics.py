"""Collector of the statistics of columns during encoding, and encoder of the statistics buffer.

The kernel computes the zones of a column, and encodes the buffer (kernels/encode/zones.cpp).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.format.encode.page_inputs import values_input
from alance.format.statistics import kind_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes
    from alance.format.field import Field
    from alance.format.layouts.base import PageValues
    from alance.format.layouts.fields import LeafColumn

WRITTEN_ZONE_ROWS: Final = 8192
# Maximum zones of a column; above it, adjacent zones are merged in pairs.
MAX_WRITTEN_ZONES: Final = 1024


class NewStatistics:
    """Statistics of a file being written, with the zones of each column that has them."""

    def __init__(self, columns: Sequence[LeafColumn]) -> None:
        self._columns: dict[int, _kernels.Zones] = {}
        for number, column in enumerate(columns):
            kind = zones_kind(column.field) if column.multiplier == 1 else None
            if kind is not None:
                zones = _kernels.Zones(number, kind, WRITTEN_ZONE_ROWS, MAX_WRITTEN_ZONES)
                self._columns[number] = zones

    def add(self, column: int, values: PageValues) -> None:
        """Add the next rows of a column; only one thread at a time may add to a column.

        Does nothing for a column inside lists, which has no statistics. CPU: about 1 ns per number.
        """
        if values.rep is not None:
            self._columns.pop(column, None)
        if column not in self._columns:
            return
        nulls = values.definition
        valid = None if nulls is None else (nulls == 0).view(np.uint8)
        self._columns[column].add(values_input(values.values), valid)

    def finish(self) -> Bytes | None:
        """Return the buffer; None if it would be empty. CPU: about 10 us per column."""
        content = _kernels.statistics_buffer([*self._columns.values()], zlib.compress)
        return np.frombuffer(content, np.uint8) if content else None


def zones_kind(field: Field) -> str | None:
    """Return the kind of bounds of a field's zones; None if the field has no statistics."""
    special = field.is_blob_v1 or field.is_blob_v2 or field.is_packed or field.is_json
    return None if special or not field.is_leaf else kind_of(field.arrow_type)

"""Zones of rows in zone maps and bloom filter indices: their columns and ranges of rows.

`zonemap.lance` has the columns `min` and `max` (of the indexed type; NaN is the largest value),
`null_count` and `nan_count` (uint32); `bloomfilter.lance` has `has_null` (bool) and
`bloom_filter_data` (binary). Both have `fragment_id`, `zone_start` and `zone_length` (uint64): a
zone spans the offsets from its first to its last live row. The metadata has the number of live rows
per zone. Rows between zones were deleted before the index was built. The metadata entry
`null_bitmap` is the number of the global buffer with the set of null rows.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.index import bloom
from alance.format.numbers import as_numbers
from alance.format.row_set import OFFSET_BITS, RowSet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, Mask

ZONE_PLACE_COLUMNS: Final = ("fragment_id", "zone_start", "zone_length")
MAP_FILE: Final = "zonemap.lance"
MAP_COLUMNS: Final = ("min", "max", "null_count", "nan_count", *ZONE_PLACE_COLUMNS)
MAP_ROWS: Final = "rows_per_zone"
NULL_BITMAP: Final = "null_bitmap"
INDEX_ZONE_ROWS: Final = 8192


@dataclass(frozen=True, slots=True)
class ZoneOptions:
    """Build options of a zone index.

    Attributes:
        rows: number of rows per zone; also the number of values that a bloom filter is sized for.
        wrong: probability of false positives of a bloom filter, between 0 and 1 exclusive.
    """

    rows: int = INDEX_ZONE_ROWS
    wrong: float = bloom.WRONG


@dataclass(frozen=True, slots=True)
class ZoneRows:
    """Row ranges of zones: first and end address of each; shape (zones,)."""

    starts: Int64s
    stops: Int64s

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> ZoneRows:
        """Parse the row ranges of the zones in an index file.

        Raises:
            CorruptFileError: a row is not a valid zone, or zones overlap.
        """
        fragments, starts, lengths = (whole_column(batch, name) for name in ZONE_PLACE_COLUMNS)
        is_zone = (fragments >= 0) & (starts >= 0) & (lengths > 0)
        is_zone &= (
            (fragments >> 31 == 0)
            & (starts < 1 << OFFSET_BITS)
            & (lengths <= (1 << OFFSET_BITS) - starts)
        )
        first = (fragments << OFFSET_BITS) + starts
        order = np.argsort(first, kind="stable")
        ends = (first + lengths)[order]
        if not is_zone.all() or (ends[:-1] > first[order][1:]).any():
            raise CorruptFileError(f"zones of an index: {len(first)}, some of which overlap")
        return cls(first, first + lengths)

    def check(self, ids: Int64s, num_rows: Int64s) -> None:
        """Check that zones end within their fragments. Zones of unlisted fragments are ignored.

        Args:
            ids: ids of fragments, at least one; shape (n,).
            num_rows: number of rows of each fragment; 0 if unknown.

        Raises:
            CorruptFileError: a zone ends after its fragment.
        """
        order = np.argsort(ids)
        ids, num_rows = ids[order], num_rows[order]
        fragments = self.starts >> OFFSET_BITS
        places = np.minimum(np.searchsorted(ids, fragments), len(ids) - 1)
        stops = self.stops - (fragments << OFFSET_BITS)
        wrong = (ids[places] == fragments) & (num_rows[places] > 0) & (stops > num_rows[places])
        if wrong.any():
            zone = int(np.flatnonzero(wrong)[0])
            raise CorruptFileError(
                f"zones of an index: row {stops[zone] - 1} of fragment {fragments[zone]}, "
                f"it has {num_rows[places[zone]]}"
            )

    def rows_of(self, zones: Mask) -> RowSet:
        """Return the rows of the zones that a mask selects."""
        starts, stops = self.starts[zones], self.stops[zones]
        order = np.argsort(starts, kind="stable")
        starts, stops = starts[order], stops[order]
        is_first = np.ones(len(starts), np.bool_)
        is_first[1:] = starts[1:] != stops[:-1]
        firsts = np.flatnonzero(is_first)
        lasts = np.append(firsts[1:], len(starts)) - 1
        return RowSet.of_runs(starts[firsts], stops[lasts] - starts[firsts])


def whole_column(batch: pa.RecordBatch, name: str) -> Int64s:
    """Return a column of integers as int64.

    Raises:
        CorruptFileError: the column is missing, has nulls or does not hold integers.
    """
    if name not in batch.schema.names:
        raise CorruptFileError(f"index file with columns {batch.schema.names}, no {name}")
    column = batch.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise CorruptFileError(f"index file: {name} of type {column.type}, or null")
    return as_numbers(column).astype(np.int64)


def check_columns(batch: pa.RecordBatch, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in batch.schema.names]:
        raise CorruptFileError(f"index file with columns {batch.schema.names}, no {missing[0]}")

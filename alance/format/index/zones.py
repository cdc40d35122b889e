"""Zones of rows in zone maps and bloom filter indices: their columns, ranges of rows and builder.

`zonemap.lance` has the columns `min` and `max` (of the indexed type; NaN is the largest value),
`null_count` and `nan_count` (uint32); `bloomfilter.lance` has `has_null` (bool) and
`bloom_filter_data` (binary). Both have `fragment_id`, `zone_start` and `zone_length` (uint64): a
zone spans the offsets from its first to its last live row. The metadata has the number of live rows
per zone. Rows between zones were deleted before the index was built. The metadata entry
`null_bitmap` is the number of the global buffer with the set of null rows.

A bloom filter is a split-block filter as in Parquet. It holds the XXH64 hash of each value: of the
little-endian bytes of a number, or of the bytes of a text. A search skips the zones that cannot
contain its value. The metadata has the number of values that a filter is sized for, and its
probability of false positives.

Source: what pylance 14.0.2 writes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from alance import _kernels
from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.expr.compare import float_values
from alance.expr.tree import plain
from alance.format.index.bitmap import rows_bytes
from alance.format.numbers import (
    as_mask,
    as_numbers,
    bytes_of,
    contents_of,
    is_variable,
    text_array,
    to_arrow,
)
from alance.format.row_set import OFFSET_BITS, RowSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from alance.base.arrays import Bytes, Int64s, Mask, UInt64s

BLOOM_FILE: Final = "bloomfilter.lance"
FILTERS: Final = "bloom_filter_data"
HAS_NULL: Final = "has_null"
ITEMS_KEY: Final = "bloomfilter_item"
PROBABILITY_KEY: Final = "bloomfilter_probability"
WRONG: Final = 0.00057  # probability of false positives, as in pylance
LEAST_BYTES: Final = 32  # one block of a filter
ZONE_PLACE_COLUMNS: Final = ("fragment_id", "zone_start", "zone_length")
MAP_FILE: Final = "zonemap.lance"
MAP_COLUMNS: Final = ("min", "max", "null_count", "nan_count", *ZONE_PLACE_COLUMNS)
MAP_ROWS: Final = "rows_per_zone"
NULL_BITMAP: Final = "null_bitmap"
INDEX_ZONE_ROWS: Final = 8192
BATCH_ZONES: Final = 256  # maximum zones per batch
FILTER_BATCH_BYTES: Final = 8 << 20  # maximum bytes of bloom filters per batch


@dataclass(frozen=True, slots=True)
class ZoneOptions:
    """Build options of a zone index.

    Attributes:
        rows: number of rows per zone; also the number of values that a bloom filter is sized for.
        wrong: probability of false positives of a bloom filter, between 0 and 1 exclusive.
    """

    rows: int = INDEX_ZONE_ROWS
    wrong: float = WRONG


@dataclass(frozen=True, slots=True)
class ZoneRows:
    """Row ranges of zones: first and end address of each; shape (zones,)."""

    starts: Int64s
    stops: Int64s

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> ZoneRows:
        """Parse the row ranges of the zones in an index file."""
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
    """Return a column of integers as int64."""
    check_columns(batch, (name,))
    column = batch.column(name)
    if column.null_count or not pa.types.is_integer(column.type):
        raise CorruptFileError(f"index file: {name} of type {column.type}, or null")
    return as_numbers(column).astype(np.int64)


def check_columns(batch: pa.RecordBatch, names: Sequence[str]) -> None:
    if missing := [name for name in names if name not in batch.schema.names]:
        raise CorruptFileError(f"index file with columns {batch.schema.names}, no {missing[0]}")


class ZoneBuilder:
    """Builder of zones within fragments, each with bounds or a bloom filter.

    Attributes:
        has_filters: True to build bloom filters, False to build bounds.
        schema, run_schema: columns of that file, and of a run, which one process writes before the
            merge; they are the same.
    """

    def __init__(self, type_: pa.DataType, options: ZoneOptions, *, has_filters: bool) -> None:
        self.has_filters = has_filters
        self.file = BLOOM_FILE if has_filters else MAP_FILE
        self._options = options
        self._filter_bytes = filter_bytes(options.rows, options.wrong) if has_filters else 0
        self._batch_zones = min(BATCH_ZONES, FILTER_BATCH_BYTES // max(1, self._filter_bytes)) or 1
        # Rows of the last zone, which more rows may follow.
        self._open: list[tuple[pa.Array, Int64s]] = []
        self._num_open = 0
        self.null_rows: list[Int64s] = []
        self._zones: list[tuple[Any, ...]] = []
        places = [pa.field(name, pa.uint64(), nullable=False) for name in ZONE_PLACE_COLUMNS]
        if has_filters:
            own = [
                pa.field(HAS_NULL, pa.bool_(), nullable=False),
                pa.field(FILTERS, pa.binary(), nullable=False),
            ]
            self.schema = pa.schema([*places, *own])
        else:
            low, high, *counts = MAP_COLUMNS[:4]
            own = [pa.field(name, pa.uint32(), nullable=False) for name in counts]
            self.schema = pa.schema([pa.field(low, type_), pa.field(high, type_), *own, *places])
        self.run_schema = self.schema

    def add(self, values: pa.Array, addresses: pa.Array) -> list[pa.RecordBatch]:
        """Add values with their row addresses; return batches of completed zones. CPU work."""
        values, rows = plain(values), as_numbers(addresses).astype(np.int64)
        if values.null_count:
            self.null_rows.append(rows[~as_mask(values.is_valid())])
        for start, stop in self._cuts(rows):
            self._open.append((values.slice(start, stop - start), rows[start:stop]))
            self._num_open += stop - start
        return self._ready(self._batch_zones)

    def _cuts(self, rows: Int64s) -> Iterator[tuple[int, int]]:
        """Yield the row range of each zone.

        Before each range, close the open zone if it is complete.
        """
        edges = (np.flatnonzero(np.diff(rows >> OFFSET_BITS)) + 1).tolist()
        for start, stop in zip([0, *edges], [*edges, len(rows)], strict=True):
            if (
                self._open
                and start < stop
                and self._open[-1][1][-1] >> OFFSET_BITS != rows[start] >> OFFSET_BITS
            ):
                self._close()
            while start < stop:
                end = min(stop, start + self._options.rows - self._num_open)
                yield start, end
                start = end
                if self._num_open == self._options.rows:
                    self._close()

    def finish(self) -> list[pa.RecordBatch]:
        """Close the last zone and return the remaining batches. CPU work."""
        self._close()
        return self._ready(1)

    def end(self) -> tuple[dict[str, str], Bytes]:
        """Return the metadata of the file, and the set of null rows, which is its global buffer."""
        rows = np.concatenate([np.empty(0, np.int64), *self.null_rows])
        metadata = {NULL_BITMAP: "1"}
        if self.has_filters:
            wrong = np.format_float_positional(self._options.wrong, trim="-")
            metadata |= {ITEMS_KEY: str(self._options.rows), PROBABILITY_KEY: wrong}
        else:
            metadata[MAP_ROWS] = str(self._options.rows)
        return metadata, np.frombuffer(rows_bytes(rows), np.uint8)

    def _close(self) -> None:
        if not self._open:
            return
        values = pa.concat_arrays([part for part, _ in self._open])
        first, last = int(self._open[0][1][0]), int(self._open[-1][1][-1])
        self._open, self._num_open = [], 0
        fragment, start = first >> OFFSET_BITS, first & ((1 << OFFSET_BITS) - 1)
        place = (fragment, start, last - first + 1)
        if self.has_filters:
            content = np.zeros(self._filter_bytes, np.uint8)
            _kernels.bloom_add(hashes_of(values), content)
            self._zones.append((*place, values.null_count > 0, content.tobytes()))
        else:
            self._zones.append((*_bounds(values), *place))

    def _ready(self, least: int) -> list[pa.RecordBatch]:
        if len(self._zones) < least:
            return []
        columns = []
        for number, field in enumerate(self.schema):
            parts = [zone[number] for zone in self._zones]
            is_bounds = parts and isinstance(parts[0], pa.Array)
            columns.append(pa.concat_arrays(parts) if is_bounds else _array(parts, field.type))
        self._zones = []
        return [pa.RecordBatch.from_arrays(columns, schema=self.schema)]


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_binary(type_):
        return text_array(values, pa.large_binary()).cast(type_)
    return to_arrow(np.array(values)).cast(type_)


def _bounds(values: pa.Array) -> tuple[pa.Array, pa.Array, int, int]:
    """Return the minimum, the maximum, the number of nulls and the number of NaNs.

    NaN counts as the largest value. For fixed-size binary, both bounds are null, as in pylance.
    """
    nulls, nans = values.null_count, 0
    values, type_ = values.drop_null(), values.type
    if pa.types.is_floating(type_):
        floats = float_values(values)
        is_nan = np.isnan(floats)
        nans = int(np.count_nonzero(is_nan))
        numbers = floats[~is_nan]
        if len(floats):
            # -0.0 sorts before 0.0.
            zeros = np.signbit(numbers[numbers == 0])
            low, high = (numbers.min(), numbers.max()) if len(numbers) else (np.nan, np.nan)
            low = -0.0 if low == 0 and zeros.any() else low
            high = 0.0 if high == 0 and not zeros.all() else high
            pair = np.array([low, np.nan if nans else high], floats.dtype)
            has_numbers = np.array([len(numbers) > 0])
            return to_arrow(pair[:1], has_numbers), to_arrow(pair[1:]), nulls, nans
    if not len(values) or pa.types.is_fixed_size_binary(type_):
        return pa.nulls(1, type_), pa.nulls(1, type_), nulls, nans
    # Arrow has no min_max of durations.
    ends_of = pc.min_max(values.view(pa.int64()) if pa.types.is_duration(type_) else values)
    low, high = (pa.repeat(ends_of[name], 1).view(type_) for name in ("min", "max"))
    return low, high, nulls, nans


def filter_bytes(items: int, wrong: float) -> int:
    """Return the bytes of a filter for `items` values; `wrong` is its false positive rate."""
    bits = -8 * items / math.log(1 - wrong ** (1 / 8))
    return 1 << math.ceil(math.log2(max(bits / 8, LEAST_BYTES)))


def is_hashed(type_: pa.DataType) -> bool:
    """True if a filter can hold values of the type, as in pylance."""
    kinds = pa.types
    if kinds.is_float16(type_) or kinds.is_boolean(type_) or kinds.is_duration(type_):
        return False
    numbers = kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_temporal(type_)
    return is_variable(type_) or (numbers and not kinds.is_interval(type_))


def hashes_of(values: pa.Array) -> UInt64s:
    """Return the hash of each non-null value. CPU work."""
    values = plain(values).drop_null()
    type_ = values.type
    if is_variable(type_):
        return _kernels.bloom_hashes(*contents_of(values))
    starts = np.arange(len(values) + 1, dtype=np.int64) * (type_.bit_width // 8)
    return _kernels.bloom_hashes(starts, bytes_of(values))


def hashes_of_points(points: Sequence[Any], type_: pa.DataType) -> UInt64s:
    """Hash Python values as a filter hashes values of an Arrow type.

    A float zero gets two hashes: of 0.0 and of -0.0.

    Args:
        points: bytes for types of variable size, floats for float types, else integers: the stored
            value, such as the number of days for a date.
    """
    if is_variable(type_):
        return hashes_of(pa.array(points, pa.large_binary()))
    kind = "u" if pa.types.is_unsigned_integer(type_) else "i"
    if pa.types.is_floating(type_):
        kind, points = "f", [*points, *[-point for point in points if point == 0]]
    return hashes_of(to_arrow(np.array(points, f"<{kind}{type_.bit_width // 8}")))


def filter_hits(filters: pa.Array, hashes: UInt64s) -> Mask:
    """Return a mask of the filters that may contain at least one of the values. CPU work."""
    if not pa.types.is_binary(filters.type) or filters.null_count:
        raise CorruptFileError(f"bloom filters of type {filters.type}, or null")
    try:
        return _kernels.bloom_hits(*contents_of(filters), hashes).view(np.bool_)
    except ValueError as error:
        raise CorruptFileError(str(error)) from error


def null_flags(column: pa.Array) -> Mask:
    """Return the column `has_null` as a mask."""
    if not pa.types.is_boolean(column.type) or column.null_count:
        raise CorruptFileError(f"bloom filters: {HAS_NULL} of type {column.type}, or null")
    return as_numbers(column.cast(pa.uint8())).astype(np.bool_)

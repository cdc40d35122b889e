"""Questions to indices that know zones of rows and no rows: zone maps and bloom filters."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.expr.compare import float_values
from alance.expr.pruning import Zones, may_match
from alance.expr.tree import plain, plain_type
from alance.format.index import bloom
from alance.format.index.zones import (
    MAP_COLUMNS,
    MAP_FILE,
    PLACES,
    ZoneRows,
    check_columns,
    whole_column,
)
from alance.format.numbers import as_mask, to_arrow
from alance.format.statistics import Bounds
from alance.io.readahead import Job, readahead
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from alance.arrays import Mask
    from alance.expr.index_query import Ask
    from alance.format.row_set import RowSet
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

ZONE_WORK: Final = 64  # of a zone that is asked, as bytes to decode
HASH_WORK: Final = 32  # of a value that is looked up in a filter
FILTERS_AT_ONCE: Final = 256
PART_BYTES: Final = 8 << 20  # of so many filters, as they are made by default
PARTS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class ZoneMap:
    """A segment of a zone map: the rows of each zone, and what is known of them."""

    rows: ZoneRows
    bounds: Bounds

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> ZoneMap:
        """From the rows of its file. CPU.

        Raises:
            CorruptFileError: not the file of a zone map.
        """
        check_columns(batch, MAP_COLUMNS)
        low, high = plain(batch.column("min")), plain(batch.column("max"))
        if low.type != high.type:
            raise CorruptFileError(f"zone map: bounds of types {low.type} and {high.type}")
        nulls, nans = whole_column(batch, "null_count"), whole_column(batch, "nan_count")
        rows = ZoneRows.of(batch)
        if pa.types.is_floating(low.type):
            low, high = bound(low, -0.0), bound(high, 0.0)
        has_values = nulls < rows.stops - rows.starts
        return cls(rows, Bounds(nulls > 0, has_values, nans > 0, low, high))

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget."""
        return 16 * len(self.rows.starts) + self.bounds.num_bytes


@dataclass(frozen=True, slots=True)
class AskedZones:
    """A question to an index of zones, which is answered.

    Attributes:
        hits: the zones in which the question may be true of a row; shape (zones,).
    """

    segment: Segment
    rows: ZoneRows
    hits: Mask
    estimate: int

    @property
    def work(self) -> int:
        return len(self.hits)

    @property
    def told(self) -> str:
        return f"{np.count_nonzero(self.hits):,} of {len(self.hits):,} zones"

    @property
    def num_compared(self) -> int:
        return len(self.hits)

    @property
    def kept_as(self) -> Hashable:
        return None

    is_exact = is_counted = False
    is_at_hand = True

    async def row_numbers(self) -> RowSet:
        # Of rows that are in no zone nothing is known.
        return self.segment.domain - self.rows.rows_of(~self.hits)


async def zone_map_of(snapshot: Snapshot, files: IndexFiles) -> ZoneMap:
    """A segment of a zone map; kept in memory. Cost: a round, once.

    Raises:
        CorruptFileError: a file that is no zone map.
    """
    engine = snapshot.engine

    async def load() -> ZoneMap:
        batch = await files.whole(MAP_FILE)
        return await engine.decode(lambda: ZoneMap.of(batch), ZONE_WORK * batch.num_rows)

    key = ("zone map", files.where)
    return await engine.cache.get(key, load, lambda zone_map: zone_map.num_bytes)


async def ask_zones(snapshot: Snapshot, segment: Segment, ask: Ask) -> AskedZones:
    """Find the zones in which a question may be true. Cost: a round, once.

    Raises:
        CorruptFileError: a file that is no zone map, or one of other rows or another type.
    """
    engine = snapshot.engine
    zone_map = await zone_map_of(snapshot, segment.files(snapshot))
    if plain_type(zone_map.bounds.low.type) != ask.column.type:
        raise CorruptFileError(
            f"values of type {zone_map.bounds.low.type}, the column has {ask.column.type}"
        )

    def answer() -> AskedZones:
        assert ask.check is not None
        count = len(zone_map.rows.starts)
        hits = may_match(ask.check, Zones(count, {ask.column.path: zone_map.bounds}))
        return asked_zones(snapshot, segment, zone_map.rows, hits)

    return await engine.decode(answer, ZONE_WORK * len(zone_map.rows.starts))


async def filter_zones(snapshot: Snapshot, files: IndexFiles) -> tuple[ZoneRows, Mask]:
    """The zones of bloom filters, and which have nulls; kept in memory. Cost: a round, once.

    Raises:
        CorruptFileError: a file that has no such zones.
    """

    async def load() -> tuple[ZoneRows, Mask]:
        batch = await files.whole(bloom.FILE, [*PLACES, bloom.HAS_NULL])
        return ZoneRows.of(batch), bloom.null_flags(batch.column(bloom.HAS_NULL))

    key = ("bloom zones", files.where)
    return await snapshot.engine.cache.get(key, load, lambda zones: 300 + 17 * len(zones[1]))


def filter_parts(files: IndexFiles, num_zones: int) -> list[Callable[[], Awaitable[pa.Array]]]:
    """What reads the bloom filters, some of them at once. Cost of each: a round, once."""
    return [
        partial(files.part, bloom.FILE, bloom.FILTERS, start, start + FILTERS_AT_ONCE)
        for start in range(0, num_zones, FILTERS_AT_ONCE)
    ]


async def ask_filters(snapshot: Snapshot, segment: Segment, ask: Ask) -> AskedZones:
    """Find the zones that may have values. Cost: a round for their places, then one for filters.

    Memory: filters within the read-ahead of a scan, and those that the search cache keeps.

    Raises:
        CorruptFileError: a file that has no such filters, or zones of other rows.
    """
    engine, column_type = snapshot.engine, ask.column.type
    files = segment.files(snapshot)
    rows, has_nulls = await filter_zones(snapshot, files)
    count = len(has_nulls)
    if ask.is_of_nulls:
        return asked_zones(snapshot, segment, rows, has_nulls)
    if not bloom.is_hashed(column_type):
        raise CorruptFileError(f"bloom filters of a column of {column_type}")
    hashes = bloom.hashes_of_points(ask.points or [], column_type)
    masks: list[Mask] = [np.empty(0, np.bool_)]

    async def look(read: Callable[[], Awaitable[pa.Array]]) -> Mask:
        part = await read()
        work = HASH_WORK * len(part) * len(hashes)
        return await engine.decode(lambda: bloom.hits(part, hashes), work)

    jobs = [Job(PART_BYTES, partial(look, read)) for read in filter_parts(files, count)]
    budget = snapshot.read_ahead_bytes
    async with aclosing(readahead(jobs, budget_bytes=budget, max_jobs=PARTS_AT_ONCE)) as answers:
        masks += [mask async for mask in answers]
    may = np.concatenate(masks)
    return await engine.decode(lambda: asked_zones(snapshot, segment, rows, may), ZONE_WORK * count)


def asked_zones(snapshot: Snapshot, segment: Segment, rows: ZoneRows, hits: Mask) -> AskedZones:
    """The answer of zones. CPU.

    Raises:
        CorruptFileError: zones of rows that fragments do not have.
    """
    fragments = snapshot.manifest.fragments
    rows.check(fragments.ids, fragments.physical_rows)
    missed = int((rows.stops - rows.starts)[~hits].sum())
    return AskedZones(segment, rows, hits, max(0, len(segment.domain) - missed))


def bound(values: pa.Array, zero: float) -> pa.Array:
    """Bounds of floats: NaN is none, and a zero is that which is at the end."""
    floats = float_values(values)
    valid = as_mask(values.is_valid()) & ~np.isnan(floats)
    return to_arrow(np.where(floats == 0, floats.dtype.type(zero), floats), valid)

"""Zone maps: the bounds of the values in each zone of rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from google.protobuf import wrappers_pb2

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.expr.pruning import Zones, may_match
from alance.expr.tree import plain
from alance.format.index.zones import (
    MAP_COLUMNS,
    MAP_FILE,
    MAP_ROWS,
    ZoneOptions,
    ZoneRows,
    check_columns,
    whole_column,
)
from alance.format.statistics import ColumnBounds
from alance.ops.lookup.kinds.kind import ORDERED, check_type, is_ordered
from alance.ops.lookup.kinds.zones import ZONE_WORK, ZonesKind, bound, prepared_zones

if TYPE_CHECKING:
    from alance.expr.index_query import Ask
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.kind import PartLoader, PreparedAsk
    from alance.ops.lookup.kinds.zones import PreparedZones
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot


class ZoneMap(ZonesKind):
    """Zones of rows, each with its smallest and largest value."""

    name = "ZoneMap"
    index_type = "ZONEMAP"
    type_url = "/lance.table.ZoneMapIndexDetails"
    columns = ORDERED
    file = MAP_FILE
    has_filters = False
    rows_key = MAP_ROWS
    rows_argument = "rows_per_zone"
    of_json = True

    def suits(self, type_: pa.DataType) -> bool:
        return is_ordered(type_)

    def details(self, options: ZoneOptions) -> bytes:
        # Field 1 is the number of rows of a zone.
        rows = wrappers_pb2.UInt64Value(value=options.rows)
        return rows.SerializeToString() + b"\x10\x00\x18\x01"

    def takes(self, ask: Ask) -> bool:
        return ask.check is not None

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        engine = snapshot.engine
        zone_map = await zone_map_of(snapshot, segment.files(snapshot))
        check_type(ask, zone_map.bounds.low.type)

        def answer() -> PreparedZones:
            assert ask.check is not None
            count = len(zone_map.rows.starts)
            hits = may_match(ask.check, Zones(count, {ask.column.path: zone_map.bounds}))
            return prepared_zones(snapshot, segment, zone_map.rows, hits)

        return await engine.decode(answer, ZONE_WORK * len(zone_map.rows.starts))

    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[PartLoader]:
        return [partial(zone_map_of, snapshot, files)]

    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        num_zones, metadata = await files.head(self.file)
        options = self._options_of(metadata, files.name)
        return {"num_zones": num_zones, "rows_per_zone": options.rows}


@dataclass(frozen=True, slots=True)
class ZoneBounds:
    """A segment of a zone map: the rows and the bounds of each zone."""

    rows: ZoneRows
    bounds: ColumnBounds

    @classmethod
    def of(cls, batch: pa.RecordBatch) -> ZoneBounds:
        """Parse the rows of a segment's file. CPU work.

        Raises:
            CorruptFileError: it is not the file of a zone map.
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
        return cls(rows, ColumnBounds(nulls > 0, has_values, nans > 0, low, high))

    @property
    def num_bytes(self) -> int:
        """Memory in bytes, for the cache budget."""
        return 16 * len(self.rows.starts) + self.bounds.num_bytes


async def zone_map_of(snapshot: Snapshot, files: IndexFiles) -> ZoneBounds:
    """Return a segment of a zone map, through the search cache. Cost: a round, once.

    Raises:
        CorruptFileError: the file is not a zone map.
    """
    engine = snapshot.engine

    async def load() -> ZoneBounds:
        batch = await files.whole(MAP_FILE)
        return await engine.decode(lambda: ZoneBounds.of(batch), ZONE_WORK * batch.num_rows)

    key = ("zone map", files.where)
    return await engine.cache.get(key, load, lambda zone_map: zone_map.num_bytes)

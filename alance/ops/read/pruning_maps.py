"""Zone maps: files of scalar indices that hold the bounds of zones of rows, by fragment.

    min, max             of the zone; a NaN is the greatest
    null_count, nan_count
    fragment_id, zone_start, zone_length    from the first live row to the last one, by offset

Rows between zones were deleted before the index was made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from alance.errors import CorruptFileError
from alance.expr.compare import float_values
from alance.format.numbers import as_mask, as_numbers, distinct, to_arrow
from alance.format.statistics import Bounds
from alance.format.table.apply_indices import FRAGMENT_REUSE
from alance.format.table.indices import Index
from alance.io.tasks import all_of
from alance.ops.lookup.files import IndexFiles

if TYPE_CHECKING:
    from collections.abc import Collection

    from alance.arrays import Int64s
    from alance.ops.version.snapshot import Snapshot

KIND: Final = "ZoneMap"
VERSION: Final = 0
FILE: Final = "zonemap.lance"
NUMBERS: Final = ("null_count", "nan_count", "fragment_id", "zone_start", "zone_length")


@dataclass(frozen=True, slots=True)
class ZoneMap:
    """A segment of a zone-map index.

    Attributes:
        numbers: by name, shape (zones,) each.
    """

    covered: frozenset[int]
    low: pa.Array
    high: pa.Array
    numbers: dict[str, Int64s]

    @property
    def num_bytes(self) -> int:
        """Memory, for a cache's budget."""
        return 200 + int(self.low.nbytes + self.high.nbytes) + 40 * len(self.low)

    def of_fragment(self, fragment_id: int, num_rows: int) -> MappedZones | None:
        """The zones of a fragment; None where it is not covered.

        Raises:
            CorruptFileError: zones that overlap, or leave the fragment.
        """
        if fragment_id not in self.covered:
            return None
        rows = np.flatnonzero(self.numbers["fragment_id"] == fragment_id)
        starts = self.numbers["zone_start"][rows]
        order = np.argsort(starts, kind="stable")
        rows, starts = rows[order], starts[order]
        stops = starts + self.numbers["zone_length"][rows]
        if len(rows) and (
            starts[0] < 0
            or stops[-1] > num_rows
            or (stops <= starts).any()
            or (stops[:-1] > starts[1:]).any()
        ):
            raise CorruptFileError(
                f"zone map of fragment {fragment_id}: zones overlap, or leave its {num_rows} rows; "
                "use_stats=False reads it without them"
            )
        edges = distinct(np.concatenate([[0, num_rows], starts, stops]))[0]
        places = np.searchsorted(starts, edges[:-1], "right") - 1
        inside = (places >= 0) & (edges[:-1] < np.append(stops, 0)[places])
        return MappedZones(self, edges, np.where(inside, rows[places] if len(rows) else 0, -1))


@dataclass(frozen=True, slots=True)
class MappedZones:
    """The zones of a fragment in a zone map; `places` are rows of the map, -1 between zones."""

    map: ZoneMap
    edges: Int64s
    places: Int64s

    def bounds(self, arrow: pa.DataType) -> Bounds | None:
        """The bounds of each zone; None: they are of another type."""
        low, high = self.map.low, self.map.high
        if low.type != arrow or high.type != arrow:
            return None
        is_zone = self.places >= 0
        rows = to_arrow(self.places.clip(0), is_zone)
        padded = {name: np.append(column, 0) for name, column in self.map.numbers.items()}
        numbers = {name: column[self.places] for name, column in padded.items()}
        return Bounds(
            (numbers["null_count"] > 0) | ~is_zone,
            (numbers["null_count"] < numbers["zone_length"]) | ~is_zone,
            (numbers["nan_count"] > 0) | ~is_zone,
            _without_nans(low).take(rows),
            _without_nans(high).take(rows),
        )

    def whole(self, arrow: pa.DataType) -> None:
        """None: a zone map has no sums."""


async def zone_maps(snapshot: Snapshot, field_ids: Collection[int]) -> dict[int, list[ZoneMap]]:
    """The zone maps of fields, by field id.

    Cost: a round of small files for each that is not known, and one of their rows.

    Raises:
        CorruptFileError: a file that is no zone map.
    """
    messages = snapshot.manifest.indices
    if not messages or any(message.name == FRAGMENT_REUSE for message in messages):
        return {}
    indices = [
        Index.from_protobuf(message)
        for message in messages
        if len(message.fields) == 1 and message.fields[0] in field_ids
    ]
    chosen = [
        index for index in indices if index.kind == KIND and index.message.index_version == VERSION
    ]
    by_field: dict[int, list[ZoneMap]] = {}
    maps = await all_of(_load(snapshot, index) for index in chosen)
    for index, zone_map in zip(chosen, maps, strict=True):
        by_field.setdefault(index.fields[0], []).append(zone_map)
    return by_field


async def _load(snapshot: Snapshot, index: Index) -> ZoneMap:
    where = snapshot.table.index_file(snapshot.manifest, index, FILE)

    async def load() -> ZoneMap:
        batch = await IndexFiles(snapshot, index).whole(FILE)
        names = batch.schema.names
        if "min" not in names or "max" not in names or any(name not in names for name in NUMBERS):
            raise CorruptFileError(f"{where}: columns {names}, expected those of a zone map")
        numbers = {name: batch.column(name) for name in NUMBERS}
        for name, column in numbers.items():
            if column.null_count or not pa.types.is_integer(column.type):
                raise CorruptFileError(f"{where}: {name} of type {column.type}, or null")
        return ZoneMap(
            index.fragment_ids or frozenset(),
            batch.column("min"),
            batch.column("max"),
            {name: as_numbers(column).astype(np.int64) for name, column in numbers.items()},
        )

    return await snapshot.engine.cache.get(
        ("zone map", where), load, lambda zone_map: zone_map.num_bytes
    )


def _without_nans(bounds: pa.Array) -> pa.Array:
    """Bounds of floats, null where they are NaN: other values are not known then."""
    if not pa.types.is_floating(bounds.type):
        return bounds
    floats = float_values(bounds)
    valid = as_mask(bounds.is_valid()) & ~np.isnan(floats)
    return to_arrow(np.where(np.isnan(floats), 0, floats).astype(floats.dtype), valid)

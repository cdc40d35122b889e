"""Bloom filters: a filter of the hashes of values for each zone of rows."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.errors import CorruptFileError, InvalidInputError
from alance.format.index.zones import (
    BLOOM_FILE,
    FILTERS,
    HAS_NULL,
    ITEMS_KEY,
    WRONG,
    ZONE_PLACE_COLUMNS,
    ZoneOptions,
    ZoneRows,
    filter_hits,
    hashes_of_points,
    is_hashed,
    null_flags,
)
from alance.io.loop.readahead import Job, readahead
from alance.ops.lookup.kinds.zones import ZONE_WORK, ZonesKind, prepared_zones

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import pyarrow as pa

    from alance.base.arrays import Mask
    from alance.expr.index_query import Ask
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.kind import PartLoader, PreparedAsk
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

HASH_WORK: Final = 32  # looking up a value in a filter costs as much as decoding 32 bytes
FILTERS_AT_ONCE: Final = 256
FILTER_PART_BYTES: Final = 8 << 20  # bytes of 256 filters with default options
PARTS_AT_ONCE: Final = 16


class BloomFilter(ZonesKind):
    """Zones of rows, each with a bloom filter of its values."""

    name = "BloomFilter"
    index_type = "BLOOMFILTER"
    type_url = "/lance.index.pb.BloomFilterIndexDetails"
    columns = "a whole number, float32, float64, text, bytes, date or time"
    file = BLOOM_FILE
    has_filters = True
    rows_key = ITEMS_KEY
    rows_argument = "number_of_items"

    def suits(self, type_: pa.DataType) -> bool:
        return is_hashed(type_)

    def options(self, arguments: dict[str, Any]) -> ZoneOptions:
        wrong = arguments.pop("probability", WRONG)
        if not isinstance(wrong, float) or not 1e-9 <= wrong < 1:
            raise InvalidInputError(
                f"probability={wrong!r}: expected a number from 1e-9 to below 1"
            )
        return ZoneOptions(super().options(arguments).rows, wrong)

    def json_refusal(self, *, has_stable_row_ids: bool) -> str | None:
        # The same number has different hashes as int64 and as float64.
        return "bloom filters of JSON values do not say their type"

    def takes(self, ask: Ask) -> bool:
        return ask.is_of_nulls or ask.points is not None

    async def ask(self, snapshot: Snapshot, segment: Segment, ask: Ask) -> PreparedAsk:
        """Find the zones that may have the values.

        Cost: a round for the positions of zones, then one for filters. Memory: as many filters as a
        scan reads ahead, and those in the search cache.

        Raises:
            CorruptFileError: the file has no such filters, or zones outside of their fragments.
        """
        engine, column_type = snapshot.engine, ask.column.type
        files = segment.files(snapshot)
        rows, has_nulls = await filter_zones(snapshot, files)
        count = len(has_nulls)
        if ask.is_of_nulls:
            return prepared_zones(snapshot, segment, rows, has_nulls)
        if not is_hashed(column_type):
            raise CorruptFileError(f"bloom filters of a column of {column_type}")
        hashes = hashes_of_points(ask.points or [], column_type)
        masks: list[Mask] = [np.empty(0, np.bool_)]

        async def look(read: Callable[[], Awaitable[pa.Array]]) -> Mask:
            part = await read()
            work = HASH_WORK * len(part) * len(hashes)
            return await engine.decode(lambda: filter_hits(part, hashes), work)

        jobs = [Job(FILTER_PART_BYTES, partial(look, read)) for read in filter_parts(files, count)]
        budget = snapshot.read_ahead_bytes
        answering = readahead(jobs, budget_bytes=budget, max_jobs=PARTS_AT_ONCE)
        async with aclosing(answering) as answers:
            masks += [mask async for mask in answers]
        may = np.concatenate(masks)
        return await engine.decode(
            lambda: prepared_zones(snapshot, segment, rows, may), ZONE_WORK * count
        )

    async def parts(self, snapshot: Snapshot, files: IndexFiles) -> list[PartLoader]:
        _, has_nulls = await filter_zones(snapshot, files)
        return [*filter_parts(files, len(has_nulls))]

    async def statistics(self, snapshot: Snapshot, files: IndexFiles) -> dict[str, Any]:
        num_zones, metadata = await files.head(self.file)
        options = self._options_of(metadata, files.name)
        return {
            "type": self.name,
            "num_blocks": num_zones,
            "number_of_items": options.rows,
            "probability": options.wrong,
        }


async def filter_zones(snapshot: Snapshot, files: IndexFiles) -> tuple[ZoneRows, Mask]:
    """Return the zones of bloom filters and the mask of zones with nulls, through the search cache.

    Cost: a round, once.

    Raises:
        CorruptFileError: the file has no such zones.
    """

    async def load() -> tuple[ZoneRows, Mask]:
        batch = await files.whole(BLOOM_FILE, [*ZONE_PLACE_COLUMNS, HAS_NULL])
        return ZoneRows.of(batch), null_flags(batch.column(HAS_NULL))

    key = ("bloom zones", files.where)
    return await snapshot.engine.cache.get(key, load, lambda zones: 300 + 17 * len(zones[1]))


def filter_parts(files: IndexFiles, num_zones: int) -> list[Callable[[], Awaitable[pa.Array]]]:
    """Return functions that read all filters, up to 256 each, in one round each."""
    return [
        partial(files.part, BLOOM_FILE, FILTERS, start, start + FILTERS_AT_ONCE)
        for start in range(0, num_zones, FILTERS_AT_ONCE)
    ]

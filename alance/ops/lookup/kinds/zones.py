"""Kinds that summarize zones of rows without single rows: zone maps and bloom filters."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from alance.base.checks import check_count
from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.expr.compare import float_values
from alance.format.index.zones import (
    FILTER_BATCH_BYTES,
    INDEX_ZONE_ROWS,
    NULL_BITMAP,
    PROBABILITY_KEY,
    WRONG,
    ZoneBuilder,
    ZoneOptions,
    ZoneRows,
)
from alance.format.numbers import as_mask, to_arrow
from alance.format.row_set import OFFSET_BITS
from alance.ops.lookup.kinds.kind import IndexKind
from alance.ops.lookup.stored import SegmentEnd, StoredFile, spans_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from alance.base.arrays import Mask
    from alance.format.row_set import RowSet
    from alance.format.table.indices import Index
    from alance.ops.index.segment_files import SegmentFiles
    from alance.ops.lookup.files import IndexFiles
    from alance.ops.lookup.kinds.kind import Batches
    from alance.ops.lookup.segments import Segment
    from alance.ops.version.snapshot import Snapshot

ZONE_WORK: Final = 64  # checking a zone costs as much as decoding 64 bytes
MAX_ZONE_ROWS: Final = 1 << 24  # largest zone: its bloom filter has 64 MiB


class ZonesKind(IndexKind):
    """A kind that summarizes zones; each zone is in one fragment.

    Attributes:
        has_filters: True for bloom filters, False for bounds.
        rows_key: metadata key of the number of rows per zone.
        rows_argument: argument of `create_scalar_index` for the same number.
    """

    null_rows = NULL_BITMAP
    is_sorted = False
    has_addresses = True
    can_move = False  # as in pylance
    has_filters: ClassVar[bool]
    rows_key: ClassVar[str]
    rows_argument: ClassVar[str]

    def options(self, arguments: dict[str, Any]) -> ZoneOptions:
        rows: int = arguments.pop(self.rows_argument, INDEX_ZONE_ROWS)
        check_count(self.rows_argument, rows, 1, MAX_ZONE_ROWS)
        return ZoneOptions(rows)

    async def zone_options(self, files: IndexFiles, name: str) -> ZoneOptions:
        _, metadata = await files.head(self.file)
        return self._options_of(metadata, name)

    def _options_of(self, metadata: Mapping[str, str], name: str) -> ZoneOptions:
        rows = metadata.get(self.rows_key, str(INDEX_ZONE_ROWS))
        wrong = metadata.get(PROBABILITY_KEY, str(WRONG))
        try:
            options = ZoneOptions(int(rows), float(wrong))
        except ValueError as error:
            raise CorruptFileError(f"index {name}: {error}") from error
        if options.rows < 1 or not 0 < options.wrong < 1:
            raise CorruptFileError(f"index {name}: zones of {rows} rows, wrong by {wrong}")
        return options

    def source(self, type_: pa.DataType, options: ZoneOptions, memory: int) -> ZoneBuilder:
        return ZoneBuilder(type_, options, has_filters=self.has_filters)

    async def write(
        self, files: SegmentFiles, source: ZoneBuilder, rows: Batches, *, of_runs: bool = False
    ) -> None:
        def end() -> SegmentEnd:
            metadata, null_rows = source.end()
            return SegmentEnd(metadata, [null_rows])

        await files.write(source.file, source.run_schema, rows, end)

    async def live_rows(
        self,
        snapshot: Snapshot,
        index: Index,
        source: ZoneBuilder,
        live: RowSet,
        covered: frozenset[int],
    ) -> Batches:
        """Yield the zones of `covered`; the bounds of zones with deleted rows may be too wide."""
        schema = source.run_schema
        stored = await StoredFile.open(snapshot, index, source.file)
        columns = [(column.name, column.type) for column in stored.schema]
        if columns != [(column.name, column.type) for column in schema]:
            raise CorruptFileError(f"{source.file} with columns {stored.schema.names} of a segment")
        handles = await snapshot.handles_of(covered)
        await snapshot.resolve_sizes(handles)
        ids = np.array([handle.id for handle in handles], np.int64)
        sizes = np.array([handle.num_physical_rows for handle in handles], np.int64)

        def of_covered(batch: pa.RecordBatch) -> pa.RecordBatch:
            places = ZoneRows.of(batch)
            places.check(ids, sizes)
            is_covered = np.isin(places.starts >> OFFSET_BITS, ids)
            whole = pa.RecordBatch.from_arrays(batch.columns, schema=schema)
            return whole if is_covered.all() else whole.filter(to_arrow(is_covered))

        spans = spans_of(stored.num_rows, max(1, FILTER_BATCH_BYTES // stored.bytes_per_row))
        async with aclosing(stored.batches(spans, of_covered)) as batches:
            async for batch in batches:
                yield batch


@dataclass(frozen=True, slots=True)
class PreparedZones:
    """A question to an index of zones, with its answer.

    Attributes:
        hits: mask of the zones in which the question may be true of a row; shape (zones,).
    """

    segment: Segment
    rows: ZoneRows
    hits: Mask
    estimate: int

    @property
    def work(self) -> int:
        return len(self.hits)

    @property
    def summary(self) -> str:
        return f"{np.count_nonzero(self.hits):,} of {len(self.hits):,} zones"

    @property
    def num_compared(self) -> int:
        return len(self.hits)

    @property
    def cache_key(self) -> Hashable:
        return None

    is_exact = is_counted = False
    is_at_hand = True

    async def row_numbers(self) -> RowSet:
        # Rows outside of all zones may also match.
        return self.segment.domain - self.rows.rows_of(~self.hits)


def prepared_zones(
    snapshot: Snapshot, segment: Segment, rows: ZoneRows, hits: Mask
) -> PreparedZones:
    """Return the answer of zones. CPU work.

    Raises:
        CorruptFileError: a zone ends after its fragment.
    """
    fragments = snapshot.manifest.fragments
    rows.check(fragments.ids, fragments.physical_rows)
    missed = int((rows.stops - rows.starts)[~hits].sum())
    return PreparedZones(segment, rows, hits, max(0, len(segment.domain) - missed))


def bound(values: pa.Array, zero: float) -> pa.Array:
    """Return float bounds for pruning: NaN becomes null, and zeros get the sign of `zero`."""
    floats = float_values(values)
    valid = as_mask(values.is_valid()) & ~np.isnan(floats)
    return to_arrow(np.where(floats == 0, floats.dtype.type(zero), floats), valid)

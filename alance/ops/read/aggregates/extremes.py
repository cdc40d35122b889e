"""Search for the rows with the smallest and largest values of columns, by statistics.

First, the zones with the smallest and largest bounds are read. Then all zones are read whose bounds
exceed the values seen. There are such zones only if rows were deleted, or if bounds are wider than
the values. So a bound is never taken for a value.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from alance.base import compute as pc
from alance.base.records import dataclass
from alance.errors import UnsupportedError
from alance.expr.tree import Column, plain_type
from alance.format.numbers import as_mask
from alance.format.statistics import ColumnBounds
from alance.ops.read.plan import plan_scan
from alance.ops.read.pruning import FragmentZones, Pruner
from alance.ops.read.scan import scan

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from alance.base.arrays import Mask
    from alance.ops.read.options import ScanOptions
    from alance.ops.read.pruning import Spans
    from alance.ops.version.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class ExtremesPruner(Pruner):
    """Pruner that selects zones, first by their bounds, then by the values seen.

    Attributes:
        seen: smallest and largest value of each column in the first pass; None during that pass.
    """

    seen: Mapping[Column, tuple[pa.Scalar, pa.Scalar]] | None = None

    def spans(
        self, fragments: Sequence[FragmentZones | None], spans: Sequence[Spans]
    ) -> list[Spans]:
        """Return the spans of rows to read in each fragment. CPU work.

        Args:
            fragments: zones of each fragment; None if unknown, so that the first pass reads all its
                rows.
        """
        if self.seen is not None:
            spans = [own if zones else [] for zones, own in zip(fragments, spans, strict=True)]
        return Pruner.spans(self, fragments, spans)

    def _masks(self, fragments: Sequence[FragmentZones], spans: Sequence[Spans]) -> list[Mask]:
        inside = np.concatenate([*map(_inside, fragments, spans)])
        chosen = np.zeros(len(inside), np.bool_)
        for column in self.columns:
            bounds = ColumnBounds.joined([zones.bounds(column) for zones in fragments])
            chosen |= self._chosen(column, bounds, inside & bounds.has_values)
        ends = np.cumsum([zones.num_zones for zones in fragments])
        return np.split(chosen, ends[:-1])

    def _chosen(self, column: Column, bounds: ColumnBounds, may: Mask) -> Mask:
        """Return the mask of zones to read for one column.

        Args:
            may: zones that may have values of the column.
        """
        unknown = as_mask(pc.or_(bounds.low.is_null(), bounds.high.is_null()))
        bounded = may & ~unknown
        if self.seen is not None:
            low, high = self.seen[column]
            if not low.is_valid:
                return bounded
            beyond = pc.or_(pc.less(bounds.low, low), pc.greater(bounds.high, high))
            return bounded & as_mask(beyond)
        chosen = may & unknown
        if bounded.any():
            for side, name in ((bounds.low, "min"), (bounds.high, "max")):
                end = pc.min_max(side.filter(pa.array(bounded)))[name]
                chosen[np.flatnonzero(bounded & as_mask(pc.equal(side, end)))[0]] = True
        return chosen


async def extreme_rows(
    snapshot: Snapshot,
    columns: Sequence[str],
    options: ScanOptions,
    spans: Mapping[int, Sequence[tuple[int, int]]],
) -> AsyncGenerator[pa.RecordBatch, None]:
    """Yield rows that include those with the smallest and the largest value of each column.

    Cost: for fragments with statistics, two zones per column and window of 64 fragments, and some
    zones with deleted rows or truncated text bounds. Other fragments are scanned.

    Args:
        columns: table columns of ordered types, except floats, because of NaN.
        options: options without a filter or limit.
        spans: physical rows to read, by fragment id; all rows of fragments without an entry.

    Raises:
        UnsupportedError: a column has floats.
    """
    plan = await plan_scan(snapshot, columns, options)
    plan = replace(plan, spans={**plan.spans, **spans})
    schema = snapshot.schema.known_arrow()
    key_columns = [Column((name,), plain_type(schema.field(name).type)) for name in columns]
    for column in key_columns:
        if pa.types.is_floating(column.type):
            raise UnsupportedError(f"column {column.path[0]!r}: {column.type} may hold NaN")
    run = snapshot.engine.pool.run
    seen = {column: [pa.array([], column.type)] for column in key_columns}

    def see(batch: pa.RecordBatch) -> None:
        for column, values in seen.items():
            ends = pc.min_max(batch.column(column.path[0]))
            values += [pa.repeat(ends[end], 1).cast(column.type) for end in ("min", "max")]

    def seen_ends() -> dict[Column, tuple[pa.Scalar, pa.Scalar]]:
        of_columns = {own: pc.min_max(pa.concat_arrays(values)) for own, values in seen.items()}
        return {column: (ends["min"], ends["max"]) for column, ends in of_columns.items()}

    pruner = ExtremesPruner.of(None, snapshot.schema, key_columns)
    for number in range(2 if options.use_stats else 1):
        if number:
            pruner = replace(pruner, seen=await run(seen_ends), needed={})
        whole = replace(plan, pruner=pruner if options.use_stats else None)
        async with aclosing(scan(snapshot, whole)) as batches:
            async for batch in batches:
                await run(partial(see, batch))
                yield batch


def _inside(zones: FragmentZones, spans: Spans) -> Mask:
    starts, stops = zones.edges[:-1], zones.edges[1:]
    inside = np.zeros(len(starts), np.bool_)
    for start, stop in spans:
        inside |= (starts < stop) & (stops > start)
    return inside

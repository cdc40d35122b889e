"""Which way a search goes, and why, told before it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.ops.read.explain import explain_scan
from alance.ops.search.nearest import checked_search, flat_options
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from alance.ops.read.explain import Explanation
    from alance.ops.read.options import ScanOptions
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


async def explain_search(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> Explanation:
    """What a search costs before it takes the columns of its rows.

    Cost: as `explain_scan`.
    """
    search = checked_search(snapshot, options)
    metric = search.metric or search.default_metric
    told = await explain_scan(snapshot, [search.path, ROW_ID], flat_options(options))
    line = f"  nearest: {search.k} rows by {metric} of column {search.path}, every vector compared"
    return replace(
        told, what=(told.what[0].replace("scan of", "search of", 1), line, *told.what[1:])
    )

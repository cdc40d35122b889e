"""Which way a search goes, and why, told before it goes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from alance.format.index.hnsw import walked_rows
from alance.format.index.ivf import links_of
from alance.ops.read.explain import explain_scan
from alance.ops.read.options import condition_of
from alance.ops.search.answer import flat_options
from alance.ops.search.nearest import checked_search
from alance.ops.search.segments import way_of
from alance.ops.version.first_use import load_readers
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from alance.ops.read.explain import Explanation
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.options import Search
    from alance.ops.search.segments import Way
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


async def explain_search(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> Explanation:
    """What a search costs before it takes the columns of its rows.

    Cost: as `explain_scan`.
    """
    search = checked_search(snapshot, options)
    await load_readers(snapshot, columns, condition_of(options))
    way = way_of(snapshot, search, options)
    plain = flat_options(options)
    if way.segments:
        plain = replace(plain, fragments=[handle.id for handle in way.uncovered])
    told = await explain_scan(snapshot, [search.path, ROW_ID], plain)
    first = told.what[0].replace("scan of", "search of", 1)
    line = f"  nearest: {search.k} rows by {way.metric} of column {search.path}"
    if not way.segments:
        line += ", every vector compared"
    lines = [f"  {text}" for text in (*way.lines, *_of_graphs(search, way))]
    if way.segments:
        lines.append("  below: what is read of fragments without an index")
    return replace(told, what=(first, line, *lines, *told.what[1:]))


def _of_graphs(search: Search, way: Way) -> list[str]:
    """Which partitions of indices with graphs are walked through, for each number of links."""
    ef = search.probing.width(search.k * search.probing.refined)
    details = (segment.index.message.index_details.value for segment in way.segments)
    links = {m for m in map(links_of, details) if m is not None}
    return [
        f"graphs are followed (ef {ef}) in partitions with more than {walked_rows(m, ef)} rows "
        "that may be given; all rows of others are compared"
        for m in sorted(links)
    ]

"""Explanation of a vector search without running it: its path, reasons and costs."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from alance.errors import UnsupportedError
from alance.file.rows.placing import page_states
from alance.format.index.hnsw import described, walked_rows
from alance.format.plans import coalesce
from alance.io.loop.tasks import all_of
from alance.io.reading.speed import rate_of
from alance.ops.read.explain import Step, explain_scan
from alance.ops.read.options import condition_of
from alance.ops.read.plan import plan_scan
from alance.ops.search.answer import unit_queries
from alance.ops.search.cost import MAX_TAKEN_ROWS, costs, pays_taking
from alance.ops.search.indexed import open_segment
from alance.ops.search.nearest import checked_search
from alance.ops.search.segments import flat_options, way_of
from alance.ops.version.first_use import load_readers
from alance.ops.version.projection import ROW_ID

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.ops.read.explain import Explanation
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.indexed import Ivf
    from alance.ops.search.options import VectorSearch
    from alance.ops.search.segments import Way
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot


async def explain_search(snapshot: Snapshot, columns: Columns, options: ScanOptions) -> Explanation:
    """Explain the reads of a search before it takes the output columns.

    Cost: as for `explain_scan`; with an index, also the metadata of its files, which are then
    cached.
    """
    search = checked_search(snapshot, options)
    await load_readers(snapshot, columns, condition_of(options))
    way = way_of(snapshot, search, options)
    lines = [*way.lines, *_of_graphs(search, way)]
    steps: list[Step] = []
    if way.segments:
        reasons, steps = await _of_index(snapshot, search, options, way)
        lines += [*reasons, "the numbers below are of this, and of fragments without an index"]
    line = f"nearest: {search.k} rows by {way.metric} of column {search.path}"
    if not way.segments and way.uncovered:
        line += ", every vector compared"
    paths, uncovered = [search.path], way.scan(options)
    return await explain_uncovered(snapshot, paths, uncovered, [line, *lines], steps, flat=True)


async def explain_uncovered(
    snapshot: Snapshot,
    paths: Sequence[str],
    options: ScanOptions,
    lines: Sequence[str],
    steps: Sequence[Step] = (),
    *,
    flat: bool,
) -> Explanation:
    """Explain a search by its path and steps, then by the scan of fragments without an index."""
    scanned = await explain_scan(snapshot, [*paths, ROW_ID], options, flat=flat)
    first = scanned.what[0].replace("scan of", "search of", 1)
    return replace(
        scanned,
        what=(first, *(f"  {line}" for line in lines), *scanned.what[1:]),
        steps=(*steps, *scanned.steps),
        rounds=max(scanned.rounds, len(steps)),
    )


async def _of_index(
    snapshot: Snapshot, search: VectorSearch, options: ScanOptions, way: Way
) -> tuple[list[str], list[Step]]:
    """Explain the use of an index: the reasons, and the steps that read its partitions."""
    try:
        opened = await all_of(
            open_segment(snapshot, segment, search.type) for segment in way.segments
        )
    except UnsupportedError as error:
        return [f"index {way.segments[0].index.name} not used, every vector compared: {error}"], []
    lines = []
    if options.filter is not None and options.prefilter:
        covered = frozenset[int]().union(*(segment.covered for segment in way.segments))
        filtering = replace(flat_options(options), fragments=covered)
        plan = await plan_scan(snapshot, [ROW_ID], filtering, counts=True)
        if plan.counted is None or plan.handles:
            lines.append(
                f"if the filter keeps at most {MAX_TAKEN_ROWS} rows, and few enough beside the "
                "partitions, their vectors are taken and compared exactly instead of:"
            )
        else:
            num_rows = len(plan.counted)
            taken, probed = costs(snapshot, search, opened, num_rows)
            reason = (
                f"the filter keeps at most {num_rows:,} rows: taking their vectors costs as much "
                f"as {taken:,} bytes, partitions {probed:,}"
            )
            if pays_taking(snapshot, search, opened, num_rows):
                return [f"{reason}; so they are taken, and compared exactly"], []
            lines.append(f"{reason}; so partitions are searched")
    partitions, step = await _of_partitions(snapshot, search, opened)
    return [*lines, *partitions], [] if step is None else [step]


async def _of_partitions(
    snapshot: Snapshot, search: VectorSearch, opened: Sequence[Ivf]
) -> tuple[list[str], Step | None]:
    """Explain the partitions that each search reads, and their requests (None if all are cached).

    Further partitions, which a search reads if it finds too few rows, are not counted.
    """
    engine, store = snapshot.engine, snapshot.table.store
    ef = search.probing.width(search.num_probed)
    lines: list[str] = []
    by_path: dict[str, list[tuple[int, int]]] = {}
    for ivf in opened:
        least, most = search.probing.partitions(ivf.num_partitions)
        queries = unit_queries(search, ivf.centroids.metric)
        orders = await engine.pool.run(partial(ivf.nearest_partitions, queries, least))
        numbers = np.unique(orders)
        parts = [part for number in numbers.tolist() for part in ivf.parts(number, ef)]
        parts = [part for part in parts if part.span[1] > part.span[0]]
        missing = [part for part in parts if engine.cache.peek(part.key) is None]
        num_rows = int(ivf.sizes[numbers].sum())
        more = f", up to {most:,} as long as there are fewer rows than asked for" * (most > least)
        lines.append(
            f"{len(numbers):,} of {ivf.num_partitions:,} partitions{more}: {num_rows:,} rows; "
            f"{len(parts) - len(missing):,} of {len(parts):,} of their parts are in memory"
        )
        for rows in {id(part.opened): part.opened for part in missing}.values():
            await engine.drive(page_states(rows, engine.cache), "open index")
        for part in missing:
            for extent in next(part.opened.read(*part.span, engine.cache), ()):
                by_path.setdefault(extent.path, []).append((int(extent.start), int(extent.stop)))
    if not by_path:
        return lines, None
    gap, most_bytes = rate_of(store).gap(store.profile.take_gap), store.profile.max_request_bytes
    merged = [coalesce(spans, gap, most_bytes) for spans in by_path.values()]
    spans = [span for plan in merged for span in plan.spans]
    num_bytes = sum(stop - start for start, stop in spans)
    needed = sum(stop - start for ranges in by_path.values() for start, stop in set(ranges))
    return lines, Step("partitions", len(spans), num_bytes, max(0, num_bytes - needed))


def _of_graphs(search: VectorSearch, way: Way) -> list[str]:
    """Explain the partitions that are searched by graphs, for each number of links per row."""
    ef = search.probing.width(search.num_probed)
    details = (segment.index.message.index_details.value for segment in way.segments)
    numbers = {links.m for links in map(described, details) if links is not None}
    return [
        f"graphs are followed (ef {ef}) in partitions with more than {walked_rows(m, ef)} rows "
        "that may be given; all rows of others are compared"
        for m in sorted(numbers)
    ]

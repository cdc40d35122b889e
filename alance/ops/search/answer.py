"""Nearest rows of queries: by an index plus the rows it does not cover, or by comparing all rows.

Results of all sources are ranked together, so the output does not depend on the path.
"""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from alance.base.records import dataclass
from alance.errors import CorruptFileError, InvalidInputError, UnsupportedError
from alance.file.rows.fragment import open_fragments
from alance.file.rows.leaves import LeafSet
from alance.format.numbers import distinct
from alance.io.loop.tasks import all_of
from alance.ops.read.plan import chosen
from alance.ops.read.take import flat_rows
from alance.ops.search.cost import pays_taking
from alance.ops.search.eligible import eligible_rows
from alance.ops.search.flat import add_vectors, kernel_of, search_flat
from alance.ops.search.heads import few_states
from alance.ops.search.indexed import Kernels, open_segment, search_segments
from alance.ops.search.segments import flat_options, way_of
from alance.ops.version.first_use import parsed
from alance.ops.version.projection import project

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from alance import _kernels
    from alance.base.arrays import Float32s, Float64s, Int32s, Int64s, Mask, UInt32s, UInt64s
    from alance.format.plans import Plan
    from alance.format.row_set import RowSet
    from alance.format.schema import Schema
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.eligible import Eligible
    from alance.ops.search.indexed import Ivf
    from alance.ops.search.options import VectorSearch
    from alance.ops.search.segments import Way
    from alance.ops.version.projection import Columns
    from alance.ops.version.snapshot import Snapshot

_log: Final = logging.getLogger(__name__)
ALL_CANDIDATES: Final = 1 << 40  # `ef` of a graph search that compares all rows
OPENED_AHEAD: Final = 8  # most fragments whose files are opened while the index is searched


@dataclass(frozen=True, slots=True)
class Hits:
    """Rows found by a search, in order of the queries, nearest first.

    Attributes:
        numbers: number of the query of each row, int32, shape (n,).
        distances: float32, shape (n,).
        ids: row ids, uint64, shape (n,).
        elements: positions in the rows' lists, uint32, shape (n,); None unless list elements are
            searched.
    """

    numbers: Int32s
    distances: Float32s
    ids: UInt64s
    elements: UInt32s | None = None

    @classmethod
    def of(cls, parts: Sequence[_kernels.Nearest], k: int) -> Hits:
        """Return the k nearest rows of each query, from one or several kernels."""
        hits = cls._joined([nearest.result() for nearest in parts])
        return hits if len(parts) == 1 else hits.ranked(k)

    @classmethod
    def below(cls, parts: Sequence[_kernels.Nearest], k: int) -> Hits:
        """Return, for each query, the k rows just below the lower bound of distances.

        Their distances are negated, so that the row nearest to the bound comes first.
        """
        return cls._joined([nearest.below() for nearest in parts]).ranked(k)

    @classmethod
    def _joined(cls, results: Sequence[tuple[Int64s, Float32s, UInt64s]]) -> Hits:
        numbers = np.concatenate(
            [np.repeat(np.arange(len(result[0]), dtype=np.int32), result[0]) for result in results]
        )
        distances = np.concatenate([result[1] for result in results])
        return cls(numbers, distances, np.concatenate([result[2] for result in results]))

    def __add__(self, other: Hits) -> Hits:
        """Append other rows; the result has no `elements`."""
        return Hits(
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.distances, other.distances]),
            np.concatenate([self.ids, other.ids]),
        )

    def ranked(self, k: int) -> Hits:
        """Return the k nearest rows of each query; the rows may be in any order."""
        hits = self.where(np.lexsort((self.ids, self.distances, self.numbers)))
        starts = np.searchsorted(hits.numbers, hits.numbers)
        return hits.where(np.flatnonzero(np.arange(len(hits.ids)) - starts < k))

    def of_lists(self, search: VectorSearch, k: int, *, below: bool = False) -> Hits:
        """Combine the hits of single vectors into the k nearest rows of each query.

        The distance of a row is the sum of its distances from the query's vectors. A vector whose
        search did not find the row counts with the largest distance of that search, which is a
        lower bound.

        Args:
            below: True to also return the k rows of each query just below the range of distances;
                their distances are negated.
        """
        vectors = self.numbers.astype(np.int64)
        ids, places = distinct(self.ids.astype(np.int64))
        farthest = np.full(len(search.vectors), -np.inf)
        np.maximum.at(farthest, vectors, self.distances)
        rest = farthest.reshape(-1, search.width)
        rest = np.where(np.isinf(rest), rest.max(axis=1, keepdims=True), rest)
        # If several vectors of a row were hits, the nearest is used, which comes first.
        first = np.unique(vectors * len(ids) + places, return_index=True)[1]
        vectors, queries = vectors[first], vectors[first] // search.width
        gains = self.distances[first] - rest.reshape(-1)[vectors]
        rows, owners = np.unique(queries * len(ids) + places[first], return_inverse=True)
        numbers, rows = np.divmod(rows, max(1, len(ids)))
        sums = np.bincount(owners, gains, len(rows)) + rest.sum(axis=1)[numbers]
        distances = sums.astype(np.float32)
        hits = Hits(numbers.astype(np.int32), distances, ids[rows].astype(np.uint64))
        inside = hits.where((sums >= search.lower) & (sums < search.upper)).ranked(k)
        if not below:
            return inside
        return inside + replace(hits, distances=-distances).where(sums < search.lower).ranked(k)

    def where(self, chosen: Mask | Int64s | slice) -> Hits:
        """Select rows by a mask, by positions or by a slice."""
        elements = None if self.elements is None else self.elements[chosen]
        return Hits(self.numbers[chosen], self.distances[chosen], self.ids[chosen], elements)


def check_queries(search: VectorSearch, way: Way) -> None:
    """Check that the metric of a search is defined for its queries.

    Raises:
        InvalidInputError: the metric is cosine, and a query is all zeros.
    """
    if way.metric == "cosine" and not search.vectors.any(axis=1).all():
        raise InvalidInputError("metric='cosine': a query of zeros has no direction")


async def find_hits(
    snapshot: Snapshot, search: VectorSearch, options: ScanOptions, columns: Columns
) -> Hits:
    """Find the k nearest rows of each query.

    Args:
        columns: columns that the rows will be taken from; their files are opened while the index is
            searched.

    Raises:
        InvalidInputError: the filter or a fragment is invalid.
        CorruptFileError: files of the table or of an index contradict the format.
    """
    way = way_of(snapshot, search, options)
    if way.segments:
        try:
            return await _indexed(snapshot, search, options, way, columns)
        except UnsupportedError as error:
            _log.warning("%s: every vector is compared: %s", snapshot.uri, error)
    nearest = kernel_of(search, search.k)
    if way.segments or way.uncovered:
        await search_flat(snapshot, search, way.metric, nearest, flat_options(options))
    return Hits.of([nearest], search.k)


async def _indexed(
    snapshot: Snapshot, search: VectorSearch, options: ScanOptions, way: Way, columns: Columns
) -> Hits:
    """Find the nearest rows by an index, and compare all rows that the index does not cover.

    Raises:
        UnsupportedError: the segments have several metrics, or the index cannot be read.
    """

    async def opening() -> list[Ivf]:
        return await all_of(
            open_segment(snapshot, segment, search.type) for segment in way.segments
        )

    works: list[Awaitable[Any]]
    opened: list[Ivf]
    rows: list[Eligible]
    filtered: RowSet | None
    if snapshot.is_remote:
        works = [
            opening(),
            eligible_rows(snapshot, way.segments, options),
            open_ahead(snapshot, options, columns),
        ]
        opened, (rows, filtered), _ = await all_of(works)
    else:  # tasks would only cost time, because a local table has no rounds to save
        opened = await opening()
        rows, filtered = await eligible_rows(snapshot, way.segments, options)
    for ivf in opened:
        if ivf.centroids.metric != way.metric:
            raise UnsupportedError(f"index {way.segments[0].index.name}: of several metrics")
    if filtered is not None and pays_taking(snapshot, search, opened, len(filtered)):
        exact = kernel_of(search, search.k)
        works = [_compare(snapshot, search, way.metric, filtered, exact)]
        if way.uncovered:
            works.append(search_flat(snapshot, search, way.metric, exact, way.scan(options)))
        await all_of(works)
        return Hits.of([exact], search.k)
    return await _probed(snapshot, search, options, way, list(zip(opened, rows, strict=True)))


def unit_queries(search: VectorSearch, metric: str) -> Float64s:
    """Return the vectors of queries in the form for an index: normalized for cosine."""
    if metric != "cosine":
        return search.vectors
    lengths: Float64s = np.linalg.norm(search.vectors, axis=1, keepdims=True)
    return search.vectors / lengths


async def _probed(
    snapshot: Snapshot,
    search: VectorSearch,
    options: ScanOptions,
    way: Way,
    segments: Sequence[tuple[Ivf, Eligible]],
) -> Hits:
    """Search the partitions of an index, and compare all rows that the index does not cover."""
    opened = [ivf for ivf, _ in segments]
    refine = search.probing.refine_factor
    is_exact = not search.type.is_multi and all(ivf.quantizer.is_exact for ivf in opened)
    is_refined = not is_exact and (refine is not None or bool(way.uncovered))
    k = search.k * (refine or 1) if is_refined else search.k
    queries = unit_queries(search, way.metric)
    num_probed = search.num_probed if search.type.is_multi else k
    # Distances from an index are approximate. A row outside the range may be inside by its exact
    # distance. So the upper bound is ignored, and k rows below the lower bound are compared as
    # well.
    probed = replace(search, upper=math.inf) if is_refined else search
    is_bounded = is_refined and search.lower > -math.inf
    kernels = _kernels_of(probed, opened, queries, num_probed, is_bounded=is_bounded)
    exact = kernel_of(search, search.k) if is_refined or way.uncovered else None

    async def ask() -> None:
        await search_segments(snapshot, search, segments, queries, num_probed, kernels)
        if exact is not None and is_refined:
            hits = Hits.of(kernels.distinct, num_probed)
            if search.type.is_multi:
                hits = hits.of_lists(probed, k, below=is_bounded)
            elif is_bounded:
                hits += Hits.below(kernels.distinct, k)
            await _refine(snapshot, search, way.metric, _checked(snapshot, way, hits), exact)

    works = [ask()]
    if exact is not None and way.uncovered:
        works.append(search_flat(snapshot, search, way.metric, exact, way.scan(options)))
    await all_of(works)
    if is_refined:
        assert exact is not None
        return Hits.of([exact], search.k)
    hits = Hits.of([*kernels.distinct, *([] if exact is None else [exact])], num_probed)
    if search.type.is_multi:
        hits = hits.of_lists(search, k)
    return _checked(snapshot, way, hits)


def _checked(snapshot: Snapshot, way: Way, hits: Hits) -> Hits:
    """Return the hits of an index after `check_rows`."""
    check_rows(snapshot, way.segments[0].index.name, hits.ids)
    return hits


def check_rows(snapshot: Snapshot, index: str, row_ids: UInt64s) -> None:
    """Check that the table has the rows that an index returned.

    Raises:
        CorruptFileError: a row is in no fragment.
    """
    if snapshot.has_stable_row_ids:
        return  # only ids of live rows are eligible
    fragments = snapshot.manifest.fragments
    numbers = (row_ids >> np.uint64(32)).view(np.int64)
    positions = fragments.positions_of(numbers)
    num_rows = fragments.physical_rows[positions]
    beyond = (num_rows > 0) & (num_rows <= (row_ids & np.uint64(0xFFFF_FFFF)).view(np.int64))
    if (positions < 0).any() or beyond.any():
        at = np.argmax((positions < 0) | beyond)
        error = CorruptFileError(
            f"index {index} of {snapshot.uri}: row {row_ids[at] & np.uint64(0xFFFF_FFFF)} of "
            f"fragment {numbers[at]}, which has {num_rows[at] if positions[at] >= 0 else 0} rows"
        )
        error.add_note("use_index=False does without")
        raise error


def _kernels_of(
    search: VectorSearch, opened: Sequence[Ivf], queries: Float64s, k: int, *, is_bounded: bool
) -> Kernels:
    """Return the kernels that collect rows; segments with equal queries share one kernel.

    Args:
        is_bounded: True to also collect k rows just below the range of distances.
    """
    below = k if is_bounded else 0
    if search.type.is_multi:
        search, below = replace(search, lower=-math.inf, upper=math.inf), 0  # bounds of sums
    shared: _kernels.Nearest | None = None
    of_segments = []
    for ivf in opened:
        turned = ivf.quantizer.queries(queries)
        if turned is queries:
            shared = shared or kernel_of(search, k, queries, below=below)
            of_segments.append(shared)
        else:
            of_segments.append(kernel_of(search, k, turned, below=below))
    # A graph search ends at the nearest rows, but rows at the lower bound are farther away.
    ef = ALL_CANDIDATES if is_bounded else search.probing.width(search.num_probed)
    return Kernels(of_segments, ef)


async def open_ahead(snapshot: Snapshot, options: ScanOptions, columns: Columns) -> None:
    """Open the files from which rows will be taken, if the table is remote and the files are few.

    If their pages are few as well, also load the page tables: then the take needs one round, not
    two.
    """
    handles = chosen(snapshot, options)
    if not snapshot.is_remote or len(handles) > OPENED_AHEAD:
        return

    def choose() -> Schema:
        projection = project(snapshot.schema, columns, flat=True)
        schema = snapshot.schema.project(projection.fields)
        LeafSet.described(schema)
        return schema

    schema = await parsed(snapshot, columns, choose)
    if not schema.fields:
        return
    await snapshot.resolve_sizes(handles)
    await snapshot.recall(handles)
    cache = snapshot.engine.cache

    def plan() -> Plan[None]:
        fragments = yield from open_fragments(schema, [handle.to_open(cache) for handle in handles])
        yield from few_states(fragments, cache)

    await snapshot.engine.drive(plan(), "open files")


async def _refine(
    snapshot: Snapshot, search: VectorSearch, metric: str, hits: Hits, nearest: _kernels.Nearest
) -> None:
    """Compare the vectors of hits exactly with their queries. Cost: a take of the vectors."""
    ids, places = distinct(hits.ids.astype(np.int64))
    batch = await flat_rows(snapshot, ids, project(snapshot.schema, [search.path], flat=True))

    def add() -> None:
        vectors = batch.column(0)
        for number in range(len(search.queries)):
            own = places[hits.numbers == number]
            if len(own):
                only = np.array([number], np.int32)
                of_query = vectors.take(own)
                add_vectors(nearest, search, metric, only, ids[own].astype(np.uint64), of_query)

    await snapshot.engine.pool.run(add)


async def _compare(
    snapshot: Snapshot, search: VectorSearch, metric: str, rows: RowSet, nearest: _kernels.Nearest
) -> None:
    """Compare the vectors of rows exactly with all queries. Cost: a take of the vectors."""
    if not len(rows):
        return
    ids = rows.to_numpy()
    batch = await flat_rows(snapshot, ids, project(snapshot.schema, [search.path], flat=True))
    numbers = np.arange(len(search.queries), dtype=np.int32)

    def add() -> None:
        add_vectors(nearest, search, metric, numbers, ids.view(np.uint64), batch.column(0))

    await snapshot.engine.decode(add, int(batch.nbytes) * len(numbers))

"""Choice of the vector index for a search, and of the fragments that it covers."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from alance.base.records import dataclass
from alance.errors import CorruptFileError
from alance.format.index.ivf import INDEX_FILE, STORAGE_FILE
from alance.format.index.values import METRICS
from alance.format.proto import vector_index_pb2
from alance.format.table.indices import FRAGMENT_REUSE, VECTOR_KIND, Index
from alance.ops.read.options import ScanOptions
from alance.ops.read.plan import chosen

if TYPE_CHECKING:
    from collections.abc import Callable

    from alance.format.field import Field
    from alance.ops.search.options import VectorSearch
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

_log: Final = logging.getLogger(__name__)
VECTOR_VERSIONS: Final = (1, 2)


@dataclass(frozen=True, slots=True)
class SearchSegment:
    """A segment of an index, with the live fragments that it covers."""

    index: Index
    covered: frozenset[int]


@dataclass(frozen=True, slots=True)
class Way:
    """Plan of a search in a column: index segments to search, and fragments to scan.

    Attributes:
        metric: metric of the search.
        segments: index segments to search; empty if all rows are read.
        uncovered: fragments whose rows are all read, because no segment covers them.
        lines: texts for `explain`.
    """

    metric: str
    segments: tuple[SearchSegment, ...]
    uncovered: tuple[FragmentHandle, ...]
    lines: tuple[str, ...]

    def scan(self, options: ScanOptions) -> ScanOptions:
        """Return the options of a scan of the searched column in the uncovered fragments."""
        return replace(flat_options(options), fragments=[handle.id for handle in self.uncovered])


def flat_options(options: ScanOptions) -> ScanOptions:
    """Return the scan options for the searched column."""
    return ScanOptions(
        filter=options.filter if options.prefilter else None,
        params=options.params if options.prefilter else None,
        fragments=options.fragments,
        scan_in_order=False,
        io_buffer_bytes=options.io_buffer_bytes,
        batch_readahead=options.batch_readahead,
        late_materialization=options.late_materialization,
        use_scalar_index=options.use_scalar_index,
        use_stats=options.use_stats,
    )


def way_of(snapshot: Snapshot, search: VectorSearch, options: ScanOptions) -> Way:
    """Choose the segments and fragments of a search, without I/O. Memoized.

    Raises:
        InvalidInputError: a fragment does not exist.
        CorruptFileError: index metadata contradicts the format.
    """
    fragments = None if options.fragments is None else tuple(options.fragments)
    choice = (search.path, search.metric, search.probing.use_index, search.fast_search)
    return snapshot.remember((way_of, *choice, fragments), lambda: _way(snapshot, search, options))


def _way(snapshot: Snapshot, search: VectorSearch, options: ScanOptions) -> Way:
    lines: list[str] = []

    def metric_of(index: Index) -> str | None:
        metric = _metric(index)
        if search.metric is None or metric == search.metric:
            return metric
        line = f"index {index.name} not used: it is by {metric}"
        lines.extend([line] * (line not in lines))
        return None

    leaf = snapshot.schema.field(search.path)
    use_index = search.probing.use_index
    way = best_way(
        snapshot, options, leaf, VECTOR_KIND, _fault, metric_of, lines, use_index=use_index
    )
    more = (
        f"every vector of {len(way.uncovered)} fragments without an index is compared; so the "
        "rows of the index are compared exactly as well",
    )
    metric = way.metric or search.metric or search.default_metric
    has_more = bool(way.segments and way.uncovered)
    return replace(way, metric=metric, lines=way.lines + more * has_more)


def best_way(
    snapshot: Snapshot,
    options: ScanOptions,
    leaf: Field,
    kind: str,
    fault: Callable[[Index], str],
    metric_of: Callable[[Index], str | None],
    lines: list[str],
    *,
    use_index: bool,
) -> Way:
    """Choose the index of a column whose segments cover most fragments.

    Args:
        leaf, kind, fault, lines: see `usable_segments`.
        metric_of: returns the metric of an index; None if the search cannot use the index.
        use_index: False to use none.

    Raises:
        InvalidInputError: a fragment does not exist.
    """
    handles = chosen(snapshot, options)
    groups: dict[tuple[str, str], list[SearchSegment]] = {}
    live = {handle.id for handle in handles}
    for segment in usable_segments(snapshot, leaf, kind, live, fault, lines):
        if (metric := metric_of(segment.index)) is not None:
            groups.setdefault((segment.index.name, metric), []).append(segment)
    if not use_index:
        groups, lines = {}, ["no index is used, as asked"]
    (name, metric), best = max(
        sorted(groups.items()),
        key=lambda group: sum(len(segment.covered) for segment in group[1]),
        default=(("", ""), []),
    )
    covered = frozenset[int]().union(*(segment.covered for segment in best))
    uncovered = tuple(handle for handle in handles if handle.id not in covered)
    if best:
        lines.append(
            f"index {name}{metric and f' by {metric}'}: {len(best)} segments for "
            f"{len(covered)} of {len(handles)} fragments"
        )
    if uncovered and options.fast_search and use_index:
        lines.append(f"{len(uncovered)} fragments without an index are left out")
        uncovered = ()
    return Way(metric, tuple(best), uncovered, tuple(lines))


def usable_segments(
    snapshot: Snapshot,
    leaf: Field,
    kind: str,
    live: set[int],
    fault: Callable[[Index], str],
    lines: list[str],
) -> list[SearchSegment]:
    """Return the segments of a column's indices of one kind that a search can use.

    Args:
        leaf: field of the column.
        live: ids of the fragments to search.
        fault: returns the reason not to use an index, or an empty text.
        lines: explanation, to which reasons are appended.
    """
    segments: list[SearchSegment] = []
    messages = snapshot.manifest.indices
    for message in messages:
        if list(message.fields) != [leaf.id]:
            continue
        index = Index.from_protobuf(message)
        if index.kind != kind:
            continue
        why = fault(index)
        if any(other.name == FRAGMENT_REUSE for other in messages):
            why = "a compaction left its translation for later"
        elif not why and index.fragment_ids is None:
            why = "it does not say which fragments it covers"
        if why:
            line = f"index {index.name} not used: {why}"
            lines.append(line)
            _log.warning("%s: %s", snapshot.uri, line)
            continue
        covered = frozenset(live & (index.fragment_ids or frozenset()))
        if covered:
            segments.append(SearchSegment(index, covered))
    return segments


def _fault(index: Index) -> str:
    message = index.message
    if index.fragment_ids is not None and not index.fragment_ids:
        return ""  # it covers no fragment, so it is never read and may have no files
    if message.index_version not in VECTOR_VERSIONS:
        return f"version {message.index_version} of vector indices"
    files = sorted(file.path for file in message.files)
    return "" if set(files) == {INDEX_FILE, STORAGE_FILE} else f"its files are {files}"


def _metric(index: Index) -> str:
    try:
        details = vector_index_pb2.VectorIndexDetails.FromString(index.message.index_details.value)
        return METRICS[details.metric_type]
    except (DecodeError, IndexError) as error:
        raise CorruptFileError(f"index {index.name}: details {error!r}") from error

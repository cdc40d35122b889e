"""Choice of the vector index for a search, and of the fragments that it covers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.index.ivf import INDEX_FILE, STORAGE_FILE
from alance.format.index.values import METRICS
from alance.format.proto import vector_index_pb2
from alance.format.table.indices import FRAGMENT_REUSE, Index
from alance.ops.read.plan import chosen
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.format.field import Field
    from alance.ops.read.options import ScanOptions
    from alance.ops.search.options import VectorSearch
    from alance.ops.version.snapshot import FragmentHandle, Snapshot

_log: Final = logging.getLogger(__name__)
VECTOR_KIND: Final = "Vector"
VECTOR_VERSIONS: Final = (1, 2)


@dataclass(frozen=True, slots=True)
class SearchSegment:
    """A segment of an index, with the live fragments that it covers."""

    index: Index
    covered: frozenset[int]


@dataclass(frozen=True, slots=True)
class Way:
    """Path of a search.

    Attributes:
        metric: metric of the search.
        segments: index segments to search; empty if all vectors are compared.
        uncovered: fragments whose rows are all compared, because no segment covers them.
        lines: explanation of the path.
    """

    metric: str
    segments: tuple[SearchSegment, ...]
    uncovered: tuple[FragmentHandle, ...]
    lines: tuple[str, ...]


def way_of(snapshot: Snapshot, search: VectorSearch, options: ScanOptions) -> Way:
    """Choose the path of a search without I/O. Memoized.

    Raises:
        InvalidInputError: a fragment does not exist.
        CorruptFileError: index metadata contradicts the format.
    """
    fragments = None if options.fragments is None else tuple(options.fragments)
    choice = (search.path, search.metric, search.probing.use_index, search.fast_search)
    return snapshot.remember((way_of, *choice, fragments), lambda: _way(snapshot, search, options))


def _way(snapshot: Snapshot, search: VectorSearch, options: ScanOptions) -> Way:
    handles = chosen(snapshot, options)
    lines: list[str] = []
    groups: dict[tuple[str, str], list[SearchSegment]] = {}
    live = {handle.id for handle in handles}
    leaf = snapshot.schema.field(search.path)
    for segment in usable_segments(snapshot, leaf, VECTOR_KIND, live, _fault, lines):
        groups.setdefault((segment.index.name, _metric(segment.index)), []).append(segment)
    if not search.probing.use_index:
        groups, lines = {}, ["no index is used, as asked"]
    best: tuple[SearchSegment, ...] = ()
    metric = search.metric or search.default_metric
    for (name, by), segments in sorted(groups.items()):
        if search.metric is not None and by != search.metric:
            lines.append(f"index {name} not used: it is by {by}")
        elif not best or num_covered(segments) > num_covered(best):
            best, metric = tuple(segments), by
    covered = frozenset[int]().union(*(segment.covered for segment in best))
    uncovered = tuple(handle for handle in handles if handle.id not in covered)
    if best:
        lines.append(
            f"index {best[0].index.name} by {metric}: {len(best)} segments for "
            f"{len(covered)} of {len(handles)} fragments"
        )
        if uncovered and not search.fast_search:
            lines.append(
                f"every vector of {len(uncovered)} fragments without an index is compared; so the "
                "rows of the index are compared exactly as well"
            )
    if search.fast_search and search.probing.use_index:
        if uncovered:
            lines.append(f"{len(uncovered)} fragments without an index are left out")
        uncovered = ()
    return Way(metric, best, uncovered, tuple(lines))


def num_covered(segments: Sequence[SearchSegment]) -> int:
    """Return the number of live fragments that segments cover."""
    return sum(len(segment.covered) for segment in segments)


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

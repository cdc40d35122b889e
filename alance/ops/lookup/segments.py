"""Index segments of a version that can answer filters, by column."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from alance.base.records import dataclass
from alance.expr.builders.json_values import path_steps
from alance.expr.tree import Problem
from alance.format.field import struct_paths
from alance.format.row_set import RowSet
from alance.format.schema import Remembered
from alance.format.table.indices import FRAGMENT_REUSE, JSON_KIND, Index, holds_row_ids, json_target
from alance.ops.lookup.files import IndexFiles
from alance.ops.lookup.kinds import KINDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from alance.expr.builders.json_values import PathStep
    from alance.format.table.manifest import Manifest
    from alance.ops.lookup.kinds.kind import IndexKind
    from alance.ops.version.snapshot import Snapshot

    Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A segment of an index that can answer questions.

    Attributes:
        index: record of the segment.
        covered: ids of the live fragments that it covers.
        domain: addresses of all their rows, including deleted ones.
        has_row_ids: True if it stores stable row ids, False for row addresses.
        kind: kind of its files.
        steps: for a JSON index, path of its values.
        identity: identity of the segment in this version, for cache keys beside the file location.
    """

    index: Index
    covered: frozenset[int]
    domain: RowSet
    has_row_ids: bool
    kind: IndexKind
    steps: tuple[PathStep, ...] | None = None
    identity: object = field(default_factory=object)

    def files(self, snapshot: Snapshot) -> IndexFiles:
        """Return the files of the segment, one object per snapshot."""
        return snapshot.remember(self.identity, lambda: IndexFiles(snapshot, self.index))


@dataclass(frozen=True, slots=True)
class Segments:
    """Indices of a version that can answer questions.

    Attributes:
        by_path: indices of each column, best first, each as its segments.
        lines: texts for `explain` about indices that are not used.
        remember: memo of the questions of filters.
    """

    by_path: Mapping[Path, Sequence[Sequence[Segment]]]
    lines: Sequence[str] = ()
    remember: Remembered = field(default_factory=Remembered, compare=False, repr=False)


async def segments_of(snapshot: Snapshot) -> Segments:
    """Return the indices of a version that can answer questions, memoized.

    The memo is part of the manifest, or of the snapshot if row counts come from files.

    Cost: a round for old tables whose manifest lacks the row counts of fragments; otherwise no
    request.

    Raises:
        CorruptFileError: index metadata contradicts the format.
    """
    if not snapshot.manifest.indices:
        return Segments({})
    of_manifest = snapshot.manifest.remember
    segments: Segments | None = of_manifest.get(Segments) or snapshot.remember.get(Segments)
    if segments is None:
        (untold,) = (snapshot.manifest.fragments.physical_rows == 0).nonzero()
        # Row counts from files are valid only for this table, not for all users of the manifest.
        remember = snapshot.remember if len(untold) else of_manifest
        handles = [snapshot.handles[number] for number in untold.tolist()]
        await snapshot.resolve_sizes(handles)
        rows = {handle.id: handle.num_physical_rows for handle in handles}
        segments = remember(Segments, lambda: _segments_of(snapshot.manifest, rows))
    return segments


def _segments_of(manifest: Manifest, rows: Mapping[int, int]) -> Segments:
    """Build the segments of a manifest.

    Args:
        rows: row counts of the fragments without one in the manifest.
    """
    messages = manifest.indices
    if any(message.name == FRAGMENT_REUSE for message in messages):
        return Segments({}, ["indices not used: a compaction left their translation for later"])
    fragments = manifest.fragments
    live = dict(zip(fragments.ids.tolist(), fragments.physical_rows.tolist(), strict=True))
    live |= rows
    domains: dict[frozenset[int], RowSet] = {}
    paths = struct_paths(manifest.schema.fields)
    groups: dict[tuple[Path, str, str], list[Segment]] = {}
    lines = []
    for message in messages:
        if len(message.fields) != 1 or message.fields[0] not in paths or message.covering_fields:
            continue
        index = Index.from_protobuf(message)
        kind = KINDS.get(index.files_kind)
        if (refusal := _refusal(manifest, index, kind)) is not None:
            lines.append(f"index {index.name} not used: {refusal}")
            continue
        if kind is None:
            continue
        steps = path_steps(json_target(message).path) if index.kind == JSON_KIND else None
        covered = frozenset(live.keys() & (index.fragment_ids or frozenset()))
        if covered:
            domain = domains.get(covered)
            if domain is None:
                domain = RowSet.of_fragments((key, live[key]) for key in sorted(covered))
                domains[covered] = domain
            has_row_ids = manifest.has_stable_row_ids and holds_row_ids(message)
            key = (paths[message.fields[0]], index.name, kind.name)
            segment = Segment(index, covered, domain, has_row_ids, kind, steps)
            groups.setdefault(key, []).append(segment)
    by_path: dict[Path, list[list[Segment]]] = {}
    for (path, *_), segments in sorted(groups.items(), key=lambda group: _order(group[1])):
        by_path.setdefault(path, []).append(segments)
    return Segments(by_path, lines)


def _refusal(manifest: Manifest, index: Index, kind: IndexKind | None) -> str | None:
    """Return the reason to ignore an index; None if there is none, or its kind is unknown."""
    refusal = _json_refusal(manifest, index, kind) if index.kind == JSON_KIND else None
    version = index.message.index_version
    if refusal is None and kind is not None and version not in kind.versions:
        return f"version {version} of {kind.name} indices"
    return refusal


def _json_refusal(manifest: Manifest, index: Index, kind: IndexKind | None) -> str | None:
    """Return the reason to ignore a JSON index; None if there is none."""
    try:
        path_steps(json_target(index.message).path)
    except Problem as problem:
        return str(problem)
    if kind is None:
        return None
    return kind.json_refusal(has_stable_row_ids=manifest.has_stable_row_ids)


def _order(segments: Sequence[Segment]) -> tuple[int, int]:
    """Return the sort key of an index: larger coverage first, then the order of `KINDS`."""
    covered = sum(len(segment.covered) for segment in segments)
    return -covered, list(KINDS.values()).index(segments[0].kind)

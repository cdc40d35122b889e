"""Index section of the next version: prune coverage, drop and replace entries.

An entry's fragment bitmap lists the fragments that the index covers: its answers are right for
these. A fragment leaves the bitmap when values of an indexed field change in place. A fragment that
is removed from the table stays in the bitmap, since readers only look at live fragments.

Source: docs/format/table.md, "Index rules" and "Index section".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.base.deferred import Deferred
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.proto import copied, table_pb2
from alance.format.table.indices import FRAGMENT_REUSE, covered_fragments
from alance.format.table.roaring import roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

    from alance.format.proto import file_pb2
    from alance.format.table import reuse
else:
    reuse = Deferred("alance.format.table.reuse")

MEM_WAL: Final = "__lance_mem_wal"
SYSTEM: Final = (FRAGMENT_REUSE, MEM_WAL)


def reuse_index(indices: Iterable[table_pb2.IndexMetadata]) -> table_pb2.IndexMetadata | None:
    """Return the fragment-reuse index of a table; None if it has none."""
    return next((index for index in indices if index.name == FRAGMENT_REUSE), None)


def covered(index: table_pb2.IndexMetadata) -> frozenset[int] | None:
    """Return the fragments in an entry's bitmap; None if the entry has no bitmap."""
    if not index.HasField("fragment_bitmap"):
        return None
    return covered_fragments(index)


def with_coverage(
    index: table_pb2.IndexMetadata, fragment_ids: Iterable[int]
) -> table_pb2.IndexMetadata:
    """Copy an entry with another bitmap."""
    copy = copied(index)
    copy.fragment_bitmap = roaring_bytes(np.array(sorted(fragment_ids), np.int64))
    return copy


def related(fields: Iterable[file_pb2.Field], ids: Iterable[int]) -> frozenset[int]:
    """Return fields with all their ancestors and descendants: an index may name any of them."""
    parents = {field.id: field.parent_id for field in fields}
    requested = set(ids)

    def line(field_id: int) -> Iterator[int]:
        """Yield a field and its ancestors; a field may stand before its parent."""
        while field_id in parents:
            yield field_id
            field_id = parents[field_id]

    above = {own for field_id in requested for own in line(field_id)}
    below = {own for own in parents if not requested.isdisjoint(line(own))}
    return frozenset(requested | above | below)


def prune(
    indices: Sequence[table_pb2.IndexMetadata],
    changed: Mapping[int, Set[int]],
    fields: Sequence[file_pb2.Field],
) -> list[table_pb2.IndexMetadata]:
    """Remove from the entries' bitmaps the fragments in which an indexed field changed.

    Args:
        changed: ids of the fields whose values changed in place, by fragment id.
    """
    if not any(changed.values()):
        return list(indices)
    closures = {
        ids: related(fields, ids)
        for ids in {frozenset(field_ids) for field_ids in changed.values()}
    }
    moves = reuse_index(indices)
    pruned = []
    for index in indices:
        keys = set(index.fields)
        stale = {
            fragment
            for fragment, ids in changed.items()
            if ids and not keys.isdisjoint(closures[frozenset(ids)])
        }
        coverage = covered(index) if stale else None
        if coverage is None or index.name in SYSTEM:
            pruned.append(index)
        elif moves is not None:
            pruned.append(with_coverage(index, _now_covered(coverage, moves) - stale))
        elif coverage.isdisjoint(stale):
            pruned.append(index)
        else:
            pruned.append(with_coverage(index, coverage - stale))
    return pruned


def retain(
    indices: Sequence[table_pb2.IndexMetadata],
    field_ids: Set[int],
    fragment_ids: Set[int],
) -> list[table_pb2.IndexMetadata]:
    """Drop entries of removed fields, and segments that cover no live fragment.

    The last segment of an index is never dropped for its coverage: if no segment of the index
    covers a live fragment, the oldest one remains. With a fragment-reuse index, all segments
    remain.
    """
    retained = [
        index for index in indices if index.name in SYSTEM or field_ids >= set(index.fields)
    ]
    if reuse_index(retained) is not None:
        return retained  # bitmaps may name fragments that a compaction replaced
    segments: dict[str, list[table_pb2.IndexMetadata]] = {}
    for index in retained:
        segments.setdefault(index.name, []).append(index)
    dropped: set[bytes] = set()
    for name, group in segments.items():
        if len(group) == 1 or name in SYSTEM:
            continue
        empty = [index for index in group if _is_empty(index, fragment_ids)]
        if len(empty) == len(group):
            oldest = min(empty, key=lambda index: index.dataset_version)
            empty = [index for index in empty if index is not oldest]
        dropped.update(index.uuid.uuid for index in empty)
    return [index for index in retained if index.uuid.uuid not in dropped]


def _now_covered(coverage: frozenset[int], moves: table_pb2.IndexMetadata) -> frozenset[int]:
    """Translate coverage through past compactions. Empty if the compactions cannot be read."""
    try:
        return reuse.translated(coverage, reuse.compactions_of(moves))
    except (CorruptFileError, UnsupportedError):
        return frozenset()


def _is_empty(index: table_pb2.IndexMetadata, fragment_ids: Set[int]) -> bool:
    coverage = covered(index)
    return coverage is not None and coverage.isdisjoint(fragment_ids)

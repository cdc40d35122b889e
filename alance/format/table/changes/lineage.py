"""Row lineage: row ids, and the versions that created and last changed each row.

A fragment has three sequences with one number per physical row. A sequence is inline in the
manifest, or spilled: stored in a hidden column of a data file. Callers read spilled sequences and
pass them in.

Source: docs/format/table.md, "Stable row ids and row lineage".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.numbers import places_in
from alance.format.table.flags import SEQUENCE_ONEOFS
from alance.format.table.fragment import CREATED_AT_FIELD, ROW_ID_FIELD, UPDATED_AT_FIELD
from alance.format.table.row_ids import (
    one_version_bytes,
    parse_row_ids,
    parse_versions,
    row_ids_bytes,
    versions_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from alance.base.arrays import Int64s, UInt64s
    from alance.format.proto import table_pb2

# Names of sequences in a fragment's record, by the ids of the fields that may hold them instead.
SEQUENCE_NAMES: Final = {
    ROW_ID_FIELD: "row_ids",
    CREATED_AT_FIELD: "created_at_versions",
    UPDATED_AT_FIELD: "last_updated_at_versions",
}
FIRST_VERSION: Final = 1  # version of the rows of a fragment without a version sequence


class Lineage(NamedTuple):
    """Lineage of all rows of a fragment, including deleted rows, in physical order; shape (n,)."""

    row_ids: UInt64s
    created_at: UInt64s
    last_updated_at: UInt64s

    def take(self, rows: Int64s) -> Lineage:
        """Return the lineage of the rows at offsets; shape (n,)."""
        return Lineage(*(values[rows] for values in self))

    def values(self, field_id: int) -> UInt64s:
        """Return the sequence that is stored in a hidden field, by the id of the field."""
        return self[[*SEQUENCE_NAMES].index(field_id)]

    def inline(self, field_id: int) -> bytes:
        """Serialize a sequence for a fragment's record, by the id of its hidden field."""
        values = self.values(field_id)
        return row_ids_bytes(values) if field_id == ROW_ID_FIELD else versions_bytes(values)

    def write(self, fragment: table_pb2.DataFragment, hidden: Collection[int] = ()) -> None:
        """Store the sequences inline in a fragment's record.

        Args:
            hidden: ids of hidden fields whose sequences are columns of a data file of the fragment,
                and so not inline.
        """
        for field_id, name in SEQUENCE_NAMES.items():
            if field_id in hidden:
                getattr(fragment, f"column_{name}").SetInParent()
            else:
                setattr(fragment, f"inline_{name}", self.inline(field_id))


def joined(parts: Sequence[Lineage]) -> Lineage:
    """Concatenate lineages, as a compaction does."""
    empty = (np.empty(0, np.uint64),) * len(SEQUENCE_NAMES)
    return Lineage(*map(np.concatenate, zip(empty, *parts, strict=True)))


def is_spilled(fragment: table_pb2.DataFragment) -> bool:
    """True if at least one sequence of a fragment is not inline in the manifest."""
    arms = map(fragment.WhichOneof, SEQUENCE_ONEOFS)
    return any(arm is not None and not arm.startswith("inline_") for arm in arms)


def spilled(fragments: Iterable[table_pb2.DataFragment]) -> tuple[int, ...]:
    """Return the ids of the fragments whose lineage the caller has to read."""
    return tuple(fragment.id for fragment in fragments if is_spilled(fragment))


def lineage_of(
    fragment: table_pb2.DataFragment, lineages: Mapping[int, Lineage] | None = None
) -> Lineage:
    """Return the lineage of a fragment.

    Args:
        lineages: lineage of spilled fragments, by fragment id.

    Raises:
        UnsupportedError: the fragment is spilled and not in `lineages`.
    """
    if is_spilled(fragment):
        if lineages is None or fragment.id not in lineages:
            raise UnsupportedError(
                f"fragment {fragment.id}: its row ids or versions are outside of the manifest, "
                f"and were not given"
            )
        return lineages[fragment.id]
    rows = fragment.physical_rows
    return Lineage(
        parse_row_ids(fragment.inline_row_ids, rows),
        _versions(fragment.inline_created_at_versions, rows),
        _versions(fragment.inline_last_updated_at_versions, rows),
    )


def _versions(content: bytes, num_rows: int) -> UInt64s:
    if not content:
        return np.full(num_rows, FIRST_VERSION, np.uint64)
    return parse_versions(content, num_rows)


def mark_created(fragment: table_pb2.DataFragment, version: int) -> None:
    """Record that all rows of a fragment were created in a version."""
    content = one_version_bytes(version, fragment.physical_rows)
    fragment.inline_created_at_versions = content
    fragment.inline_last_updated_at_versions = content


def mark_updated(
    fragment: table_pb2.DataFragment,
    version: int,
    rows: Int64s | None = None,
    lineages: Mapping[int, Lineage] | None = None,
) -> None:
    """Record that rows of a fragment changed in a version.

    Args:
        rows: ascending offsets; None for all rows.
    """
    if rows is None:
        fragment.inline_last_updated_at_versions = one_version_bytes(
            version, fragment.physical_rows
        )
        return
    if len(rows) and int(rows[-1]) >= fragment.physical_rows:
        raise InvalidInputError(
            f"fragment {fragment.id}: row {rows[-1]} changed, it has {fragment.physical_rows}"
        )
    versions = lineage_of(fragment, lineages).last_updated_at.copy()
    versions[rows] = version
    fragment.inline_last_updated_at_versions = versions_bytes(versions)


def mark_moved(
    fragments: Sequence[table_pb2.DataFragment],
    num_moved: Sequence[int],
    sources: Iterable[table_pb2.DataFragment],
    version: int,
    lineages: Mapping[int, Lineage] | None = None,
) -> None:
    """Record that rows were moved from other fragments, and keep the versions that created them.

    Args:
        fragments: records of the new fragments, with all row ids.
        num_moved: number of leading rows of each fragment that were moved; the other rows are new.
        sources: fragments that rows may come from. The first fragment that has a row's id is its
            source; all that have it tell the same version.
    """
    row_ids = np.concatenate(
        [
            parse_row_ids(fragment_record.inline_row_ids, fragment_record.physical_rows)[:count]
            for fragment_record, count in zip(fragments, num_moved, strict=True)
        ]
        or [np.empty(0, np.uint64)]
    )
    created = np.full(len(row_ids), version, np.uint64)
    unresolved = np.ones(len(row_ids), np.bool_)
    for source in sources:
        if not unresolved.any():
            break
        lineage = lineage_of(source, lineages)
        order = np.argsort(lineage.row_ids, kind="stable")
        places, is_here = places_in(lineage.row_ids[order], row_ids)
        hits = unresolved & is_here
        created[hits] = lineage.created_at[order[places[hits]]]
        unresolved &= ~hits
    start = 0
    for fragment, count in zip(fragments, num_moved, strict=True):
        added = np.full(fragment.physical_rows - count, version, np.uint64)
        versions = np.concatenate([created[start : start + count], added])
        fragment.inline_created_at_versions = versions_bytes(versions)
        fragment.inline_last_updated_at_versions = one_version_bytes(
            version, fragment.physical_rows
        )
        start += count

"""Fragment-reuse index: a record of how compactions moved rows, to remap indices later.

A compaction with deferred remapping rewrites no index. So index files have row addresses from
before the compaction, and their bitmaps may have fragments from before it. Readers translate both.

  details: inline (versions), or external (versions in a file of the index's folder)
  version: a compaction, as groups of fragments; the oldest version is first
  group: surviving rows, old fragments, new fragments. The n-th surviving row, in the order of the
      old fragments, is the n-th row of the new ones
  surviving rows: u64 number of bitmaps, then each: u32 fragment, roaring bitmap of its offsets;
      fragments ascend; a fragment without surviving rows has no bitmap

Source: docs/format/table.md, "Deferred index remap".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
from pyroaring import BitMap

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.proto import parsed
from alance.format.proto.reuse_index_pb2 import FragmentReuseDetails
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.roaring import end_of_roaring, parse_roaring, roaring_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.base.arrays import Int64s
    from alance.format.proto import table_pb2

DETAILS_TYPE: Final = "/lance.table.FragmentReuseIndexDetails"
DETAILS_FILE: Final = "details.binpb"
MAX_INLINE_REUSE_BYTES: Final = 200 << 10  # bytes of inline versions; longer details are in a file
PastCompaction: TypeAlias = FragmentReuseDetails.Version
Group: TypeAlias = FragmentReuseDetails.Group
Digest: TypeAlias = FragmentReuseDetails.Digest
Inline: TypeAlias = FragmentReuseDetails.Inline
External: TypeAlias = FragmentReuseDetails.External
_WHERE: Final = f"index {FRAGMENT_REUSE}: details"


def place_of(index: table_pb2.IndexMetadata) -> External | None:
    """Return the location of a fragment-reuse index's details file; None if they are inline."""
    details = parsed(FragmentReuseDetails, index.index_details.value, _WHERE)
    return details.external if details.HasField("external") else None


def compactions_of(
    index: table_pb2.IndexMetadata, content: bytes | None = None
) -> tuple[PastCompaction, ...]:
    """Return the compactions that a fragment-reuse index records, oldest first.

    Args:
        content: content of the file that `place_of` returns; None if details are inline.

    Raises:
        UnsupportedError: the details have a later form, or `content` is missing.
    """
    details = parsed(FragmentReuseDetails, index.index_details.value, _WHERE)
    if content is not None:
        details = FragmentReuseDetails(inline=parsed(Inline, content, _WHERE))
    if index.index_version or not details.HasField("inline") or details.inline.transitions:
        raise UnsupportedError(
            f"index {FRAGMENT_REUSE!r}: in a file of its own, or of a later form than this alance "
            "knows"
        )
    return tuple(details.inline.versions)


def translated(
    fragment_ids: Iterable[int], compactions: Sequence[PastCompaction]
) -> frozenset[int]:
    """Translate fragments to those that hold their rows after compactions.

    The new fragments of a group are only in the result if all its old fragments were given.
    """
    ids = set(fragment_ids)
    for compaction in compactions:
        for group in compaction.groups:
            old = {digest.id for digest in group.old_fragments}
            if old <= ids:
                ids.update(digest.id for digest in group.new_fragments)
            ids -= old
    return frozenset(ids)


def surviving(group: Group) -> dict[int, Int64s]:
    """Return the offsets of rows that survived a compaction, ascending, by old fragment id."""
    rows: dict[int, Int64s] = {}
    content, place = memoryview(group.changed_row_addrs), 8
    sizes = {digest.id: digest.physical_rows for digest in group.old_fragments}
    try:
        (count,) = struct.unpack_from("<Q", content)
        for _ in range(count):
            (fragment,) = struct.unpack_from("<I", content, place)
            end = place + 4 + end_of_roaring(content[place + 4 :])
            rows[fragment] = parse_roaring(content[place + 4 : end], sizes[fragment])
            place = end
    except (struct.error, KeyError) as error:
        raise CorruptFileError(f"index {FRAGMENT_REUSE}: surviving rows: {error!r}") from error
    return rows


def surviving_bytes(fragments: Iterable[tuple[int, int, Int64s]]) -> bytes:
    """Serialize surviving rows as bitmaps with runs, like pylance: the inverse of `surviving`.

    Args:
        fragments: id, number of physical rows, and offsets of deleted rows of each fragment,
            ascending by id.
    """
    parts: list[bytes] = []
    for fragment_id, num_rows, deleted in fragments:
        is_there = np.ones(num_rows, np.bool_)
        is_there[deleted] = False
        rows = BitMap.deserialize(roaring_bytes(np.flatnonzero(is_there)))
        rows.run_optimize()
        if rows:
            parts.append(struct.pack("<I", fragment_id) + rows.serialize())
    return struct.pack("<Q", len(parts)) + b"".join(parts)

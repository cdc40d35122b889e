"""The fragment-reuse index: where rows went that compactions moved, for indices that were left.

Such a compaction writes no index anew. Addresses in the files of indices, and perhaps fragments in
their bitmaps, are those of before; whoever reads them has to translate both.

    details: one of inline (versions), external (a file)
    version: of a compaction, the oldest first: groups of old fragments that became new ones
    group: surviving rows, old fragments, new fragments. The n-th surviving row, in the order of the
        old fragments, is the n-th row of the new ones
    surviving rows: u64 number of bitmaps, then each: u32 fragment, roaring bitmap of its offsets

Source: docs/format/table.md, "Deferred index remap".
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.proto.reuse_index_pb2 import FragmentReuseDetails
from alance.format.table.indices import FRAGMENT_REUSE
from alance.format.table.roaring import end_of_roaring, parse_roaring

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from alance.arrays import Int64s
    from alance.format.proto import table_pb2

Round: TypeAlias = FragmentReuseDetails.Version
Group: TypeAlias = FragmentReuseDetails.Group


def rounds_of(index: table_pb2.IndexMetadata) -> tuple[Round, ...]:
    """The compactions that a fragment-reuse index tells of, the oldest first.

    Raises:
        CorruptFileError: details that are none.
        UnsupportedError: they are in a file of their own, or of a later form.
    """
    try:
        details = FragmentReuseDetails.FromString(index.index_details.value)
    except DecodeError as error:
        raise CorruptFileError(f"index {FRAGMENT_REUSE}: details {error!r}") from error
    if index.index_version or details.HasField("external") or details.inline.transitions:
        raise UnsupportedError(
            f"index {FRAGMENT_REUSE!r}: in a file of its own, or of a later form than this alance "
            "knows"
        )
    return tuple(details.inline.versions)


def translated(fragment_ids: Iterable[int], rounds: Sequence[Round]) -> frozenset[int]:
    """The fragments that hold the rows of some now; none of a group that is there in part."""
    ids = set(fragment_ids)
    for each in rounds:
        for group in each.groups:
            old = {digest.id for digest in group.old_fragments}
            if old <= ids:
                ids.update(digest.id for digest in group.new_fragments)
            ids -= old
    return frozenset(ids)


def surviving(group: Group) -> dict[int, Int64s]:
    """The offsets of the rows that a compaction kept, by old fragment; ascending, shape (n,).

    Raises:
        CorruptFileError: bytes that are no such bitmaps.
    """
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

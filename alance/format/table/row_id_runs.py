"""Row ids as runs, out of their five forms, without expanding what is runs already.

    range, range with holes     runs between holes
    range with bitmap           runs of set bits
    arrays                      found by comparing neighbours

Source: docs/format/table.md, "Row id and version sequences".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from alance.errors import CorruptFileError
from alance.format.table.row_ids import (
    row_id_segments,
    segment_bits,
    segment_holes,
    segment_values,
)

if TYPE_CHECKING:
    from alance.arrays import Int64s, UInt64s
    from alance.format.proto import rowids_pb2

    Runs: TypeAlias = "tuple[Int64s, UInt64s]"


def parse_row_id_runs(content: bytes, num_rows: int) -> Runs:
    """The first row of each run of a fragment, and its id; shape (runs,) each.

    Rows in between have the ids in between. Neighbouring runs may be one.

    Raises:
        CorruptFileError: no sequence, or one of another length.
    """
    starts, values, done = [], [], 0
    for segment in row_id_segments(content):
        first, ids, count = _runs(segment, num_rows - done)
        starts.append(first + done)
        values.append(ids)
        done += count
    if done != num_rows:
        raise CorruptFileError(f"row ids: {done} of {num_rows} rows have one")
    if not starts:
        return np.empty(0, np.int64), np.empty(0, np.uint64)
    return np.concatenate(starts), np.concatenate(values)


def runs_of_ids(ids: UInt64s) -> Runs:
    """The first row of each run of neighbouring ids, and its id; shape (runs,) each."""
    edges = np.ones(len(ids), np.bool_)
    np.not_equal(np.diff(ids), 1, out=edges[1:])
    starts = np.flatnonzero(edges)
    return starts, ids if len(starts) == len(ids) else ids[starts]


def _runs(segment: rowids_pb2.U64Segment, left: int) -> tuple[Int64s, UInt64s, int]:
    """The runs of a segment, and its length, which is at most `left`."""
    kind = segment.WhichOneof("segment")
    if kind in ("range", "range_with_holes"):
        part = getattr(segment, kind)
        holes = segment_holes(segment)
        size = part.end - part.start - len(holes)
        if part.end < part.start or not 0 <= size <= left:
            raise CorruptFileError(f"row ids: range of {size} rows, {left} are left")
        places = (holes - np.uint64(part.start)).astype(np.int64)
        if len(places) and (
            places[0] < 0 or places[-1] >= part.end - part.start or (np.diff(places) <= 0).any()
        ):
            raise CorruptFileError("row ids: holes that are not in order in their range")
        firsts = np.concatenate([np.zeros(1, np.int64), places + 1])
        sizes = np.diff(np.append(firsts - 1, part.end - part.start)) - 1
        kept = sizes > 0
        starts = np.cumsum(sizes) - sizes
        return starts[kept], firsts[kept].astype(np.uint64) + np.uint64(part.start), size
    if kind == "range_with_bitmap":
        bits = segment_bits(segment)
        edges = np.flatnonzero(np.diff(bits, prepend=np.uint8(0), append=np.uint8(0)))
        firsts, sizes = edges[::2], edges[1::2] - edges[::2]
        size = int(sizes.sum())
        if size > left:
            raise CorruptFileError(f"row ids: bitmap of {size} rows, {left} are left")
        start = np.uint64(segment.range_with_bitmap.start)
        return np.cumsum(sizes) - sizes, firsts.astype(np.uint64) + start, size
    ids = segment_values(segment)
    if len(ids) > left:
        raise CorruptFileError(f"row ids: segment of {len(ids)} rows, {left} are left")
    return *runs_of_ids(ids), len(ids)

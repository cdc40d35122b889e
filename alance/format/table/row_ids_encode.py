"""Serialize stable row ids and version sequences, each in the smallest kind of segment.

Source: docs/format/table.md, "Row id and version sequences".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError
from alance.format.proto import rowids_pb2
from alance.format.table.row_ids import num_row_ids, segment_values

if TYPE_CHECKING:
    from alance.base.arrays import UInt64s

# Estimated bytes to compare kinds of segments, as other writers do: per segment, per hole, per
# value of a sorted array.
SEGMENT_BYTES: Final = 24
HOLE_BYTES: Final = 4
SORTED_BYTES: Final = 2


def row_ids_bytes(values: UInt64s) -> bytes:
    """Serialize row ids as one segment, or as one per ascending run if that is smaller.

    Args:
        values: distinct row ids in physical order; shape (n,).
    """
    sequence = rowids_pb2.RowIdSequence()
    if len(values):
        sequence.segments.append(segment_of(values))
        starts = np.flatnonzero(values[1:] < values[:-1]) + 1
        if 0 < len(starts) * SEGMENT_BYTES < SORTED_BYTES * len(values):
            runs = rowids_pb2.RowIdSequence(
                segments=[segment_of(run) for run in np.split(values, starts)]
            )
            if runs.ByteSize() < sequence.ByteSize():
                sequence = runs
    return bytes(sequence.SerializeToString())


def extended_row_ids(content: bytes, num_rows: int, next_row_id: int) -> tuple[bytes, int]:
    """Append new row ids to a sequence, for the rows of a fragment that have none.

    Returns the extended sequence, and the next unused id.

    Raises:
        InvalidInputError: the sequence has more rows than the fragment.
        CorruptFileError: not a sequence.
    """
    count = num_row_ids(content)
    if count > num_rows:
        raise InvalidInputError(f"row ids: {count} for a fragment of {num_rows} rows")
    if count == num_rows:
        return content, next_row_id
    stop = next_row_id + num_rows - count
    sequence = rowids_pb2.RowIdSequence.FromString(content)
    parts = [segment_values(segment) for segment in sequence.segments]
    sequence.segments.add().range.end = stop
    sequence.segments[-1].range.start = next_row_id
    whole = segment_of(np.concatenate([*parts, np.arange(next_row_id, stop, dtype=np.uint64)]))
    if whole.ByteSize() <= sequence.ByteSize():
        sequence.ClearField("segments")
        sequence.segments.append(whole)
    return bytes(sequence.SerializeToString()), stop


def versions_bytes(values: UInt64s) -> bytes:
    """Serialize a sequence of versions.

    Args:
        values: version of each row, in physical order; shape (n,).
    """
    if not len(values):
        return b""
    starts = np.flatnonzero(np.concatenate(([True], values[1:] != values[:-1])))
    lengths = np.diff(starts, append=len(values))
    runs: dict[tuple[int, int], bytes] = {}
    parts = []
    for run in zip(lengths.tolist(), values[starts].tolist(), strict=True):
        content = runs.get(run)
        if content is None:
            content = runs[run] = one_version_bytes(run[1], run[0])
        parts.append(content)
    return b"".join(parts)  # messages end to end are a message with all their runs


def one_version_bytes(version: int, num_rows: int) -> bytes:
    """Serialize the version sequence of rows that all have the same version.

    Each run is written as if it began at row 0: only its length counts, and a start of 0 takes no
    bytes.
    """
    sequence = rowids_pb2.RowDatasetVersionSequence()
    if num_rows:
        sequence.runs.add(version=version).span.range.end = num_rows
    return bytes(sequence.SerializeToString())


def segment_of(values: UInt64s) -> rowids_pb2.U64Segment:
    """Return the smallest segment that holds the values; there must be a value."""
    segment = rowids_pb2.U64Segment()
    if not (values[1:] > values[:-1]).all():
        segment.array.CopyFrom(_array(values))
        return segment
    start, stop = int(values[0]), int(values[-1]) + 1
    count = len(values)
    span = stop - start
    if span == count:
        segment.range.start, segment.range.end = start, stop
        return segment
    holes = SEGMENT_BYTES + HOLE_BYTES * (span - count)
    bitmap = SEGMENT_BYTES + (span + 7) // 8
    array = SEGMENT_BYTES + SORTED_BYTES * count
    if min(holes, bitmap) > array:
        segment.sorted_array.CopyFrom(_array(values))
        return segment
    present = np.zeros(span, np.bool_)
    present[(values - values[0]).astype(np.int64)] = True
    part = segment.range_with_holes if holes <= bitmap else segment.range_with_bitmap
    part.start, part.end = start, stop
    if holes <= bitmap:
        missing = np.flatnonzero(~present).astype(np.uint64) + values[0]
        segment.range_with_holes.holes.CopyFrom(_array(missing))
    else:
        segment.range_with_bitmap.bitmap = np.packbits(present, bitorder="little").tobytes()
    return segment


def _array(values: UInt64s) -> rowids_pb2.EncodedU64Array:
    array = rowids_pb2.EncodedU64Array()
    base, highest = int(values.min()), int(values.max())
    if highest - base >= 1 << 32:
        array.u64_array.values = values.astype("<u8").tobytes()
    elif highest - base >= 1 << 16:
        array.u32_array.base = base
        array.u32_array.offsets = (values - values.min()).astype("<u4").tobytes()
    else:
        array.u16_array.base = base
        array.u16_array.offsets = (values - values.min()).astype("<u2").tobytes()
    return array

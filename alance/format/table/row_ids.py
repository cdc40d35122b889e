"""Stable row ids and version sequences: segments, parsed to arrays or runs, and written.

A sequence is written in the smallest kind of segment.

Source: docs/format/table.md, "Row id and version sequences".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from alance.errors import CorruptFileError, InvalidInputError
from alance.format.proto import parsed, rowids_pb2
from alance.format.table.fragment import MAX_FRAGMENT_ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, UInt64s

    IdRuns: TypeAlias = "tuple[Int64s, UInt64s]"

# Estimated bytes to compare kinds of segments, as other writers do: per segment, per hole, per
# value of a sorted array.
SEGMENT_BYTES: Final = 24
HOLE_BYTES: Final = 4
SORTED_BYTES: Final = 2


def parse_row_ids(content: bytes, num_rows: int) -> UInt64s:
    """Return the row ids of a fragment in physical order; shape (num_rows,)."""
    remaining = num_rows
    parts = [np.empty(0, np.uint64)]
    for segment in row_id_segments(content):
        parts.append(segment_values(segment, remaining))
        remaining -= len(parts[-1])
    if remaining:
        raise CorruptFileError(f"row ids: {num_rows - remaining} of {num_rows} rows have one")
    return np.concatenate(parts)


def num_row_ids(content: bytes) -> int:
    """Return the length of a sequence of row ids without expanding it."""
    return sum(_length(segment) for segment in row_id_segments(content))


def row_id_segments(content: bytes) -> Sequence[rowids_pb2.U64Segment]:
    """Return the segments of a sequence of row ids, which are not validated."""
    return parsed(rowids_pb2.RowIdSequence, content, "row ids").segments


def segment_values(segment: rowids_pb2.U64Segment, limit: int = MAX_FRAGMENT_ROWS) -> UInt64s:
    """Return the values of a segment, after checking that there are at most `limit`; shape (n,)."""
    kind = segment.WhichOneof("segment")
    if kind in ("array", "sorted_array"):
        values = _array(getattr(segment, kind))
        if len(values) > limit:
            raise CorruptFileError(f"row ids: segment of {len(values)} rows, {limit} are left")
        return values
    starts, ids, size = _runs(segment, limit)
    first = int(ids[0]) if len(ids) == 1 else 0
    values = np.arange(first, first + size, dtype=np.uint64)
    if len(ids) != 1:
        values += np.repeat(ids - starts.astype(np.uint64), np.diff(starts, append=size))
    return values


def parse_versions(content: bytes, num_rows: int) -> UInt64s:
    """Return the version of each row of a fragment; shape (num_rows,).

    Only the length of a run's span counts: its start and end are meaningless after a compaction.
    """
    message = parsed(rowids_pb2.RowDatasetVersionSequence, content, "version sequence")
    lengths = [_length(run.span) for run in message.runs]
    if sum(lengths) != num_rows:
        raise CorruptFileError(f"version sequence: {sum(lengths)} rows, expected {num_rows}")
    versions = np.array([run.version for run in message.runs], np.uint64)
    return np.repeat(versions, lengths)


def _length(segment: rowids_pb2.U64Segment) -> int:
    """Return the number of values of a segment without expanding it."""
    kind = segment.WhichOneof("segment")
    if kind in ("sorted_array", "array"):
        return len(_array(getattr(segment, kind)))
    if kind == "range":  # of most versions, which may have many runs
        return _span(segment.range.start, segment.range.end)
    return _runs(segment, MAX_FRAGMENT_ROWS)[2]


def _span(start: int, end: int) -> int:
    if end < start:
        raise CorruptFileError(f"row ids: range from {start} to {end}")
    return end - start


def _array(encoded: rowids_pb2.EncodedU64Array) -> UInt64s:
    kind = encoded.WhichOneof("array")
    if kind is None:
        return np.empty(0, np.uint64)
    content, base, width = {
        "u16_array": (encoded.u16_array.offsets, encoded.u16_array.base, 2),
        "u32_array": (encoded.u32_array.offsets, encoded.u32_array.base, 4),
        "u64_array": (encoded.u64_array.values, 0, 8),
    }[kind]
    if len(content) % width:
        raise CorruptFileError(f"row ids: array of {len(content)} bytes, {width} a value")
    values = np.frombuffer(content, f"<u{width}").astype(np.uint64)
    if len(values) and int(values.max()) + base >= 1 << 64:
        raise CorruptFileError("row ids: values beyond 64 bits")
    return values + np.uint64(base)


def parse_row_id_runs(content: bytes, num_rows: int) -> IdRuns:
    """Return the first row and the first id of each run of a fragment; shape (runs,) each.

    In a run, each id is the previous one plus 1. Consecutive runs may form a longer run. How runs
    are computed depends on the kind of segment:

      range, range with holes     runs between holes
      range with bitmap           runs of set bits
      arrays                      by comparison of neighbours
    """
    starts, values, done = [np.empty(0, np.int64)], [np.empty(0, np.uint64)], 0
    for segment in row_id_segments(content):
        first, ids, count = _runs(segment, num_rows - done)
        starts.append(first + done)
        values.append(ids)
        done += count
    if done != num_rows:
        raise CorruptFileError(f"row ids: {done} of {num_rows} rows have one")
    return np.concatenate(starts), np.concatenate(values)


def runs_of_ids(ids: UInt64s) -> IdRuns:
    """Return the first row and the first id of each run of consecutive ids; shape (runs,) each."""
    edges = np.ones(len(ids), np.bool_)
    np.not_equal(np.diff(ids), 1, out=edges[1:])
    starts = np.flatnonzero(edges)
    return starts, ids if len(starts) == len(ids) else ids[starts]


def _runs(segment: rowids_pb2.U64Segment, limit: int) -> tuple[Int64s, UInt64s, int]:
    """Return the runs of a segment, and its length, which may be at most `limit`."""
    kind = segment.WhichOneof("segment")
    if kind in ("range", "range_with_holes"):
        part = getattr(segment, kind)
        holes = np.sort(_array(segment.range_with_holes.holes))
        size = part.end - part.start - len(holes)
        if part.end < part.start or not 0 <= size <= limit:
            raise CorruptFileError(f"row ids: range of {size} rows, {limit} are left")
        places = (holes - np.uint64(part.start)).astype(np.int64)
        if len(places) and (
            places[0] < 0 or places[-1] >= part.end - part.start or (np.diff(places) <= 0).any()
        ):
            raise CorruptFileError("row ids: holes that are not in order in their range")
        firsts = np.concatenate([np.zeros(1, np.int64), places + 1])
        sizes = np.diff(np.append(firsts - 1, part.end - part.start)) - 1
        retained = sizes > 0
        starts = np.cumsum(sizes) - sizes
        return starts[retained], firsts[retained].astype(np.uint64) + np.uint64(part.start), size
    if kind == "range_with_bitmap":
        part = segment.range_with_bitmap
        bitmap, size = part.bitmap, _span(part.start, part.end)
        if len(bitmap) < (size + 7) // 8:
            raise CorruptFileError(f"row ids: bitmap of {len(bitmap)} bytes for {size} rows")
        bits = np.unpackbits(np.frombuffer(bitmap, np.uint8), count=size, bitorder="little")
        edges = np.flatnonzero(np.diff(bits, prepend=np.uint8(0), append=np.uint8(0)))
        firsts, sizes = edges[::2], edges[1::2] - edges[::2]
        size = int(sizes.sum())
        if size > limit:
            raise CorruptFileError(f"row ids: bitmap of {size} rows, {limit} are left")
        return np.cumsum(sizes) - sizes, firsts.astype(np.uint64) + np.uint64(part.start), size
    ids = np.empty(0, np.uint64) if kind is None else segment_values(segment, limit)
    return *runs_of_ids(ids), len(ids)


def row_ids_bytes(values: UInt64s) -> bytes:
    """Serialize distinct row ids as one segment, or as one per ascending run if it is smaller."""
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
    """Serialize the version of each row, in physical order."""
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
        segment.array.CopyFrom(_encoded_array(values))
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
        segment.sorted_array.CopyFrom(_encoded_array(values))
        return segment
    present = np.zeros(span, np.bool_)
    present[(values - values[0]).astype(np.int64)] = True
    part = segment.range_with_holes if holes <= bitmap else segment.range_with_bitmap
    part.start, part.end = start, stop
    if holes <= bitmap:
        missing = np.flatnonzero(~present).astype(np.uint64) + values[0]
        segment.range_with_holes.holes.CopyFrom(_encoded_array(missing))
    else:
        segment.range_with_bitmap.bitmap = np.packbits(present, bitorder="little").tobytes()
    return segment


def _encoded_array(values: UInt64s) -> rowids_pb2.EncodedU64Array:
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

"""Stable row ids and version sequences: five forms of segments, expanded to arrays.

Source: docs/format/table.md, "Row id and version sequences".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError
from alance.format.proto import rowids_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.arrays import Bytes, UInt64s

MAX_ROWS: Final = 1 << 32  # rows of a fragment


def parse_row_ids(content: bytes, num_rows: int) -> UInt64s:
    """The row ids of a fragment in physical order; shape (num_rows,).

    Raises:
        CorruptFileError: no sequence, or one of another length.
    """
    left = num_rows
    parts = []
    for segment in row_id_segments(content):
        parts.append(_expand(segment, left))
        left -= len(parts[-1])
    if left:
        raise CorruptFileError(f"row ids: {num_rows - left} of {num_rows} rows have one")
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def num_row_ids(content: bytes) -> int:
    """The length of a sequence of row ids, without expanding it.

    Raises:
        CorruptFileError: no sequence.
    """
    return sum(_length(segment) for segment in row_id_segments(content))


def row_id_segments(content: bytes) -> Sequence[rowids_pb2.U64Segment]:
    """The segments of a sequence of row ids, unchecked.

    Raises:
        CorruptFileError: no sequence.
    """
    try:
        return rowids_pb2.RowIdSequence.FromString(content).segments
    except DecodeError as error:
        raise CorruptFileError(f"row ids: {error}") from error


def segment_values(segment: rowids_pb2.U64Segment) -> UInt64s:
    """The values of a segment; shape (n,).

    Raises:
        CorruptFileError: a segment that contradicts itself.
    """
    return _expand(segment, MAX_ROWS)


def segment_holes(segment: rowids_pb2.U64Segment) -> UInt64s:
    """The ids that a range lacks, ascending.

    Raises:
        CorruptFileError: a segment that contradicts itself.
    """
    return np.sort(_array(segment.range_with_holes.holes))


def segment_bits(segment: rowids_pb2.U64Segment) -> Bytes:
    """Which ids of a range are there.

    Raises:
        CorruptFileError: a segment that contradicts itself.
    """
    bitmap = segment.range_with_bitmap
    return _bits(bitmap.bitmap, _span(bitmap.start, bitmap.end))


def parse_versions(content: bytes, num_rows: int) -> UInt64s:
    """The version of each row of a fragment; shape (num_rows,).

    Runs count by the length of their span alone: start and end mean nothing after compaction.

    Raises:
        CorruptFileError: no sequence, or one of another length.
    """
    try:
        message = rowids_pb2.RowDatasetVersionSequence.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"version sequence: {error}") from error
    lengths = [_length(run.span) for run in message.runs]
    if sum(lengths) != num_rows:
        raise CorruptFileError(f"version sequence: {sum(lengths)} rows, expected {num_rows}")
    versions = np.array([run.version for run in message.runs], np.uint64)
    return np.repeat(versions, lengths)


def _length(segment: rowids_pb2.U64Segment) -> int:
    """The number of values of a segment, without expanding it."""
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return _span(segment.range.start, segment.range.end)
    if kind == "range_with_holes":
        part = segment.range_with_holes
        return _span(part.start, part.end) - len(_array(part.holes))
    if kind == "range_with_bitmap":
        return int(np.count_nonzero(segment_bits(segment)))
    if kind in ("sorted_array", "array"):
        return len(_array(getattr(segment, kind)))
    return 0


def _expand(segment: rowids_pb2.U64Segment, limit: int) -> UInt64s:
    """The values of a segment, after its length has been checked against `limit`."""
    length = _length(segment)
    if not 0 <= length <= limit:
        raise CorruptFileError(f"row ids: segment of {length} rows, {limit} are left")
    kind = segment.WhichOneof("segment")
    if kind == "range":
        return np.arange(segment.range.start, segment.range.end, dtype=np.uint64)
    if kind == "range_with_holes":
        part = segment.range_with_holes
        _check_size(_span(part.start, part.end), limit, len(_array(part.holes)))
        values = np.arange(part.start, part.end, dtype=np.uint64)
        kept = values[~np.isin(values, _array(part.holes))]
        if len(kept) != length:
            raise CorruptFileError("row ids: holes outside of their range")
        return kept
    if kind == "range_with_bitmap":
        start = np.uint64(segment.range_with_bitmap.start)
        return np.flatnonzero(segment_bits(segment)).astype(np.uint64) + start
    if kind in ("sorted_array", "array"):
        return _array(getattr(segment, kind))
    return np.empty(0, np.uint64)


def _check_size(span: int, limit: int, holes: int) -> None:
    if span > limit + holes:
        raise CorruptFileError(f"row ids: range of {span} with {holes} holes, {limit} rows left")


def _span(start: int, end: int) -> int:
    if end < start:
        raise CorruptFileError(f"row ids: range from {start} to {end}")
    return end - start


def _bits(bitmap: bytes, size: int) -> Bytes:
    """The bits of a range, least significant first."""
    if len(bitmap) < (size + 7) // 8:
        raise CorruptFileError(f"row ids: bitmap of {len(bitmap)} bytes for {size} rows")
    return np.unpackbits(np.frombuffer(bitmap, np.uint8), count=size, bitorder="little")


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

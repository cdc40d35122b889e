"""Byte strings in chunks and as one block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from tests.reference import encodings
from tests.reference.pages.base import MiniBlockValues
from tests.reference.pages.chunks import compress_chunks
from tests.reference.pages.codes import _codes, bits_per_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from alance.base.arrays import Bytes, Int32s, Int64s
    from alance.format.blocks import VariableWidth
    from alance.format.encode.options import FieldOptions
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_STRINGS: Final = 2048  # of a chunk
FILLER: Final = b"\x48"  # up to the width of an offset
V2_1_CHUNK_BYTES: Final = 16384  # of 32 KiB in all: as much again is left for levels
V2_1_MAX_BYTES: Final = 32000


def variable_chunks(
    strings: VariableWidth, chunk_bytes: int, version: FileVersion
) -> MiniBlockValues:
    """The strings as they are.

    Raises:
        InvalidInputError: two strings do not fit a chunk of this version.
    """
    if version < FileVersion.V2_2:
        chunk_bytes = min(chunk_bytes, V2_1_CHUNK_BYTES)
    counts = list(_chunk_counts(strings.offsets, chunk_bytes))
    ends = np.cumsum(counts)
    chunks = [
        _string_chunk(strings, end - count, end) for end, count in zip(ends, counts, strict=True)
    ]
    sizes = np.array([len(chunk) for chunk in chunks], np.int64)
    if version < FileVersion.V2_2 and sizes.max(initial=0) > V2_1_MAX_BYTES:
        raise InvalidInputError(
            f"mini-blocks of strings: two take {int(sizes.max())} bytes, a chunk of version "
            f"{version.value} has {V2_1_MAX_BYTES}; use "
            "lance-encoding:structural-encoding = fullzip"
        )
    encoding = encodings.variable(bits_per_offset(strings))
    data = np.frombuffer(b"".join(chunks), np.uint8)
    return MiniBlockValues(encoding, np.array(counts, np.int64), (data,), sizes[np.newaxis])


def _chunk_counts(offsets: Int32s | Int64s, chunk_bytes: int) -> Iterator[int]:
    """Strings of each chunk: a power of two that fits, at least two, or all that are left."""
    first, num_strings = 0, len(offsets) - 1
    while first < num_strings:
        remaining = num_strings - first
        powers = [1 << power for power in range(MAX_STRINGS.bit_length() - 1, 0, -1)]
        counts = [count for count in (remaining, *powers) if count <= min(remaining, MAX_STRINGS)]
        sizes = offsets[first + np.array(counts)].astype(np.int64) - int(offsets[first])
        fits = sizes + (np.array(counts) + 1) * offsets.itemsize <= chunk_bytes
        count = counts[int(np.argmax(fits))] if fits.any() else min(2, remaining)
        yield count
        first += count


def _string_chunk(strings: VariableWidth, first: int, stop: int) -> bytes:
    """Offsets from the beginning of the chunk, then the bytes, then filler."""
    ends, word = strings.offsets[first : stop + 1], strings.offsets.itemsize
    offsets = ends - ends[0] + len(ends) * ends.dtype.type(word)
    content = offsets.tobytes() + strings.data[ends[0] : ends[-1]].tobytes()
    return content + FILLER * (-len(content) % word)


def string_block(strings: VariableWidth) -> tuple[pb.CompressiveEncoding, Bytes]:
    """All strings as one block: bits of an offset, where the bytes begin, offsets, bytes."""
    bits = bits_per_offset(strings)
    dtype = strings.offsets.dtype
    start, stop = int(strings.offsets[0]), int(strings.offsets[-1])
    header = np.array([bits, (len(strings.offsets) + 2) * dtype.itemsize], dtype)
    offsets = strings.offsets - dtype.type(start) if start else strings.offsets
    parts = [header.view(np.uint8), offsets.view(np.uint8), strings.data[start:stop]]
    return encodings.variable(bits), np.concatenate(parts)


def string_chunks(
    strings: VariableWidth, options: FieldOptions, version: FileVersion
) -> MiniBlockValues:
    """The chunks of a page of strings.

    Raises:
        InvalidInputError: two strings do not fit a chunk of this version.
    """
    coded = _codes(strings, options)
    if coded is not None:
        table, codes = coded
        chunks = variable_chunks(codes, options.chunk_bytes, version)
        return replace(chunks, encoding=encodings.fsst(table, chunks.encoding))
    plain = variable_chunks(strings, options.chunk_bytes, version)
    return compress_chunks(plain, options)

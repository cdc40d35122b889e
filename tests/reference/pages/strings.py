"""Byte strings in chunks and as one block."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.encode import encodings
from alance.format.encode.strings import _codes, bits_per_offset
from tests.reference.pages.base import MiniBlockValues
from tests.reference.pages.chunks import compress_chunks

if TYPE_CHECKING:
    from alance.arrays import Bytes
    from alance.format.blocks import VariableWidth
    from alance.format.encode.options import Options
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_STRINGS: Final = 2048  # of a chunk
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
    try:
        data, counts, sizes = _kernels.chunk_strings(
            strings.offsets, strings.data, chunk_bytes, MAX_STRINGS
        )
    except OverflowError as error:
        raise InvalidInputError(f"mini-blocks of {error}") from error
    if version < FileVersion.V2_2 and sizes.max(initial=0) > V2_1_MAX_BYTES:
        raise InvalidInputError(
            f"mini-blocks of strings: two take {int(sizes.max())} bytes, a chunk of version "
            f"{version.value} has {V2_1_MAX_BYTES}; use "
            "lance-encoding:structural-encoding = fullzip"
        )
    encoding = encodings.variable(bits_per_offset(strings))
    return MiniBlockValues(encoding, counts, (data,), sizes[np.newaxis])


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
    strings: VariableWidth, options: Options, version: FileVersion
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

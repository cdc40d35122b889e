"""Chunks of mini-block pages: how many values each has, as they are, and compressed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import InvalidInputError
from alance.format.codecs.general import Scheme, compress
from tests.reference import encodings
from tests.reference.pages.base import MiniBlockValues

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s
    from alance.format.blocks import FixedWidth
    from alance.format.encode.options import FieldOptions

MIN_BYTES: Final = 4096  # a page of less is not worth the units' sizes
ZSTD_LEVEL: Final = 3  # where the field says none, or 0

MAX_VALUES: Final = 4096  # more would make taking one row dear
MAX_BYTES: Final = 8186  # with a header and fillers less than 8 KiB


def counts_of(num_values: int, per_chunk: int) -> Int64s:
    """Values of each chunk: all full but the last."""
    counts = np.full(-(-num_values // per_chunk), per_chunk, np.int64)
    if num_values % per_chunk:
        counts[-1] = num_values % per_chunk
    return counts


def compressed_units(
    scheme: Scheme, level: int | None, data: Bytes, sizes: Int64s
) -> tuple[Bytes, Int64s]:
    """Compress pieces of `data` to units; return the units end to end, and their sizes."""
    pieces = np.split(data, np.cumsum(sizes)[:-1])
    units = [compress(scheme, level, piece) for piece in pieces]
    return np.concatenate(units), np.array([*map(len, units)], np.int64)


def values_per_chunk(bits_per_value: int) -> int:
    """The power of two of values that a chunk has where they are stored as they are.

    Raises:
        InvalidInputError: not even two values fit.
    """
    # A chunk of values that are no whole bytes is counted twice, as other writers do.
    bits = bits_per_value if bits_per_value % 8 == 0 else 2 * bits_per_value
    count = MAX_VALUES
    while count * bits >= 8 * MAX_BYTES:
        count //= 2
    if count < 2:
        raise InvalidInputError(
            f"mini-blocks of values of {bits_per_value // 8} bytes: two must fit "
            f"{MAX_BYTES} bytes; use lance-encoding:structural-encoding = fullzip"
        )
    return count


def cut(data: Bytes, counts: Int64s, bits_per_value: int) -> tuple[Bytes, Int64s]:
    """Values of chunks, each from a byte on, and the bytes of each; a view if it can be.

    Args:
        data: the values end to end, without gaps between their bits.
        counts: values of each chunk, shape (c,).
        bits_per_value: any.
    """
    if len(counts) and int(counts[0]) * bits_per_value % 8:
        ends = np.cumsum(counts * bits_per_value)
        bits = np.split(np.unpackbits(data, bitorder="little")[: ends[-1]], ends[:-1])
        chunks = [np.packbits(part, bitorder="little") for part in bits]
        return np.concatenate(chunks), np.array([len(chunk) for chunk in chunks], np.int64)
    return data, -(-counts * bits_per_value // 8)


def flat_chunks(values: FixedWidth) -> MiniBlockValues:
    """Values as they are.

    Raises:
        InvalidInputError: they are too wide for chunks.
    """
    bits = values.bits_per_value
    counts = counts_of(values.num_values, values_per_chunk(bits))
    data, sizes = cut(values.data, counts, bits)
    return MiniBlockValues(encodings.flat(bits), counts, (data,), sizes[np.newaxis])


def compress_chunks(values: MiniBlockValues, options: FieldOptions) -> MiniBlockValues:
    """The chunks with buffer 0 compressed, if that is asked for and makes them smaller."""
    scheme, first = options.scheme, values.buffers[0]
    if scheme is None or len(first) < MIN_BYTES:
        return values
    units, sizes = compressed_units(scheme, options.level, first, values.sizes[0])
    if len(units) >= len(first):
        return values
    return replace(
        values,
        encoding=encodings.general(scheme, options.level, values.encoding),
        buffers=(units, *values.buffers[1:]),
        sizes=np.vstack([sizes, values.sizes[1:]]),
    )

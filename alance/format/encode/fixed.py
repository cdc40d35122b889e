"""Fixed-width values in mini-blocks: runs, bit-packed, split into byte streams, or as they are.

What costs least by the statistics of the page is taken. Values are bit patterns: there is no
zig-zag and no frame of reference, so one negative number makes its 1024 values full-width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.format.encode import encodings
from alance.format.encode.base import MiniBlockValues
from alance.format.encode.chunks import MAX_BYTES, MAX_VALUES, counts_of, flat_chunks
from alance.format.encode.general import compress_chunks

if TYPE_CHECKING:
    from alance.format.blocks import Bytes, FixedWidth
    from alance.format.encode.options import Options

PACKED_VALUES: Final = 1024  # values that are bit-packed together
SPLIT_VALUES: Final = {32: 1024, 64: 512}  # of a chunk of split bytes
ENTROPY_VALUES: Final = 64  # the first so many tell whether splitting bytes helps
MAX_ENTROPY: Final = 4.0  # bits of a byte, as a mean over the bytes of a value


def fixed_chunks(values: FixedWidth, options: Options) -> MiniBlockValues:
    """The chunks of a page of fixed-width values.

    Raises:
        InvalidInputError: they are too wide for chunks.
    """
    if options.compression == "none":
        return flat_chunks(values)
    if _splits(values, options):
        split = _split_chunks(values)
        compressed = compress_chunks(split, options)
        if compressed is not split:
            return compressed
    return compress_chunks(_plain_chunks(values, options), options)


def _plain_chunks(values: FixedWidth, options: Options) -> MiniBlockValues:
    """The chunks without general compression around them."""
    bits = values.bits_per_value
    if bits not in (8, 16, 32, 64) or values.num_values == 0:
        return flat_chunks(values)
    best = len(values.data)
    widths, num_runs = _kernels.widths_and_runs(values.data, bits)
    packed = packed_bytes(widths, bits)
    packs = packed < best
    best = min(best, packed)
    threshold = options.rle_threshold
    if threshold is None or num_runs < threshold * values.num_values:
        entry_bytes = bits // 8 + 1
        # On a tie runs go before bit-packing, and bit-packing before flat values.
        limit = (best - (not packs)) // entry_bytes
        if num_runs <= limit and _kernels.run_entries(values.data, bits, limit) <= limit:
            return _run_chunks(values)
    return _packed_chunks(values) if packs else flat_chunks(values)


def packed_bytes(widths: Bytes, bits: int) -> int:
    """Bytes of bit-packed blocks of 1024, the width in front of each.

    Args:
        widths: of the blocks, shape (n,).
        bits: of a value.
    """
    return len(widths) * (bits // 8) + 128 * int(widths.sum(dtype=np.int64))


def _packed_chunks(values: FixedWidth) -> MiniBlockValues:
    bits = values.bits_per_value
    counts = counts_of(values.num_values, PACKED_VALUES)
    data, sizes = _kernels.pack_inline(values.data, counts, bits)
    return MiniBlockValues(encodings.inline_bitpacking(bits), counts, (data,), sizes[np.newaxis])


def _run_chunks(values: FixedWidth) -> MiniBlockValues:
    bits = values.bits_per_value
    runs, lengths, counts, run_sizes, length_sizes = _kernels.encode_runs(
        values.data, bits, MAX_VALUES, MAX_BYTES
    )
    sizes = np.vstack([run_sizes, length_sizes])
    return MiniBlockValues(encodings.rle(bits), counts, (runs, lengths), sizes)


def _split_chunks(values: FixedWidth) -> MiniBlockValues:
    bits = values.bits_per_value
    counts = counts_of(values.num_values, SPLIT_VALUES[bits])
    data = _kernels.split_bytes(values.data, counts, bits)
    sizes = counts * (bits // 8)
    return MiniBlockValues(encodings.byte_stream_split(bits), counts, (data,), sizes[np.newaxis])


def _splits(values: FixedWidth, options: Options) -> bool:
    """Whether the bytes of values compress better one significance after the other."""
    if values.bits_per_value not in SPLIT_VALUES or options.scheme is None:
        return False
    if options.split == "auto":
        return _entropy(values) < MAX_ENTROPY
    return options.split == "on"


def _entropy(values: FixedWidth) -> float:
    """Bits of information in a byte of the first values, as a mean over their places."""
    width = values.bits_per_value // 8
    count = min(values.num_values, ENTROPY_VALUES)
    if count == 0:
        return 0.0
    places = values.data[: count * width].reshape(count, width)
    total = 0.0
    for column in places.T:
        shares = np.unique(column, return_counts=True)[1] / count
        total -= float((shares * np.log2(shares)).sum())
    return total / width

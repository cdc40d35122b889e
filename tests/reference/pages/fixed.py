"""Fixed-width values: in chunks as runs, bit-packed, split into byte streams or as they are; lists.

What costs least by the statistics of the page is taken. Values are bit patterns: there is no
zig-zag and no frame of reference, so one negative number makes its 1024 values full-width.

Lists are of fixed sizes, nested to any depth, of fixed-width items. In mini-blocks the validity of
the items of each level stands in a buffer of its own, in front of the items. Zipped, and as blocks,
a row is the validity bytes of each level and then the items.

Source: encodings_v2_1.proto, message FixedSizeList; docs/format/encodings.md, "FixedSizeList".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.format.encode.options import SPLITS, Compression
from tests.reference.encodings import byte_stream_split, inline_bitpacking, rle
from tests.reference.pages.base import MiniBlockValues
from tests.reference.pages.chunks import (
    MAX_BYTES,
    MAX_VALUES,
    compress_chunks,
    counts_of,
    cut,
    flat_chunks,
    values_per_chunk,
)
from tests.reference.pages.integers import (
    PACKED_VALUES,
    byte_streams,
    octets,
    packed_bytes,
    packed_inline,
    pieces,
    run_bytes,
    run_chunks,
    run_starts,
    runs_of,
    unsigned,
)

if TYPE_CHECKING:
    from alance.format.blocks import FixedWidth
    from alance.format.encode.options import FieldOptions
    from tests.reference.pages.lists import FixedLists

SPLIT_VALUES: Final = {32: 1024, 64: 512}  # of a chunk of split bytes
ENTROPY_VALUES: Final = 64  # the first so many tell whether splitting bytes helps
MAX_ENTROPY: Final = 4.0  # bits of a byte, as a mean over the bytes of a value


def fixed_chunks(values: FixedWidth, options: FieldOptions) -> MiniBlockValues:
    """The chunks of a page of fixed-width values.

    Raises:
        InvalidInputError: they are too wide for chunks.
    """
    if options.compression is Compression.NONE:
        return flat_chunks(values)
    if _splits(values, options):
        split = _split_chunks(values)
        compressed = compress_chunks(split, options)
        if compressed is not split:
            return compressed
    return compress_chunks(_plain_chunks(values, options), options)


def _plain_chunks(values: FixedWidth, options: FieldOptions) -> MiniBlockValues:
    """The chunks without general compression around them."""
    bits = values.bits_per_value
    if bits not in (8, 16, 32, 64):
        return flat_chunks(values)
    content, most_runs = unsigned(values.data, bits), options.rle_threshold
    flat, packed, runs = len(values.data), packed_bytes(content), run_bytes(content)
    is_allowed = most_runs is None or len(run_starts(content)) < most_runs * values.num_values
    # On a tie runs go before bit-packing, and flat values before both.
    if is_allowed and runs < flat and runs <= packed:
        return _run_chunks(values)
    return _packed_chunks(values) if packed < flat else flat_chunks(values)


def _packed_chunks(values: FixedWidth) -> MiniBlockValues:
    bits = values.bits_per_value
    counts = counts_of(values.num_values, PACKED_VALUES)
    data, sizes = packed_inline(unsigned(values.data, bits), counts)
    return MiniBlockValues(inline_bitpacking(bits), counts, (data,), sizes[np.newaxis])


def _run_chunks(values: FixedWidth) -> MiniBlockValues:
    bits = values.bits_per_value
    chunks = list(run_chunks(unsigned(values.data, bits), MAX_VALUES, MAX_BYTES))
    of_runs, lengths = zip(*map(runs_of, chunks), strict=True)
    counts = np.array([len(chunk) for chunk in chunks], np.int64)
    sizes = np.array([[part.nbytes for part in parts] for parts in (of_runs, lengths)], np.int64)
    buffers = (np.concatenate(of_runs).view(np.uint8), np.concatenate(lengths))
    return MiniBlockValues(rle(bits), counts, buffers, sizes)


def _split_chunks(values: FixedWidth) -> MiniBlockValues:
    bits = values.bits_per_value
    counts = counts_of(values.num_values, SPLIT_VALUES[bits])
    chunks = pieces(unsigned(values.data, bits), counts)
    data = octets(b"".join(map(byte_streams, chunks)))
    sizes = counts * (bits // 8)
    return MiniBlockValues(byte_stream_split(bits), counts, (data,), sizes[np.newaxis])


def _splits(values: FixedWidth, options: FieldOptions) -> bool:
    """True if values compress better as byte planes, one significance after the other."""
    if values.bits_per_value not in SPLIT_VALUES or options.scheme is None:
        return False
    if options.split == SPLITS["auto"]:
        return _entropy(values) < MAX_ENTROPY
    return options.split == SPLITS["on"]


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


def list_chunks(lists: FixedLists) -> MiniBlockValues:
    """The chunks of a mini-block page.

    Raises:
        InvalidInputError: rows are too wide for chunks.
    """
    assert lists.items is not None, "lists of nothing but nulls are zipped"
    counts = counts_of(lists.num_rows, values_per_chunk(lists.row_bits))
    parts = [
        cut(level.validity, counts, level.items_per_row)
        for level in lists.levels
        if level.validity is not None
    ]
    parts.append(cut(lists.items.data, counts, lists.item_bits))
    buffers, sizes = zip(*parts, strict=True)
    return MiniBlockValues(lists.encoding, counts, buffers, np.vstack(sizes))

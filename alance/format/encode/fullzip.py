"""Encoder of full-zip pages: each value follows its levels.

Source: docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import UnsupportedError, kernel_errors
from alance.format.blocks import DictionaryBlock, FixedWidth, gather
from alance.format.encode.base import EncodedPage
from alance.format.encode.levels import layer_names
from alance.format.encode.values import per_value
from alance.format.layouts.base import max_definition, max_repetition, max_visible
from alance.format.layouts.levels import NO_LEVELS
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from alance.arrays import Bytes, Int64s
    from alance.format.encode.base import Hints
    from alance.format.layouts.base import PageValues

NO_STARTS: Final = np.zeros(0, np.int64)
MAX_ITEMS: Final = 0xFFFFFFFF  # a page stores its number of entries in 32 bits


def full_zip_page(values: PageValues, hints: Hints) -> EncodedPage:
    """Encode all rows as one full-zip page.

    Raises:
        UnsupportedError: values are not whole bytes, or there are too many entries.
    """
    block = values.values
    if isinstance(block, DictionaryBlock):  # full-zip pages have no dictionary
        indices = block.indices.data.view(f"<u{block.indices.bits_per_value // 8}")
        block = gather(block.items, indices.astype(np.int64))
    encoding, encoded = per_value(block, hints)
    rep = NO_LEVELS if values.rep is None else values.rep
    definition = NO_LEVELS if values.definition is None else values.definition
    num_entries = max(len(rep), len(definition)) or block.num_values
    if num_entries > MAX_ITEMS:
        raise UnsupportedError(f"full-zip: {num_entries} entries in a page")
    max_rep = max_repetition(values.layers)
    bits_rep = max_rep.bit_length()
    bits_def = max_definition(values.layers).bit_length()
    bits = bits_rep + bits_def
    message = pb.FullZipLayout(
        bits_rep=bits_rep,
        bits_def=bits_def,
        num_items=num_entries,
        num_visible_items=block.num_values,
        value_compression=encoding,
        layers=layer_names(values.layers),
    )
    levels = (
        rep,
        definition,
        num_entries,
        0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4,
        bits_def,
        max_rep,
        max_visible(values.layers),
    )
    with kernel_errors:
        if isinstance(encoded, FixedWidth):
            message.bits_per_value = encoded.bits_per_value
            rows, starts = encoded.data, NO_STARTS  # without levels, a row is its value
            if bits:
                width = encoded.bits_per_value // 8
                rows, starts = _kernels.zip_fixed(*levels, rows, width)
        else:
            width = encoded.offsets.dtype.itemsize
            message.bits_per_offset = 8 * width
            rows, starts = _kernels.zip_variable(*levels, encoded.offsets, encoded.data, width)
    buffers = [rows]
    if not isinstance(encoded, FixedWidth) or max_rep:
        buffers.append(_index(starts))
    return EncodedPage.of(
        pb.PageLayout(full_zip_layout=message),
        tuple(buffers),
        values.num_rows,
        (1,)[: len(buffers) - 1],
    )


def _index(starts: Int64s) -> Bytes:
    """Encode the start of each row and the final end, with the smallest sufficient width."""
    end = int(starts[-1])
    width = next(width for width in (1, 2, 4, 8) if end < 1 << 8 * width)
    return starts.astype(f"<u{width}").view(np.uint8)

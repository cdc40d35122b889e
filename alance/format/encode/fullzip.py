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
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s
    from alance.format.blocks import VariableWidth
    from alance.format.encode.base import Hints
    from alance.format.layouts.base import PageValues

NO_STARTS: Final = np.zeros(0, np.int64)
NO_LEVELS: Final = np.zeros(0, np.uint16)
MAX_ZIPPED_ENTRIES: Final = 0xFFFFFFFF  # a page stores its number of entries in 32 bits


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
    levels = [levels for levels in (values.rep, values.definition) if levels is not None]
    num_entries = max(map(len, levels), default=0) or block.num_values
    if num_entries > MAX_ZIPPED_ENTRIES:
        raise UnsupportedError(f"full-zip: {num_entries} entries in a page")
    max_rep = max_repetition(values.layers)
    layout = pb.FullZipLayout(
        bits_rep=max_rep.bit_length(),
        bits_def=max_definition(values.layers).bit_length(),
        num_items=num_entries,
        num_visible_items=block.num_values,
        value_compression=encoding,
        layers=layer_names(values.layers),
    )
    if isinstance(encoded, FixedWidth):
        layout.bits_per_value = encoded.bits_per_value
    else:
        layout.bits_per_offset = 8 * encoded.offsets.dtype.itemsize
    rows, starts = _zipped(values, encoded, layout)
    buffers = [rows]
    if not isinstance(encoded, FixedWidth) or max_rep:
        buffers.append(_index(starts))
    return EncodedPage.of(
        pb.PageLayout(full_zip_layout=layout),
        tuple(buffers),
        values.num_rows,
        (1,)[: len(buffers) - 1],
    )


def _zipped(
    values: PageValues, encoded: FixedWidth | VariableWidth, layout: pb.FullZipLayout
) -> tuple[Bytes, Int64s]:
    """Put the levels of each row before its value; return the rows, and where they begin."""
    bits = layout.bits_rep + layout.bits_def
    if bits == 0 and isinstance(encoded, FixedWidth):
        return encoded.data, NO_STARTS  # without levels, rows are the values
    levels = (
        NO_LEVELS if values.rep is None else values.rep,
        NO_LEVELS if values.definition is None else values.definition,
        layout.num_items,
        0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4,
        layout.bits_def,
        max_repetition(values.layers),
        max_visible(values.layers),
    )
    with kernel_errors:
        if isinstance(encoded, FixedWidth):
            return _kernels.zip_fixed(*levels, encoded.data, encoded.bits_per_value // 8)
        width = encoded.offsets.dtype.itemsize
        return _kernels.zip_variable(*levels, encoded.offsets, encoded.data, width)


def _index(starts: Int64s) -> Bytes:
    """Encode the start of each row and the final end, with the smallest sufficient width."""
    end = int(starts[-1])
    width = next(width for width in (1, 2, 4, 8) if end < 1 << 8 * width)
    return starts.astype(f"<u{width}").view(np.uint8)

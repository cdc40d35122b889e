"""Encoder of full-zip pages: each value follows its levels.

Source: docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.errors import UnsupportedError
from alance.format.blocks import DictionaryBlock, FixedWidth, gather
from alance.format.encode.levels import layer_names
from alance.format.encode.page_inputs import EncodedPage
from alance.format.layouts.base import max_definition, max_repetition, max_visible
from alance.format.proto import encodings_v2_1_pb2 as pb
from tests.reference.pages.one_by_one import per_value

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s
    from alance.format.blocks import VariableWidth
    from alance.format.encode.page_inputs import Hints
    from alance.format.layouts.base import PageValues

NO_STARTS: Final = np.zeros(0, np.int64)
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
    width = 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4
    parts: list[bytes] = []
    starts, place, value = [], 0, 0
    for entry in range(layout.num_items):
        rep = 0 if values.rep is None else int(values.rep[entry])
        level = 0 if values.definition is None else int(values.definition[entry])
        if values.rep is None or rep == max_repetition(values.layers):
            starts.append(place)
        content = (rep << layout.bits_def | level).to_bytes(width, "little")
        if level <= max_visible(values.layers):
            content += _content(encoded, value, is_null=level > 0)
            value += 1
        parts.append(content)
        place += len(content)
    return np.frombuffer(b"".join(parts), np.uint8), np.array([*starts, place], np.int64)


def _content(encoded: FixedWidth | VariableWidth, value: int, *, is_null: bool) -> bytes:
    """The bytes of a value in its entry; those of null strings are left out."""
    if isinstance(encoded, FixedWidth):
        width = encoded.bits_per_value // 8
        return encoded.data[value * width : (value + 1) * width].tobytes()
    if is_null:
        return b""
    start, stop = encoded.offsets[value : value + 2].tolist()
    length = (stop - start).to_bytes(encoded.offsets.itemsize, "little")
    return length + encoded.data[start:stop].tobytes()


def _index(starts: Int64s) -> Bytes:
    """Encode the start of each row and the final end, with the smallest sufficient width."""
    end = int(starts[-1])
    width = next(width for width in (1, 2, 4, 8) if end < 1 << 8 * width)
    return starts.astype(f"<u{width}").view(np.uint8)

"""Whether a page is smaller as indices into its distinct values, and these.

Indices are bit-packed or runs; a dictionary has to be smaller than that, with its items, than what
the values would take without it. What the metadata of the field says bounds it further.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.file_version import FileVersion
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.encode.fixed import packed_bytes
from alance.format.encode.fsst_table import SAMPLE_BYTES
from alance.format.encode.strings import has_codes

if TYPE_CHECKING:
    from alance.format.encode.options import Options

MIN_VALUES: Final = 100
MAX_ITEMS: Final = 100_000  # a page is read with all of them
INDEX_BITS: Final = 32
RUN_BYTES: Final = INDEX_BITS // 8 + 1  # of a run of indices
FEW: Final = 16  # one item for so many values: nothing else comes near


def fixed_dictionary(
    values: FixedWidth, options: Options, version: FileVersion
) -> tuple[FixedWidth, FixedWidth] | None:
    """Indices and items of fixed-width values, if they are smaller."""
    bits, count = values.bits_per_value, values.num_values
    if count < MIN_VALUES or not (bits == 128 or (bits == 64 and version >= FileVersion.V2_2)):
        return None
    raw = count * (bits // 8)
    direct, num_runs = raw, count
    if bits == 64:
        widths, num_runs = _kernels.widths_and_runs(values.data, bits)
        if options.compression != "none":
            direct = min(raw, packed_bytes(widths, bits), num_runs * (bits // 8 + 1))
    limit = min(direct - 1, int(options.dict_size_ratio * raw))
    most = min(_most_items(count, options), limit // (bits // 8), num_runs)
    if options.dict_max_bytes is not None:
        most = min(most, options.dict_max_bytes // (bits // 8))
    if most < 1 or min(count // 8, num_runs * RUN_BYTES) > limit:
        return None
    found = _kernels.distinct_fixed(values.data, bits // 8, most)
    if found is None:
        return None
    indices, items = found
    num_items = len(items) * 8 // bits
    index_bytes = min(_packed_indices(count, num_items), num_runs * RUN_BYTES)
    if index_bytes + len(items) > limit:
        return None
    return _indices(indices), FixedWidth(bits, num_items, items)


def string_dictionary(
    values: VariableWidth, options: Options
) -> tuple[FixedWidth, VariableWidth] | None:
    """Indices and items of byte strings, if they are smaller."""
    count, word = values.num_values, values.offsets.itemsize
    if count < MIN_VALUES:
        return None
    num_bytes = int(values.offsets[-1]) - int(values.offsets[0])
    raw = num_bytes + values.offsets.nbytes
    limit = int(options.dict_size_ratio * raw)
    most = min(_most_items(count, options), limit // word)
    most_bytes = limit if options.dict_max_bytes is None else min(limit, options.dict_max_bytes)
    if most < 1:
        return None
    found = _kernels.distinct_strings(values.offsets, values.data, most, most_bytes)
    if found is None:
        return None
    indices, offsets, items = found
    num_items = len(offsets) - 1
    size = _packed_indices(count, num_items) + len(items) + offsets.nbytes
    if size > limit:
        return None
    if num_items * FEW > count and has_codes(values, options):
        *_, plain, encoded = _kernels.learn_fsst(values.offsets, values.data, SAMPLE_BYTES)
        if size > values.offsets.nbytes + num_bytes * encoded / max(plain, 1):
            return None
    return _indices(indices), VariableWidth(offsets, items)


def _most_items(count: int, options: Options) -> int:
    return min(MAX_ITEMS, count // options.dict_divisor)


def _packed_indices(count: int, num_items: int) -> int:
    """Bytes of bit-packed indices."""
    return count * max(1, (num_items - 1).bit_length()) // 8


def _indices(numbers: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]) -> FixedWidth:
    return FixedWidth(INDEX_BITS, len(numbers), numbers.view(np.uint8))

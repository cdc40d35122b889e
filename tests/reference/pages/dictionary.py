"""Pages as indices into distinct values: whether that is smaller, and the values as one block.

Indices are bit-packed or runs; a dictionary has to be smaller than that, with its items, than what
the values would take without it. What the metadata of the field says bounds it further. Items are

    fixed-width   runs (from 2.2 on), bit-packed, or as they are
    strings       offsets and bytes
    lists         rows of fixed-size lists, zipped

From 2.2 on what is neither runs nor bit-packed is compressed, if that makes it smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.errors import UnsupportedError
from alance.file_version import FileVersion
from alance.format.blocks import FixedSizeListBlock, FixedWidth, VariableWidth
from alance.format.codecs.general import SCHEMES, compress
from alance.format.encode.options import Compression, FieldOptions
from tests.reference import encodings
from tests.reference.encodings import inline_bitpacking, rle
from tests.reference.pages.codes import SAMPLE_BYTES, has_codes
from tests.reference.pages.integers import (
    PACKED_VALUES,
    packed_bytes,
    packed_inline,
    run_blocks,
    run_starts,
    unsigned,
    widths,
)
from tests.reference.pages.lists import FixedLists
from tests.reference.pages.strings import string_block

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, UInt32s
    from alance.format.blocks import Block
    from alance.format.encode.page_inputs import Hints
    from alance.format.proto import encodings_v2_1_pb2 as pb

MIN_VALUES: Final = 100
MAX_ITEMS: Final = 100_000  # a page is read with all of them
INDEX_BITS: Final = 32
RUN_BYTES: Final = INDEX_BITS // 8 + 1  # of a run of indices
FEW: Final = 16  # one item for so many values: nothing else comes near


def dictionary_of(values: Block, hints: Hints) -> tuple[FixedWidth, Block] | None:
    """The distinct values and where each stands, if a dictionary makes a page smaller.

    Gives up as soon as there are too many distinct values.

    Args:
        values: of a page; only variable-width values and fixed-width ones of 64 (from 2.2 on) or
            128 bits are looked at.
        hints: the version and the dictionary keys of the field.

    Returns:
        Indices of 32 bits, and the items in the order in which they first appear; or None.

    Raises:
        InvalidInputError: a key of the field is wrong.
    """
    match values:
        case FixedWidth():
            return _of_fixed(values, FieldOptions.of(hints), hints.version)
        case VariableWidth():
            return _of_strings(values, FieldOptions.of(hints))
        case _:
            return None


def _of_fixed(
    values: FixedWidth, options: FieldOptions, version: FileVersion
) -> tuple[FixedWidth, FixedWidth] | None:
    """Indices and items of fixed-width values, if they are smaller."""
    bits, count = values.bits_per_value, values.num_values
    if count < MIN_VALUES or not (bits == 128 or (bits == 64 and version >= FileVersion.V2_2)):
        return None
    raw = count * (bits // 8)
    direct, num_runs = raw, count
    if bits == 64:
        content = unsigned(values.data, bits)
        num_runs = len(run_starts(content))
        if options.compression is not Compression.NONE:
            direct = min(raw, packed_bytes(content), num_runs * (bits // 8 + 1))
    limit = min(direct - 1, int(options.dict_size_ratio * raw))
    most = min(_most_items(count, options), limit // (bits // 8), num_runs)
    if options.dict_max_bytes is not None:
        most = min(most, options.dict_max_bytes // (bits // 8))
    if min(count // 8, num_runs * RUN_BYTES) > limit:
        return None
    numbers: dict[bytes, int] = {}
    rows = values.data.view(f"V{bits // 8}").tolist()
    indices = np.array([numbers.setdefault(row, len(numbers)) for row in rows], np.uint32)
    num_items, items = len(numbers), np.frombuffer(b"".join(numbers), np.uint8)
    if num_items > most:
        return None
    index_bytes = min(_packed_indices(count, num_items), num_runs * RUN_BYTES)
    if index_bytes + len(items) > limit:
        return None
    return _indices(indices), FixedWidth(bits, num_items, items)


def _of_strings(
    values: VariableWidth, options: FieldOptions
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
    distinct = _kernels.distinct_strings(values.offsets, values.data, most, most_bytes)
    if distinct is None:
        return None
    indices, offsets, items = distinct
    num_items = len(offsets) - 1
    size = _packed_indices(count, num_items) + len(items) + offsets.nbytes
    if size > limit:
        return None
    if num_items * FEW > count and has_codes(values, options):
        *_, plain, encoded = _kernels.learn_fsst(values.offsets, values.data, SAMPLE_BYTES)
        if size > values.offsets.nbytes + num_bytes * encoded / max(plain, 1):
            return None
    return _indices(indices), VariableWidth(offsets, items)


def _most_items(count: int, options: FieldOptions) -> int:
    return min(MAX_ITEMS, count // options.dict_divisor)


def _packed_indices(count: int, num_items: int) -> int:
    """Bytes of bit-packed indices, with the width of each 1024."""
    width = max(1, (num_items - 1).bit_length())
    return count * width // 8 + count // 1024 * (INDEX_BITS // 8)


def _indices(numbers: UInt32s) -> FixedWidth:
    return FixedWidth(INDEX_BITS, len(numbers), numbers.view(np.uint8))


def encode_items(values: Block, hints: Hints) -> tuple[pb.CompressiveEncoding, Bytes]:
    """The items of a dictionary, as one block.

    Args:
        values: fixed-width, variable-width, or fixed-size lists.
        hints: the version and the keys `lance-encoding:dict-values-*` of the field.

    Raises:
        InvalidInputError: a key of the field is wrong.
        UnsupportedError: values that dictionaries do not hold.
    """
    version, options = hints.version, FieldOptions.of(hints)
    match values:
        case FixedWidth():
            encoding, data = _fixed(values, version)
            if encoding.WhichOneof("compression") != "flat":
                return encoding, data
        case VariableWidth():
            encoding, data = string_block(values)
        case FixedSizeListBlock():
            lists = FixedLists.of(values)
            encoding, data = lists.encoding, lists.rows().data
        case _:
            raise UnsupportedError(f"a dictionary of {type(values).__name__}")
    scheme = SCHEMES.get(options.dict_values.name.lower())
    if version < FileVersion.V2_2 or scheme is None or len(data) == 0:
        return encoding, data
    level = options.dict_values_level
    unit = compress(scheme, level, data)
    if len(unit) >= len(data):
        return encoding, data
    return encodings.general(scheme, level, encoding), unit


def _fixed(values: FixedWidth, version: FileVersion) -> tuple[pb.CompressiveEncoding, Bytes]:
    """The smallest of runs, bit-packing and the values as they are."""
    bits, data, count = values.bits_per_value, values.data, values.num_values
    if bits not in (8, 16, 32, 64) or count == 0:
        return encodings.flat(bits), data
    counts = np.array([count], np.int64)
    best = len(data)
    encoding = encodings.flat(bits)
    if count <= PACKED_VALUES:
        packed, _ = packed_inline(unsigned(data, bits), counts)
        if len(packed) < best:
            best, encoding = len(packed), inline_bitpacking(bits)
    else:
        width = max(1, *widths(unsigned(data, bits)))
        if width < bits:
            packed = _kernels.pack_blocks(data, count, bits, width)
            if len(packed) < best:
                best, encoding = len(packed), encodings.out_of_line_bitpacking(bits, width)
    if version >= FileVersion.V2_2:
        runs, _ = run_blocks(unsigned(data, bits), counts)
        if len(runs) < best:
            return rle(bits), runs
    return encoding, data if best == len(data) else packed

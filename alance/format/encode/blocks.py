"""Values as one block on their own: the items of a dictionary.

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
from alance.format.encode import encodings
from alance.format.encode.general import compress
from alance.format.encode.lists import Lists
from alance.format.encode.options import SCHEMES
from alance.format.encode.strings import string_block

if TYPE_CHECKING:
    from alance.format.blocks import Block, Bytes
    from alance.format.encode.options import Options
    from alance.format.proto import encodings_v2_1_pb2 as pb

PACKED_VALUES: Final = 1024  # that are bit-packed together


def encode_block(
    values: Block, version: FileVersion, options: Options
) -> tuple[pb.CompressiveEncoding, Bytes]:
    """One block of all values.

    Raises:
        UnsupportedError: values that dictionaries do not hold.
    """
    match values:
        case FixedWidth():
            encoding, data = _fixed(values, version)
            if encoding.WhichOneof("compression") != "flat":
                return encoding, data
        case VariableWidth():
            encoding, data = string_block(values)
        case FixedSizeListBlock():
            lists = Lists.of(values)
            encoding, data = lists.encoding, lists.rows().data
        case _:
            raise UnsupportedError(f"a dictionary of {type(values).__name__}")
    scheme = SCHEMES.get(options.dict_values)
    if version < FileVersion.V2_2 or scheme is None or len(data) == 0:
        return encoding, data
    level = options.dict_values_level
    unit, _ = compress(scheme, level, data, np.array([len(data)], np.int64))
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
        packed, _ = _kernels.pack_inline(data, counts, bits)
        if len(packed) < best:
            best, encoding = len(packed), encodings.inline_bitpacking(bits)
    else:
        width = max(1, int(_kernels.widths_and_runs(data, bits)[0].max()))
        if width < bits:
            packed, _ = _kernels.pack_blocks(data, counts, bits, width)
            if len(packed) < best:
                best, encoding = len(packed), encodings.out_of_line_bitpacking(bits, width)
    if version >= FileVersion.V2_2:
        run_bytes = int(_kernels.run_block_sizes(data, counts, bits)[0])
        if run_bytes < best:
            return encodings.rle(bits), _kernels.run_blocks(data, counts, bits)
    return encoding, data if best == len(data) else packed

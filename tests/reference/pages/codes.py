"""Byte strings of full-zip pages: plain, as codes of symbols (FSST), or compressed one by one.

A symbol table is trained on a sample of the page.

Source: encodings_v2_1.proto, messages Variable and Fsst; docs/format/encodings.md, "Variable" and
"Fsst". Form of a symbol table: `format/codecs/strings.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance.format.blocks import VariableWidth
from alance.format.codecs.general import Scheme, compress
from alance.format.encode.options import Compression
from alance.format.v2_0.encode import compressed
from tests.reference import encodings
from tests.reference.pages.chunks import compressed_units

if TYPE_CHECKING:
    from alance.format.encode.options import FieldOptions
    from alance.format.proto import encodings_v2_1_pb2 as pb

MIN_BYTES: Final = 32768  # bytes; smaller pages get no symbol table or compression
LONG_STRING: Final = 32768  # bytes; longer strings are compressed one by one
# Bytes of the sample, from the middle, that decides if long strings are compressed.
TRIAL_BYTES: Final = 1 << 16
FSST_LENGTH: Final = 5  # bytes; shorter strings have too little in common for symbols
SAMPLE_BYTES: Final = 32768  # bytes; larger samples hardly improve the symbols
# Largest relative size of the codes and the table; above it, strings stay plain, which are read
# faster.
WORTH_IT: Final = 0.95


def bits_per_offset(strings: VariableWidth) -> int:
    """Return the bits per offset, 32 or 64, by the type of the strings' offsets."""
    return strings.offsets.itemsize * 8


def encode_strings(
    strings: VariableWidth, options: FieldOptions
) -> tuple[pb.CompressiveEncoding, VariableWidth]:
    """Return the encoding and the bytes of a full-zip page's strings, each encoded by itself."""
    encoding = encodings.variable(bits_per_offset(strings))
    long = _longest(strings) > LONG_STRING
    is_requested = options.scheme is not None
    if (
        options.compression is not Compression.NONE
        and (is_requested or long)
        and _raw_bytes(strings) >= MIN_BYTES
    ):
        if not is_requested and not _compresses(strings):
            return encoding, strings
        # Other writers use Zstandard even if LZ4 is requested. Each value is compressed by itself.
        level = options.level or 0
        start, stop = int(strings.offsets[0]), int(strings.offsets[-1])
        lengths = np.diff(strings.offsets).astype(np.int64)
        units, sizes = compressed_units(Scheme.ZSTD, level, strings.data[start:stop], lengths)
        if len(units) >= stop - start:
            return encoding, strings
        # Lengths in the page are as wide as the offsets of the type, because other readers refuse
        # narrower lengths.
        ends = np.zeros_like(strings.offsets)
        np.cumsum(sizes, out=ends[1:])
        return encodings.general(Scheme.ZSTD, level, encoding), VariableWidth(ends, units)
    coded = _codes(strings, options)
    if coded is not None:
        table, codes = coded
        return encodings.fsst(table, encoding), codes
    return encoding, strings


def _longest(strings: VariableWidth) -> int:
    return int(np.diff(strings.offsets).max(initial=0))


def has_codes(strings: VariableWidth, options: FieldOptions) -> bool:
    """True if it is worth trying a symbol table."""
    return options.compression is Compression.FSST or (
        options.compression is Compression.AUTO
        and _raw_bytes(strings) >= MIN_BYTES
        and _longest(strings) >= FSST_LENGTH
    )


def _codes(strings: VariableWidth, options: FieldOptions) -> tuple[bytes, VariableWidth] | None:
    """Return a symbol table and codes; None if not worth trying, or if codes are not smaller."""
    return compressed(strings) if has_codes(strings, options) else None


def _raw_bytes(strings: VariableWidth) -> int:
    """Return the number of bytes of the strings and their offsets."""
    return int(strings.offsets[-1]) - int(strings.offsets[0]) + strings.offsets.nbytes


def _compresses(strings: VariableWidth) -> bool:
    """True if compression shrinks a sample of long strings; pictures, for example, stay large."""
    start, stop = int(strings.offsets[0]), int(strings.offsets[-1])
    middle = max(start, (start + stop - TRIAL_BYTES) // 2)
    sample = strings.data[middle : min(stop, middle + TRIAL_BYTES)]
    units = compress(Scheme.ZSTD, None, sample)
    return len(units) < WORTH_IT * len(sample)

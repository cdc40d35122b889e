"""Byte strings one by one, as full-zip pages have them: as they are or as codes of symbols (FSST).

A symbol table is learned from a sample of a page.

Source: encodings_v2_1.proto, messages Variable and Fsst; docs/format/encodings.md, "Variable" and
"Fsst". What a table looks like: `format/codecs/strings.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from alance import _kernels
from alance.format.blocks import VariableWidth
from alance.format.codecs.general import Scheme, compress
from alance.format.codecs.strings import MAGIC, TABLE_BYTES
from alance.format.encode import encodings

if TYPE_CHECKING:
    from alance.format.encode.options import Options
    from alance.format.proto import encodings_v2_1_pb2 as pb

MIN_BYTES: Final = 32768  # below it strings are not worth a symbol table or compression
LONG_STRING: Final = 32768  # above it strings are compressed one by one
TRIAL_BYTES: Final = 1 << 16  # in the middle, that tell whether long strings compress
FSST_LENGTH: Final = 5  # shorter strings have nothing in common that a symbol could say
SAMPLE_BYTES: Final = 32768  # more finds hardly better symbols
MAX_BYTES: Final = 1 << 30  # all bytes may be escaped, and offsets have 32 bits
WORTH_IT: Final = 0.95  # of the bytes, with the table: else strings are read faster as they are


def compressed(strings: VariableWidth) -> tuple[bytes, VariableWidth] | None:
    """The symbol table and the strings as codes; None if they would hardly be smaller.

    Offsets keep their type.
    """
    num_bytes = int(strings.offsets[-1]) - int(strings.offsets[0])
    if not 0 < num_bytes < MAX_BYTES:
        return None
    symbols, lengths, plain, encoded = _kernels.learn_fsst(
        strings.offsets, strings.data, SAMPLE_BYTES
    )
    most = WORTH_IT * num_bytes - TABLE_BYTES
    if encoded / max(plain, 1) * num_bytes > most:
        return None
    offsets, codes = _kernels.encode_fsst(strings.offsets, strings.data, symbols, lengths)
    if offsets[-1] > most:
        return None
    # The header says that strings are compressed.
    header = bytes([len(symbols), 0, 0, 1]) + MAGIC
    table = header + symbols.astype("<u8").tobytes() + lengths.tobytes()
    return table.ljust(TABLE_BYTES, b"\0"), VariableWidth(offsets, codes[: offsets[-1]])


def bits_per_offset(strings: VariableWidth) -> int:
    """32 or 64, by the type that the strings have."""
    return strings.offsets.itemsize * 8


def encode_strings(
    strings: VariableWidth, options: Options
) -> tuple[pb.CompressiveEncoding, VariableWidth]:
    """Return the encoding and the bytes of a full-zip page's strings, each compressed by itself."""
    encoding = encodings.variable(bits_per_offset(strings))
    long = _kernels.longest_string(strings.offsets) > LONG_STRING
    asked = options.scheme is not None
    if options.compression != "none" and (asked or long) and _raw_bytes(strings) >= MIN_BYTES:
        if not asked and not _compresses(strings):
            return encoding, strings
        # Other writers take Zstandard also where LZ4 is asked for; each value has its own unit.
        level = options.level or 0
        start, stop = int(strings.offsets[0]), int(strings.offsets[-1])
        lengths = np.diff(strings.offsets).astype(np.int64)
        units, sizes = compress(Scheme.ZSTD, level, strings.data[start:stop], lengths)
        if len(units) >= stop - start:
            return encoding, strings
        # Lengths in the page are as wide as the offsets of the type: others refuse narrower ones.
        ends = np.zeros_like(strings.offsets)
        np.cumsum(sizes, out=ends[1:])
        return encodings.general(Scheme.ZSTD, level, encoding), VariableWidth(ends, units)
    coded = _codes(strings, options)
    if coded is not None:
        table, codes = coded
        return encodings.fsst(table, encoding), codes
    return encoding, strings


def has_codes(strings: VariableWidth, options: Options) -> bool:
    """Whether a symbol table is worth a trial."""
    return options.compression == "fsst" or (
        options.compression is None
        and _raw_bytes(strings) >= MIN_BYTES
        and _kernels.longest_string(strings.offsets) >= FSST_LENGTH
    )


def _codes(strings: VariableWidth, options: Options) -> tuple[bytes, VariableWidth] | None:
    """A symbol table and the strings as its codes, if that is wanted and makes them smaller."""
    return compressed(strings) if has_codes(strings, options) else None


def _raw_bytes(strings: VariableWidth) -> int:
    """Bytes and offsets of the strings."""
    return int(strings.offsets[-1]) - int(strings.offsets[0]) + strings.offsets.nbytes


def _compresses(strings: VariableWidth) -> bool:
    """Whether a sample of long strings becomes smaller: pictures and the like do not."""
    start, stop = int(strings.offsets[0]), int(strings.offsets[-1])
    middle = max(start, (start + stop - TRIAL_BYTES) // 2)
    sample = strings.data[middle : min(stop, middle + TRIAL_BYTES)]
    units, _ = compress(Scheme.ZSTD, None, sample, np.array([len(sample)], np.int64))
    return len(units) < WORTH_IT * len(sample)

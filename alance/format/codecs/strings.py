"""Byte strings: raw, or with codes of one byte, each for a symbol of 1 to 8 bytes.

Strings have offsets of 32 or 64 bits. In mini-blocks, a chunk has one buffer; an offset has o
bytes:

    o * (n + 1)   offsets from the start of the buffer; the first is the start of the bytes
    ...           bytes
    0 to o - 1    padding to a multiple of o

A block (a dictionary) has one buffer; a word has as many bits as an offset:

    word            bits of an offset: 32 or 64
    word            start of the bytes, from the start of the buffer
    word * (n + 1)  offsets from the start of the bytes; the first is 0
    ...             bytes

Early writers began a block with one byte for the bits of an offset, then the number of values. In
zipped rows, a value is stored as its bytes; the layout stores their number.

A table of symbols:

    u8          n, number of symbols, 0 to 255
    u8, u8      terminator and suffix limit of the encoder, unused here
    u8          flags; if bit 0 is clear, the strings are not compressed
    4 bytes     magic 54 53 53 46
    8 * n       symbols, first byte first
    n           lengths of the symbols
    ...         padding to 2312 bytes

Source: encodings_v2_1.proto, messages Variable and Fsst; docs/format/encodings.md, "Variable" and
"Fsst".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance.errors import CorruptFileError
from alance.format.codecs.base import expect, nested_flat_bits, refuse_compression

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, UInt64s
    from alance.format.proto import encodings_v2_1_pb2 as pb

TABLE_BYTES: Final = 2312  # bytes of a table: header, 256 symbols, 256 lengths
FSST_MAGIC: Final = bytes.fromhex("54535346")
HEADER_BYTES: Final = 8
MAX_SYMBOL_BYTES: Final = 8
_LENGTHS: Final = frozenset(range(1, MAX_SYMBOL_BYTES + 1))


def offset_bits(message: pb.Variable) -> int:
    """Return the bits of plain offsets, 32 or 64."""
    refuse_compression(message, "values")
    return nested_flat_bits(message.offsets, (32, 64), "offsets")


class SymbolTable(NamedTuple):
    """Symbols of an FSST table, by code."""

    symbols: UInt64s  # shape (n,), first byte lowest; bytes after a symbol's end are arbitrary
    lengths: Bytes  # shape (n,), 1 to 8

    @classmethod
    def parse(cls, table: bytes) -> SymbolTable | None:
        """Parse the table in a description; None if the strings are not compressed."""
        if len(table) != TABLE_BYTES:
            raise CorruptFileError(f"fsst: a table of {len(table)} bytes, expected {TABLE_BYTES}")
        if table[4:HEADER_BYTES] != FSST_MAGIC:
            raise CorruptFileError(f"fsst: a table with magic {table[4:HEADER_BYTES].hex()}")
        if not table[3] & 1:
            return None
        size = table[0]
        symbols = np.frombuffer(table, "<u8", size, HEADER_BYTES)
        lengths = np.frombuffer(table, np.uint8, size, HEADER_BYTES + 8 * size)
        if not _LENGTHS.issuperset(lengths.data):
            raise CorruptFileError("fsst: a symbol that is not of 1 to 8 bytes")
        return cls(symbols, lengths)


def coded_strings(message: pb.Fsst) -> tuple[SymbolTable | None, int]:
    """Return the symbols of strings (None if they are not compressed), and the bits of offsets."""
    expect(message.values, ("variable",), "fsst")
    bits = offset_bits(message.values.variable)
    return SymbolTable.parse(message.symbol_table), bits

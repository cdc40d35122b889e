"""Codecs for byte strings: raw, or with codes of one byte, each for a symbol of 1 to 8 bytes.

The module `sequence` has strings of 2.3 whose offsets are a sequence.

Source: encodings_v2_1.proto, messages Variable and Fsst; docs/format/encodings.md, "Variable" and
"Fsst".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal, NamedTuple

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import BatchTooLargeError, CorruptFileError, kernel_errors
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import expect, nested_flat_bits, refuse_compression

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Bytes, Int32s, Int64s, UInt64s
    from alance.format.proto import encodings_v2_1_pb2 as pb

TABLE_BYTES: Final = 2312  # bytes of a table: header, 256 symbols, 256 lengths
FSST_MAGIC: Final = bytes.fromhex("54535346")
HEADER_BYTES: Final = 8
MAX_SYMBOL_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Variable:
    """Byte strings with offsets of 32 or 64 bits.

    In mini-blocks, a chunk has one buffer; an offset has o bytes:

        o * (n + 1)   offsets from the start of the buffer; the first is the start of the bytes
        ...           bytes
        0 to o - 1    padding to a multiple of o

    A block (a dictionary) has one buffer; a word has as many bits as an offset:

        word            bits of an offset: 32 or 64
        word            start of the bytes, from the start of the buffer
        word * (n + 1)  offsets from the start of the bytes; the first is 0
        ...             bytes

    Early writers began a block with one byte for the bits of an offset, then the number of values.
    In zipped rows, a value is stored as its bytes; the layout stores their number.
    """

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    bits_per_offset: int  # 32 or 64

    @classmethod
    def from_proto(cls, message: pb.Variable) -> Variable:
        refuse_compression(message, "values")
        return cls(nested_flat_bits(message.offsets, (32, 64), "offsets"))

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> VariableWidth:
        chunk, word = buffers[0], self.bits_per_offset // 8
        if num_values == 0 and len(chunk) == 0:
            return VariableWidth(np.zeros(1, f"i{word}"), chunk)
        if len(chunk) % word or num_values >= len(chunk) // word:
            raise CorruptFileError(
                f"variable: a chunk of {len(chunk)} bytes for {num_values} values with offsets "
                f"of {word}"
            )
        stored = chunk[: word * (num_values + 1)].view(f"<i{word}")
        first, last = int(stored[0]), int(stored[-1])
        if not word * (num_values + 1) <= first <= last <= len(chunk):
            raise CorruptFileError(
                f"variable: values from {first} to {last} in a chunk of {len(chunk)} bytes"
            )
        if (stored[1:] < stored[:-1]).any():
            raise CorruptFileError("variable: offsets decrease")
        return VariableWidth(stored - stored[0], chunk[first:last].copy())

    def decode_block(self, data: Bytes, num_values: int) -> VariableWidth:
        block, word = data, self.bits_per_offset // 8
        offsets_start, bits, bytes_start = self._block_header(block, num_values)
        if bits != self.bits_per_offset:
            raise CorruptFileError(
                f"variable: a block with offsets of {bits} bits, described are "
                f"{self.bits_per_offset}"
            )
        offsets_stop = offsets_start + word * (num_values + 1)
        if not offsets_stop <= bytes_start <= len(block):
            raise CorruptFileError(
                f"variable: {num_values} values whose bytes begin at {bytes_start} "
                f"of {len(block)} bytes"
            )
        offsets = np.frombuffer(block[offsets_start:offsets_stop].tobytes(), f"<i{word}")
        if offsets[0] != 0 or np.any(offsets[1:] < offsets[:-1]):
            raise CorruptFileError("variable: offsets of a block do not rise from 0")
        if (num_bytes := int(offsets[-1])) > len(block) - bytes_start:
            raise CorruptFileError(
                f"variable: offsets to {num_bytes} in {len(block) - bytes_start} bytes"
            )
        return VariableWidth(offsets, block[bytes_start : bytes_start + num_bytes].copy())

    def _block_header(self, block: Bytes, num_values: int) -> tuple[int, int, int]:
        """Return the start of the offsets, the bits per offset, and the start of the bytes."""
        word = self.bits_per_offset // 8
        if len(block) < 1 + 2 * word:
            raise CorruptFileError(f"variable: a block of {len(block)} bytes")
        if block[1:4].any():  # true for blocks of early writers: the number of values
            count, bytes_start = (int(x) for x in np.frombuffer(block, f"<u{word}", 2, offset=1))
            if count != num_values:
                raise CorruptFileError(f"variable: a block of {count} values, not {num_values}")
            return 1 + 2 * word, int(block[0]), bytes_start
        bits, bytes_start = (int(x) for x in np.frombuffer(block, f"<u{word}", 2))
        return 2 * word, bits, bytes_start

    def decode_values(self, values: FixedWidth | VariableWidth) -> VariableWidth:
        strings = check_variable(values)
        return VariableWidth(self.offsets_of(strings), strings.data)

    def offsets_of(self, strings: VariableWidth) -> Int32s | Int64s:
        """Convert the offsets of strings to `bits_per_offset` bits.

        Raises:
            BatchTooLargeError: the strings have more bytes than 32-bit offsets can address.
        """
        if self.bits_per_offset == 64:
            return strings.offsets.astype(np.int64, copy=False)
        if (num_bytes := int(strings.offsets[-1])) > np.iinfo(np.int32).max:
            raise BatchTooLargeError(
                f"strings of {num_bytes} bytes with 32-bit offsets: read fewer rows at once"
            )
        return strings.offsets.astype(np.int32, copy=False)

    def max_bytes(self, num_values: int) -> None:
        return None


def check_variable(values: FixedWidth | VariableWidth) -> VariableWidth:
    """Return zipped values after checking that they have variable width.

    Raises:
        CorruptFileError: the values are fixed-width.
    """
    if isinstance(values, FixedWidth):
        raise CorruptFileError(f"values of {values.bits_per_value} bits, described as variable")
    return values


class SymbolTable(NamedTuple):
    """Symbols of an FSST table, by code. The description has them as

    u8          n, number of symbols, 0 to 255
    u8, u8      terminator and suffix limit of the encoder, unused here
    u8          flags; if bit 0 is clear, the strings are not compressed
    4 bytes     magic 54 53 53 46
    8 * n       symbols, first byte first
    n           lengths of the symbols
    ...         padding to 2312 bytes
    """

    symbols: UInt64s  # shape (n,), first byte lowest; bytes after a symbol's end are arbitrary
    lengths: Bytes  # shape (n,), 1 to 8

    @classmethod
    def parse(cls, table: bytes) -> SymbolTable | None:
        """Parse the table in a description; None if the strings are not compressed.

        Raises:
            CorruptFileError: the size or magic is wrong, or a length is out of range.
        """
        if len(table) != TABLE_BYTES:
            raise CorruptFileError(f"fsst: a table of {len(table)} bytes, expected {TABLE_BYTES}")
        if table[4:HEADER_BYTES] != FSST_MAGIC:
            raise CorruptFileError(f"fsst: a table with magic {table[4:HEADER_BYTES].hex()}")
        if not table[3] & 1:
            return None
        size = table[0]
        symbols = np.frombuffer(table, "<u8", size, HEADER_BYTES)
        lengths = np.frombuffer(table, np.uint8, size, HEADER_BYTES + 8 * size)
        if size and not 1 <= lengths.min() <= lengths.max() <= MAX_SYMBOL_BYTES:
            raise CorruptFileError("fsst: a symbol that is not of 1 to 8 bytes")
        return cls(symbols, lengths)


@dataclass(frozen=True, slots=True)
class Fsst:
    """Strings compressed by a symbol table, and stored by Variable."""

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    table: SymbolTable | None  # None if strings are not compressed
    inner: Variable

    @classmethod
    def from_proto(cls, message: pb.Fsst) -> Fsst:
        expect(message.values, ("variable",), "fsst")
        return cls(
            SymbolTable.parse(message.symbol_table), Variable.from_proto(message.values.variable)
        )

    def decode_chunk(self, buffers: Sequence[Bytes], num_values: int) -> VariableWidth:
        return self._expand(self.inner.decode_chunk(buffers, num_values))

    def decode_values(self, values: FixedWidth | VariableWidth) -> VariableWidth:
        return self._expand(self.inner.decode_values(values))

    def _expand(self, strings: VariableWidth) -> VariableWidth:
        if self.table is None:
            return strings
        with kernel_errors:
            return VariableWidth(
                *_kernels.decode_fsst(
                    strings.offsets, strings.data, self.table.symbols, self.table.lengths
                )
            )

    def max_bytes(self, num_values: int) -> None:
        return None

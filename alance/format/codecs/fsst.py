"""FSST codec: strings as codes of one byte, each for a symbol of 1 to 8 bytes.

The compressed strings are stored by Variable. The symbol table stands in the description:

    u8          n, number of symbols, 0 to 255
    u8, u8      terminator and suffix limit of the encoder, of no use here
    u8          flags: bit 0 clear means that the strings are stored as they are
    4 bytes     magic 54 53 53 46
    8 * n       symbols, first byte first
    n           their lengths
    ...         filler, 2312 bytes in all

Source: encodings_v2_1.proto, message Fsst; docs/format/encodings.md, "Fsst".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np

from alance import _kernels
from alance.errors import CorruptFileError
from alance.format.blocks import FixedWidth, VariableWidth
from alance.format.codecs.base import ChunkBuffers, kernel_errors
from alance.format.codecs.describe import expect
from alance.format.codecs.variable import Variable

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.blocks import Bytes
    from alance.format.proto import encodings_v2_1_pb2 as pb

TABLE_BYTES: Final = 2312  # header, 256 symbols, 256 lengths
MAGIC: Final = bytes.fromhex("54535346")
HEADER_BYTES: Final = 8
MAX_SYMBOL_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """The symbols that the codes stand for."""

    symbols: npt.NDArray[np.uint64]  # shape (n,): first byte lowest, bytes behind the length any
    lengths: Bytes  # shape (n,), 1 to 8

    @classmethod
    def parse(cls, table: bytes) -> SymbolTable | None:
        """The table of a description; None if the strings are not compressed.

        Raises:
            CorruptFileError: wrong size, magic, or a length out of range.
        """
        if len(table) != TABLE_BYTES:
            raise CorruptFileError(f"fsst: a table of {len(table)} bytes, expected {TABLE_BYTES}")
        if table[4:HEADER_BYTES] != MAGIC:
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
    """Strings under a symbol table, or plain strings where the table says so."""

    num_buffers: ClassVar[int] = 1
    encoded: ClassVar[Literal["variable"]] = "variable"
    bits_per_value: ClassVar[None] = None

    table: SymbolTable | None  # None: strings are stored as they are
    inner: Variable

    @classmethod
    def from_proto(cls, message: pb.Fsst) -> Fsst:
        expect(message.values, ("variable",), "fsst")
        return cls(
            SymbolTable.parse(message.symbol_table), Variable.from_proto(message.values.variable)
        )

    def decode_chunks(self, chunks: ChunkBuffers) -> VariableWidth:
        table = self.table
        if table is None:
            return self.inner.decode_chunks(chunks)
        is_short = self.inner.bits_per_offset == 32
        decode = _kernels.decode_fsst_chunks_32 if is_short else _kernels.decode_fsst_chunks_64
        spans = chunks.starts[0], chunks.sizes[0], chunks.counts
        with kernel_errors:
            return VariableWidth(*decode(chunks.data, *spans, table.symbols, table.lengths))

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

    def max_bytes(self, counts: npt.NDArray[np.int64]) -> None:
        return None

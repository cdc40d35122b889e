"""FSST of strings: a table learned from a sample of a page, and the strings as its codes.

Source: encodings_v2_1.proto, message Fsst; the table is drawn in `format/codecs/strings.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.format.blocks import VariableWidth
from alance.format.codecs.strings import HEADER_BYTES, MAGIC, TABLE_BYTES

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.format.blocks import Bytes

SAMPLE_BYTES: Final = 32768  # more finds hardly better symbols
MAX_BYTES: Final = 1 << 30  # all bytes may be escaped, and offsets have 32 bits
WORTH_IT: Final = 0.95  # of the bytes, with the table: else strings are read faster as they are


@dataclass(frozen=True, slots=True)
class Symbols:
    """The symbols that the codes stand for, as the kernels take them."""

    symbols: npt.NDArray[np.uint64]
    lengths: Bytes

    def table(self) -> bytes:
        """The table of a description, saying that strings are compressed."""
        header = bytes([len(self.symbols), 0, 0, 1]) + MAGIC
        assert len(header) == HEADER_BYTES
        content = header + self.symbols.astype("<u8").tobytes() + self.lengths.tobytes()
        return content.ljust(TABLE_BYTES, b"\0")


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
    table = Symbols(symbols, lengths).table()
    return table, VariableWidth(offsets, codes[: offsets[-1]])

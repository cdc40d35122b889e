"""Full-zip pages: large values, each directly after its levels and its length.

    buffer 0  zipped rows
    buffer 1  repetition index, if rows differ in length: num_rows + 1 unsigned integers of
              1, 2, 4 or 8 bytes, the offsets of all rows in buffer 0, and its end

A read of rows of equal length takes one round, and needs no state. Rows of varying length are
located by two entries of the index. A small index is part of the state. A large one stays in the
store, so that a read takes two rounds.

A row is a sequence of unaligned entries. An entry without a value slot only has a control word:

    control word    repetition << bits_def | definition, in 0, 1, 2 or 4 bytes
    fixed width     the value's bytes, also of a null
    variable width  a length of 4 or 8 bytes and the value's bytes; nothing for a null

Source: encodings_v2_1.proto, FullZipLayout; docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from alance.errors import CorruptFileError
from alance.format.codecs import per_value_codec
from alance.format.layouts.levels import Shape

if TYPE_CHECKING:
    from alance.format.codecs.base import PerValueCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb


class ZipForm(NamedTuple):
    """Parsed description: format of a page's entries."""

    shape: Shape
    bits_rep: int
    bits_def: int
    is_fixed: bool
    width: int  # bytes of a fixed-width value, or of a length
    codec: PerValueCodec
    num_items: int

    @classmethod
    def from_proto(cls, message: pb.FullZipLayout) -> ZipForm:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        if message.bits_rep > 16 or message.bits_def > 16:
            raise CorruptFileError(
                f"full-zip: levels of {message.bits_rep} and {message.bits_def} bits, at most 16"
            )
        codec = per_value_codec(message.value_compression)
        details = message.WhichOneof("details")
        is_fixed = details == "bits_per_value"
        if is_fixed:
            bits = message.bits_per_value
            if bits % 8:
                raise CorruptFileError(f"full-zip: values of {bits} bits are not whole bytes")
            if codec.encoded != "fixed" or codec.bits_per_value != bits:
                raise CorruptFileError(
                    f"full-zip: values of {bits} bits, the codec gives {codec.encoded} "
                    f"{codec.bits_per_value or 'width'}"
                )
        else:
            bits = message.bits_per_offset
            if details is None or bits not in (32, 64):
                raise CorruptFileError(f"full-zip: lengths of {bits} bits, expected 32 or 64")
            if codec.encoded != "variable":
                raise CorruptFileError("full-zip: values have lengths, the codec gives fixed width")
        shape = Shape.from_proto(message.layers)
        levels = message.bits_rep, message.bits_def
        return cls(shape, *levels, is_fixed, bits // 8, codec, message.num_items)

    @property
    def control_bytes(self) -> int:
        """Bytes per control word."""
        bits = self.bits_rep + self.bits_def
        return 0 if bits == 0 else 1 if bits <= 8 else 2 if bits <= 16 else 4

    @property
    def row_bytes(self) -> int | None:
        """Bytes per row; None if rows vary in length."""
        if self.is_fixed and not self.shape.has_lists:
            return self.control_bytes + self.width
        return None

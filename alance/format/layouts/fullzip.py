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

from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import ValuesForm
from alance.format.codecs.per_value import per_value_codec
from alance.format.layouts.levels import LevelsForm, Shape

if TYPE_CHECKING:
    from alance.format.codecs.base import PerValueCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb

# Bytes; an index of full-zip rows up to this size is loaded and kept. That is a quarter of a
# million rows of 1 KB, and to read it once costs more than a second round.
MAX_INDEX_BYTES: Final = 1 << 20


def zipped_form(
    message: pb.FullZipLayout, most_index_bytes: int = MAX_INDEX_BYTES
) -> _kernels.PageForm:
    bits_rep, bits_def = message.bits_rep, message.bits_def
    if bits_rep > 16 or bits_def > 16:
        raise CorruptFileError(f"full-zip: levels of {bits_rep} and {bits_def} bits, at most 16")
    codec = per_value_codec(message.value_compression)
    width = _width(message, codec)
    shape = Shape.from_proto(message.layers)
    if width == 0:
        raise UnsupportedError("full-zip: values of Constant")
    if width < 0 or shape.has_lists:
        maxima = shape.max_rep, shape.max_def, shape.max_visible
        form = _kernels.PageForm.zipped(
            width,
            (bits_rep, bits_def),
            maxima,
            codec.masks,
            codec.strings,
            codec.members,
            codec.num_members,
            message.num_items,
            most_index_bytes,
        )
    else:
        if bits_rep:
            raise UnsupportedError("full-zip: repetition levels without lists")
        control_bytes = 0 if bits_def == 0 else 1 if bits_def <= 8 else 2
        kind = ValuesForm.ZIPPED, 8 * width, LevelsForm.NONE, control_bytes, shape.max_def, False
        form = _kernels.PageForm(kind, None, message.num_items, False)
        form.set_masks(codec.masks)
    form.set_layers(*shape.code)
    if codec.has_null_items:
        form.set_null_items()
    return form


def _width(message: pb.FullZipLayout, codec: PerValueCodec) -> int:
    """Return the bytes of a fixed-width value, or minus the bytes of a length."""
    details = message.WhichOneof("details")
    if details == "bits_per_value":
        bits = message.bits_per_value
        if bits % 8:
            raise CorruptFileError(f"full-zip: values of {bits} bits are not whole bytes")
        if codec.bits != bits:
            raise CorruptFileError(
                f"full-zip: values of {bits} bits, the codec gives {codec.bits or 'variable width'}"
            )
        return bits // 8
    bits = message.bits_per_offset
    if details is None or bits not in (32, 64):
        raise CorruptFileError(f"full-zip: lengths of {bits} bits, expected 32 or 64")
    if codec.bits is not None:
        raise CorruptFileError("full-zip: values have lengths, the codec gives fixed width")
    return -(bits // 8)

"""Constant pages: all items have the same value, or are null.

    inline_value  buffers
    set           0        every item has the value
    set           2        raw u16 repetition levels, definition levels; either may be empty
    absent        1        the value
    absent        3        the value, raw repetition levels, raw definition levels
    absent        0        all null
    absent        2        all null; repetition and definition levels, perhaps compressed

The buffer of the value has: u32 n, n u32 sizes of Arrow buffers, and the n buffers of an array with
one value.

Source: encodings_v2_1.proto, ConstantLayout; docs/format/file.md, "Constant layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.block import block_codec
from alance.format.layouts.base import Layer
from alance.format.layouts.levels import Shape, levels_form

if TYPE_CHECKING:
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_INLINE_BYTES: Final = 32  # bytes of an inline value


def form_of(message: pb.ConstantLayout) -> _kernels.PageForm:
    size = len(message.inline_value)
    if size > MAX_INLINE_BYTES:
        raise CorruptFileError(
            f"constant: inline value of {size} bytes, at most {MAX_INLINE_BYTES}"
        )
    shape = Shape.from_proto(message.layers)
    has_rep, has_def = message.HasField("rep_compression"), message.HasField("def_compression")
    page_form = _kernels.PageForm.constant(
        message.inline_value if message.HasField("inline_value") else None,
        (shape.max_rep, shape.max_def, shape.max_visible),
        int(shape.layers[0] is Layer.NULLABLE_ITEM),
        _levels(message.rep_compression, message.num_rep_values) if has_rep else None,
        _levels(message.def_compression, message.num_def_values) if has_def else None,
    )
    page_form.set_layers(*shape.code)
    return page_form


def _levels(encoding: pb.CompressiveEncoding, count: int) -> tuple[int, int, int]:
    """Return the form of coded levels. Raw levels have none; the bytes give their number."""
    if count >> 62:
        raise CorruptFileError(f"constant: a block of {count} levels")
    form = levels_form(block_codec(encoding))
    if form is None:
        raise UnsupportedError("constant: levels that are decoded before use")
    return (*form, count)

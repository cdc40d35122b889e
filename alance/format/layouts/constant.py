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

from alance.errors import CorruptFileError
from alance.format.codecs import block_codec
from alance.format.layouts.levels import Shape
from alance.format.layouts.row_pages import constant_form

if TYPE_CHECKING:
    from alance import _kernels
    from alance.format.proto import encodings_v2_1_pb2 as pb

MAX_INLINE_BYTES: Final = 32  # bytes of an inline value


def form_of(message: pb.ConstantLayout) -> _kernels.PageForm:
    """Return the kernel's form of a description.

    Raises:
        CorruptFileError: a layer number is unknown, or a codec's description is invalid.
        UnsupportedError: a codec is unknown, or not allowed here.
    """
    has_value = message.HasField("inline_value")
    _check_value(message)
    has_rep, has_def = message.HasField("rep_compression"), message.HasField("def_compression")
    rep = block_codec(message.rep_compression) if has_rep else None
    definition = block_codec(message.def_compression) if has_def else None
    return constant_form(
        Shape.from_proto(message.layers),
        (rep, message.num_rep_values),
        (definition, message.num_def_values),
        message.inline_value if has_value else None,
    )


def _check_value(message: pb.ConstantLayout) -> None:
    size = len(message.inline_value)
    if size > MAX_INLINE_BYTES:
        raise CorruptFileError(
            f"constant: inline value of {size} bytes, at most {MAX_INLINE_BYTES}"
        )

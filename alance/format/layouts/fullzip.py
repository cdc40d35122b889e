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

Values are encoded one by one:

  flat                    a boolean is one byte, 0 or 1
  variable, fsst          the bytes of each string, or its codes
  general                 each string is compressed by itself
  fixed_size_list         as in `codecs.fixed`; items that are all null take no bytes
  variable_packed_struct  for each child its encoded value, behind the value's length (u32 or u64)
                          if sizes vary (2.2 and later)

Source: encodings_v2_1.proto, FullZipLayout; docs/format/file.md, "Full-zip layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import PerValueCodec, ValuesForm, expect, flat_bits, look_up
from alance.format.codecs.fixed import FixedSizeLists, packed_bits
from alance.format.codecs.general import Scheme
from alance.format.codecs.strings import coded_strings, offset_bits
from alance.format.layouts.base import LevelsForm, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alance.format.codecs.base import KernelMember
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
    shape = shape_of(*message.layers)
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


def per_value_codec(encoding: pb.CompressiveEncoding) -> PerValueCodec:
    return look_up(PER_VALUE, encoding, "full-zip pages")


def _flat(message: pb.Flat) -> PerValueCodec:
    bits = flat_bits(message)
    if bits % 8:
        raise UnsupportedError(f"flat: zipped values of {bits} bits")
    return PerValueCodec(bits)


def _variable(message: pb.Variable) -> PerValueCodec:
    offset_bits(message)
    return PerValueCodec(None)


def _fsst(message: pb.Fsst) -> PerValueCodec:
    symbols, _ = coded_strings(message)
    return PerValueCodec(None, strings=(symbols, 0))


def _general(message: pb.General) -> PerValueCodec:
    expect(message.values, ("variable",), "general values")
    offset_bits(message.values.variable)
    return PerValueCodec(None, strings=(None, int(Scheme.from_proto(message.compression))))


def _fixed_size_list(message: pb.FixedSizeList) -> PerValueCodec:
    lists = FixedSizeLists.from_proto(message)
    return PerValueCodec(lists.row_bits, lists.masks, has_null_items=lists.item_bits == 0)


def _variable_packed_struct(message: pb.VariablePackedStruct) -> PerValueCodec:
    if not message.fields:
        raise CorruptFileError("variable packed struct: no children")
    members = [member for child in message.fields for member in _members(child)]
    return PerValueCodec(None, members=members, num_members=len(message.fields))


def _members(message: pb.VariablePackedStruct.FieldEncoding) -> Sequence[KernelMember]:
    """Return a member, followed by the members inside it."""
    expect(message.value, PER_VALUE, "variable packed struct")
    codec = per_value_codec(message.value)
    layout = message.WhichOneof("layout")
    expected = "bits_per_length" if codec.bits is None else "bits_per_value"
    if layout != expected:
        raise CorruptFileError(f"variable packed struct: {layout}, its codec has {expected}")
    if codec.bits is None:
        if message.bits_per_length not in (32, 64):
            raise UnsupportedError(
                f"variable packed struct: lengths of {message.bits_per_length} bits"
            )
        width = -(message.bits_per_length // 8)
        return [(width, codec.strings, (), codec.num_members), *codec.members]
    if message.bits_per_value != codec.bits:
        raise CorruptFileError(
            f"variable packed struct: a child of {message.bits_per_value} bits, "
            f"its codec has {codec.bits}"
        )
    if codec.has_null_items:
        raise UnsupportedError("variable packed struct: a child of lists of nulls")
    return [(codec.bits // 8, codec.strings, codec.masks, 0)]


PER_VALUE: Final[Mapping[str, Callable[[Any], PerValueCodec]]] = {
    "flat": _flat,
    "variable": _variable,
    "fsst": _fsst,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
    "packed_struct": lambda message: PerValueCodec(packed_bits(message)),
    "variable_packed_struct": _variable_packed_struct,
}

"""Codecs of values that are encoded one by one, as in full-zip pages.

  flat                    a boolean is one byte, 0 or 1
  variable, fsst          the bytes of each string, or its codes
  general                 each string is compressed by itself
  constant                no bytes; only the items of fixed-size lists
  variable_packed_struct  for each child its encoded value, behind the value's length (u32 or u64)
                          if sizes vary (2.2 and later)

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import PerValueCodec, expect, flat_bits, look_up
from alance.format.codecs.fixed import FixedSizeLists, packed_bits
from alance.format.codecs.general import Scheme
from alance.format.codecs.strings import coded_strings, offset_bits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from alance.format.codecs.base import KernelMember
    from alance.format.proto import encodings_v2_1_pb2 as pb


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


def _packed_struct(message: pb.PackedStruct) -> PerValueCodec:
    return PerValueCodec(packed_bits(message))


def _variable_packed_struct(message: pb.VariablePackedStruct) -> PerValueCodec:
    if not message.fields:
        raise CorruptFileError("variable packed struct: no children")
    members = [member for child in message.fields for member in _members(child)]
    return PerValueCodec(None, members=members, num_members=len(message.fields))


def _members(message: pb.VariablePackedStruct.FieldEncoding) -> Sequence[KernelMember]:
    """Return a member, followed by the members inside it."""
    expect(message.value, PER_VALUE.keys() - {"constant"}, "variable packed struct")
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


def _constant(message: pb.Constant) -> PerValueCodec:
    if not message.value:
        raise UnsupportedError("constant without a value: nulls are told by levels")
    return PerValueCodec(0)


PER_VALUE: Final[Mapping[str, Callable[[Any], PerValueCodec]]] = {
    "flat": _flat,
    "variable": _variable,
    "fsst": _fsst,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
    "packed_struct": _packed_struct,
    "variable_packed_struct": _variable_packed_struct,
    "constant": _constant,
}

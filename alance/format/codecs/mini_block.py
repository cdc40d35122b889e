"""Codecs of the values of mini-block pages.

  flat               values in one buffer; booleans, the only values that are not whole bytes, are
                     packed without gaps, LSB first
  byte_stream_split  byte 0 of all values of a chunk, then byte 1 of all values, and so on
  variable           a chunk of n strings has n + 1 offsets: in the buffer of the bytes, or a
                     sequence, whose payload, if it has one, is a buffer before that of the bytes
  general            the first buffer of each chunk is compressed

Other modules have the codecs of several places.

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.errors import UnsupportedError
from alance.format.codecs.base import (
    MiniBlockCodec,
    ValuesForm,
    expect,
    flat_bits,
    kernel_bits,
    look_up,
    nested_flat_bits,
    refuse_compression,
    variant,
)
from alance.format.codecs.fixed import FixedSizeLists, packed_bits
from alance.format.codecs.general import Scheme
from alance.format.codecs.sequence import sequence_codec
from alance.format.codecs.strings import coded_strings, offset_bits
from alance.format.codecs.words import are_plain, inline_numbers, runs_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.proto import encodings_v2_1_pb2 as pb


def mini_block_codec(encoding: pb.CompressiveEncoding) -> MiniBlockCodec:
    return look_up(MINI_BLOCK, encoding, "mini-blocks")


def _flat(message: pb.Flat) -> MiniBlockCodec:
    bits = flat_bits(message)
    if bits != 1 and bits % 8:
        raise UnsupportedError(f"mini-block: values of {bits} bits")
    return MiniBlockCodec(ValuesForm.FLAT, kernel_bits(bits))


def _variable(message: pb.Variable) -> MiniBlockCodec:
    if variant(message.offsets) == "flat":
        return MiniBlockCodec(ValuesForm.STRINGS, offset_bits(message))
    refuse_compression(message, "values")
    offsets = sequence_codec(message.offsets, bits=32)
    num_buffers = 1 + offsets.has_payload
    return MiniBlockCodec(ValuesForm.STRINGS, offsets.bits, num_buffers, offsets=offsets)


def _fsst(message: pb.Fsst) -> MiniBlockCodec:
    symbols, bits = coded_strings(message)
    kind = ValuesForm.STRINGS if symbols is None else ValuesForm.FSST
    return MiniBlockCodec(kind, bits, symbols=symbols)


def _inline_bitpacking(message: pb.InlineBitpacking) -> MiniBlockCodec:
    return MiniBlockCodec(ValuesForm.PACKED, inline_numbers(message).bits)


def _rle(message: pb.Rle) -> MiniBlockCodec:
    runs = runs_of(message)
    bits = runs[0].bits
    if are_plain(runs):
        return MiniBlockCodec(ValuesForm.RUNS, bits, 2)
    return MiniBlockCodec(ValuesForm.FLAT, bits, 2, runs=runs)


def _byte_stream_split(message: pb.ByteStreamSplit) -> MiniBlockCodec:
    bits = nested_flat_bits(message.values, (32, 64), "byte stream split")
    return MiniBlockCodec(ValuesForm.SPLIT, bits)


def _general(message: pb.General) -> MiniBlockCodec:
    expect(message.values, MINI_BLOCK.keys() - {"packed_struct", "general"}, "general")
    scheme = Scheme.from_proto(message.compression)
    return mini_block_codec(message.values)._replace(scheme=int(scheme))


def _fixed_size_list(message: pb.FixedSizeList) -> MiniBlockCodec:
    lists = FixedSizeLists.from_proto(message)
    if lists.item_bits == 0:
        raise UnsupportedError("fixed-size list of constant items in mini-blocks")
    bits = kernel_bits(lists.item_bits)
    return MiniBlockCodec(ValuesForm.FLAT, bits, lists.num_buffers, masks=lists.masks)


def _packed_struct(message: pb.PackedStruct) -> MiniBlockCodec:
    return MiniBlockCodec(ValuesForm.FLAT, kernel_bits(packed_bits(message)))


MINI_BLOCK: Final[Mapping[str, Callable[[Any], MiniBlockCodec]]] = {
    "flat": _flat,
    "variable": _variable,
    "inline_bitpacking": _inline_bitpacking,
    "fsst": _fsst,
    "rle": _rle,
    "byte_stream_split": _byte_stream_split,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
    "packed_struct": _packed_struct,
}

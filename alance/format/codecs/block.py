"""Codecs of values in a single buffer: the levels of a chunk, or a dictionary.

  flat, variable     the items of a dictionary as they are, perhaps compressed
  fixed_size_list    items in the format of zipped rows

Words are in `words.py`.

Source: encodings_v2_1.proto, CompressiveEncoding; docs/format/encodings.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.errors import UnsupportedError
from alance.format.codecs.base import BlockCodec, expect, kernel_bits, look_up
from alance.format.codecs.fixed import FixedSizeLists
from alance.format.codecs.general import Scheme
from alance.format.codecs.strings import offset_bits
from alance.format.codecs.words import (
    WORD_BITS,
    flat_numbers,
    inline_numbers,
    packed_numbers,
    runs_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.codecs.words import KernelNumbers
    from alance.format.proto import encodings_v2_1_pb2 as pb


def block_codec(encoding: pb.CompressiveEncoding) -> BlockCodec:
    return look_up(BLOCK, encoding, "blocks")


def _flat(message: pb.Flat) -> BlockCodec:
    numbers = flat_numbers(message)
    words = (numbers, None) if numbers.bits in WORD_BITS else None
    return BlockCodec(numbers.bits, words, is_raw=numbers.bits % 8 == 0)


def _packed(numbers: KernelNumbers) -> BlockCodec:
    return BlockCodec(numbers.bits, (numbers, None))


def _rle(message: pb.Rle) -> BlockCodec:
    runs = runs_of(message)
    return BlockCodec(runs[0].bits, (None, runs))


def _general(message: pb.General) -> BlockCodec:
    expect(message.values, ("flat", "variable", "fixed_size_list"), "general block")
    scheme = int(Scheme.from_proto(message.compression))
    codec = block_codec(message.values)
    words = codec.words
    if words is not None and words[0] is not None:
        words = words[0]._replace(scheme=scheme), None
    return codec._replace(words=words, scheme=scheme)


def _fixed_size_list(message: pb.FixedSizeList) -> BlockCodec:
    lists = FixedSizeLists.from_proto(message)
    bits = kernel_bits(lists.row_bits)
    if lists.item_bits == 0:
        raise UnsupportedError("fixed-size list of constant items in blocks")
    return BlockCodec(bits, is_raw=True, masks=lists.masks)


BLOCK: Final[Mapping[str, Callable[[Any], BlockCodec]]] = {
    "flat": _flat,
    "variable": lambda message: BlockCodec(offset_bits(message), is_raw=True, is_text=True),
    "inline_bitpacking": lambda message: _packed(inline_numbers(message)),
    "out_of_line_bitpacking": lambda message: _packed(packed_numbers(message)),
    "rle": _rle,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
}

"""Mini-block pages: small values in chunks; a chunk is decoded as a whole.

    buffer 0     chunk words
    buffer 1     the chunks
    buffer 2     dictionary items, if the values are indices into them
    last buffer  repetition index, if the page has lists

The page's state has the chunk words, the repetition index and the dictionary. With it, a read of
rows takes one round. A chunk:

    u16              number of entries of the chunk; 0 if it has no levels
    u16              size of the repetition levels, if the page has them
    u16              size of the definition levels, if the page has them
    u16 or u32, n x  sizes of the value buffers
    padding to 8     then each buffer with padding to 8

Codecs of the values:

  flat               values in one buffer; booleans, the only values that are not whole bytes, are
                     packed without gaps, LSB first
  byte_stream_split  byte 0 of all values of a chunk, then byte 1 of all values, and so on
  variable           a chunk of n strings has n + 1 offsets: in the buffer of the bytes, or a
                     sequence, whose payload, if it has one, is a buffer before that of the bytes
  general            the first buffer of each chunk is compressed

The modules of `codecs` have the codecs of several places.

Source: encodings_v2_1.proto, MiniBlockLayout; docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
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
from alance.format.codecs.block import block_codec
from alance.format.codecs.fixed import FixedSizeLists, packed_bits
from alance.format.codecs.general import Scheme
from alance.format.codecs.sequence import sequence_codec
from alance.format.codecs.strings import coded_strings, offset_bits
from alance.format.codecs.words import are_plain, inline_numbers, runs_of
from alance.format.layouts.base import LevelsForm, levels_form, shape_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.codecs.base import BlockCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb


INDEX_FORMS: Final = (ValuesForm.FLAT, ValuesForm.PACKED, ValuesForm.RUNS, ValuesForm.SPLIT)
INDEX_BITS: Final = (8, 16, 32, 64)  # the kernel reads an index as a single word


def chunked_form(message: pb.MiniBlockLayout) -> _kernels.PageForm:
    shape = shape_of(*message.layers)
    if shape.has_lists:
        _check_lists(message)
    codec = mini_block_codec(message.value_compression)
    if codec.num_buffers != message.num_buffers:
        raise CorruptFileError(
            f"mini-block: {message.num_buffers} value buffers, the codec has {codec.num_buffers}"
        )
    has_rep, has_def = message.HasField("rep_compression"), message.HasField("def_compression")
    rep = block_codec(message.rep_compression) if has_rep else None
    definition = block_codec(message.def_compression) if has_def else None
    nulls, reps = _any_levels(definition), _any_levels(rep)
    if shape.has_lists != has_rep or has_def > shape.max_def:
        raise CorruptFileError("mini-block: levels that the layers do not have")
    has_items = message.HasField("dictionary")
    if has_items and (codec.kind not in INDEX_FORMS or codec.bits not in INDEX_BITS):
        raise CorruptFileError("mini-block: dictionary indices have 8, 16, 32 or 64 bits")
    form = _kernels.PageForm(
        (codec.kind, codec.bits, *nulls, shape.max_def, message.has_large_chunk),
        (*reps, shape.max_rep, shape.max_visible) if shape.has_lists else None,
        message.num_items,
        has_items,
    )
    form.set_layers(*shape.code)
    form.set_masks(codec.masks)
    form.set_scheme(codec.scheme)
    for levels, are_reps in ((definition, False), (rep, True)):
        if levels is not None and levels_form(levels) is None:
            form.set_coded_levels(words_of(levels), are_reps)
    if codec.offsets is not None:
        form.set_offsets(codec.offsets)
    if codec.runs is not None:
        form.set_runs(codec.runs)
    if codec.symbols is not None:
        form.set_symbols(*codec.symbols)
    if has_items:
        _set_items(form, block_codec(message.dictionary), message.num_dictionary_items)
    return form


def _check_lists(message: pb.MiniBlockLayout) -> None:
    depth = message.repetition_index_depth
    if depth > 1:
        raise UnsupportedError(f"mini-block: repetition index of depth {depth}, known is 1")
    if depth < 1:
        raise CorruptFileError("mini-block: layers have lists, but there is no index of rows")
    if not message.HasField("rep_compression"):
        raise CorruptFileError("mini-block: layers have lists, but there are no levels of them")


def _any_levels(codec: BlockCodec | None) -> tuple[LevelsForm, int]:
    """Return the form of levels of any codec: `FLAT` for words, which are decoded before use."""
    return levels_form(codec) or (LevelsForm.FLAT, 0)


def _set_items(form: _kernels.PageForm, codec: BlockCodec, num_items: int) -> None:
    """Set the form of the items of a dictionary."""
    if num_items >> 62:
        raise CorruptFileError(f"mini-block: {num_items} dictionary items")
    if not codec.is_raw:
        form.set_coded_items(words_of(codec), num_items)
        return
    form.set_items(codec.is_text, codec.bits, num_items, codec.scheme)
    form.set_masks(codec.masks)


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


MINI_BLOCK: Final[Mapping[str, Callable[[Any], MiniBlockCodec]]] = {
    "flat": _flat,
    "variable": _variable,
    "inline_bitpacking": _inline_bitpacking,
    "fsst": _fsst,
    "rle": _rle,
    "byte_stream_split": _byte_stream_split,
    "general": _general,
    "fixed_size_list": _fixed_size_list,
    "packed_struct": lambda message: MiniBlockCodec(
        ValuesForm.FLAT, kernel_bits(packed_bits(message))
    ),
}

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

Source: encodings_v2_1.proto, MiniBlockLayout; docs/format/file.md, "Mini-block layout".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance import _kernels
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs.base import ValuesForm
from alance.format.codecs.block import block_codec
from alance.format.codecs.mini_block import mini_block_codec
from alance.format.layouts.levels import LevelsForm, Shape, levels_form, words_of

if TYPE_CHECKING:
    from alance.format.codecs.base import BlockCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb

INDEX_FORMS: Final = (ValuesForm.FLAT, ValuesForm.PACKED, ValuesForm.RUNS, ValuesForm.SPLIT)
INDEX_BITS: Final = (8, 16, 32, 64)  # the kernel reads an index as a single word


def chunked_form(message: pb.MiniBlockLayout) -> _kernels.PageForm:
    shape = Shape.from_proto(message.layers)
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
    form.set_item_masks(codec.masks)

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

from typing import TYPE_CHECKING, NamedTuple

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.codecs import block_codec, mini_block_codec
from alance.format.layouts.levels import Shape

if TYPE_CHECKING:
    from alance.format.codecs.base import BlockCodec, MiniBlockCodec
    from alance.format.proto import encodings_v2_1_pb2 as pb


class ChunkForm(NamedTuple):
    """Parsed description: format of a page's chunks."""

    shape: Shape
    rep: BlockCodec | None
    definition: BlockCodec | None
    values: MiniBlockCodec
    is_large: bool  # True if sizes of value buffers have 32 bits instead of 16
    items: BlockCodec | None  # codec of the dictionary; None if there is none
    num_items: int
    num_dictionary_items: int

    @classmethod
    def from_proto(cls, message: pb.MiniBlockLayout) -> ChunkForm:
        """Parse a description.

        Raises:
            CorruptFileError: the description is inconsistent.
            UnsupportedError: a codec is unknown, or not allowed here.
        """
        shape = Shape.from_proto(message.layers)
        if shape.has_lists:
            _check_lists(message)
        values = mini_block_codec(message.value_compression)
        if values.num_buffers != message.num_buffers:
            raise CorruptFileError(
                f"mini-block: {message.num_buffers} value buffers, the codec has "
                f"{values.num_buffers}"
            )
        has_rep = message.HasField("rep_compression")
        has_def = message.HasField("def_compression")
        if message.num_dictionary_items >> 62:
            raise CorruptFileError(f"mini-block: {message.num_dictionary_items} dictionary items")
        return cls(
            shape=shape,
            rep=block_codec(message.rep_compression) if has_rep else None,
            definition=block_codec(message.def_compression) if has_def else None,
            values=values,
            is_large=message.has_large_chunk,
            items=block_codec(message.dictionary) if message.HasField("dictionary") else None,
            num_items=message.num_items,
            num_dictionary_items=message.num_dictionary_items,
        )


def _check_lists(message: pb.MiniBlockLayout) -> None:
    depth = message.repetition_index_depth
    if depth > 1:
        raise UnsupportedError(f"mini-block: repetition index of depth {depth}, known is 1")
    if depth < 1:
        raise CorruptFileError("mini-block: layers have lists, but there is no index of rows")
    if not message.HasField("rep_compression"):
        raise CorruptFileError("mini-block: layers have lists, but there are no levels of them")

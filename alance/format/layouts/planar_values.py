"""Planes of values that are stored as mini-block and full-zip pages are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from alance.errors import CorruptFileError
from alance.format.layouts.fullzip import FullZipPage
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from alance.format.layouts.place import PagePlace
    from alance.format.proto import encodings_v2_3_pb2 as pb3

    Layers = list[pb.RepDefLayer]

MAX_COUNT: Final = (1 << 32) - 1  # of entries in a zipped page


def chunked_page(
    layers: Layers, message: pb3.ChunkedValues, num_items: int, place: PagePlace
) -> MiniBlockPage:
    """The mini-block page that chunks of values are.

    Raises:
        CorruptFileError: the description contradicts itself or the buffers.
        UnsupportedError: a codec that is not known, or not legal there.
    """
    levels = message.levels
    page = pb.MiniBlockLayout(
        value_compression=message.compression,
        layers=layers,
        num_buffers=message.num_buffers,
        repetition_index_depth=levels.repetition_index_depth,
        num_items=num_items,
        num_dictionary_items=message.num_dictionary_items,
        has_large_chunk=True,
    )
    if levels.HasField("repetition"):
        page.rep_compression.CopyFrom(levels.repetition)
    if levels.HasField("definition"):
        page.def_compression.CopyFrom(levels.definition)
    if message.HasField("dictionary"):
        page.dictionary.CopyFrom(message.dictionary)
    return MiniBlockPage.from_proto(page, place)


def zipped_page(layers: Layers, message: pb3.ZippedValues, place: PagePlace) -> FullZipPage:
    """The full-zip page that zipped values are.

    Raises:
        CorruptFileError: the description contradicts itself or the buffers.
        UnsupportedError: a codec that is not known, or not legal there.
    """
    addressing = message.WhichOneof("addressing")
    bits = 0 if addressing is None else getattr(message, addressing)
    if max(message.num_items, message.num_visible_items, bits) > MAX_COUNT:
        raise CorruptFileError(f"zipped: {message.num_items} entries of {bits} bits")
    page = pb.FullZipLayout(
        bits_rep=message.levels.bits_repetition,
        bits_def=message.levels.bits_definition,
        num_items=message.num_items,
        num_visible_items=message.num_visible_items,
        value_compression=message.compression,
        layers=layers,
    )
    if addressing is not None:
        setattr(page, addressing, bits)
    return FullZipPage.from_proto(page, place)

"""Pages of file version 2.3: a plane of structure and a plane of values, each chosen on its own.

Dense pages are those of 2.2 under another description:

    chunked   a mini-block page whose chunk words and value sizes have 32 bits
    zipped    a full-zip page
    constant  a constant page without levels or buffers
    none      a page of one layer, all null

Sparse pages are told in `sparse.py`.

Source: encodings_v2_3.proto, PlanarLayout; format notes, "planar pages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.layouts.base import Layer
from alance.format.layouts.constant import ConstantPage
from alance.format.layouts.fullzip import FullZipPage
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.place import PagePlace
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.layouts.base import PageLayout

    Layers = list[pb.RepDefLayer]

PLANAR_LAYOUT: Final = "/lance.encodings23.PlanarLayout"
MAX_COUNT: Final = (1 << 32) - 1  # of entries in a zipped page


def planar_page(content: bytes, place: PagePlace) -> PageLayout:
    """The layout of a page from a serialized PlanarLayout.

    Raises:
        CorruptFileError: the description contradicts itself or the buffers.
        UnsupportedError: a codec that is not known, or not legal there.
        DecodeError: no such message.
    """
    message = pb3.PlanarLayout.FromString(content)
    structure = message.structure.WhichOneof("codec")
    values = message.values.WhichOneof("codec")
    if structure is None or values is None:
        raise CorruptFileError(f"planar: structure {structure}, values {values}: both are needed")
    if structure == "sparse":
        raise UnsupportedError("planar: sparse structure is not read yet")
    if values not in DENSE:
        raise CorruptFileError(f"planar: {values} values with dense structure")
    layers = list(message.structure.dense.layers)
    return DENSE[values](layers, getattr(message.values, values), place)


def _chunked(layers: Layers, message: pb3.ChunkedValues, place: PagePlace) -> PageLayout:
    if not message.HasField("levels"):
        raise CorruptFileError("planar: dense chunks that do not say how their levels are stored")
    levels = message.levels
    page = pb.MiniBlockLayout(
        value_compression=message.compression,
        layers=layers,
        num_buffers=message.num_buffers,
        repetition_index_depth=levels.repetition_index_depth,
        num_items=message.num_items,
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


def _zipped(layers: Layers, message: pb3.ZippedValues, place: PagePlace) -> PageLayout:
    if not message.HasField("levels"):
        raise CorruptFileError("planar: dense rows that do not say how their levels are stored")
    return zipped_page(layers, message, place)


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


def _constant(layers: Layers, message: pb3.ConstantValue, place: PagePlace) -> PageLayout:
    if any(int(layer) != Layer.ALL_VALID_ITEM for layer in layers):
        raise CorruptFileError(f"planar: a dense constant under layers {layers[:20]}")
    if not message.scalar:
        raise CorruptFileError("planar: a constant of 0 bytes")
    page = pb.ConstantLayout(layers=layers, inline_value=message.scalar)
    return ConstantPage.from_proto(page, _without_buffers(place))


def _none(layers: Layers, message: pb3.NoValues, place: PagePlace) -> PageLayout:
    if [int(layer) for layer in layers] != [Layer.NULLABLE_ITEM]:
        raise CorruptFileError(f"planar: no values under dense layers {layers[:20]}")
    return ConstantPage.from_proto(pb.ConstantLayout(layers=layers), _without_buffers(place))


def _without_buffers(place: PagePlace) -> PagePlace:
    return PagePlace(place.path, (), place.num_rows)


DENSE: Final[Mapping[str, Callable[[Layers, Any, PagePlace], PageLayout]]] = {
    "chunked": _chunked,
    "zipped": _zipped,
    "constant": _constant,
    "none": _none,
}

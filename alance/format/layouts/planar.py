"""Pages of file version 2.3: independent descriptions of structure and of values.

Pages with dense structure are pages of 2.2 with another description:

    chunked   a mini-block page whose chunk words and value sizes have 32 bits
    zipped    a full-zip page
    constant  a constant page without levels or buffers
    none      a page of one layer, all null

`sparse.py` has the pages with sparse structure.

Source: encodings_v2_3.proto, PlanarLayout; docs/format/file.md, "Planar pages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from alance.errors import CorruptFileError
from alance.format.layouts.base import Layer
from alance.format.layouts.constant import ConstantPage
from alance.format.layouts.fullzip import FullZipPage
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.place import PagePlace
from alance.format.layouts.planar_values import as_full_zip, as_mini_block
from alance.format.layouts.sparse import SparsePage
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.layouts.base import PageLayout

    Layers = list[pb.RepDefLayer]
    DenseLayout: TypeAlias = pb.MiniBlockLayout | pb.FullZipLayout | pb.ConstantLayout


def planar_page(content: bytes, place: PagePlace) -> PageLayout:
    """Parse the layout of a page from a serialized `PlanarLayout`.

    Raises:
        CorruptFileError: the description is inconsistent, or contradicts the buffers.
        UnsupportedError: a codec is unknown, or not allowed here.
        DecodeError: the bytes are not a `PlanarLayout`.
    """
    message = pb3.PlanarLayout.FromString(content)
    if message.structure.WhichOneof("codec") == "sparse" and message.values.WhichOneof("codec"):
        return SparsePage.from_proto(message.structure.sparse, message.values, place)
    layout = dense_layout(message)
    if isinstance(layout, pb.MiniBlockLayout):
        return MiniBlockPage.from_proto(layout, place)
    if isinstance(layout, pb.FullZipLayout):
        return FullZipPage.from_proto(layout, place)
    return ConstantPage.from_proto(layout, PagePlace(place.path, (), place.num_rows))


def dense_layout(message: pb3.PlanarLayout) -> DenseLayout:
    """Convert the description of a dense page to the layout of 2.2 that it is.

    Raises:
        CorruptFileError: the description is inconsistent, or the page is not dense.
    """
    structure = message.structure.WhichOneof("codec")
    values = message.values.WhichOneof("codec")
    if structure is None or values is None:
        raise CorruptFileError(f"planar: structure {structure}, values {values}: both are needed")
    if structure != "dense" or values not in DENSE:
        raise CorruptFileError(f"planar: {values} values with {structure} structure")
    layers = list(message.structure.dense.layers)
    return DENSE[values](layers, getattr(message.values, values))


def _chunked(layers: Layers, message: pb3.ChunkedValues) -> pb.MiniBlockLayout:
    if not message.HasField("levels"):
        raise CorruptFileError("planar: dense chunks that do not say how their levels are stored")
    return as_mini_block(layers, message, message.num_items)


def _zipped(layers: Layers, message: pb3.ZippedValues) -> pb.FullZipLayout:
    if not message.HasField("levels"):
        raise CorruptFileError("planar: dense rows that do not say how their levels are stored")
    return as_full_zip(layers, message)


def _constant(layers: Layers, message: pb3.ConstantValue) -> pb.ConstantLayout:
    if any(int(layer) != Layer.ALL_VALID_ITEM for layer in layers):
        raise CorruptFileError(f"planar: a dense constant under layers {layers[:20]}")
    if not message.scalar:
        raise CorruptFileError("planar: a constant of 0 bytes")
    return pb.ConstantLayout(layers=layers, inline_value=message.scalar)


def _none(layers: Layers, message: pb3.NoValues) -> pb.ConstantLayout:
    if [int(layer) for layer in layers] != [Layer.NULLABLE_ITEM]:
        raise CorruptFileError(f"planar: no values under dense layers {layers[:20]}")
    return pb.ConstantLayout(layers=layers)


DENSE: Final[Mapping[str, Callable[[Layers, Any], DenseLayout]]] = {
    "chunked": _chunked,
    "zipped": _zipped,
    "constant": _constant,
    "none": _none,
}

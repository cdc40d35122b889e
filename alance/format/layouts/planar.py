"""Pages of file version 2.3: independent descriptions of structure and of values.

Pages with dense structure are pages of 2.2 with another description:

    chunked   a mini-block page whose chunk words and value sizes have 32 bits
    zipped    a full-zip page
    constant  a constant page without levels or buffers
    none      a page of one layer, all null

`sparse_form.py` has the pages with sparse structure.

Source: encodings_v2_3.proto, PlanarLayout; docs/format/file.md, "Planar pages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from alance.errors import CorruptFileError
from alance.format.layouts.base import Layer
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from alance.format.proto import encodings_v2_3_pb2 as pb3

    Layers = list[pb.RepDefLayer]
    DenseLayout: TypeAlias = pb.MiniBlockLayout | pb.FullZipLayout | pb.ConstantLayout

MAX_COUNT: Final = (1 << 32) - 1  # maximum entries of a zipped page


def dense_layout(message: pb3.PlanarLayout) -> DenseLayout:
    """Convert the description of a dense page to the equal layout of 2.2.

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


def as_mini_block(layers: Layers, message: pb3.ChunkedValues, num_items: int) -> pb.MiniBlockLayout:
    """Convert a description of chunked values to the layout of 2.1."""
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
    return page


def as_full_zip(layers: Layers, message: pb3.ZippedValues) -> pb.FullZipLayout:
    """Convert a description of zipped values to the layout of 2.1.

    Raises:
        CorruptFileError: a number is too large.
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
    return page


DENSE: Final[Mapping[str, Callable[[Layers, Any], DenseLayout]]] = {
    "chunked": _chunked,
    "zipped": _zipped,
    "constant": _constant,
    "none": _none,
}

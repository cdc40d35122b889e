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

from typing import TYPE_CHECKING, Final, TypeAlias

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from google.protobuf.message import Message

    Layers = list[pb.RepDefLayer]
    DenseLayout: TypeAlias = pb.MiniBlockLayout | pb.FullZipLayout | pb.ConstantLayout

MAX_COUNT: Final = (1 << 32) - 1  # maximum entries of a zipped page
# Fields of 2.3, and their names in 2.2.
CHUNKS: Final = {
    "compression": "value_compression",
    "dictionary": "dictionary",
    "num_dictionary_items": "num_dictionary_items",
    "num_buffers": "num_buffers",
    "num_items": "num_items",
}
CHUNK_LEVELS: Final = {
    "repetition": "rep_compression",
    "definition": "def_compression",
    "repetition_index_depth": "repetition_index_depth",
}
ZIPPED: Final = {
    "compression": "value_compression",
    "bits_per_value": "bits_per_value",
    "bits_per_offset": "bits_per_offset",
    "num_items": "num_items",
    "num_visible_items": "num_visible_items",
}
ZIP_LEVELS: Final = {"bits_repetition": "bits_rep", "bits_definition": "bits_def"}


def dense_layout(message: pb3.PlanarLayout) -> DenseLayout:
    """Convert the description of a dense page to the equal layout of 2.2."""
    structure = message.structure.WhichOneof("codec")
    values = message.values.WhichOneof("codec")
    if structure is None or values is None:
        raise CorruptFileError(f"planar: structure {structure}, values {values}: both are needed")
    if structure != "dense" or values == "indexed":
        raise CorruptFileError(f"planar: {values} values with {structure} structure")
    layers = list(message.structure.dense.layers)
    plane = getattr(message.values, values)
    if values in ("chunked", "zipped"):
        if not plane.HasField("levels"):
            raise CorruptFileError(
                f"planar: dense {values} values do not say how levels are stored"
            )
        return (as_mini_block if values == "chunked" else as_full_zip)(layers, plane)
    if values == "none":
        if layers != [pb.REPDEF_NULLABLE_ITEM]:
            raise CorruptFileError(f"planar: no values under dense layers {layers[:20]}")
        return pb.ConstantLayout(layers=layers)
    if any(layer != pb.REPDEF_ALL_VALID_ITEM for layer in layers):
        raise CorruptFileError(f"planar: a dense constant under layers {layers[:20]}")
    if not plane.scalar:
        raise CorruptFileError("planar: a constant of 0 bytes")
    return pb.ConstantLayout(layers=layers, inline_value=plane.scalar)


def as_mini_block(layers: Layers, message: pb3.ChunkedValues) -> pb.MiniBlockLayout:
    """Convert a description of chunked values to the layout of 2.1."""
    page = pb.MiniBlockLayout(layers=layers, has_large_chunk=True)
    _copy(message, page, CHUNKS)
    _copy(message.levels, page, CHUNK_LEVELS)
    return page


def as_full_zip(layers: Layers, message: pb3.ZippedValues) -> pb.FullZipLayout:
    """Convert a description of zipped values to the layout of 2.1."""
    bits = max(message.bits_per_value, message.bits_per_offset)
    if max(message.num_items, message.num_visible_items, bits) > MAX_COUNT:
        raise CorruptFileError(f"zipped: {message.num_items} entries of {bits} bits")
    page = pb.FullZipLayout(layers=layers)
    _copy(message, page, ZIPPED)
    _copy(message.levels, page, ZIP_LEVELS)
    return page


def planar_layout(layout: pb.PageLayout | pb3.PlanarLayout) -> pb3.PlanarLayout:
    """Convert the description of a 2.2 page to a description of 2.3."""
    if isinstance(layout, pb3.PlanarLayout):
        return layout
    kind = layout.WhichOneof("layout")
    page, values = getattr(layout, kind or "blob_layout"), pb3.ValuePlane()
    match page:
        case pb.MiniBlockLayout():
            _copy(page, values.chunked, _inverse(CHUNKS))
            values.chunked.levels.SetInParent()
            _copy(page, values.chunked.levels, _inverse(CHUNK_LEVELS))
        case pb.FullZipLayout():
            _copy(page, values.zipped, _inverse(ZIPPED))
            values.zipped.levels.SetInParent()
            _copy(page, values.zipped.levels, _inverse(ZIP_LEVELS))
        case pb.ConstantLayout() if page.HasField("inline_value"):
            values.constant.scalar = page.inline_value
        case pb.ConstantLayout():
            values.none.SetInParent()
        case _:
            raise UnsupportedError("files of version 2.3 have no blobs of version 1")
    structure = pb3.StructuralPlane(dense=pb3.DenseStructure(layers=page.layers))
    return pb3.PlanarLayout(structure=structure, values=values)


def _inverse(names: Mapping[str, str]) -> dict[str, str]:
    return {other: own for own, other in names.items()}


def _copy(source: Message, target: Message, names: Mapping[str, str]) -> None:
    """Copy the fields in `names` to the target's fields of these names."""
    for field, value in source.ListFields():
        name = names.get(field.name)
        if name is None:
            continue
        if field.message_type is None:
            setattr(target, name, value)
        else:
            getattr(target, name).CopyFrom(value)

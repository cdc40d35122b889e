"""Descriptions of pages for files of 2.3: dense pages are those of 2.2, described in two planes.

Source: encodings_v2_3.proto, PlanarLayout; docs/format/file.md, "Planar pages".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import UnsupportedError
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance.format.proto import encodings_v2_1_pb2 as pb


def planar_layout(layout: pb.PageLayout | pb3.PlanarLayout) -> pb3.PlanarLayout:
    """The description that a file of 2.3 has of a page of 2.2.

    Raises:
        UnsupportedError: a page that 2.3 does not have: blobs of version 1.
    """
    if isinstance(layout, pb3.PlanarLayout):
        return layout
    match layout.WhichOneof("layout"):
        case "mini_block_layout":
            return _chunked(layout.mini_block_layout)
        case "full_zip_layout":
            return _zipped(layout.full_zip_layout)
        case "constant_layout":
            return _constant(layout.constant_layout)
    raise UnsupportedError("files of version 2.3 have no blobs of version 1")


def _chunked(page: pb.MiniBlockLayout) -> pb3.PlanarLayout:
    levels = pb3.DenseChunkLevels(repetition_index_depth=page.repetition_index_depth)
    if page.HasField("rep_compression"):
        levels.repetition.CopyFrom(page.rep_compression)
    if page.HasField("def_compression"):
        levels.definition.CopyFrom(page.def_compression)
    values = pb3.ChunkedValues(
        compression=page.value_compression,
        levels=levels,
        num_dictionary_items=page.num_dictionary_items,
        num_buffers=page.num_buffers,
        num_items=page.num_items,
    )
    if page.HasField("dictionary"):
        values.dictionary.CopyFrom(page.dictionary)
    return _dense(page.layers, pb3.ValuePlane(chunked=values))


def _zipped(page: pb.FullZipLayout) -> pb3.PlanarLayout:
    values = pb3.ZippedValues(
        compression=page.value_compression,
        levels=pb3.DenseZipLevels(bits_repetition=page.bits_rep, bits_definition=page.bits_def),
        num_items=page.num_items,
        num_visible_items=page.num_visible_items,
    )
    if page.WhichOneof("details") == "bits_per_value":
        values.bits_per_value = page.bits_per_value
    else:
        values.bits_per_offset = page.bits_per_offset
    return _dense(page.layers, pb3.ValuePlane(zipped=values))


def _constant(page: pb.ConstantLayout) -> pb3.PlanarLayout:
    if page.HasField("inline_value"):
        scalar = pb3.ConstantValue(scalar=page.inline_value)
        return _dense(page.layers, pb3.ValuePlane(constant=scalar))
    return _dense(page.layers, pb3.ValuePlane(none=pb3.NoValues()))


def _dense(layers: Iterable[pb.RepDefLayer], values: pb3.ValuePlane) -> pb3.PlanarLayout:
    structure = pb3.StructuralPlane(dense=pb3.DenseStructure(layers=layers))
    return pb3.PlanarLayout(structure=structure, values=values)

"""Blob pages of version 1: descriptions that locate each payload in the file.

The inner page has the descriptions as pairs of u64:

    position    size
    p           > 0   bytes p to p + size of this file
    0           0     an empty value
    d << 16     0     null; d is its definition level in the layers of the blob column

Source: encodings_v2_1.proto, BlobLayout; docs/format/file.md, "Blobs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.layouts.fullzip import zipped_form
from alance.format.layouts.levels import Shape
from alance.format.layouts.miniblock import chunked_form
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from alance import _kernels


def blob_form(message: pb.BlobLayout) -> _kernels.PageForm:
    inner, shape = message.inner_layout, Shape.from_proto(message.layers)
    if shape.has_lists:
        raise UnsupportedError("blob: version 1 cannot express blobs inside lists")
    if inner.HasField("mini_block_layout") and _has_descriptions(inner.mini_block_layout):
        form = chunked_form(inner.mini_block_layout)
    elif inner.HasField("full_zip_layout") and _has_descriptions(inner.full_zip_layout):
        form = zipped_form(inner.full_zip_layout)
    else:
        raise CorruptFileError("blob: the inner page holds no descriptions")
    form.set_layers(*shape.code)
    form.set_blobs(shape.max_def)
    return form


def _has_descriptions(layout: pb.MiniBlockLayout | pb.FullZipLayout) -> bool:
    """True if pages hold non-null pairs of u64."""
    values = layout.value_compression
    if values.HasField("general"):
        values = values.general.values
    is_pair = list(values.packed_struct.bits_per_value) == [64, 64]
    return is_pair and list(layout.layers) == [pb.REPDEF_ALL_VALID_ITEM]

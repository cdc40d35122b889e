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
from alance.format.codecs.general import General
from alance.format.codecs.structs import PackedStruct
from alance.format.layouts.base import Layer
from alance.format.layouts.fullzip import ZipForm
from alance.format.layouts.levels import Shape
from alance.format.layouts.miniblock import ChunkForm
from alance.format.layouts.row_pages import chunked_form, zipped_form

if TYPE_CHECKING:
    from alance import _kernels
    from alance.format.proto import encodings_v2_1_pb2 as pb


def blob_form(message: pb.BlobLayout) -> _kernels.PageForm:
    """Return the kernel's form of pages of blobs.

    Raises:
        CorruptFileError: the description is inconsistent, or not of a page of descriptions.
        UnsupportedError: a codec is unknown, or a layer is a list.
    """
    inner, shape = message.inner_layout, Shape.from_proto(message.layers)
    if shape.has_lists:
        raise UnsupportedError("blob: version 1 cannot express blobs inside lists")
    parsed: ChunkForm | ZipForm | None = None
    if inner.HasField("mini_block_layout"):
        parsed = ChunkForm.from_proto(inner.mini_block_layout)
    elif inner.HasField("full_zip_layout"):
        parsed = ZipForm.from_proto(inner.full_zip_layout)
    if parsed is None or not _has_descriptions(parsed):
        raise CorruptFileError("blob: the inner page holds no descriptions")
    form = chunked_form(parsed) if isinstance(parsed, ChunkForm) else zipped_form(parsed)
    form.set_layers(*shape.code)
    form.set_blobs(shape.max_def)
    return form


def _has_descriptions(form: ChunkForm | ZipForm) -> bool:
    """True if pages hold non-null pairs of u64."""
    codec = form.values if isinstance(form, ChunkForm) else form.codec
    if isinstance(codec, General):
        codec = codec.inner
    is_pair = isinstance(codec, PackedStruct) and codec.child_bits == (64, 64)
    return is_pair and form.shape.layers == (Layer.ALL_VALID_ITEM,)

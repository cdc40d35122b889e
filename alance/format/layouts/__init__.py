"""Structural encodings of pages of file version 2.1 and later: their descriptions.

`page_form` parses a description into the kernel's form; the kernel reads and decodes the pages
(kernels/rows). Each layout has a module; other modules have the parts that layouts share. Modules
may import `format.codecs` and the layers below it.

A blob page of version 1 has an inner page with descriptions that locate each payload in the file,
as pairs of u64:

    position    size
    p           > 0   bytes p to p + size of this file
    0           0     an empty value
    d << 16     0     null; d is its definition level in the layers of the blob column

Source: encodings_v2_1.proto, PageLayout and BlobLayout; docs/format/file.md, "Blobs".
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.layouts.base import constant_form, shape_of
from alance.format.layouts.fullzip import zipped_form
from alance.format.layouts.miniblock import chunked_form
from alance.format.layouts.place import PLANAR_LAYOUT
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from alance import _kernels

PAGE_LAYOUT: Final = "/lance.encodings21.PageLayout"
# Bytes; longer descriptions have symbols. Few of them are memoized: a page has its own.
MAX_SHARED_BYTES: Final = 512
MAX_PAGE_ROWS: Final = 1 << 62  # rows of a page; sums of rows and bytes still fit into 64 bits


def page_form(encoding: bytes) -> _kernels.PageForm:
    """Parse a page description into the kernel's form.

    The description alone determines the kind of chunks, because early writers of 2.2 used the
    chunks of 2.1. Short descriptions are memoized, because many pages share few of them, and the
    latest long ones, for files that are opened again.

    Args:
        encoding: serialized description, a `google.protobuf.Any`.
    """
    return (_shared_form if len(encoding) <= MAX_SHARED_BYTES else _latest_form)(encoding)


def _form(encoding: bytes) -> _kernels.PageForm:
    try:
        message = AnyMessage.FromString(encoding)
        if message.type_url.endswith(PLANAR_LAYOUT):
            return _planar_form(message.value)
        if not message.type_url.endswith(PAGE_LAYOUT):
            raise UnsupportedError(f"page encoding {message.type_url!r}")
        layout = pb.PageLayout.FromString(message.value)
    except DecodeError as error:
        raise CorruptFileError(f"a page's description: {error}") from error
    name = layout.WhichOneof("layout")
    if name is None:
        raise UnsupportedError("page layout None: expected one of those of files up to 2.3")
    return _form_of(getattr(layout, name))


def _form_of(layout: Message) -> _kernels.PageForm:
    match layout:
        case pb.MiniBlockLayout():
            return chunked_form(layout)
        case pb.ConstantLayout():
            return constant_form(layout)
        case pb.FullZipLayout():
            return zipped_form(layout)
        case pb.BlobLayout():
            return _blob_form(layout)
    raise UnsupportedError(f"page layout {type(layout).__name__}")


def _planar_form(content: bytes) -> _kernels.PageForm:
    from alance.format.layouts.planar import dense_layout, sparse_form
    from alance.format.proto import encodings_v2_3_pb2 as pb3

    message = pb3.PlanarLayout.FromString(content)
    if message.structure.WhichOneof("codec") == "sparse":
        return sparse_form(message.structure.sparse, message.values)
    form = _form_of(dense_layout(message))
    if message.values.WhichOneof("codec") in ("constant", "none"):
        form.ignore_buffers()  # all is in the description
    return form


_shared_form = lru_cache(maxsize=4096)(_form)
_latest_form = lru_cache(maxsize=64)(_form)


def _blob_form(message: pb.BlobLayout) -> _kernels.PageForm:
    inner, shape = message.inner_layout, shape_of(*message.layers)
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

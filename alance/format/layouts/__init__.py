"""Structural encodings of pages of file version 2.1 and later: their descriptions.

`page_form` parses a description into the kernel's form; the kernel reads and decodes the pages
(kernels/rows). Each layout has a module; other modules have the parts that layouts share. Modules
may import `format.codecs` and the layers below it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.layouts.blob import blob_form
from alance.format.layouts.constant import form_of
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
            return form_of(layout)
        case pb.FullZipLayout():
            return zipped_form(layout)
        case pb.BlobLayout():
            return blob_form(layout)
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

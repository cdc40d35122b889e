"""Structural encodings of pages of file version 2.1 and later: plans that read pages, and decoding.

Each layout has a module; other modules have the parts that layouts share. Modules may import
`format.codecs` and the layers below it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from alance.errors import AlanceError, CorruptFileError, UnsupportedError
from alance.format.layouts.blob import BlobPage, blob_form
from alance.format.layouts.constant import ConstantPage, form_of
from alance.format.layouts.fullzip import FullZipPage, ZipForm
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.place import PLANAR_LAYOUT, PagePlace
from alance.format.layouts.row_pages import zipped_form
from alance.format.proto import encodings_v2_1_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from google.protobuf.message import Message

    from alance import _kernels
    from alance.format.layouts.base import PageLayout

PAGE_LAYOUT: Final = "/lance.encodings21.PageLayout"
# Bytes; longer descriptions, such as those with symbols, are not memoized.
MAX_SHARED_BYTES: Final = 512
MAX_PAGE_ROWS: Final = 1 << 62  # rows of a page; sums of rows and bytes still fit into 64 bits


def page_layout(
    encoding: bytes,
    *,
    path: str,
    buffers: Sequence[tuple[int, int]],
    num_rows: int,
) -> PageLayout:
    """Parse the layout of a page.

    The description alone determines the kind of chunks, because early writers of 2.2 used the
    chunks of 2.1.

    Args:
        encoding: serialized description, a `google.protobuf.Any`.
        path: location of the file.
        buffers: (absolute offset, size) of each buffer of the page, inside the file.
        num_rows: rows of the page.

    Raises:
        CorruptFileError: the description is inconsistent, or contradicts the buffers.
        UnsupportedError: the layout or a codec is unknown.
    """
    if not isinstance(buffers, tuple):
        buffers = tuple((int(start), int(size)) for start, size in buffers)
    place = PagePlace(path, buffers, num_rows)
    try:
        if num_rows >= MAX_PAGE_ROWS:
            raise CorruptFileError(f"a page of {num_rows} rows")
        url, message = _parsed(encoding)
        if url.endswith(PLANAR_LAYOUT):
            from alance.format.layouts.planar import planar_page

            return planar_page(message, place)
        return _layout(pb.PageLayout.FromString(message), place)
    except DecodeError as error:
        raise place.corrupt(f"its description: {error}") from error
    except AlanceError as error:
        error.add_note(str(place.corrupt("its description")))
        raise


def _layout(message: pb.PageLayout, place: PagePlace) -> PageLayout:
    name = _name_of(message)
    return LAYOUTS[name](getattr(message, name), place)


def _parsed(encoding: bytes) -> tuple[str, bytes]:
    """Return the type URL and the message of a description.

    Raises:
        UnsupportedError: the URL is unknown.
        DecodeError: the description is invalid.
    """
    message = AnyMessage.FromString(encoding)
    if not message.type_url.endswith((PAGE_LAYOUT, PLANAR_LAYOUT)):
        raise UnsupportedError(f"page encoding {message.type_url!r}")
    return message.type_url, message.value


def _name_of(message: pb.PageLayout) -> str:
    name: str | None = message.WhichOneof("layout")
    if name is None or name not in LAYOUTS:
        raise UnsupportedError(f"page layout {name!r}: expected one of {sorted(LAYOUTS)}")
    return name


def page_form(encoding: bytes) -> _kernels.PageForm | None:
    """Parse a page description into the kernel's form.

    Returns None if the kernel cannot build such pages. Short descriptions are memoized, because
    many pages share few of them.

    Args:
        encoding: serialized description, a `google.protobuf.Any`.

    Raises:
        CorruptFileError: the description is inconsistent.
        UnsupportedError: the layout or a codec is unknown.
    """
    return _shared_form(encoding) if len(encoding) <= MAX_SHARED_BYTES else _form(encoding)


def _form(encoding: bytes) -> _kernels.PageForm | None:
    try:
        url, content = _parsed(encoding)
        if url.endswith(PLANAR_LAYOUT):
            return _planar_form(content)
        layout = pb.PageLayout.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"a page's description: {error}") from error
    return _form_of(getattr(layout, _name_of(layout)))


def _form_of(layout: Message) -> _kernels.PageForm | None:
    match layout:
        case pb.MiniBlockLayout():
            return MiniBlockPage.described(layout).description.rows
        case pb.ConstantLayout():
            return form_of(layout)
        case pb.FullZipLayout():
            return zipped_form(ZipForm.from_proto(layout), layout.num_items)
        case pb.BlobLayout():
            return blob_form(layout)
    return None


def _planar_form(content: bytes) -> _kernels.PageForm | None:
    from alance.format.layouts.planar import dense_layout
    from alance.format.layouts.sparse_form import sparse_form
    from alance.format.proto import encodings_v2_3_pb2 as pb3

    message = pb3.PlanarLayout.FromString(content)
    if message.structure.WhichOneof("codec") == "sparse":
        return sparse_form(message.structure.sparse, message.values)
    form = _form_of(dense_layout(message))
    if form is not None and message.values.WhichOneof("codec") in ("constant", "none"):
        form.ignore_buffers()  # all is in the description
    return form


_shared_form = lru_cache(maxsize=4096)(_form)


def _blob(message: pb.BlobLayout, place: PagePlace) -> BlobPage:
    if message.inner_layout.WhichOneof("layout") == "blob_layout":
        raise CorruptFileError("blob: a page of descriptions inside a page of descriptions")
    return BlobPage.of(message.layers, _layout(message.inner_layout, place), place)


LAYOUTS: Final[Mapping[str, Callable[[Any, PagePlace], PageLayout]]] = {
    "mini_block_layout": MiniBlockPage.from_proto,
    "constant_layout": ConstantPage.from_proto,
    "full_zip_layout": FullZipPage.from_proto,
    "blob_layout": _blob,
}

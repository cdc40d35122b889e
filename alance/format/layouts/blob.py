"""Blob pages of version 1: descriptions that locate each payload in the file.

The inner page has the descriptions as pairs of u64:

    position    size
    p           > 0   bytes p to p + size of this file
    0           0     an empty value
    d << 16     0     null; d is its definition level in the layers of the blob column

Source: encodings_v2_1.proto, BlobLayout; docs/format/file.md, "Blobs".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance.errors import CorruptFileError, UnsupportedError
from alance.format.blocks import FixedWidth, StructBlock
from alance.format.codecs.general import GeneralMiniBlock
from alance.format.codecs.structs import PackedStruct
from alance.format.layouts.base import DecodeTask, Layer, PageState, PageValues
from alance.format.layouts.fullzip import ZipForm
from alance.format.layouts.levels import Shape
from alance.format.layouts.miniblock import MiniBlockPage
from alance.format.layouts.miniblock_task import ChunkForm
from alance.format.layouts.row_pages import zipped_form

if TYPE_CHECKING:
    from collections.abc import Iterable

    from alance import _kernels
    from alance.base.arrays import Int64s, UInt16s
    from alance.format.layouts.base import PageLayout
    from alance.format.layouts.place import PagePlace
    from alance.format.plans import Plan
    from alance.format.proto import encodings_v2_1_pb2 as pb


class BlobTask(NamedTuple):
    """Blob descriptions to decode."""

    page: BlobPage
    inner: DecodeTask

    @property
    def num_bytes(self) -> int:
        return self.inner.num_bytes

    def decode(self) -> PageValues:
        """Decode the descriptions as structs of two u64, with definition levels for nulls.

        Raises:
            CorruptFileError: the inner page is corrupt, or has no descriptions.
        """
        page = self.inner.decode()
        with self.page.place.checking():
            return PageValues(
                layers=self.page.shape.layers,
                rep=None,
                definition=self._definition(page),
                values=page.values,
                num_rows=page.num_rows,
            )

    def _definition(self, page: PageValues) -> UInt16s | None:
        positions, sizes = _descriptions(page)
        absent = (sizes == 0) & (positions != 0)
        max_def = self.page.shape.max_def
        codes = positions[absent]
        if codes.size and ((codes & 0xFFFF).any() or (codes >> 16).max() > max_def):
            raise CorruptFileError(
                f"blob: empty value at {codes.max()}, which is no level up to {max_def}"
            )
        if max_def == 0:
            return None
        return np.where(absent, positions >> 16, 0).astype(np.uint16)


class BlobPage(NamedTuple):
    """Page of blob descriptions. Its rounds and its state are those of the inner page."""

    place: PagePlace
    shape: Shape
    inner: PageLayout

    @classmethod
    def of(cls, layers: Iterable[int], inner: PageLayout, place: PagePlace) -> BlobPage:
        """Wrap a page of descriptions in the layers of the blob column.

        Raises:
            CorruptFileError: a layer number is unknown.
            UnsupportedError: a layer is a list, whose levels such pages cannot store.
        """
        shape = Shape.from_proto(layers)
        if shape.has_lists:
            raise UnsupportedError("blob: version 1 cannot express blobs inside lists")
        return cls(place, shape, inner)

    @property
    def num_rows(self) -> int:
        return self.inner.num_rows

    def load(self) -> Plan[PageState]:
        """Plan the inner page's state."""
        return (yield from self.inner.load())

    def take(self, state: PageState, rows: Int64s) -> Plan[DecodeTask]:
        """Plan the descriptions of single rows."""
        return BlobTask(self, (yield from self.inner.take(state, rows)))

    def read(self, state: PageState, start: int, stop: int) -> Plan[DecodeTask]:
        """Plan the descriptions of a range of rows."""
        return BlobTask(self, (yield from self.inner.read(state, start, stop)))

    def read_page(self) -> Plan[DecodeTask]:
        """Plan all descriptions: one round."""
        return BlobTask(self, (yield from self.inner.read_page()))


def blob_form(message: pb.BlobLayout) -> _kernels.PageForm | None:
    """Return the kernel's form of pages of blobs; None if the kernel does not know such pages.

    Raises:
        CorruptFileError: the description is inconsistent, or not of a page of descriptions.
        UnsupportedError: a codec is unknown, or a layer is a list.
    """
    inner, form = message.inner_layout, None
    shape = Shape.from_proto(message.layers)
    if shape.has_lists:
        raise UnsupportedError("blob: version 1 cannot express blobs inside lists")
    has_descriptions = False
    if inner.HasField("mini_block_layout"):
        description = MiniBlockPage.described(inner.mini_block_layout).description
        has_descriptions, form = _has_descriptions(description.form), description.rows
    elif inner.HasField("full_zip_layout"):
        zipped = ZipForm.from_proto(inner.full_zip_layout)
        has_descriptions = _has_descriptions(zipped)
        form = zipped_form(zipped, inner.full_zip_layout.num_items)
    if not has_descriptions:
        raise CorruptFileError("blob: the inner page holds no descriptions")
    if form is not None:
        form.set_layers(*shape.code)
        form.set_blobs(shape.max_def)
    return form


def _has_descriptions(form: ChunkForm | ZipForm) -> bool:
    """True if pages hold non-null pairs of u64."""
    codec = form.values if isinstance(form, ChunkForm) else form.codec
    if isinstance(codec, GeneralMiniBlock):
        codec = codec.inner
    is_pair = isinstance(codec, PackedStruct) and codec.child_bits == (64, 64)
    return is_pair and form.shape.layers == (Layer.ALL_VALID_ITEM,)


def _descriptions(page: PageValues) -> Int64s:
    """Return the positions and sizes of blobs, shape (2, n).

    Raises:
        CorruptFileError: the values are not pairs of u64, or are null.
    """
    values = page.values
    if (
        not isinstance(values, StructBlock)
        or len(values.children) != 2
        or page.layers != (Layer.ALL_VALID_ITEM,)
    ):
        raise CorruptFileError("blob: the inner page holds no descriptions")
    columns = []
    for child in values.children:
        if not isinstance(child, FixedWidth) or child.bits_per_value != 64:
            raise CorruptFileError("blob: positions and sizes of 64 bits expected")
        columns.append(child.data.view("<u8"))
    return np.stack(columns)

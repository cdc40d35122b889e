"""Types that the parts of the encoder hand to each other.

    arrays    Arrow array of a field -> `PageValues` of each leaf (levels and values)
    pages     `PageValues` -> `EncodedPage`: the layout is chosen by the data and by hints; the
              kernel makes constants and chunks, of many columns at once
    values    values -> compressed values of full-zip pages, one by one
    container `EncodedPage`s -> the bytes of a file

Blocks are those that decoding gives, so that each step is tested by the step that undoes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3
from alance.records import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.arrays import Bytes
    from alance.file_version import FileVersion
    from alance.format.proto import encodings_v2_0_pb2 as pb0


@dataclass(frozen=True, slots=True)
class Hints:
    """The version and metadata by which a leaf is encoded.

    Attributes:
        version: of the file; says which encodings are legal.
        metadata: of the field: the `lance-encoding:*` keys that Lance users know.
        dimensions: of the layers from the row to the leaf: that of a fixed-size list of structs,
            or 0.
    """

    version: FileVersion
    metadata: Mapping[str, str]
    dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page of a column as it goes into a file."""

    description: bytes  # a PageLayout; of sparse pages a PlanarLayout, in 2.0 an ArrayEncoding
    buffers: tuple[Bytes, ...]  # in the order of the layout, without padding; shape (num_bytes,)
    num_rows: int
    search: tuple[int, ...] = ()  # buffers that readers need before they can take rows
    is_planar: bool = False

    @classmethod
    def of(
        cls,
        layout: pb.PageLayout | pb3.PlanarLayout | pb0.ArrayEncoding,
        buffers: tuple[Bytes, ...],
        num_rows: int,
        search: tuple[int, ...] = (),
    ) -> EncodedPage:
        """A page by the message that describes it."""
        description = layout.SerializeToString(deterministic=True)
        return cls(description, buffers, num_rows, search, isinstance(layout, pb3.PlanarLayout))

    @property
    def layout(self) -> pb.PageLayout | pb3.PlanarLayout:
        """The message that describes it."""
        kind = pb3.PlanarLayout if self.is_planar else pb.PageLayout
        return kind.FromString(self.description)

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(len(buffer) for buffer in self.buffers)

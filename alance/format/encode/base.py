"""Types that the stages of the encoder exchange.

  arrays    Arrow array of a field -> `PageValues` of each leaf (levels and values)
  pages     `PageValues` -> `EncodedPage`: the kernel chooses the layout by data and hints, and
            makes the pages of many columns at once
  container `EncodedPage`s -> the bytes of a file

Decoding returns the same blocks, so tests of a stage use its inverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alance.base.records import dataclass
from alance.format.proto import encodings_v2_1_pb2 as pb
from alance.format.proto import encodings_v2_3_pb2 as pb3

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.base.arrays import Bytes
    from alance.file_version import FileVersion
    from alance.format.proto import encodings_v2_0_pb2 as pb0


@dataclass(frozen=True, slots=True)
class Hints:
    """File version and field metadata that control the encoding of a leaf.

    Attributes:
        metadata: metadata of the field, with its `lance-encoding:*` keys.
        dimensions: for each layer from row to leaf, the dimension of a fixed-size list of structs;
            0 for other layers.
    """

    version: FileVersion
    metadata: Mapping[str, str]
    dimensions: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """Encoded page of a column."""

    description: bytes  # a PageLayout, a PlanarLayout for sparse pages, or an ArrayEncoding in 2.0
    buffers: tuple[Bytes, ...]  # in the order of the layout, without padding
    num_rows: int
    # Numbers of the buffers that readers need before they can take rows.
    search: tuple[int, ...] = ()
    is_planar: bool = False

    @classmethod
    def of(
        cls,
        layout: pb.PageLayout | pb3.PlanarLayout | pb0.ArrayEncoding,
        buffers: tuple[Bytes, ...],
        num_rows: int,
        search: tuple[int, ...] = (),
    ) -> EncodedPage:
        """Build a page from its description message."""
        description = layout.SerializeToString(deterministic=True)
        return cls(description, buffers, num_rows, search, isinstance(layout, pb3.PlanarLayout))

    @property
    def layout(self) -> pb.PageLayout | pb3.PlanarLayout:
        """Description message of the page, parsed at each access."""
        kind = pb3.PlanarLayout if self.is_planar else pb.PageLayout
        return kind.FromString(self.description)

"""Types that the parts of the encoder hand to each other.

    arrays    Arrow array of a field -> `PageValues` of each leaf (levels and values)
    values    values -> compressed values: in mini-block chunks, one by one, or as one block
    pages     `PageValues` -> `EncodedPage`: the layout is chosen by the data and by hints
    container `EncodedPage`s -> the bytes of a file

Blocks are those that decoding gives, so that each step is tested by the step that undoes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from alance.arrays import Bytes, Int64s
    from alance.file_version import FileVersion
    from alance.format.proto import encodings_v2_1_pb2 as pb
    from alance.format.proto import encodings_v2_3_pb2 as pb3


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
class MiniBlockValues:
    """Values compressed in chunks, each of which decodes on its own.

    Buffer b of chunk c is the next `sizes[b, c]` bytes of `buffers[b]`.
    """

    encoding: pb.CompressiveEncoding
    counts: Int64s  # values of each chunk, shape (c,): a power of two, or what is left in the last
    buffers: tuple[Bytes, ...]  # shape (num_bytes,) each
    sizes: Int64s  # shape (len(buffers), c)


@dataclass(frozen=True, slots=True)
class EncodedPage:
    """A page of a column as it goes into a file."""

    layout: pb.PageLayout | pb3.PlanarLayout
    buffers: tuple[Bytes, ...]  # in the order of the layout, without padding; shape (num_bytes,)
    num_rows: int
    search: tuple[int, ...] = ()  # buffers that readers need before they can take rows

    @property
    def num_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(len(buffer) for buffer in self.buffers)

"""Values of mini-block pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from alance.base.arrays import Bytes, Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb


@dataclass(frozen=True, slots=True)
class MiniBlockValues:
    """Values compressed in chunks, each of which decodes on its own.

    Buffer b of chunk c is the next `sizes[b, c]` bytes of `buffers[b]`.
    """

    encoding: pb.CompressiveEncoding
    counts: Int64s  # values of each chunk, shape (c,): a power of two, or what is left in the last
    buffers: tuple[Bytes, ...]  # shape (num_bytes,) each
    sizes: Int64s  # shape (len(buffers), c)

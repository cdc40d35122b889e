"""Repetition and definition levels of mini-block chunks, compressed.

Source: encodings_v2_1.proto, message MiniBlockLayout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from alance.file_version import FileVersion
    from alance.format.blocks import Bytes
    from alance.format.encode.base import Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb


def level_blocks(
    levels: npt.NDArray[np.uint16],
    counts: Int64s,
    max_level: int,
    version: FileVersion | None = None,
) -> tuple[pb.CompressiveEncoding, Bytes, Int64s]:
    """Compress the levels of all chunks of a page.

    Args:
        levels: of all chunks, end to end; shape (n,).
        counts: levels of each chunk, shape (c,), their sum is n.
        max_level: no level is above it.
        version: of the file; run lengths are legal from 2.2 on. None: of 2.1.

    Returns:
        The description, the bytes of all chunks end to end, and the bytes of each chunk, shape
        (c,); a chunk has at most 65535.
    """
    raise NotImplementedError

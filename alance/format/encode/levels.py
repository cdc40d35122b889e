"""Repetition and definition levels of mini-block chunks: u16 before coding, one codec a page.

The least of four is taken: flat; bit-packed with the width in front, at most 1024 levels a chunk;
bit-packed at one width; runs, from 2.2 on.

Source: encodings_v2_1.proto, message MiniBlockLayout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from alance import _kernels
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from alance.format.encode import encodings

if TYPE_CHECKING:
    import numpy.typing as npt

    from alance.format.blocks import Bytes
    from alance.format.encode.base import Int64s
    from alance.format.proto import encodings_v2_1_pb2 as pb

BITS: Final = 16
PACKED_LEVELS: Final = 1024  # that are bit-packed together
MAX_CHUNK_BYTES: Final = 65535  # sizes of level buffers are u16


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

    Raises:
        InvalidInputError: so many levels in a chunk that no codec makes them small enough.
    """
    data = np.ascontiguousarray(levels).view(np.uint8)
    width = int(_kernels.widths_and_runs(data, BITS)[0].max(initial=0))
    if width > max_level.bit_length():
        raise InvalidInputError(f"levels of {width} bits, at most {max_level} is expected")
    # In the order of what is taken among equals.
    candidates: list[_Candidate] = []
    if version is not None and version >= FileVersion.V2_2:
        candidates.append(_Runs(data, counts))
    if len(levels) > PACKED_LEVELS and width < BITS:
        candidates.append(_Packed(data, counts, max(width, 1)))
    if counts.max(initial=0) <= PACKED_LEVELS:
        candidates.append(_Inline(data, counts))
    candidates.append(_Flat(data, counts))
    legal = [x for x in candidates if x.sizes.max(initial=0) <= MAX_CHUNK_BYTES]
    if not legal:
        raise InvalidInputError(f"{int(counts.max())} levels in a chunk of a mini-block")
    best = min(legal, key=lambda candidate: int(candidate.sizes.sum()))
    # Packing has to gain something: of two equals the one that is read faster is better.
    if int(best.sizes.sum()) >= int((counts * (BITS // 8)).sum()):
        best = legal[-1]
    return best.encoding, best.content(), best.sizes


class _Candidate(Protocol):
    """A way to store the levels: what it takes, and the bytes on demand."""

    encoding: pb.CompressiveEncoding
    sizes: Int64s  # bytes of each chunk

    def content(self) -> Bytes: ...


class _Flat:
    def __init__(self, data: Bytes, counts: Int64s) -> None:
        self.encoding = encodings.flat(BITS)
        self.sizes = counts * (BITS // 8)
        self._data = data

    def content(self) -> Bytes:
        return self._data


class _Inline:
    def __init__(self, data: Bytes, counts: Int64s) -> None:
        self.encoding = encodings.inline_bitpacking(BITS)
        self._packed, self.sizes = _kernels.pack_inline(data, counts, BITS)

    def content(self) -> Bytes:
        return self._packed


class _Packed:
    def __init__(self, data: Bytes, counts: Int64s, width: int) -> None:
        self.encoding = encodings.out_of_line_bitpacking(BITS, width)
        block = 128 * width
        blocks, rest = np.divmod(counts, PACKED_LEVELS)
        self.sizes = blocks * block + np.minimum(rest * (BITS // 8), block)
        self._data, self._counts, self._width = data, counts, width

    def content(self) -> Bytes:
        return _kernels.pack_blocks(self._data, self._counts, BITS, self._width)[0]


class _Runs:
    def __init__(self, data: Bytes, counts: Int64s) -> None:
        self.encoding = encodings.rle(BITS)
        self.sizes = _kernels.run_block_sizes(data, counts, BITS)
        self._data, self._counts = data, counts

    def content(self) -> Bytes:
        return _kernels.run_blocks(self._data, self._counts, BITS)

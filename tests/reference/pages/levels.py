"""Levels of a mini-block page, compressed: the least of four codecs.

Source: docs/format/file.md, "Arrow to levels"; encodings_v2_1.proto, message MiniBlockLayout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.errors import InvalidInputError
from alance.file_version import FileVersion
from tests.reference import encodings
from tests.reference.encodings import inline_bitpacking, rle
from tests.reference.pages.integers import (
    PACKED_VALUES,
    packed_inline,
    run_blocks,
    unsigned,
    widths,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from alance.base.arrays import Bytes, Int64s, UInt16s
    from alance.format.proto import encodings_v2_1_pb2 as pb

BITS: Final = 16
MAX_CHUNK_BYTES: Final = 65535  # sizes of level buffers are u16


def level_blocks(
    levels: UInt16s, counts: Int64s, max_level: int, version: FileVersion | None = None
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
    width = max(widths(unsigned(data, BITS)), default=0)
    if width > max_level.bit_length():
        raise InvalidInputError(f"levels of {width} bits, at most {max_level} is expected")
    candidates = _candidates(data, counts, width, version)
    legal = [x for x in candidates if x.sizes.max(initial=0) <= MAX_CHUNK_BYTES]
    if not legal:
        raise InvalidInputError(f"{int(counts.max())} levels in a chunk of a mini-block")
    best = min(legal, key=lambda candidate: int(candidate.sizes.sum()))
    # Packing has to gain something: of two equals the one that is read faster is better.
    if int(best.sizes.sum()) >= int((counts * (BITS // 8)).sum()):
        best = legal[-1]
    return best.encoding, best.content(), best.sizes


class _Candidate(NamedTuple):
    """A way to store the levels: what it takes, and the bytes on demand."""

    encoding: pb.CompressiveEncoding
    sizes: Int64s  # bytes of each chunk
    content: Callable[[], Bytes]


def _packed_blocks(data: Bytes, counts: Int64s, width: int) -> Bytes:
    """Chunks of levels that are packed to one width."""
    parts = np.split(data, np.cumsum(counts[:-1]) * (BITS // 8))
    packed = zip(parts, counts.tolist(), strict=True)
    return np.concatenate([_kernels.pack_blocks(part, n, BITS, width) for part, n in packed])


def _candidates(
    data: Bytes, counts: Int64s, width: int, version: FileVersion | None
) -> Iterator[_Candidate]:
    """The ways to store levels of `width` bits, in the order of what is taken among equals."""
    if version is not None and version >= FileVersion.V2_2:
        runs, sizes = run_blocks(unsigned(data, BITS), counts)
        yield _Candidate(rle(BITS), sizes, lambda: runs)
    if int(counts.sum()) > PACKED_VALUES and width < BITS:
        packed_width = max(width, 1)
        blocks, rest = np.divmod(counts, PACKED_VALUES)
        block_bytes = 128 * packed_width
        yield _Candidate(
            encodings.out_of_line_bitpacking(BITS, packed_width),
            blocks * block_bytes + np.minimum(rest * (BITS // 8), block_bytes),
            lambda: _packed_blocks(data, counts, packed_width),
        )
    if counts.max(initial=0) <= PACKED_VALUES:
        packed, sizes = packed_inline(unsigned(data, BITS), counts)
        yield _Candidate(inline_bitpacking(BITS), sizes, lambda: packed)
    yield _Candidate(encodings.flat(BITS), counts * (BITS // 8), lambda: data)

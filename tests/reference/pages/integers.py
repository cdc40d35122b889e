"""Values of 8, 16, 32 or 64 bits as numpy stores them: in blocks of 1024, as runs, as byte streams.

Source: docs/format/encodings.md, "InlineBitpacking", "Rle" and "ByteStreamSplit".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tests.reference.fastlanes import pack

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from alance.base.arrays import Bytes, Int64s

PACKED_VALUES: Final = 1024  # values that are bit-packed together
MAX_RUN: Final = 255  # what a length of one byte can say

Unsigned = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]


def unsigned(data: Bytes, bits: int) -> Unsigned:
    """The values as unsigned integers; a view."""
    return np.ascontiguousarray(data).view(f"<u{bits // 8}")


def pieces(values: Unsigned, counts: Int64s) -> list[npt.NDArray[Any]]:
    """The values of each chunk; views."""
    return np.split(values, np.cumsum(counts)[:-1]) if len(counts) else []


def widths(values: Unsigned) -> list[int]:
    """The bits that the values of each block of 1024 need."""
    blocks = range(0, len(values), PACKED_VALUES)
    return [
        int(np.bitwise_or.reduce(values[first : first + PACKED_VALUES])).bit_length()
        for first in blocks
    ]


def packed_bytes(values: Unsigned) -> int:
    """Bytes of the values as bit-packed blocks of 1024, the width in front of each."""
    return sum(values.itemsize + 128 * width for width in widths(values))


def packed_inline(values: Unsigned, counts: Int64s) -> tuple[Bytes, Int64s]:
    """Blocks of at most 1024 values, their width in front: all of them, and the bytes of each."""
    blocks = [_inline_block(piece) for piece in pieces(values, counts)]
    return octets(b"".join(blocks)), np.array([len(block) for block in blocks], np.int64)


def _inline_block(values: Unsigned) -> bytes:
    (width,) = widths(values) or (0,)
    header = np.array([width], values.dtype).tobytes()
    full = np.zeros(PACKED_VALUES, values.dtype)
    full[: len(values)] = values
    return header + (pack(full, 8 * values.itemsize, width) if width else b"")


def octets(content: bytes) -> Bytes:
    """Bytes as an array."""
    return np.frombuffer(content, np.uint8)


def run_starts(values: Unsigned) -> Int64s:
    """Return the starts of runs of equal values."""
    changes = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([[0], changes])[: len(values)].astype(np.int64)


def runs_of(values: Unsigned) -> tuple[Unsigned, Bytes]:
    """The values of the runs, and their lengths; longer runs are cut."""
    starts = run_starts(values)
    lengths = np.diff(starts, append=len(values))
    parts = -(-lengths // MAX_RUN)
    part_lengths = np.full(int(parts.sum()), MAX_RUN, np.int64)
    part_lengths[np.cumsum(parts) - 1] = lengths - (parts - 1) * MAX_RUN
    return np.repeat(values[starts], parts), part_lengths.astype(np.uint8)


def run_bytes(values: Unsigned) -> int:
    """Bytes of the runs of a page's values, which are cut where no chunk would have them whole."""
    lengths = np.diff(run_starts(values), append=len(values))
    chunks, remaining = np.divmod(lengths, 4096)
    parts = chunks * -(-4096 // MAX_RUN) + -(-remaining // MAX_RUN)
    return int(parts.sum()) * (values.itemsize + 1)


def run_blocks(values: Unsigned, counts: Int64s) -> tuple[Bytes, Int64s]:
    """The runs of each chunk as a block: u64 bytes of the values, values, lengths; its bytes."""
    blocks = [_run_block(piece) for piece in pieces(values, counts)]
    return octets(b"".join(blocks)), np.array([len(block) for block in blocks], np.int64)


def _run_block(values: Unsigned) -> bytes:
    of_runs, lengths = runs_of(values)
    return np.uint64(of_runs.nbytes).tobytes() + of_runs.tobytes() + lengths.tobytes()


def run_chunks(values: Unsigned, most: int, max_bytes: int) -> Iterator[Unsigned]:
    """Chunks whose runs take at most `max_bytes`, if two values can.

    Each but the last has a power of two of values, at most `most`.
    """
    while len(values):
        window = values[:most]
        powers = [1 << power for power in range(len(window).bit_length() - 1, 1, -1)]
        fitting = (n for n in (len(window), *powers) if _takes(window[:n], max_bytes))
        count = next(fitting, min(2, len(values)))
        yield values[:count]
        values = values[count:]


def _takes(values: Unsigned, max_bytes: int) -> bool:
    of_runs, lengths = runs_of(values)
    return of_runs.nbytes + lengths.nbytes <= max_bytes


def byte_streams(values: Unsigned) -> bytes:
    """The lowest byte of all values, then the next one of all, and so on."""
    return values.view(np.uint8).reshape(len(values), values.itemsize).T.tobytes()

"""Tables of places in a 2.x file: pairs of u64, a position and a size, checked against the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from alance.errors import CorruptFileError

if TYPE_CHECKING:
    import numpy.typing as npt


def check_table(path: str, what: str, start: int, num_entries: int, limit: int) -> None:
    """Check that a table ends at or before `limit`."""
    if start + 16 * num_entries > limit:
        raise CorruptFileError(
            f"{path}: {what} of {num_entries} entries at {start}, the footer is at {limit}"
        )


def read_table(content: memoryview, start: int, num_entries: int) -> npt.NDArray[np.int64]:
    """Pairs (position, size) as (start, stop); values beyond 2^62 become -1 and fail the check."""
    raw = np.frombuffer(content, "<u8", 2 * num_entries, start).reshape(-1, 2)
    table: npt.NDArray[np.int64] = np.where(raw < (1 << 62), raw, 0).astype(np.int64)
    table[(raw >= (1 << 62)).any(axis=1)] = -1
    table[:, 1] += table[:, 0]
    return table


def check_spans(
    path: str, what: str, spans: npt.NDArray[np.int64], limit: int, alignment: int
) -> None:
    """Check the places of parts of a file: inside of it, at multiples of `alignment`."""
    bad = (spans[:, 0] < 0) | (spans[:, 1] > limit) | (spans[:, 0] % alignment != 0)
    if bad.any():
        number = int(np.argmax(bad))
        start, stop = spans[number]
        raise CorruptFileError(
            f"{path}: {what} {number} at {start} to {stop}, expected a multiple of {alignment} "
            f"and an end at or before {limit}"
        )

"""Pages of the kernel that takes rows refuse what would let it read beyond their bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from alance import _kernels
from alance.format.layouts.row_pages import Values

if TYPE_CHECKING:
    from collections.abc import Callable

NO_CHUNKS = np.empty(0, np.int64)
FIXED = np.zeros(16, np.uint8)


def page_of(values: Values, bits: int) -> _kernels.RowPage:
    """A page of four rows; its chunk is made of its header and its values."""
    if values is Values.ZIPPED:
        return _kernels.RowPage(
            NO_CHUNKS, NO_CHUNKS, 0, 4 * bits // 8, 4, values, bits, 0, 0, 0, False
        )
    rows, size = np.array([0, 4]), np.array([0, 8 + 4 * bits // 8])
    return _kernels.RowPage(rows, size, 0, int(size[-1]), 4, values, bits, 0, 0, 0, False)


@pytest.mark.parametrize(
    "give_items",
    [
        lambda page: page.set_items(FIXED, 8),
        lambda page: page.set_strings_32(np.array([0, 4, 8], np.int32), FIXED),
        lambda page: page.set_strings_64(np.array([0, 4, 8], np.int64), FIXED),
    ],
    ids=["fixed", "strings of 32 bits", "strings of 64 bits"],
)
@pytest.mark.parametrize(
    ("values", "bits"),
    [
        (Values.FLAT, 24),  # a word of eight bytes would be read for three
        (Values.FLAT, 128),
        (Values.FLAT, 1),  # an item would be read from the one byte of a bit
        (Values.STRINGS, 32),
        (Values.ZIPPED, 16),
    ],
)
def test_only_words_are_indices(
    values: Values, bits: int, give_items: Callable[[_kernels.RowPage], None]
) -> None:
    with pytest.raises(ValueError, match="no indices"):
        give_items(page_of(values, bits))


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_words_are_indices(bits: int) -> None:
    page = page_of(Values.FLAT, bits)
    page.set_items(np.arange(8, dtype=np.uint8), 2)
    indices = np.array([3, 0, 1, 2], f"<u{bits // 8}").tobytes()
    header = len(indices).to_bytes(2, "little")
    chunk = np.frombuffer(b"\0\0" + header + bytes(4) + indices, np.uint8)
    found = _kernels.take_rows(
        [page], np.array([0, 3]), np.array([2]), np.array([-1]), [chunk], False, False
    )
    assert bytes(found[2]) == bytes([6, 7, 4, 5])

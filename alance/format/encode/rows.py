"""Rows of a leaf before they become a page: how large they are, joined and cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.format.layouts.base import PageValues


def values_bytes(page: PageValues) -> int:
    """Bytes that the rows hold in memory: values and levels; what pages are cut by."""
    raise NotImplementedError


def join(parts: Sequence[PageValues]) -> PageValues:
    """Neighbouring rows as one: copies, unless there is one part.

    Layers of the result are the least that all parts fit in; levels are renumbered.

    Raises:
        UnsupportedError: strings of more than 2^31 - 1 bytes in 32-bit offsets.
    """
    raise NotImplementedError


def split(page: PageValues, max_bytes: int, *, multiple: int = 1) -> list[PageValues]:
    """Cut rows into pieces of about `max_bytes` each, at least a row; views where they can be.

    Args:
        page: any rows.
        max_bytes: as of `values_bytes`; a row that is larger is a piece of its own.
        multiple: pieces have a multiple of so many rows: the multiplier of a `LeafColumn`.
    """
    raise NotImplementedError

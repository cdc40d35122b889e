"""Rows as callers ask for them, in any order and repeated, as rows of fragments, each once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from alance import _kernels
from alance.format.numbers import distinct

if TYPE_CHECKING:
    from alance.arrays import Int64s

FEW: Final = 1 << 10  # rows; more are sorted faster by numpy


class Placed(NamedTuple):
    """Rows of fragments, fragment by fragment."""

    fragments: list[int]  # ascending
    rows: Int64s  # of all of them: ascending and unique in each
    cuts: list[int]  # where those of each fragment begin, and the last end
    places: Int64s | None  # of the wanted rows among these; None: they are in this order


def by_position(rows: Int64s, firsts: Int64s) -> Placed:
    """Rows by position in the dataset.

    Args:
        rows: shape (n,), all below the last of `firsts`.
        firsts: the first row of each fragment, and the number of all rows.
    """
    if len(rows) <= FEW:
        return Placed(*_kernels.place_rows(rows, firsts))
    fragments = np.searchsorted(firsts, rows, "right") - 1
    return by_key(fragments << 32 | (rows - firsts[fragments]))


def by_key(keys: Int64s) -> Placed:
    """Rows by fragment << 32 | offset in it; shape (n,)."""
    places = None
    if len(keys) > 1 and not bool((keys[1:] > keys[:-1]).all()):
        keys, places = distinct(keys)
    if len(keys) == 0:
        return Placed([], keys, [0], None)
    positions = keys >> 32
    begins = np.flatnonzero(np.concatenate([[True], positions[1:] != positions[:-1]]))
    cuts = [*begins.tolist(), len(keys)]
    return Placed(positions[begins].tolist(), keys & 0xFFFF_FFFF, cuts, places)

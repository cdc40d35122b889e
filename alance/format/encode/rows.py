"""Rows of a leaf before they become a page: how large they are, joined and cut."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    StructBlock,
    VariableWidth,
)
from alance.format.encode.joined import join_blocks
from alance.format.layouts.base import (
    Layer,
    PageValues,
    max_definition,
    max_repetition,
    max_visible,
)
from alance.format.layouts.selection import block_bytes, select

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from alance.format.blocks import Block

    Int64s = npt.NDArray[np.int64]
    Levels = npt.NDArray[np.uint16]


def values_bytes(page: PageValues) -> int:
    """Bytes that the rows hold in memory: values and levels; what pages are cut by."""
    levels = [one.nbytes for one in (page.rep, page.definition) if one is not None]
    return block_bytes(page.values) + sum(levels)


def join(parts: Sequence[PageValues]) -> PageValues:
    """Neighbouring rows as one: copies, unless there is one part.

    Layers of the result are the least that all parts fit in; levels are renumbered.

    Raises:
        UnsupportedError: strings of more than 2^31 - 1 bytes in 32-bit offsets.
    """
    if len(parts) == 1:
        return parts[0]
    layers = tuple(
        _kind(any(_has_null(one) for one in kinds), any(_has_empty(one) for one in kinds), kinds[0])
        for kinds in zip(*(part.layers for part in parts), strict=True)
    )
    rep = None
    if max_repetition(layers):
        rep = np.concatenate([part.rep for part in parts if part.rep is not None])
    definition = None
    if max_definition(layers):
        definition = np.concatenate([_levels_by(part, layers) for part in parts])
    values = join_blocks([part.values for part in parts])
    return PageValues(layers, rep, definition, values, sum(part.num_rows for part in parts))


def split(page: PageValues, max_bytes: int, *, multiple: int = 1) -> list[PageValues]:
    """Cut rows into pieces of about `max_bytes` each, at least a row; views where they can be.

    Args:
        page: any rows.
        max_bytes: of levels and values; a row that is larger is a piece of its own.
        multiple: pieces have a multiple of so many rows: the multiplier of a `LeafColumn`.
    """
    if values_bytes(page) <= max_bytes or page.num_rows <= multiple:
        return [page]
    entries, slots = _row_places(page)
    bytes_before = _bytes_before(page.values, slots) + entries * 2 * (
        (page.rep is not None) + (page.definition is not None)
    )
    # Pieces of equal size, not full ones and a rest. A dictionary goes into each of them.
    total = int(bytes_before[-1])
    if total <= max_bytes:
        return [page]
    target = total // -(-total // max_bytes) + 1
    return _cut(page, entries, slots, _bounds(bytes_before, target, multiple))


def cut_entries(page: PageValues, max_entries: int) -> list[PageValues]:
    """Cut rows into pieces of at most so many entries, at least a row."""
    entries, slots = _row_places(page)
    return _cut(page, entries, slots, _bounds(entries, max_entries, 1))


def _row_places(page: PageValues) -> tuple[Int64s, Int64s]:
    """Entries and values before each row, and all; shape (num_rows + 1,) each."""
    if page.rep is None:
        rows = np.arange(page.num_rows + 1, dtype=np.int64)
        return rows, rows
    starts = np.flatnonzero(page.rep == max_repetition(page.layers))
    entries = np.append(starts, len(page.rep))
    if page.definition is None:
        return entries, entries
    visible = page.definition <= max_visible(page.layers)
    before = np.zeros(len(visible) + 1, np.int64)
    np.cumsum(visible, out=before[1:])
    return entries, before[entries]


def _bytes_before(block: Block, places: Int64s) -> Int64s:
    """Bytes of the values before each place."""
    if isinstance(block, FixedWidth):
        return places * block.bits_per_value // 8
    if isinstance(block, VariableWidth):
        return block.offsets[places].astype(np.int64) + places * block.offsets.itemsize
    if isinstance(block, FixedSizeListBlock):
        return _bytes_before(block.items, places * block.dimension)
    if isinstance(block, StructBlock):
        return sum((_bytes_before(child, places) for child in block.children), 0 * places)
    if isinstance(block, DictionaryBlock):
        return _bytes_before(block.indices, places)
    return 0 * places


def _bounds(before: Int64s, target: int, multiple: int) -> list[int]:
    """Where to cut, from 0 to the number of rows."""
    num_rows = len(before) - 1
    bounds = [0]
    while bounds[-1] < num_rows:
        start = bounds[-1]
        stop = int(np.searchsorted(before, before[start] + target, "right")) - 1
        stop -= (stop - start) % multiple
        bounds.append(min(max(stop, start + multiple), num_rows))
    return bounds


def _cut(page: PageValues, entries: Int64s, slots: Int64s, bounds: list[int]) -> list[PageValues]:
    pieces = []
    for start, stop in pairwise(bounds):
        part = slice(int(entries[start]), int(entries[stop]))
        values = select(page.values, slice(int(slots[start]), int(slots[stop])))
        layers, definition = page.layers, page.definition
        if definition is not None:
            layers, definition = _tight(layers, definition[part])
        rep = None if page.rep is None else page.rep[part]
        pieces.append(PageValues(layers, rep, definition, values, stop - start))
    return pieces


def _tight(
    layers: tuple[Layer, ...], definition: Levels
) -> tuple[tuple[Layer, ...], Levels | None]:
    """The layers that these levels need, and the levels by them."""
    found = np.bincount(definition, minlength=max_definition(layers) + 1) > 0
    kinds: list[Layer] = []
    last_list = min((n for n, layer in enumerate(layers) if layer.is_list), default=len(layers))
    level, outer, fixed = max_definition(layers), False, False
    for number, layer in reversed(list(enumerate(layers))):
        null = empty = False
        if _has_empty(layer):
            empty, level = bool(found[level]), level - 1
        if _has_null(layer):
            # Items below nulls are null too, up to the next list.
            null, level = bool(found[level]) or outer, level - 1
            # From a struct around a list on, layers are of one kind on all pages: `levels_of`.
            fixed |= not layer.is_list
            null |= fixed and number >= last_list
        outer = null and not layer.is_list
        kinds.insert(0, _kind(null, empty, layer))
    tight = tuple(kinds)
    if not max_definition(tight):
        return tight, None
    return tight, _renumbered(definition, layers, tight)


def _renumbered(definition: Levels, own: tuple[Layer, ...], other: tuple[Layer, ...]) -> Levels:
    """Levels by layers of their own, as levels by other layers that have all that occur."""
    if own == other:
        return definition
    numbers, level = [0], 0
    for one, new in zip(own, other, strict=True):
        if _has_null(one):
            numbers.append(level + 1 if _has_null(new) else 0)
        if _has_empty(one):
            numbers.append(level + new.num_levels if _has_empty(new) else 0)
        level += new.num_levels
    return np.array(numbers, np.uint16)[definition]


def _levels_by(part: PageValues, layers: tuple[Layer, ...]) -> Levels:
    """The definition levels of a part, by layers that have all levels of its own."""
    if part.definition is None:
        count = part.values.num_values if part.rep is None else len(part.rep)
        return np.zeros(count, np.uint16)
    return _renumbered(part.definition, part.layers, layers)


def _has_null(layer: Layer) -> bool:
    return layer in (Layer.NULLABLE_ITEM, Layer.NULLABLE_LIST, Layer.NULL_AND_EMPTY_LIST)


def _has_empty(layer: Layer) -> bool:
    return layer in (Layer.EMPTYABLE_LIST, Layer.NULL_AND_EMPTY_LIST)


def _kind(null: bool, empty: bool, like: Layer) -> Layer:
    """The layer with nulls or empty lists, of items or lists as another."""
    if not like.is_list:
        return Layer.NULLABLE_ITEM if null else Layer.ALL_VALID_ITEM
    if null:
        return Layer.NULL_AND_EMPTY_LIST if empty else Layer.NULLABLE_LIST
    return Layer.EMPTYABLE_LIST if empty else Layer.ALL_VALID_LIST

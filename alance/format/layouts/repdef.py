"""Conversion of levels to structure: offsets and validity at each depth of a page.

A page lists its layers from the leaf outwards, and definition levels are numbered in that order. So
each layer has two thresholds for the definition level:

    base      sum of the levels of all inner layers; an entry with at most this level is not null
              at this layer
    slot_max  base + levels of this layer and of the item layers up to the next list; an entry
              with a higher level has no slot here, because an outer list is empty or null

Source: encodings_v2_1.proto, RepDefLayer; docs/format/file.md, "Layers and levels".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from alance.errors import CorruptFileError
from alance.format.layouts.base import Layer, max_visible
from alance.format.numbers import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, Mask, UInt16s
    from alance.format.layouts.base import PageValues


class Items(NamedTuple):
    """Slots of a leaf, struct or fixed-size list of structs."""

    num_slots: int
    valid: Mask | None  # shape (num_slots,); None if all are valid


class Lists(NamedTuple):
    """Slots of a list or map."""

    offsets: Int64s  # shape (num_slots + 1,), from 0
    valid: Mask | None  # shape (num_slots,); None if all are valid

    @property
    def num_slots(self) -> int:
        return len(self.offsets) - 1


Structure = tuple["Items | Lists", ...]  # outermost first, the leaf last


def unravel(page: PageValues) -> Structure:
    """Convert the levels of a page of complete rows to its structure."""
    definition = page.definition
    if page.rep is None:
        num_slots = page.values.num_values if definition is None else len(definition)
        return tuple(reversed(_items(page.layers, num_slots, definition)))
    structure: list[Items | Lists] = []
    rep, base, first = page.rep, 0, 0
    remaining = definition
    for number, layer in enumerate([*page.layers, Layer.ALL_VALID_LIST]):
        if not layer.is_list:
            continue
        group = page.layers[first:number]
        slot_max = base + sum(inner.num_levels for inner in group)
        if group:
            levels = None if remaining is None else remaining[remaining <= slot_max]
            num_slots = len(rep) if levels is None else len(levels)
            structure += _items(group, num_slots, levels, base)
        base = slot_max
        if number == len(page.layers):
            break
        slot_max = base + layer.num_levels + max_visible(page.layers[number + 1 :])
        empty_level = base + layer.num_levels if layer.has_empty else -1
        lists, rep, remaining = list_layer(rep, remaining, base, slot_max, empty_level)
        structure.append(lists)
        base += layer.num_levels
        first = number + 1
    return tuple(reversed(structure))


def list_layer(
    rep: UInt16s, definition: UInt16s | None, child_max: int, slot_max: int, empty_level: int
) -> tuple[Lists, UInt16s, UInt16s | None]:
    """Return the innermost list layer, and the remaining levels for the layers around it.

    An entry has a child if its definition level is at most `child_max`. It starts a list slot if
    its repetition level is above 0 and its definition level is at most `slot_max`. Without
    definition levels, each entry has a child, and the remaining definition levels are None.

    Args:
        empty_level: definition level of an empty list; -1 if lists are never empty.
    """
    begins = rep > 0
    if definition is None:
        offsets = np.append(np.flatnonzero(begins), len(rep))
        return Lists(offsets, None), rep[begins] - np.uint16(1), None
    if len(definition) != len(rep):
        raise CorruptFileError(f"{len(rep)} repetition and {len(definition)} definition levels")
    has_child = definition <= child_max
    children = offsets_of(has_child)
    is_list = begins & (definition <= slot_max)
    valid = (has_child | (definition == empty_level))[is_list]
    offsets = np.append(children[:-1][is_list], children[-1])
    lists = Lists(offsets, None if valid.all() else valid)
    return lists, rep[begins] - np.uint16(1), definition[begins]


def _items(
    layers: Sequence[Layer], num_slots: int, levels: UInt16s | None, base: int = 0
) -> list[Items | Lists]:
    """Return the structure of consecutive item layers, from the inside out."""
    items: list[Items | Lists] = []
    highest = 0 if levels is None or len(levels) == 0 else int(levels.max())
    for layer in layers:
        # A slot is null, here or in an outer layer, if its level is above the levels of inner
        # layers.
        valid = levels <= base if levels is not None and highest > base else None
        items.append(Items(num_slots, valid))
        base += layer.num_levels
    return items

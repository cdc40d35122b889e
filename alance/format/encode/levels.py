"""Convert structure to levels: one level per entry records nulls and empty lists of all depths.

`unravel` is the inverse, for sparse pages, which store the structure itself. A page lists its
layers from the leaf outwards, and its definition levels are numbered in that order. So each layer
has two thresholds for the definition level:

    base      sum of the levels of all inner layers; an entry with at most this level is not null
              at this layer
    slot_max  base + levels of this layer and of the item layers up to the next list; an entry
              with a higher level has no slot here, because an outer list is empty or null

Layers are ordered from the row to the leaf. The kind of a layer depends on the rows: a layer
without nulls or empty lists has no levels. In a null struct, all descendants are null, down to and
including the nearest list: the reference implementation cannot read a valid list in a null struct.
If an entry has no value, its level shows the outermost null or empty list.

In the chunks of a mini-block page, levels are u16 before encoding. A page has one codec for levels,
the smallest of: flat; bit-packed after their width, at most 1024 levels per chunk; bit-packed at
one width; run-length (2.2 and later).

Source: docs/format/file.md, "Arrow to levels"; encodings_v2_1.proto, message MiniBlockLayout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np

from alance import _kernels
from alance.base.records import dataclass
from alance.errors import CorruptFileError, UnsupportedError
from alance.format.layouts.base import Layer, max_definition, max_repetition, max_visible
from alance.format.numbers import offsets_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from alance.base.arrays import Int64s, Mask, UInt16s
    from alance.format.layouts.base import PageValues

NO_NULLS: Final = np.empty(0, np.uint8)


@dataclass(frozen=True, slots=True)
class ItemLayer:
    """Slots of a leaf, struct or fixed-size list of structs."""

    # Shape (slots,): null here or in an outer struct; None if there are no nulls.
    nulls: Mask | None
    repeats: int = 1  # inner slots per slot: the dimension of a fixed-size list
    is_nullable: bool = False  # True if the schema allows nulls

    @property
    def kind(self) -> Layer:
        return Layer.ALL_VALID_ITEM if self.nulls is None else Layer.NULLABLE_ITEM


@dataclass(frozen=True, slots=True)
class ListLayer:
    """Slots of a list or map; null slots have no children."""

    offsets: Int64s  # shape (slots + 1,), from 0
    # Shape (slots,): null here or in an outer struct; None if there are no nulls.
    nulls: Mask | None
    has_empty: bool  # True if a valid list is empty

    @property
    def kind(self) -> Layer:
        return Layer.ALL_VALID_LIST.like(nulls=self.nulls is not None, empty=self.has_empty)


Path: TypeAlias = "tuple[ItemLayer | ListLayer, ...]"  # outermost first, the leaf last


def levels_of(
    path: Path, num_rows: int
) -> tuple[tuple[Layer, ...], UInt16s | None, UInt16s | None]:
    """Return the layers of a leaf, innermost first, and its repetition and definition levels.

    Repetition levels are None without lists, definition levels without nulls and empty lists.
    """
    layers = tuple(reversed(_kinds(path)))
    max_rep, max_def = max_repetition(layers), max_definition(layers)
    if max_rep == max_def == 0:
        return layers, None, None
    if max_rep and any(isinstance(layer, ItemLayer) and layer.repeats > 1 for layer in path):
        raise UnsupportedError("fixed-size lists of structs together with lists")
    rep = np.zeros(num_rows, np.uint16)
    definition = np.zeros(num_rows, np.uint16)
    level, list_number = max_def, max_rep
    closed_above = max_def
    for layer, kind in zip(path, reversed(layers), strict=True):
        level -= kind.num_levels
        if isinstance(layer, ItemLayer):
            if layer.nulls is not None:
                _kernels.mark_nulls(definition, closed_above, layer.nulls.view(np.uint8), level + 1)
            if layer.repeats > 1:
                definition = np.repeat(definition, layer.repeats)
            continue
        nulls = NO_NULLS if layer.nulls is None else layer.nulls.view(np.uint8)
        rep, definition = _kernels.expand_lists(
            rep,
            definition,
            closed_above,
            layer.offsets,
            nulls,
            list_number,
            level + 1,
            level + kind.num_levels if layer.has_empty else -1,
        )
        list_number -= 1
        closed_above = level
    return layers, rep if max_rep else None, definition if max_def else None


def _kinds(path: Path) -> list[Layer]:
    """Return the kind of each layer.

    A nullable struct around a list gets the kind with nulls even if no struct is null. The same
    applies to the layers inside the struct, down to the innermost list. The reference
    implementation cannot read a column whose pages differ in the kinds of these layers.
    """
    kinds = [layer.kind for layer in path]
    last_list = max((n for n, kind in enumerate(kinds) if kind.is_list), default=-1)
    outer = False
    for number, layer in enumerate(path[: last_list + 1]):
        if isinstance(layer, ItemLayer):
            outer |= layer.is_nullable
        if outer:
            kinds[number] = kinds[number].like(nulls=True, empty=kinds[number].has_empty)
    return kinds


def layer_names(layers: Sequence[Layer]) -> list[str]:
    """Return the names of layers in page descriptions."""
    return [f"REPDEF_{layer.name}" for layer in layers]


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
    rep, definition, base = page.rep, page.definition, 0
    if definition is None:
        count = page.values.num_values if rep is None else len(rep)
        definition = np.zeros(count, np.uint16)
    structure: list[Items | Lists] = []
    for number, layer in enumerate(page.layers):
        if layer.is_list:
            slot_max = base + layer.num_levels + max_visible(page.layers[number + 1 :])
            empty_level = base + layer.num_levels if layer.has_empty else -1
            assert rep is not None  # because a layer is a list
            lists, rep, definition = list_layer(rep, definition, base, slot_max, empty_level)
            structure.append(lists)
        else:
            levels = definition[definition <= base + max_visible(page.layers[number:])]
            valid = levels <= base
            structure.append(Items(len(levels), None if valid.all() else valid))
        base += layer.num_levels
    return tuple(reversed(structure))


def list_layer(
    rep: UInt16s, definition: UInt16s, child_max: int, slot_max: int, empty_level: int
) -> tuple[Lists, UInt16s, UInt16s]:
    """Return the innermost list layer, and the remaining levels for the layers around it.

    An entry has a child if its definition level is at most `child_max`. It starts a list slot if
    its repetition level is above 0 and its definition level is at most `slot_max`.

    Args:
        empty_level: definition level of an empty list; -1 if lists are never empty.
    """
    if len(definition) != len(rep):
        raise CorruptFileError(f"{len(rep)} repetition and {len(definition)} definition levels")
    begins = rep > 0
    has_child = definition <= child_max
    children = offsets_of(has_child)
    is_list = begins & (definition <= slot_max)
    valid = (has_child | (definition == empty_level))[is_list]
    offsets = np.append(children[:-1][is_list], children[-1])
    lists = Lists(offsets, None if valid.all() else valid)
    return lists, rep[begins] - np.uint16(1), definition[begins]

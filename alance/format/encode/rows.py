"""Rows of a leaf before they become a page: their size, and how to join and cut them."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, assert_never, cast

import numpy as np

from alance.errors import InvalidInputError, UnsupportedError
from alance.format.blocks import (
    DictionaryBlock,
    FixedSizeListBlock,
    FixedWidth,
    NullBlock,
    StructBlock,
    VariableWidth,
    gather,
)
from alance.format.layouts.base import (
    Layer,
    PageValues,
    max_definition,
    max_repetition,
    max_visible,
)
from alance.format.numbers import bits_of, offsets_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from alance.base.arrays import Bytes, Int64s, Mask, UInt16s
    from alance.format.blocks import Block

    Places: TypeAlias = range | Int64s
    Selection: TypeAlias = slice | Int64s


def values_bytes(page: PageValues) -> int:
    """Return the memory of values and levels in bytes; pages are cut by this size."""
    levels = [kind.nbytes for kind in (page.rep, page.definition) if kind is not None]
    return block_bytes(page.values) + sum(levels)


def join(parts: Sequence[PageValues]) -> PageValues:
    """Join rows; copies them, unless there is a single part.

    The layers of the result are the smallest that can represent all parts; levels are renumbered.
    """
    if len(parts) == 1:
        return parts[0]
    layers = tuple(
        kinds[0].like(
            nulls=any(kind.has_nulls for kind in kinds), empty=any(kind.has_empty for kind in kinds)
        )
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
    """Cut rows into pieces of about equal bytes, which are views if possible.

    Args:
        max_bytes: maximum bytes of levels and values of a piece, except a piece of `multiple` rows.
        multiple: pieces have a multiple of this number of rows; see `LeafColumn.multiplier`.
    """
    if values_bytes(page) <= max_bytes or page.num_rows <= multiple:
        return [page]
    entries, slots = _row_places(page)
    level_bytes = 2 * ((page.rep is not None) + (page.definition is not None))

    def before(row: int) -> int:
        return _bytes_before(page.values, int(slots[row])) + int(entries[row]) * level_bytes

    # Cut pieces of equal size, without a small remainder. Each piece repeats the dictionary.
    total = before(page.num_rows)
    if total <= max_bytes:
        return [page]
    target = total // -(-total // max_bytes) + 1
    return _cut(page, entries, slots, _bounds(before, page.num_rows, target, multiple))


def cut_entries(page: PageValues, max_entries: int) -> list[PageValues]:
    """Cut rows into pieces of at most `max_entries` entries, but at least one row."""
    entries, slots = _row_places(page)
    bounds = _bounds(lambda row: int(entries[row]), page.num_rows, max_entries, 1)
    return _cut(page, entries, slots, bounds)


def _row_places(page: PageValues) -> tuple[Places, Places]:
    """Return the number of entries and of values before each row, and the totals."""
    if page.rep is None:
        rows = range(page.num_rows + 1)
        return rows, rows
    starts = np.flatnonzero(page.rep == max_repetition(page.layers))
    entries = np.append(starts, len(page.rep))
    if page.definition is None:
        return entries, entries
    visible = page.definition <= max_visible(page.layers)
    before = offsets_of(visible)
    return entries, before[entries]


def _bytes_before(block: Block, place: int) -> int:
    """Return the number of bytes of the values before a position."""
    if isinstance(block, FixedWidth):
        return place * block.bits_per_value // 8
    if isinstance(block, VariableWidth):
        return int(block.offsets[place]) + place * block.offsets.itemsize
    if isinstance(block, FixedSizeListBlock):
        return _bytes_before(block.items, place * block.dimension)
    if isinstance(block, StructBlock):
        return sum(_bytes_before(child, place) for child in block.children)
    if isinstance(block, DictionaryBlock):
        return _bytes_before(block.indices, place)
    return 0


def _bounds(before: Callable[[int], int], num_rows: int, target: int, multiple: int) -> list[int]:
    """Return the row numbers at which to cut, from 0 to the number of rows.

    Args:
        before: returns the bytes before a row.
        target: maximum bytes of a piece, except a piece of `multiple` rows.
        multiple: pieces have a multiple of this number of rows.
    """
    bounds = [0]
    while bounds[-1] < num_rows:
        start = bounds[-1]
        stop = bisect_right(range(num_rows + 1), before(start) + target, key=before) - 1
        stop -= (stop - start) % multiple
        bounds.append(min(max(stop, start + multiple), num_rows))
    return bounds


def _cut(page: PageValues, entries: Places, slots: Places, bounds: list[int]) -> list[PageValues]:
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
    layers: tuple[Layer, ...], definition: UInt16s
) -> tuple[tuple[Layer, ...], UInt16s | None]:
    """Return the smallest layers that can represent these levels, and the renumbered levels.

    The levels are None if the layers need none.
    """
    occurs = [level in definition for level in range(max_definition(layers) + 1)]
    kinds: list[Layer] = []
    last_list = min((n for n, layer in enumerate(layers) if layer.is_list), default=len(layers))
    level, outer, fixed = max_definition(layers), False, False
    for number, layer in reversed(list(enumerate(layers))):
        null = empty = False
        if layer.has_empty:
            empty, level = occurs[level], level - 1
        if layer.has_nulls:
            # Items inside nulls are null, too, up to the next list.
            null, level = occurs[level] or outer, level - 1
            # In a struct around a list, layers must have the same kind on all pages: see `_kinds`
            # in `levels`.
            fixed |= not layer.is_list
            null |= fixed and number >= last_list
        outer = null and not layer.is_list
        kinds.insert(0, layer.like(nulls=null, empty=empty))
    tight = tuple(kinds)
    if not max_definition(tight):
        return tight, None
    return tight, _renumbered(definition, layers, tight)


def _renumbered(definition: UInt16s, own: tuple[Layer, ...], other: tuple[Layer, ...]) -> UInt16s:
    """Translate levels to other layers; these must be able to represent all levels that occur."""
    if own == other:
        return definition
    numbers, level = [0], 0
    for old, new in zip(own, other, strict=True):
        if old.has_nulls:
            numbers.append(level + 1 if new.has_nulls else 0)
        if old.has_empty:
            numbers.append(level + new.num_levels if new.has_empty else 0)
        level += new.num_levels
    return np.array(numbers, np.uint16)[definition]


def _levels_by(part: PageValues, layers: tuple[Layer, ...]) -> UInt16s:
    """Translate the definition levels of a part to layers that can represent all its levels."""
    if part.definition is None:
        count = part.values.num_values if part.rep is None else len(part.rep)
        return np.zeros(count, np.uint16)
    return _renumbered(part.definition, part.layers, layers)


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Concatenate blocks; copies them, unless there is a single block."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    if len(kinds := {*map(_kind_of, blocks)}) > 1:
        raise InvalidInputError(f"values of different kinds in one page: {sorted(kinds)}")
    match first:
        case FixedWidth(bits_per_value=bits):
            fixed = cast("Sequence[FixedWidth]", blocks)
            data = join_bits([block.data for block in fixed], [n.num_values * bits for n in fixed])
            return FixedWidth(bits, sum(block.num_values for block in fixed), data)
        case VariableWidth():
            return _join_strings(cast("Sequence[VariableWidth]", blocks))
        case FixedSizeListBlock():
            return _join_lists(cast("Sequence[FixedSizeListBlock]", blocks))
        case StructBlock():
            members = zip(*[cast("StructBlock", block).children for block in blocks], strict=True)
            num_values = sum(block.num_values for block in blocks)
            return StructBlock(num_values, tuple(map(join_blocks, members)))
        case DictionaryBlock():
            return _join_dictionaries(cast("Sequence[DictionaryBlock]", blocks))
        case NullBlock():
            return NullBlock(sum(block.num_values for block in blocks))
    raise InvalidInputError(f"values in one page that cannot be joined: {kinds}")


def _kind_of(block: Block) -> str:
    width = getattr(block, "bits_per_value", None) or getattr(block, "dimension", "")
    return f"{type(block).__name__} {width}".rstrip()


def join_bits(parts: Sequence[Bytes], counts: Sequence[int]) -> Bytes:
    """Concatenate the bits of all parts, LSB first, without gaps."""
    if all(count % 8 == 0 for count in counts[:-1]):
        ends = [(count + 7) // 8 for count in counts]
        return np.concatenate([part[:end] for part, end in zip(parts, ends, strict=True)])
    bits = [
        np.unpackbits(part, count=count, bitorder="little")
        for part, count in zip(parts, counts, strict=True)
    ]
    return np.packbits(np.concatenate(bits), bitorder="little")


def _join_lists(blocks: Sequence[FixedSizeListBlock]) -> FixedSizeListBlock:
    dimension, items = blocks[0].dimension, join_blocks([block.items for block in blocks])
    if all(block.validity is None for block in blocks):
        return FixedSizeListBlock(dimension, items, None)
    counts = [block.items.num_values for block in blocks]
    parts = [
        np.full((count + 7) // 8, 0xFF, np.uint8) if block.validity is None else block.validity
        for block, count in zip(blocks, counts, strict=True)
    ]
    return FixedSizeListBlock(dimension, items, join_bits(parts, counts))


def _join_strings(blocks: Sequence[VariableWidth]) -> VariableWidth:
    starts = offsets_of([int(block.offsets[-1]) for block in blocks])
    dtype = blocks[0].offsets.dtype
    if dtype == np.int32 and starts[-1] >= 1 << 31:
        raise UnsupportedError(f"a page of {starts[-1]} bytes of strings: 32-bit offsets")
    offsets: Any = [np.zeros(1, dtype)]
    for block, start in zip(blocks, starts.tolist(), strict=False):
        offsets.append(block.offsets[1:] + dtype.type(start))
    data = [block.data[: block.offsets[-1]] for block in blocks]
    return VariableWidth(np.concatenate(offsets), np.concatenate(data))


def _join_dictionaries(blocks: Sequence[DictionaryBlock]) -> DictionaryBlock:
    """Merge dictionaries: equal ones are stored once, different ones are concatenated."""
    retained: list[Block] = []
    starts: list[int] = []
    shifts = []
    total = 0
    for block in blocks:
        if not block.items.num_values and retained:
            shifts.append(0)  # all values are null; indices must be inside the dictionary
            continue
        number = next(
            (n for n, items in enumerate(retained) if _are_equal(items, block.items)), None
        )
        if number is None:
            number = len(retained)
            retained.append(block.items)
            starts.append(total)
            total += block.items.num_values
        shifts.append(starts[number])
    if total > 1 << 31:
        raise UnsupportedError(f"a page with a dictionary of {total} values")
    own = max(block.indices.bits_per_value for block in blocks)
    bits = max(own, next(bits for bits in (8, 16, 32) if total <= 1 << bits))
    parts = [
        block.indices.data.view(f"<u{block.indices.bits_per_value // 8}").astype(f"<u{bits // 8}")
        + np.array(shift, f"<u{bits // 8}")
        for block, shift in zip(blocks, shifts, strict=True)
    ]
    indices = np.concatenate(parts)
    return DictionaryBlock(
        FixedWidth(bits, len(indices), indices.view(np.uint8)), join_blocks(retained)
    )


def _are_equal(left: Block, right: Block) -> bool:
    """True if two dictionaries are equal; fast if both are the same object."""
    if left is right:
        return True
    if type(left) is not type(right) or not isinstance(left, FixedWidth | VariableWidth):
        return False
    parts: Any = zip(left, cast("FixedWidth | VariableWidth", right), strict=True)
    return block_bytes(left) == block_bytes(right) and all(np.array_equal(*pair) for pair in parts)


def select(block: Block, selection: Selection) -> Block:
    """Select values by position; returns the block itself if all values are selected.

    Args:
        selection: a slice with `start` and `stop` inside the block, or positions of shape (n,).
    """
    if not isinstance(selection, slice):
        return gather(block, selection)
    return block if selection == slice(0, block.num_values) else _slice(block, selection)


def spread(block: Block, present: Mask) -> Block:
    """Scatter the values of a block to the slots where `present` is True.

    Args:
        present: mask of shape (n,). The result has n values, arbitrary where `present` is False.
    """
    ranks: Int64s = np.cumsum(present, dtype=np.int64)
    match block:
        case VariableWidth():
            # Absent values become empty strings, so no byte is moved.
            offsets = block.offsets[np.concatenate([[0], ranks])]
            return VariableWidth(offsets, block.data)
        case StructBlock():
            children = tuple(spread(child, present) for child in block.children)
            return StructBlock(len(present), children)
        case NullBlock():
            return NullBlock(len(present))
        case _:
            return select(block, np.maximum(ranks - 1, 0))


def block_bytes(block: Block) -> int:
    """Return the memory of a block's arrays in bytes."""
    match block:
        case FixedWidth():
            return block.data.nbytes
        case VariableWidth():
            return block.offsets.nbytes + block.data.nbytes
        case FixedSizeListBlock():
            validity = 0 if block.validity is None else block.validity.nbytes
            return block_bytes(block.items) + validity
        case StructBlock():
            return sum(block_bytes(child) for child in block.children)
        case DictionaryBlock():
            return block_bytes(block.indices) + block_bytes(block.items)
        case _:
            return 0


def _slice(block: Block, rows: slice) -> Block:
    match block:
        case FixedWidth(bits_per_value=bits):
            return FixedWidth(bits, rows.stop - rows.start, _slice_bits(block.data, bits, rows))
        case VariableWidth():
            offsets = block.offsets[rows.start : rows.stop + 1]
            first, last = int(offsets[0]), int(offsets[-1])
            offsets = offsets - offsets[0] if first else offsets
            return VariableWidth(offsets, block.data[first:last])
        case FixedSizeListBlock(dimension=dimension, validity=validity):
            if validity is not None:
                validity = _slice_bits(validity, dimension, rows)
            items = slice(rows.start * dimension, rows.stop * dimension)
            return FixedSizeListBlock(dimension, _slice(block.items, items), validity)
        case StructBlock():
            children = tuple(_slice(child, rows) for child in block.children)
            return StructBlock(rows.stop - rows.start, children)
        case DictionaryBlock(indices=FixedWidth(bits_per_value=bits) as indices):
            count = rows.stop - rows.start
            part = FixedWidth(bits, count, _slice_bits(indices.data, bits, rows))
            return DictionaryBlock(part, block.items)
        case NullBlock():
            return NullBlock(rows.stop - rows.start)
        case _:
            assert_never(block)


def _slice_bits(data: Bytes, bits: int, rows: slice) -> Bytes:
    """Slice groups of `bits` bits, LSB first; a view if the first group is aligned to a byte."""
    return bits_of(data, rows.start * bits, (rows.stop - rows.start) * bits)
